//! Who votes: what the leader changes by itself, and what people may change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use logway_model::DirectoryId;

use crate::membership::{AdmissionRefusal, Members, VoterName, broker_id};

/// A learner that lacks no more entries than this has caught up.
///
/// A voter that is further behind than what is committed within a round trip holds up commits if it
/// is needed for the majority; 64 entries are one append.
const CAUGHT_UP_ENTRIES: u64 = 64;

/// How far a member is, as the leader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// How many entries it lacks; `None` if that is not known yet.
    pub(crate) lag_entries: Option<u64>,
    /// Whether it was heard within an election timeout.
    pub(crate) is_heard: bool,
}

impl Progress {
    fn has_caught_up(self) -> bool {
        self.is_heard && self.lag_entries.is_some_and(|lag| lag <= CAUGHT_UP_ENTRIES)
    }
}

/// How far the members are. The leader itself has everything and is alive.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllProgress {
    pub(crate) own_id: u64,
    pub(crate) of: BTreeMap<u64, Progress>,
}

impl AllProgress {
    pub(crate) fn is_alive(&self, id: u64) -> bool {
        id == self.own_id || self.of.get(&id).is_some_and(|progress| progress.is_heard)
    }

    fn has_caught_up(&self, id: u64) -> bool {
        self.of.get(&id).is_some_and(|progress| progress.has_caught_up())
    }
}

/// A change of the members that the leader makes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VotersChange {
    /// A change that another leader has begun is to be finished.
    Finish(BTreeSet<u64>),
    /// A node that was removed is a member still: another leader was stopped in the middle of that.
    Remove(u64),
    /// A voter whose vote was taken has it still, for the same reason.
    Demote(u64),
    /// Learners become voters.
    Promote(BTreeSet<u64>),
}

impl fmt::Display for VotersChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VotersChange::Finish(voters) => write!(f, "voters are now {voters:?}"),
            VotersChange::Remove(id) => write!(f, "{id} is no member any more"),
            VotersChange::Demote(id) => write!(f, "{id} is no voter any more"),
            VotersChange::Promote(nodes) => write!(f, "{nodes:?} become voters"),
        }
    }
}

impl Members {
    /// The next change that the leader makes by itself, if there should be one.
    ///
    /// The quorum has 1, 3 or 5 voters: an even number survives no more failures than the odd one below
    /// it. So two learners become voters together, and one alone only where a voter has been removed. Those come first that
    /// are there for nothing else.
    /// Nobody is demoted: who is dead for a minute only would come back to a quorum that has moved.
    /// Whose vote was taken by hand gets none by itself: somebody has had a reason, which does not end with the next
    /// heartbeat.
    pub(crate) fn next_voters_change(
        &self,
        progress: &AllProgress,
        voters_max: usize,
        was_removed: impl Fn(DirectoryId) -> bool,
    ) -> Option<VotersChange> {
        let voters = match &self.voters[..] {
            [voters] => voters,
            [.., last] => return Some(VotersChange::Finish(last.clone())),
            [] => return None,
        };
        let may_leave = |id: u64| !voters.contains(&id) || self.check_without(id, progress).is_ok();
        let mut unfinished = self.nodes.iter().filter(|(id, _)| may_leave(**id));
        let unfinished = unfinished.find_map(|(id, member)| match member.is_demoted {
            _ if was_removed(member.directory) => Some(VotersChange::Remove(*id)),
            true if voters.contains(id) => Some(VotersChange::Demote(*id)),
            _ => None,
        });
        if unfinished.is_some() {
            return unfinished;
        }
        let learners = self.nodes.iter().filter(|(id, _)| !voters.contains(id));
        let ready = learners.filter(|(id, it)| !it.is_demoted && progress.has_caught_up(**id));
        let mut ready: Vec<(bool, u64)> = ready.map(|(id, it)| (!it.votes_only, *id)).collect();
        ready.sort_unstable();
        let wanted = match voters.len() % 2 {
            0 => 1,
            _ => 2,
        };
        let fits = voters.len() + wanted <= voters_max && ready.len() >= wanted;
        fits.then(|| {
            VotersChange::Promote(ready.into_iter().map(|(_, id)| id).take(wanted).collect())
        })
    }

