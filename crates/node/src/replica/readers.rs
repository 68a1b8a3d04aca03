//! Who may read a replica, and which other replicas a leader can send readers to.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use logway_model::{BrokerId, LeaderEpoch, Offset};
use logway_replication::ReadableFollower;

use super::freshness::Freshness;
use super::{Replica, Role, RoleKind, RoleView};
use crate::tasks::steady_time;

/// Which replicas of a partition serve a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// The leader alone.
    Leader,
    /// The leader and whoever follows it.
    AnyReplica,
}

impl Replica {
    /// How old what this replica shows may be: how long ago it last knew that it showed all that its leader did. Nothing of a
    /// leader; `None` if it is not known, and for a replica that serves nobody.
    pub fn staleness(&self) -> Option<Duration> {
        let RoleView { kind, epoch } = self.role_view();
        match kind {
            RoleKind::Leading => Some(Duration::ZERO),
            RoleKind::Following => {
                let fresh_at = self.freshness().fresh_at(epoch, self.high_watermark.get())?;
                Some(steady_time().saturating_sub(fresh_at))
            }
            RoleKind::Offline => None,
        }
    }

    pub(crate) fn freshness(&self) -> MutexGuard<'_, Freshness> {
        // What it guards is right after each step.
        self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
