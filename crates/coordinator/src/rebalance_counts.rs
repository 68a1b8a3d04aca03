//! How often groups have been rebalanced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logway_model::GroupType;

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
