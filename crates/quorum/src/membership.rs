//! Who belongs to the quorum: whom the leader admits, and who becomes a voter.
//!
//! Both are functions of what the leader knows, so that they can be tested without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use logway_model::{BrokerId, DirectoryId};
use serde::{Deserialize, Serialize};

/// A learner that lacks no more entries than this has caught up.
///
/// A voter that is further behind than what is committed within a round trip holds up commits if it
/// is needed for the majority; 64 entries are one append.
const CAUGHT_UP_ENTRIES: u64 = 64;

/// A node of the quorum, as the membership in the log has it.
///
/// The names of the fields are those that openraft's `BasicNode` had, so that older logs can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Where other nodes reach it; empty for the only node of a cluster that never grew.
    #[serde(default)]
    pub(crate) addr: String,
    /// Its data directory; none in the same case.
    #[serde(default = "unassigned", skip_serializing_if = "is_unassigned")]
    pub(crate) directory: DirectoryId,
}

fn unassigned() -> DirectoryId {
    DirectoryId::UNASSIGNED
}

fn is_unassigned(directory: &DirectoryId) -> bool {
    *directory == DirectoryId::UNASSIGNED
}

/// What the leader knows of the members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Everybody, by number.
    pub(crate) nodes: BTreeMap<u64, Member>,
    /// Who votes. Two sets while the voters change: then a majority of each is needed.
    pub(crate) voters: Vec<BTreeSet<u64>>,
}

/// How far a member is, as the leader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// How many entries it lacks; `None` if that is not known yet.
    pub(crate) lag_entries: Option<u64>,
    /// Whether it was heard within an election timeout.
    pub(crate) is_heard: bool,
}

/// A node wants to belong to the cluster, or tells its new address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The number it wants, if it wants a certain one. A node keeps its number for ever.
    pub id: Option<BrokerId>,
    /// Its data directory. The same directory gets the same number when it asks again.
    pub directory: DirectoryId,
    /// Where other nodes reach it, `host:port`.
    pub address: String,
}

/// What somebody wants to change about the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MembersChange {
    /// A node joins, or tells its new address. It gets every change, and votes when the quorum needs it.
    Join(JoinRequest),
    /// A node leaves for good. Its number is free for another directory.
    Remove {
        /// Which one.
        id: BrokerId,
    },
}

/// Why a node does not become a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionRefusal {
    /// The number belongs to a node with another data directory. That node is to be removed first, if
    /// it is this one with a new disk.
    #[error("number {id} belongs to the node with the data directory {known}, and this is another")]
    NumberTaken {
        /// The number.
        id: BrokerId,
        /// The directory of the node that has it.
        known: DirectoryId,
    },
    /// The directory is known under another number.
    #[error("the data directory belongs to node {known}, not to node {id}")]
    OtherNumber {
        /// The number that was asked for.
        id: BrokerId,
        /// The number that the directory has.
        known: BrokerId,
    },
    /// A node without a directory or an address cannot be a member.
    #[error("it has no data directory or no address")]
    Nameless,
    /// There is no number left, or the one that was asked for cannot be one.
    #[error("node {id} cannot be a number")]
    NoNumber {
        /// The number.
        id: BrokerId,
    },
    /// Nobody has the number.
    #[error("node {id} is not a member")]
    Unknown {
        /// The number.
        id: BrokerId,
    },
    /// Without this node there is no voter.
    #[error("node {id} is the only voter")]
    LastVoter {
        /// The number.
        id: BrokerId,
    },
}

/// What follows from a request to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is a member as it says.
    Known(u64),
    /// It is to be put down under this number.
    Put(u64),
}

/// A change of the voters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VotersChange {
    /// A change that another leader has begun is to be finished.
    Finish(BTreeSet<u64>),
    /// Learners become voters.
    Promote(BTreeSet<u64>),
}

impl fmt::Display for VotersChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VotersChange::Finish(voters) => write!(f, "voters are now {voters:?}"),
            VotersChange::Promote(nodes) => write!(f, "{nodes:?} become voters"),
        }
    }
}

impl Members {
    /// Whether a node votes, in any of the sets.
    pub(crate) fn is_voter(&self, id: u64) -> bool {
        self.voters.iter().any(|set| set.contains(&id))
    }

    /// Everybody who votes in any of the sets.
    pub(crate) fn all_voters(&self) -> BTreeSet<u64> {
        self.voters.iter().flatten().copied().collect()
    }

    /// Whether these are a majority of each set.
    pub(crate) fn is_majority(&self, ids: &BTreeSet<u64>) -> bool {
        let majority = |set: &BTreeSet<u64>| set.intersection(ids).count() > set.len() / 2;
        !self.voters.is_empty() && self.voters.iter().all(majority)
    }

