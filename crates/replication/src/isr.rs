//! The in-sync replicas of a partition, as its leader knows them.

use std::collections::BTreeSet;

use logway_model::{BrokerId, LeaderEpoch};

/// The in-sync replicas: as committed, and as the leader has proposed them (KIP-497).
///
/// While a proposal is under way nobody knows which of the two sets is in force. What is committed must
/// then be on the replicas of both: [`Isr::maximal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Isr {
    committed: BTreeSet<BrokerId>,
    partition_epoch: i32,
    proposed: Option<BTreeSet<BrokerId>>,
}

/// What the leader asks the controller to make the in-sync replicas (AlterPartition).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsrProposal {
    /// The epoch in which the leader leads: the controller refuses an older one.
    pub leader_epoch: LeaderEpoch,
    /// What the leader knows of the partition: the controller refuses a proposal that starts from less.
    pub partition_epoch: i32,
    /// The leader and who is in sync with it.
    pub isr: Vec<ProposedReplica>,
}

/// A replica of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposedReplica {
    /// The broker.
    pub broker: BrokerId,
    /// The incarnation of the broker that was in sync; -1 for what the leader has never heard of. The
    /// controller refuses one that has been started again since: its disk may be empty (KIP-903).
    pub broker_epoch: i64,
}

impl Isr {
    pub(crate) fn new(committed: BTreeSet<BrokerId>, partition_epoch: i32) -> Isr {
        Isr { committed, partition_epoch, proposed: None }
    }

    /// Everyone who may be in sync: what is committed is on all of them.
    pub(crate) fn maximal(&self) -> impl Iterator<Item = BrokerId> {
        let proposed = self.proposed.iter().flatten();
        let added = proposed.filter(|broker| !self.committed.contains(broker));
        self.committed.iter().chain(added).copied()
    }

    /// Whether nobody but this replica is in sync, or proposed.
    pub(crate) fn is_alone(&self, own: BrokerId) -> bool {
        self.proposed.is_none() && self.committed.len() == 1 && self.committed.contains(&own)
    }

    pub(crate) fn committed(&self) -> &BTreeSet<BrokerId> {
        &self.committed
    }

    pub(crate) fn partition_epoch(&self) -> i32 {
        self.partition_epoch
    }

    /// Whether a proposal is under way: the next one starts from its outcome.
    pub(crate) fn is_proposed(&self) -> bool {
        self.proposed.is_some()
    }

    pub(crate) fn propose(&mut self, isr: BTreeSet<BrokerId>) {
        assert!(self.proposed.is_none(), "one proposal at a time");
        self.proposed = Some(isr);
    }

    /// The controller has refused the proposal for good: it is in force neither now nor later.
    pub(crate) fn withdraw(&mut self) {
        self.proposed = None;
    }

    /// Takes what the metadata says. An older partition epoch changes nothing; a newer one decides what became of
    /// the proposal, since the controller takes none that starts from less.
    pub(crate) fn commit(&mut self, committed: BTreeSet<BrokerId>, partition_epoch: i32) {
        if partition_epoch > self.partition_epoch {
            *self = Isr::new(committed, partition_epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(brokers: &[i32]) -> BTreeSet<BrokerId> {
        brokers.iter().copied().map(BrokerId).collect()
    }

    #[test]
    fn while_a_proposal_is_under_way_both_sets_count() {
        let mut isr = Isr::new(set(&[1, 2]), 7);
        isr.propose(set(&[1, 3]));
        assert_eq!(isr.maximal().collect::<BTreeSet<_>>(), set(&[1, 2, 3]));
        isr.commit(set(&[1]), 7);
        assert!(isr.is_proposed(), "that was known");
        isr.commit(set(&[1, 3]), 8);
        assert_eq!(isr, Isr::new(set(&[1, 3]), 8));
    }

    #[test]
    fn a_proposal_that_is_refused_for_good_leaves_no_trace() {
        let mut isr = Isr::new(set(&[1]), 7);
        isr.propose(set(&[1, 3]));
        isr.withdraw();
        assert_eq!(isr, Isr::new(set(&[1]), 7));
    }
}
