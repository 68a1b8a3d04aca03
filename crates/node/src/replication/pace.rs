//! How fast replicas catch up that are not in sync (KIP-73): so that they leave acknowledgements alone.
//!
//! Kafka throttles what its settings name, and its tool for reassignments sets them. Whoever moves partitions without
//! them has every acknowledgement wait behind the copies. Here what is not named has a bound of its own.
//!
//! A bound must not keep a replica from ever catching up. So it is for what was there when the replica began; for what
//! has come meanwhile it is twice as high, and so on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use logway_metadata::MetadataImage;
use logway_metadata::settings::broker::{
    CATCH_UP_RATE_DEFAULT, CATCH_UP_RATE_SETTING, FOLLOWER_THROTTLE_RATE_SETTING,
    LEADER_THROTTLE_RATE_SETTING,
};
use logway_model::TopicPartition;
use tokio::time::Instant;

use crate::Node;

/// Nobody waits longer before it looks whether the bound has changed.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The bound is doubled so often at most.
const DOUBLED_MAX: u32 = 20;

/// What is copied at once under a bound, at least.
const PIECE_BYTES_MIN: u64 = 16 << 10;

/// What this node sends and takes for replicas that catch up.
#[derive(Default)]
pub(crate) struct CatchUps {
    /// What leaders send of partitions that the settings name.
    led: Pace,
    /// What leaders send of others.
    others: Pace,
    /// What followers take of partitions that the settings name.
    followed: Pace,
}

/// A bound that something is copied under.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    pub(super) pace: &'a Pace,
    pub(super) bytes_per_second: u64,
}

impl Bound<'_> {
    /// When more may be copied, if not now.
    pub(super) fn busy_until(&self) -> Option<Instant> {
        let wait = self.pace.wait(self.bytes_per_second, Instant::now())?;
        Some(Instant::now() + wait.min(WAIT_MAX))
    }

    /// How much to copy at once, so that it comes evenly.
    pub(super) fn piece_bytes(&self) -> u64 {
        (self.bytes_per_second / 4).max(PIECE_BYTES_MIN)
    }

    /// So much was copied.
    pub(super) fn charge(&self, bytes: u64) {
        self.pace.charge(bytes, self.bytes_per_second, Instant::now());
    }
}

impl Node {
    /// The bound of what a leader sends to a follower that is not in sync. `round` says how often the follower has had
    /// all that was there when it began, and there was more.
    pub(super) fn leaders_bound(&self, partition: &TopicPartition, round: u32) -> Bound<'_> {
        let catch_ups = &self.catch_ups;
        let setting = "leader.replication.throttled.replicas";
        match self.is_throttled(&self.image(), partition, setting) {
            true => Bound {
                pace: &catch_ups.led,
                bytes_per_second: self.rate(LEADER_THROTTLE_RATE_SETTING, u64::MAX),
            },
            false => {
                let rate = self.rate(CATCH_UP_RATE_SETTING, CATCH_UP_RATE_DEFAULT);
                let bytes_per_second = rate.saturating_mul(1 << round.min(DOUBLED_MAX));
                Bound { pace: &catch_ups.others, bytes_per_second }
            }
        }
    }

    /// The bound of what this follower takes of a partition that it is not in sync with, if the settings name it.
    pub(super) fn followers_bound(
        &self,
        image: &MetadataImage,
        partition: &TopicPartition,
    ) -> Option<Bound<'_>> {
        let setting = "follower.replication.throttled.replicas";
        let is_named = self.is_throttled(image, partition, setting);
        is_named.then(|| Bound {
            pace: &self.catch_ups.followed,
            bytes_per_second: self.rate(FOLLOWER_THROTTLE_RATE_SETTING, u64::MAX),
        })
    }

    fn rate(&self, setting: &str, default: u64) -> u64 {
        self.changeable_setting(setting).unwrap_or(default).max(1)
    }

    /// Whether a topic's setting names this node's replica of a partition: `*`, or `partition:broker`.
    fn is_throttled(
        &self,
        image: &MetadataImage,
        partition: &TopicPartition,
        setting: &str,
    ) -> bool {
        let topic = image.topic(partition.topic.as_str());
        let Some(list) = topic.and_then(|topic| topic.overrides.get(setting)) else { return false };
        let own = format!("{}:{}", partition.partition, self.settings.node_id);
        list.split(',').any(|named| named == "*" || named.trim() == own)
    }
}

/// What was copied and should have taken longer.
pub(super) struct Pace(Mutex<Owed>);

#[derive(Clone, Copy)]
struct Owed {
    bytes: f64,
    at: Instant,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace(Mutex::new(Owed { bytes: 0.0, at: Instant::now() }))
    }
}

impl Pace {
    fn wait(&self, bytes_per_second: u64, now: Instant) -> Option<Duration> {
        let owed = self.settle(bytes_per_second, now, 0);
        (owed > 0.0).then(|| Duration::from_secs_f64((owed / bytes_per_second as f64).min(1e9)))
    }

    fn charge(&self, bytes: u64, bytes_per_second: u64, now: Instant) {
        self.settle(bytes_per_second, now, bytes);
    }

    /// Pays off what time has paid for, at the bound that is in force now, and adds what is new.
    fn settle(&self, bytes_per_second: u64, now: Instant, bytes: u64) -> f64 {
        let mut owed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(owed.at).as_secs_f64();
        let left = (owed.bytes - passed * bytes_per_second as f64).max(0.0);
        *owed = Owed { bytes: left + bytes as f64, at: now.max(owed.at) };
        owed.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_paid_for_with_time() {
        let (pace, begun) = (Pace::default(), Instant::now());
        assert_eq!(pace.wait(100, begun), None);
        pace.charge(250, 100, begun);
        assert_eq!(pace.wait(100, begun), Some(Duration::from_millis(2_500)));
        let later = begun + Duration::from_secs(2);
        assert_eq!(pace.wait(100, later), Some(Duration::from_millis(500)));
        assert_eq!(pace.wait(100, later + Duration::from_millis(500)), None);
    }

    #[test]
    fn another_bound_counts_from_now_on() {
        let (pace, begun) = (Pace::default(), Instant::now());
        pace.charge(1_000, 1, begun);
        assert_eq!(pace.wait(1_000, begun), Some(Duration::from_secs(1)));
        assert_eq!(pace.wait(1_000, begun + Duration::from_secs(1)), None, "nothing is saved up");
        assert_eq!(pace.wait(1, begun + Duration::from_secs(60)), None);
    }
}
