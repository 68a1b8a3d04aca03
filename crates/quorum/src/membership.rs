//! Who belongs to the quorum, and whom the leader admits. Who votes is in [`voters`](crate::voters).
//!
//! Both are functions of what the leader knows, so that they can be tested without a cluster.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, DirectoryId};
use serde::{Deserialize, Serialize};

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
    /// Somebody took its vote: it gets it back when somebody says so, and not by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_demoted: bool,
    /// It is there to vote, and for nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) votes_only: bool,
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
    /// Who voted when the voters were last known not to change, which is committed. While they change, none of these may
    /// be missed.
    pub(crate) settled_voters: BTreeSet<u64>,
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
    /// It takes the place of the node that has the number, whose directory is lost. Only with a number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// It is there to vote, and no broker. An older leader does not know it, and admits no such node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub votes_only: bool,
}

/// What somebody wants to change about the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MembersChange {
    /// A node joins, or tells its new address. It gets every change, and votes when the quorum needs it.
    Join(JoinRequest),
    /// A node leaves for good, and its directory is refused from then on. Its number is free for another one.
    Remove {
        /// Which one.
        id: BrokerId,
        /// Its data directory. Who asks need not know it: then it is that of the node that has the number when it is asked
        /// for. A request that is late, or comes twice, does not meet the next node of that number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<DirectoryId>,
    },
    /// A member gets a vote (KIP-853).
    AddVoter(VoterName),
    /// A voter gets everything from now on, and has no vote until somebody gives it one (KIP-853).
    RemoveVoter(VoterName),
}

impl MembersChange {
    /// The node that has a number now leaves for good.
    pub fn remove(id: BrokerId) -> MembersChange {
        MembersChange::Remove { id, directory: None }
    }

    /// Whether it is this node that leaves for good.
    pub(crate) fn removes(&self, node: BrokerId) -> bool {
        matches!(self, MembersChange::Remove { id, .. } if *id == node)
    }
}

/// A voter, or who is to be one. The directory tells the node from another one under its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoterName {
    /// Its number.
    pub id: BrokerId,
    /// Its data directory.
    pub directory: DirectoryId,
}

/// Why the members do not change.
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
    /// The node that has the number is not to be replaced now.
    #[error("node {id} cannot be replaced: {reason}")]
    NotReplaced {
        /// The number.
        id: BrokerId,
        /// Why.
        reason: String,
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
    /// The directory belongs to a node that was removed.
    #[error("{}", removed_text(*.id))]
    Removed {
        /// The number that the node had.
        id: BrokerId,
    },
    /// The number belongs to a node with another data directory.
    #[error("node {id} has the data directory {known}, not {given}")]
    OtherDirectory {
        /// The number.
        id: BrokerId,
        /// The directory that was named.
        given: DirectoryId,
        /// The directory of the node.
        known: DirectoryId,
    },
    /// It votes already.
    #[error("node {id} is a voter")]
    IsVoter {
        /// The number.
        id: BrokerId,
    },
    /// No voter has this number and this directory.
    #[error("node {id} with the data directory {directory} is not a voter")]
    NoVoter {
        /// The number.
        id: BrokerId,
        /// The directory that was named.
        directory: DirectoryId,
    },
    /// It would hold up the others if it had a vote now.
    #[error("node {id} cannot vote yet: {}", lag_text(*.lag_entries))]
    NotReady {
        /// The number.
        id: BrokerId,
        /// How many entries it lacks, if it is heard.
        lag_entries: Option<u64>,
    },
    /// Without this node there is no voter.
    #[error("node {id} is the only voter")]
    LastVoter {
        /// The number.
        id: BrokerId,
    },
    /// Without this node nothing could be committed any more.
    #[error(
        "node {id} cannot leave the voters now: {alive} of those that would remain {} alive, and {needed} are needed; \
         first start again or remove {}", if *.alive == 1 { "is" } else { "are" }, numbers_text(.silent)
    )]
    NoMajorityLeft {
        /// The number.
        id: BrokerId,
        /// So many of the voters that would remain are heard.
        alive: usize,
        /// So many of them are a majority.
        needed: usize,
        /// The others of them.
        silent: Vec<BrokerId>,
    },
}

/// What a node is told that was removed.
pub(crate) fn removed_text(id: BrokerId) -> String {
    format!("node {id} was removed from the cluster, and its data directory is not admitted again")
}

fn lag_text(lag_entries: Option<u64>) -> String {
    match lag_entries {
        Some(lag) => format!("it lacks {lag} entries of the metadata"),
        None => "the leader does not hear it".to_owned(),
    }
}

fn numbers_text(ids: &[BrokerId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("node {id}")).collect();
    ids.join(" or ")
}

/// What has to go before a node can take the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The node that has the number.
    Remove(BrokerId),
    /// Nothing: it has gone, or the request is of the node that has the number.
    Ready,
}