    /// Whether a node may join, and under which number. `own_id` is the leader's, whose directory is not
    /// known yet where it was alone before it had one. `taken` has numbers of brokers that are not
    /// members any more, which no new node gets by itself.
    pub(crate) fn admit(
        &self,
        request: &JoinRequest,
        own_id: u64,
        taken: impl Iterator<Item = u64>,
    ) -> Result<Admission, AdmissionRefusal> {
        let JoinRequest { id, directory, address } = request;
        if is_unassigned(directory) || address.is_empty() {
            return Err(AdmissionRefusal::Nameless);
        }
        let same = self.nodes.iter().find(|(_, member)| member.directory == *directory);
        if let Some((&known, member)) = same {
            if let Some(id) = id.filter(|id| i64::from(id.0) != known as i64) {
                return Err(AdmissionRefusal::OtherNumber { id, known: broker_id(known) });
            }
            let is_same = member.addr == *address;
            return Ok(if is_same { Admission::Known(known) } else { Admission::Put(known) });
        }
        let number = match id {
            Some(id) => u64::try_from(id.0).map_err(|_| AdmissionRefusal::NoNumber { id: *id })?,
            None => {
                let last = self.nodes.keys().copied().chain(taken).max().unwrap_or(0);
                last + 1
            }
        };
        if i32::try_from(number).is_err() {
            return Err(AdmissionRefusal::NoNumber { id: BrokerId(i32::MAX) });
        }
        match self.nodes.get(&number) {
            Some(member) if number == own_id && is_unassigned(&member.directory) => {
                Ok(Admission::Put(number))
            }
            Some(member) => {
                let (id, known) = (broker_id(number), member.directory);
                Err(AdmissionRefusal::NumberTaken { id, known })
            }
            None => Ok(Admission::Put(number)),
        }
    }

    /// The next change of the voters, if there should be one.
    ///
    /// The quorum has 1, 3 or 5 voters: an even number survives no more failures than the odd one below
    /// it. So two learners become voters together, and one alone only where a voter has been removed.
    /// Nobody is demoted: who is dead for a minute only would come back to a quorum that has moved.
    pub(crate) fn next_voters_change(
        &self,
        progress: &BTreeMap<u64, Progress>,
        voters_max: usize,
    ) -> Option<VotersChange> {
        let voters = match &self.voters[..] {
            [voters] => voters,
            [.., last] => return Some(VotersChange::Finish(last.clone())),
            [] => return None,
        };
        let has_caught_up = |id: &u64| {
            progress.get(id).is_some_and(|progress| {
                progress.is_heard
                    && progress.lag_entries.is_some_and(|lag| lag <= CAUGHT_UP_ENTRIES)
            })
        };
        let learners = self.nodes.keys().filter(|id| !voters.contains(id));
        let ready: Vec<u64> = learners.filter(|id| has_caught_up(id)).copied().collect();
        let wanted = match voters.len() % 2 {
            0 => 1,
            _ => 2,
        };
        let fits = voters.len() + wanted <= voters_max && ready.len() >= wanted;
        fits.then(|| VotersChange::Promote(ready.into_iter().take(wanted).collect()))
    }
}

