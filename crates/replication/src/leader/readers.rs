//! Which followers others may read from.

use std::time::Duration;

use logway_model::{BrokerId, Offset};

use super::{Follower, Leader};

/// A follower that others may read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadableFollower {
    /// Who.
    pub broker: BrokerId,
    /// It holds everything before this offset.
    pub end: Offset,
    /// When it last had everything that there was.
    pub caught_up_at: Duration,
}

impl Leader {
    /// A follower says where its log begins. One of a version that serves no readers never says it.
    pub fn on_start(&mut self, broker: BrokerId, broker_epoch: i64, start: Offset) {
        let known = self.followers.get_mut(&broker);
        if let Some(follower) = known.filter(|it| it.broker_epoch == broker_epoch) {
            follower.start = Some(start);
        }
    }

    /// The followers that have what is at an offset, or get it next: those that are in sync, and whose log is known to
    /// begin there or before and to end there or behind (KIP-392).
    ///
    /// One that is not in sync may stay behind for as long as its reader asks it. One that has removed the offset already would
    /// send its reader back here, again and again.
    pub fn readable_at(&self, offset: Offset) -> impl Iterator<Item = ReadableFollower> {
        let in_sync = self.followers.iter().filter(|(broker, _)| self.is_in_sync(**broker));
        in_sync.filter_map(move |(broker, follower)| {
            let Follower { start, end, caught_up_at, .. } = *follower;
            let (start, end) = (start?, end?);
            let has_it = start <= offset && end >= offset;
            has_it.then_some(ReadableFollower { broker: *broker, end, caught_up_at })
        })
    }
}
