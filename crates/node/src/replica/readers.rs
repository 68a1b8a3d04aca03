//! Who may read a replica, and which other replicas a leader can send readers to.

use logway_model::{BrokerId, LeaderEpoch, Offset};
use logway_replication::ReadableFollower;

use super::{Replica, Role, RoleKind};

impl Replica {
    /// Whether this replica follows a leader.
    pub fn is_following(&self) -> bool {
        self.role_view().kind == RoleKind::Following
    }

    /// A follower of this epoch says where its log begins.
    pub(crate) fn on_follower_start(
        &self,
        epoch: LeaderEpoch,
        (broker, broker_epoch): (BrokerId, i64),
        start: Offset,
    ) {
        if let Role::Leading(leader) = &mut *self.role()
            && leader.epoch() == epoch
        {
            leader.on_start(broker, broker_epoch, start);
        }
    }

    /// The followers that a reader at an offset can be sent to; none, if this replica does not lead.
    pub(crate) fn readable_followers(&self, offset: Offset) -> Vec<ReadableFollower> {
        match &*self.role() {
            Role::Leading(leader) => leader.readable_at(offset).collect(),
            Role::Following(_) | Role::Offline => Vec::new(),
        }
    }
}