    /// Whether the quorum can go on without a voter: a majority of the others is alive.
    pub(crate) fn check_without(
        &self,
        id: u64,
        progress: &AllProgress,
    ) -> Result<(), AdmissionRefusal> {
        let voters = self.voters.last().into_iter().flatten().copied();
        let (alive, silent): (Vec<u64>, Vec<u64>) =
            voters.filter(|voter| *voter != id).partition(|voter| progress.is_alive(*voter));
        let needed = (alive.len() + silent.len()) / 2 + 1;
        let id = broker_id(id);
        match alive.len() {
            0 if silent.is_empty() => Err(AdmissionRefusal::LastVoter { id }),
            alive if alive < needed => {
                let silent = silent.into_iter().map(broker_id).collect();
                Err(AdmissionRefusal::NoMajorityLeft { id, alive, needed, silent })
            }
            _ => Ok(()),
        }
    }

    /// Whether a voter may lose its vote. Returns its number.
    pub(crate) fn check_remove_voter(
        &self,
        voter: VoterName,
        progress: &AllProgress,
    ) -> Result<u64, AdmissionRefusal> {
        let VoterName { id, directory } = voter;
        let known = u64::try_from(id.0).ok().filter(|id| {
            self.is_voter(*id) && self.nodes.get(id).is_some_and(|it| it.directory == directory)
        });
        let known = known.ok_or(AdmissionRefusal::NoVoter { id, directory })?;
        self.check_without(known, progress)?;
        Ok(known)
    }