/// What follows from a request to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is a member as it says.
    Known(u64),
    /// It is to be put down under this number.
    Put(u64),
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
    /// known yet where it was alone before it had one. `taken` has numbers of brokers, and of those that were
    /// removed, which no new node gets by itself.
    pub(crate) fn admit(
        &self,
        request: &JoinRequest,
        own_id: u64,
        taken: impl Iterator<Item = u64>,
    ) -> Result<Admission, AdmissionRefusal> {
        let JoinRequest { id, directory, address, votes_only, .. } = request;
        if is_unassigned(directory) || address.is_empty() {
            return Err(AdmissionRefusal::Nameless);
        }
        let same = self.nodes.iter().find(|(_, member)| member.directory == *directory);
        if let Some((&known, member)) = same {
            if let Some(id) = id.filter(|id| i64::from(id.0) != known as i64) {
                return Err(AdmissionRefusal::OtherNumber { id, known: broker_id(known) });
            }
            let is_same = member.addr == *address && member.votes_only == *votes_only;
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

    /// Whether a node may take the place of the one that has its number. `is_known` says whether the metadata has a broker of
    /// that number, or has had one that was removed. `is_alive` says whether the leader hears a member.
    pub(crate) fn replace(
        &self,
        request: &JoinRequest,
        is_known: impl Fn(BrokerId) -> Known,
        is_alive: impl Fn(u64) -> bool,
    ) -> Result<Replacement, AdmissionRefusal> {
        let Some(id) = request.id else { return Ok(Replacement::Ready) };
        let number = u64::try_from(id.0).map_err(|_| AdmissionRefusal::NoNumber { id })?;
        match self.nodes.get(&number) {
            _ if self.nodes.values().any(|it| it.directory == request.directory) => {
                Ok(Replacement::Ready)
            }
            Some(_) if is_alive(number) => {
                let reason = "it is alive, so stop it first".to_owned();
                Err(AdmissionRefusal::NotReplaced { id, reason })
            }
            Some(member) if member.votes_only != request.votes_only => {
                let one = |votes_only| if votes_only { "a voter" } else { "a broker" };
                let (old, new) = (one(member.votes_only), one(request.votes_only));
                let reason = format!("it was {old}, and this is {new}");
                Err(AdmissionRefusal::NotReplaced { id, reason })
            }
            Some(_) => Ok(Replacement::Remove(id)),
            None => match is_known(id) {
                Known::Broker => Ok(Replacement::Remove(id)),
                Known::Removed => Ok(Replacement::Ready),
                Known::Never => {
                    let reason = "the cluster has no such node".to_owned();
                    Err(AdmissionRefusal::NotReplaced { id, reason })
                }
            },
        }
    }
}

/// How the metadata knows a number that no member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// As a broker's.
    Broker,
    /// As that of a broker that was removed.
    Removed,
    /// Not at all.
    Never,
}

/// Raft's ids are made of brokers' numbers.
pub(crate) fn broker_id(raft_id: u64) -> BrokerId {
    BrokerId(i32::try_from(raft_id).unwrap_or(i32::MAX))
}

#[cfg(test)]
pub(crate) mod tests {
    use logway_model::Uuid;

    use super::*;

    pub(crate) fn directory(id: u64) -> DirectoryId {
        DirectoryId(Uuid([id as u8; 16]))
    }

    pub(crate) fn members(nodes: &[u64], voters: &[&[u64]]) -> Members {
        let member = |&id: &u64| {
            let (addr, directory) = (format!("host:{id}"), directory(id));
            (id, Member { addr, directory, ..Member::default() })
        };
        Members {
            nodes: nodes.iter().map(member).collect(),
            voters: voters.iter().map(|set| set.iter().copied().collect()).collect(),
            settled_voters: voters.first().into_iter().copied().flatten().copied().collect(),
        }
    }

    fn join(id: Option<i32>, of: u64) -> JoinRequest {
        JoinRequest {
            id: id.map(BrokerId),
            directory: directory(of),
            address: format!("host:{of}"),
            replaces: false,
            votes_only: false,
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
    fn a_dead_node_is_replaced_and_no_other() {
        let replace = |request: JoinRequest, alive: u64| {
            let known = |id: BrokerId| match id.0 {
                2 | 7 => Known::Broker,
                8 => Known::Removed,
                _ => Known::Never,
            };
            members(&[1, 2], &[&[1]]).replace(&request, known, |id| id == alive)
        };
        assert_eq!(replace(join(Some(2), 9), 1), Ok(Replacement::Remove(BrokerId(2))));
        assert_eq!(replace(join(Some(7), 9), 1), Ok(Replacement::Remove(BrokerId(7))));
        assert_eq!(replace(join(Some(8), 9), 1), Ok(Replacement::Ready), "it was begun before");
        assert_eq!(replace(join(Some(2), 2), 2), Ok(Replacement::Ready), "it was done before");
        let refusal = replace(join(Some(2), 9), 2).expect_err("it lives");
        let text = "node 2 cannot be replaced: it is alive, so stop it first";
        assert_eq!(refusal.to_string(), text);
        let refusal = replace(join(Some(5), 9), 1).expect_err("nobody has the number");
        let text = "node 5 cannot be replaced: the cluster has no such node";
        assert_eq!(refusal.to_string(), text);
        replace(join(Some(-1), 9), 1).expect_err("is no number");
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
}
