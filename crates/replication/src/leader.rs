//! The leader's view of its in-sync replicas, and the high watermark that follows from it.

use logway_model::{BrokerId, Offset};

/// How far the leader's own log has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTail {
    /// The offset that the next record gets.
    pub log_end: Offset,
    /// Everything below is on stable storage.
    pub flushed: Offset,
}

/// How far one in-sync follower has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaProgress {
    /// The follower.
    pub broker: BrokerId,
    /// The end of what it has told the leader that it holds.
    pub end: Offset,
}

/// What the leader of one partition knows of its replicas.
///
/// Owned by the partition; every method is called under the partition's lock.
///
/// Invariants: the high watermark never goes back while this leader leads, never passes what any
/// in-sync follower holds, and on a durable topic never passes the leader's own flushed offset, so
/// that a consumer sees no record that a power cut could take back.
#[derive(Debug)]
pub struct LeaderState {
    durable: bool,
    local: LocalTail,
    followers_in_sync: Vec<ReplicaProgress>,
    high_watermark: Offset,
}

impl LeaderState {
    /// Starts to lead with the in-sync followers at the offsets they are known to hold.
    ///
    /// `high_watermark` is what the log remembers from before.
    pub fn new(
        durable: bool,
        local: LocalTail,
        followers_in_sync: Vec<ReplicaProgress>,
        high_watermark: Offset,
    ) -> LeaderState {
        assert!(local.flushed <= local.log_end, "flushed past the end of the log");
        let mut state = LeaderState { durable, local, followers_in_sync, high_watermark };
        state.advance();
        state
    }

    /// The exclusive end of what consumers may read.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The leader's own log grew or was flushed. Returns the high watermark if it moved.
    ///
    /// A leader's log only grows, so of two reports that cross on their way the larger counts.
    pub fn on_local_tail(&mut self, tail: LocalTail) -> Option<Offset> {
        assert!(tail.flushed <= tail.log_end, "flushed past the end of the log");
        self.local.log_end = self.local.log_end.max(tail.log_end);
        self.local.flushed = self.local.flushed.max(tail.flushed);
        self.advance()
    }

    /// `flush.messages` changed. Returns the high watermark if it moved.
    ///
    /// A topic that becomes durable keeps the watermark it has shown; it only stops rising until
    /// the disk has caught up.
    pub fn set_durable(&mut self, durable: bool) -> Option<Offset> {
        self.durable = durable;
        self.advance()
    }

    fn advance(&mut self) -> Option<Offset> {
        let own = if self.durable { self.local.flushed } else { self.local.log_end };
        let followers = self.followers_in_sync.iter().map(|follower| follower.end);
        let committed = followers.fold(own, Offset::min);
        if committed <= self.high_watermark {
            return None;
        }
        self.high_watermark = committed;
        Some(committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(log_end: i64, flushed: i64) -> LocalTail {
        LocalTail { log_end: Offset(log_end), flushed: Offset(flushed) }
    }

    fn alone(durable: bool) -> LeaderState {
        LeaderState::new(durable, tail(0, 0), Vec::new(), Offset::ZERO)
    }

    #[test]
    fn a_durable_partition_shows_only_what_is_on_disk() {
        let mut leader = alone(true);
        assert_eq!(leader.on_local_tail(tail(10, 0)), None);
        assert_eq!(leader.on_local_tail(tail(10, 7)), Some(Offset(7)));
        assert_eq!(leader.high_watermark(), Offset(7));
    }

    #[test]
    fn a_partition_that_is_not_durable_shows_what_is_written() {
        let mut leader = alone(false);
        assert_eq!(leader.on_local_tail(tail(10, 0)), Some(Offset(10)));
    }

    #[test]
    fn the_slowest_in_sync_follower_holds_the_watermark() {
        let follower = ReplicaProgress { broker: BrokerId(2), end: Offset(3) };
        let mut leader = LeaderState::new(true, tail(0, 0), vec![follower], Offset::ZERO);
        assert_eq!(leader.on_local_tail(tail(10, 10)), Some(Offset(3)));
    }

    #[test]
    fn the_watermark_never_goes_back() {
        let mut leader = alone(false);
        leader.on_local_tail(tail(10, 0));
        assert_eq!(leader.set_durable(true), None);
        assert_eq!(leader.high_watermark(), Offset(10));
        assert_eq!(leader.on_local_tail(tail(12, 9)), None);
        assert_eq!(leader.on_local_tail(tail(12, 12)), Some(Offset(12)));
    }
}
