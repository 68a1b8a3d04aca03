//! What worlds of several nodes went through.

use std::fmt;
use std::ops::AddAssign;

/// How much was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterReport {
    /// Worlds.
    pub worlds: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Machines that lost their power.
    pub power_cuts: u64,
    /// Nodes that were stopped in good order.
    pub stops: u64,
    /// Cuts of the network.
    pub network_cuts: u64,
    /// Disks that were slow, or failed to sync.
    pub disk_faults: u64,
    /// Nodes that were removed, and began anew with an empty disk.
    pub replaced: u64,
    /// Moves of partitions that were begun, changed or cancelled.
    pub moves: u64,
    /// Elections by which a node was to lead all that it has.
    pub favoured: u64,
    /// Batches that were acknowledged.
    pub acknowledged: u64,
    /// Of those, batches that the log had already: the acknowledgement was for one that was sent again.
    pub duplicates: u64,
    /// Appends that were refused, or whose outcome nobody knows.
    pub failed: u64,
    /// Batches that readers got.
    pub seen: u64,
    /// Leader epochs of all partitions.
    pub epochs: u64,
    /// Processes that became the producer of a transactional id.
    pub incarnations: u64,
    /// Those of them that speak the older protocol.
    pub older_incarnations: u64,
    /// Transactions that were committed, as their producers were told.
    pub transactions_committed: u64,
    /// Transactions that their producers have aborted.
    pub transactions_aborted: u64,
    /// Transactions that their producers have left open.
    pub transactions_left: u64,
    /// What fenced producers have asked for, and were refused.
    pub fenced: u64,
}

impl AddAssign for ClusterReport {
    fn add_assign(&mut self, other: ClusterReport) {
        self.worlds += other.worlds;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.stops += other.stops;
        self.network_cuts += other.network_cuts;
        self.disk_faults += other.disk_faults;
        self.replaced += other.replaced;
        self.moves += other.moves;
        self.favoured += other.favoured;
        self.acknowledged += other.acknowledged;
        self.duplicates += other.duplicates;
        self.failed += other.failed;
        self.seen += other.seen;
        self.epochs += other.epochs;
        self.incarnations += other.incarnations;
        self.older_incarnations += other.older_incarnations;
        self.transactions_committed += other.transactions_committed;
        self.transactions_aborted += other.transactions_aborted;
        self.transactions_left += other.transactions_left;
        self.fenced += other.fenced;
    }
}

impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterReport { worlds, kills, power_cuts, stops, network_cuts, disk_faults, .. } =
            self;
        let ClusterReport {
            replaced,
            moves,
            favoured,
            acknowledged,
            duplicates,
            failed,
            seen,
            epochs,
            ..
        } = self;
        let ClusterReport {
            incarnations,
            older_incarnations,
            transactions_committed,
            transactions_aborted,
            transactions_left,
            fenced,
            ..
        } = self;
        write!(
            f,
            "{worlds} worlds: {kills} kills, {power_cuts} power cuts, {stops} clean stops, {network_cuts} cuts of the \
             network, {disk_faults} disks that failed or were slow, {replaced} nodes replaced, {moves} moves of partitions, {favoured} elections, {epochs} leader epochs, {acknowledged} batches \
             acknowledged ({duplicates} of them sent again), {failed} appends failed, {seen} batches read, \
             {incarnations} transactional producers ({older_incarnations} by the older protocol), {transactions_committed} transactions committed, \
             {transactions_aborted} aborted and {transactions_left} left open, {fenced} refusals of fenced producers"
        )
    }
}