/// Raft's ids are made of brokers' numbers.
pub(crate) fn broker_id(raft_id: u64) -> BrokerId {
    BrokerId(i32::try_from(raft_id).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;

    fn directory(id: u64) -> DirectoryId {
        DirectoryId(Uuid([id as u8; 16]))
    }

    fn members(nodes: &[u64], voters: &[&[u64]]) -> Members {
        let member =
            |&id: &u64| (id, Member { addr: format!("host:{id}"), directory: directory(id) });
        Members {
            nodes: nodes.iter().map(member).collect(),
            voters: voters.iter().map(|set| set.iter().copied().collect()).collect(),
        }
    }

    fn join(id: Option<i32>, of: u64) -> JoinRequest {
        JoinRequest {
            id: id.map(BrokerId),
            directory: directory(of),
            address: format!("host:{of}"),
        }
    }

    fn admit(request: &JoinRequest) -> Result<Admission, AdmissionRefusal> {
        members(&[1, 2], &[&[1]]).admit(request, 1, [7].into_iter())
    }

    #[test]
    fn a_new_node_gets_a_number_and_keeps_it() {
        assert_eq!(admit(&join(None, 9)), Ok(Admission::Put(8)), "7 was a broker's");
        assert_eq!(admit(&join(Some(5), 9)), Ok(Admission::Put(5)));
        assert_eq!(admit(&join(None, 2)), Ok(Admission::Known(2)));
        let moved = JoinRequest { address: "other:2".to_owned(), ..join(Some(2), 2) };
        assert_eq!(admit(&moved), Ok(Admission::Put(2)));
    }

    #[test]
    fn a_known_number_with_another_directory_is_refused() {
        let refusal = admit(&join(Some(2), 9)).expect_err("has lost its disk");
        assert_eq!(refusal, AdmissionRefusal::NumberTaken { id: BrokerId(2), known: directory(2) });
        let refusal = admit(&join(Some(5), 2)).expect_err("is node 2");
        let expected = AdmissionRefusal::OtherNumber { id: BrokerId(5), known: BrokerId(2) };
        assert_eq!(refusal, expected);
        let nameless = JoinRequest { directory: DirectoryId::UNASSIGNED, ..join(None, 9) };
        assert_eq!(admit(&nameless), Err(AdmissionRefusal::Nameless));
        admit(&join(Some(-3), 9)).expect_err("is no number");
        let full = members(&[i32::MAX as u64], &[&[i32::MAX as u64]]);
        full.admit(&join(None, 9), 1, [].into_iter()).expect_err("there is none left");
    }

    #[test]
    fn a_leader_that_was_alone_without_a_directory_tells_it() {
        let mut old = members(&[1, 2], &[&[1]]);
        for id in [1, 2] {
            old.nodes.insert(id, Member::default());
        }
        let put = |id: i32| old.admit(&join(Some(id), 9), 1, [].into_iter());
        assert_eq!(put(1), Ok(Admission::Put(1)));
        put(2).expect_err("is not the leader");
    }

    fn change(members: &Members, ready: &[u64], voters_max: usize) -> Option<VotersChange> {
        let caught_up = Progress { lag_entries: Some(CAUGHT_UP_ENTRIES), is_heard: true };
        let progress = ready.iter().map(|&id| (id, caught_up)).collect();
        members.next_voters_change(&progress, voters_max)
    }

    fn promote<const N: usize>(ids: [u64; N]) -> Option<VotersChange> {
        Some(VotersChange::Promote(BTreeSet::from(ids)))
    }

    #[test]
    fn voters_grow_by_two() {
        assert_eq!(change(&members(&[1], &[&[1]]), &[], 5), None);
        let two = members(&[1, 2], &[&[1]]);
        assert_eq!(change(&two, &[2], 5), None, "two voters survive no more than one");
        let three = members(&[1, 2, 3], &[&[1]]);
        assert_eq!(change(&three, &[2], 5), None, "3 is not ready");
        assert_eq!(change(&three, &[2, 3], 5), promote([2, 3]));
        assert_eq!(change(&three, &[2, 3], 1), None);
        let six = members(&[1, 2, 3, 4, 5, 6], &[&[1, 2, 3]]);
        assert_eq!(change(&six, &[4, 5, 6], 5), promote([4, 5]));
        assert_eq!(change(&six, &[4, 6], 5), promote([4, 6]));
        assert_eq!(change(&six, &[4, 5, 6], 3), None);
    }

    #[test]
    fn one_takes_the_place_of_a_voter_that_was_removed() {
        let two_of_three = members(&[1, 3, 4], &[&[1, 3]]);
        assert_eq!(change(&two_of_three, &[4], 3), promote([4]));
        assert_eq!(change(&two_of_three, &[4], 5), promote([4]));
        let four = members(&[1, 2, 3, 4, 6], &[&[1, 2, 3, 4]]);
        assert_eq!(change(&four, &[6], 5), promote([6]));
    }

    #[test]
    fn who_is_behind_or_silent_does_not_become_a_voter() {
        let three = members(&[1, 2, 3], &[&[1]]);
        let ready = Progress { lag_entries: Some(0), is_heard: true };
        for other in [
            Progress { lag_entries: Some(CAUGHT_UP_ENTRIES + 1), ..ready },
            Progress { lag_entries: None, ..ready },
            Progress { is_heard: false, ..ready },
        ] {
            let progress = BTreeMap::from([(2, ready), (3, other)]);
            assert_eq!(three.next_voters_change(&progress, 5), None);
        }
    }

    #[test]
    fn a_change_that_was_begun_is_finished_first() {
        let joint = members(&[1, 2, 3], &[&[1], &[1, 2, 3]]);
        let finish = VotersChange::Finish(BTreeSet::from([1, 2, 3]));
        assert_eq!(change(&joint, &[], 5), Some(finish));
        assert!(joint.is_majority(&BTreeSet::from([1, 2])));
        assert!(!joint.is_majority(&BTreeSet::from([2, 3])), "not of the first set");
        assert!(!Members::default().is_majority(&BTreeSet::from([1])));
    }
}
