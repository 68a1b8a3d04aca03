//! A partition on its way to other replicas.

use logway_model::BrokerId;
use serde::{Deserialize, Serialize};

/// What a partition had, and what it is to have (KIP-455). Meanwhile it has both.
///
/// Kafka's record has who is added and who is removed. What a cancelled move leads back to, with the first preferred leader,
/// cannot be told from that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reassignment {
    /// The replicas before, the preferred leader first. Another target leaves them as they are.
    pub original: Vec<BrokerId>,
    /// The replicas afterwards, the preferred leader first.
    pub target: Vec<BrokerId>,
}

impl Reassignment {
    /// Who gets a replica.
    pub fn adding(&self) -> impl Iterator<Item = BrokerId> {
        self.target.iter().copied().filter(|id| !self.original.contains(id))
    }

    /// Who has one no more at the end.
    pub fn removing(&self) -> impl Iterator<Item = BrokerId> {
        self.original.iter().copied().filter(|id| !self.target.contains(id))
    }

    /// Who has a replica meanwhile: as in Kafka, first those that stay.
    pub fn replicas(&self) -> Vec<BrokerId> {
        self.target.iter().copied().chain(self.removing()).collect()
    }

    /// Whether the replicas in sync can go on without those that are removed.
    ///
    /// A replica that stays and is not in sync holds nothing up: it is as well off afterwards (KAFKA-19975). Where there
    /// are to be fewer, all of them have to be in sync, because fewer copies would be left of what is acknowledged. Unlike in
    /// Kafka, the last step never leaves fewer in sync than `in_sync_min`: what two have acknowledged is on two disks
    /// until there are two others.
    pub fn is_complete(&self, isr: &[BrokerId], in_sync_min: usize) -> bool {
        let is_in = |id: &BrokerId| isr.contains(id);
        let all_in = match self.target.len() < self.original.len() {
            true => self.target.iter().all(is_in),
            false => self.adding().all(|id| is_in(&id)),
        };
        let left = self.target.iter().filter(|id| is_in(id)).count();
        let needed = in_sync_min.min(self.target.len()).min(isr.len()).max(1);
        all_in && left >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn completes(original: &[i32], target: &[i32], isr: &[i32]) -> bool {
        let (original, target) = (brokers(original), brokers(target));
        Reassignment { original, target }.is_complete(&brokers(isr), 2)
    }

    #[test]
    fn a_move_is_complete_when_the_added_replicas_are_in_sync() {
        assert!(completes(&[1, 2, 3], &[3, 4, 5], &[1, 4, 5]), "3 was not in sync before either");
        assert!(!completes(&[1, 2, 3], &[3, 4, 5], &[1, 2, 3, 4]));
        assert!(completes(&[1, 2, 3], &[3, 2, 1], &[1]));
        assert!(completes(&[1], &[2], &[1, 2]), "one replica is all that there is to be");
        assert!(!completes(&[1, 2], &[2, 1], &[]));
    }

    #[test]
    fn the_last_step_leaves_enough_in_sync() {
        assert!(!completes(&[1, 2, 3], &[4, 2, 3], &[1, 4]), "4 alone would be left");
        assert!(completes(&[1, 2, 3], &[4, 2, 3], &[1, 4, 3]));
        assert!(completes(&[1, 2, 3], &[4, 2, 3], &[4]), "no fewer than there are");
    }

    #[test]
    fn fewer_replicas_have_to_be_in_sync_all() {
        assert!(!completes(&[1, 2, 3], &[2, 3], &[1, 2]));
        assert!(completes(&[1, 2, 3], &[2, 3], &[1, 2, 3]));
    }

    #[test]
    fn those_that_stay_come_first() {
        let it = Reassignment { original: brokers(&[1, 2, 3]), target: brokers(&[4, 3]) };
        assert_eq!(it.replicas(), brokers(&[4, 3, 1, 2]));
        assert_eq!(it.adding().collect::<Vec<_>>(), brokers(&[4]));
        assert_eq!(it.removing().collect::<Vec<_>>(), brokers(&[1, 2]));
    }
}
