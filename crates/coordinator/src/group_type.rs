//! The kinds of groups, and how often those of each have been rebalanced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of groups that there are (KIP-848).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupType {
    /// Members join, and one of them assigns.
    Classic,
    /// The coordinator assigns.
    Consumer,
    /// The coordinator assigns the tasks of a stream-processing application (KIP-1071).
    Streams,
}

impl GroupType {
    /// All of them.
    pub const ALL: [GroupType; 3] = [GroupType::Classic, GroupType::Consumer, GroupType::Streams];

    /// The name that clients know it by.
    pub fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
            GroupType::Streams => "streams",
        }
    }
}

/// How many rebalances groups of each type have begun: generations of classic groups, group epochs of the others. Clones
/// count together.
#[derive(Debug, Clone, Default)]
pub struct RebalanceCounts(Arc<[AtomicU64; GroupType::ALL.len()]>);

impl RebalanceCounts {
    /// Those of one type.
    pub fn of(&self, group_type: GroupType) -> u64 {
        self.0[group_type as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, group_type: GroupType) {
        self.0[group_type as usize].fetch_add(1, Ordering::Relaxed);
    }
}
