//! Epochs of consumer groups.

use std::fmt;

/// Counts the changes of a consumer group. The epochs of the group, of its assignment and of its members are all of
/// this kind: the latter two follow the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupEpoch(pub i32);

impl GroupEpoch {
    /// What a member says that joins, or joins again.
    pub const JOINING: GroupEpoch = GroupEpoch(0);
    /// What a member says that leaves; and that there is no assignment.
    pub const LEAVING: GroupEpoch = GroupEpoch(-1);
    /// What a static member says that leaves and will be back.
    pub const LEAVING_FOR_NOW: GroupEpoch = GroupEpoch(-2);
    /// The epoch before that of a member that has just joined.
    pub const NONE: GroupEpoch = GroupEpoch(-1);
    /// The epoch of a group and of its assignment before there is any, as in Kafka. Who joins is at it while the first
    /// assignment waits: at epoch 0 it would have to join again.
    pub const BEFORE_FIRST: GroupEpoch = GroupEpoch(1);

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> GroupEpoch {
        GroupEpoch(self.0.saturating_add(1))
    }
}

impl fmt::Display for GroupEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