    /// Whether a member may get a vote. Returns its number.
    pub(crate) fn check_add_voter(
        &self,
        voter: VoterName,
        progress: &AllProgress,
    ) -> Result<u64, AdmissionRefusal> {
        let VoterName { id, directory: given } = voter;
        let known = u64::try_from(id.0).ok().and_then(|id| Some((id, self.nodes.get(&id)?)));
        let (number, member) = known.ok_or(AdmissionRefusal::Unknown { id })?;
        if self.is_voter(number) {
            return Err(AdmissionRefusal::IsVoter { id });
        }
        if member.directory != given {
            return Err(AdmissionRefusal::OtherDirectory { id, given, known: member.directory });
        }
        let heard = progress.of.get(&number).filter(|progress| progress.is_heard);
        let lag_entries = heard.and_then(|progress| progress.lag_entries);
        match progress.has_caught_up(number) {
            true => Ok(number),
            false => Err(AdmissionRefusal::NotReady { id, lag_entries }),
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_model::BrokerId;

    use super::*;
    use crate::membership::tests::{directory, members};

    /// The leader is 1; some have caught up.
    fn progress(ready: &[u64]) -> AllProgress {
        let caught_up = Progress { lag_entries: Some(CAUGHT_UP_ENTRIES), is_heard: true };
        AllProgress { own_id: 1, of: ready.iter().map(|&id| (id, caught_up)).collect() }
    }

    fn change(members: &Members, ready: &[u64], voters_max: usize) -> Option<VotersChange> {
        members.next_voters_change(&progress(ready), voters_max, |_| false)
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
    fn who_is_there_to_vote_gets_a_vote_before_others() {
        let mut five = members(&[1, 2, 3, 4, 5], &[&[1]]);
        five.nodes.get_mut(&5).expect("is one").votes_only = true;
        assert_eq!(change(&five, &[2, 3, 4, 5], 3), promote([2, 5]));
        assert_eq!(change(&five, &[2, 3, 4], 3), promote([2, 3]), "5 is not ready");
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
            let progress = AllProgress { own_id: 1, of: BTreeMap::from([(2, ready), (3, other)]) };
            assert_eq!(three.next_voters_change(&progress, 5, |_| false), None);
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

    fn voter(id: i32, directory_of: u64) -> VoterName {
        VoterName { id: BrokerId(id), directory: directory(directory_of) }
    }

    #[test]
    fn whose_vote_was_taken_by_hand_gets_none_by_itself_and_another_takes_its_place() {
        let mut four = members(&[1, 2, 3, 4], &[&[1, 2]]);
        four.nodes.get_mut(&3).expect("is one").is_demoted = true;
        assert_eq!(change(&four, &[2, 3], 5), None);
        assert_eq!(change(&four, &[2, 3, 4], 5), promote([4]));
        assert_eq!(four.check_add_voter(voter(3, 3), &progress(&[3])), Ok(3), "by hand it does");
    }

    #[test]
    fn what_a_leader_was_stopped_in_the_middle_of_is_finished() {
        let mut three = members(&[1, 2, 3, 4], &[&[1, 2, 3]]);
        three.nodes.get_mut(&3).expect("is one").is_demoted = true;
        assert_eq!(change(&three, &[2, 4], 3), Some(VotersChange::Demote(3)));
        assert_eq!(change(&three, &[3, 4], 3), None, "only 1 would be alive");
        let change = |ready: &[u64]| {
            three.next_voters_change(&progress(ready), 3, |it| {
                it == directory(2) || it == directory(4)
            })
        };
        assert_eq!(change(&[2, 3]), Some(VotersChange::Remove(2)));
        assert_eq!(change(&[2]), Some(VotersChange::Demote(3)), "without 2 only 1 would be alive");
        assert_eq!(change(&[]), Some(VotersChange::Remove(4)), "it has no vote");
    }

    #[test]
    fn a_voter_leaves_if_a_majority_of_the_others_is_alive() {
        let three = members(&[1, 2, 3], &[&[1, 2, 3]]);
        let check =
            |id, of, ready: &[u64]| three.check_remove_voter(voter(id, of), &progress(ready));
        assert_eq!(check(3, 3, &[2]), Ok(3), "a dead one can be removed");
        assert_eq!(check(1, 1, &[2, 3]), Ok(1));
        let (id, silent) = (BrokerId(2), vec![BrokerId(3)]);
        let refusal = AdmissionRefusal::NoMajorityLeft { id, alive: 1, needed: 2, silent };
        assert_eq!(check(2, 2, &[2]), Err(refusal.clone()));
        assert_eq!(
            refusal.to_string(),
            "node 2 cannot leave the voters now: 1 of those that would remain is alive, and 2 are needed; first start \
             again or remove node 3"
        );
        let no_voter = |id: i32, of| {
            Err(AdmissionRefusal::NoVoter { id: BrokerId(id), directory: directory(of) })
        };
        assert_eq!(check(3, 2, &[2, 3]), no_voter(3, 2), "with another directory");
        assert_eq!(check(4, 4, &[2, 3]), no_voter(4, 4));
        assert_eq!(check(-1, 4, &[2, 3]), no_voter(-1, 4));
        let one = members(&[1, 2], &[&[1]]);
        let last = AdmissionRefusal::LastVoter { id: BrokerId(1) };
        assert_eq!(one.check_remove_voter(voter(1, 1), &progress(&[2])), Err(last));
    }

    #[test]
    fn a_member_that_has_caught_up_becomes_a_voter() {
        let three = members(&[1, 2, 3], &[&[1, 2]]);
        let check = |id, of, ready: &[u64]| three.check_add_voter(voter(id, of), &progress(ready));
        assert_eq!(check(3, 3, &[3]), Ok(3));
        let id = BrokerId(3);
        assert_eq!(check(3, 3, &[]), Err(AdmissionRefusal::NotReady { id, lag_entries: None }));
        let (given, known) = (directory(9), directory(3));
        assert_eq!(check(3, 9, &[3]), Err(AdmissionRefusal::OtherDirectory { id, given, known }));
        let id = BrokerId(2);
        assert_eq!(
            check(2, 9, &[]),
            Err(AdmissionRefusal::IsVoter { id }),
            "as in Kafka, by number"
        );
        for id in [7, -1].map(BrokerId) {
            assert_eq!(check(id.0, 3, &[3]), Err(AdmissionRefusal::Unknown { id }));
        }
    }
}
