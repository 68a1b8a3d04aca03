//! What clients of streams may do with a shard in a second, counted by its leader.
//!
//! Seconds are those of the shard: one begins with the first request after the one before it. So the numbers are exact, which they are not
//! with a balance that fills up all the time. What a request takes beyond a second's share counts in the seconds behind it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use logway_metadata::settings::ShardRates;
use tokio::time::{Duration, Instant};

use super::anywhere::Partition;

/// Meters that are kept before idle ones are looked for.
const METERS_MIN: usize = 1_024;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// To write records of these sizes in bytes. Each is met or not by itself, in this order.
    Write(Vec<u32>),
    /// To read once.
    Read,
    /// Nothing: so many bytes were read.
    WasRead(u64),
}

/// The meters of the shards that this node leads.
#[derive(Debug, Default)]
pub(crate) struct ShardMeters(Mutex<Meters>);

#[derive(Debug, Default)]
struct Meters {
    by_shard: HashMap<Partition, Meter>,
    /// Where there are so many, idle ones go.
    look_at: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    written_records: Count,
    written_bytes: Count,
    reads: Count,
    read_bytes: Count,
}

impl ShardMeters {
    /// Which parts of a demand are met. Those that are, count.
    pub(crate) fn meet(&self, shard: Partition, demand: &Demand, rates: &ShardRates) -> Vec<bool> {
        // What it guards is right after each step.
        let mut meters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if meters.by_shard.len() >= meters.look_at.max(METERS_MIN) {
            meters.by_shard.retain(|_, meter| !meter.is_idle(rates, now));
            meters.look_at = meters.by_shard.len() * 2;
        }
        meters.by_shard.entry(shard).or_default().meet(demand, rates, now)
    }
}

impl Meter {
    fn meet(&mut self, demand: &Demand, rates: &ShardRates, now: Instant) -> Vec<bool> {
        match demand {
            Demand::Write(sizes) => {
                sizes.iter().map(|size| self.write((*size).into(), rates, now)).collect()
            }
            Demand::Read => {
                let has_bytes = !self.read_bytes.is_spent(rates.read_bytes, now);
                vec![has_bytes && self.reads.take_whole(1, rates.reads, now)]
            }
            Demand::WasRead(bytes) => {
                self.read_bytes.take(*bytes, rates.read_bytes, now);
                vec![true]
            }
        }
    }

    fn write(&mut self, bytes: u64, rates: &ShardRates, now: Instant) -> bool {
        let has_room = self.written_records.has_room(1, rates.written_records, now)
            && self.written_bytes.has_room(bytes, rates.written_bytes, now);
        if has_room {
            self.written_records.take(1, rates.written_records, now);
            self.written_bytes.take(bytes, rates.written_bytes, now);
        }
        has_room
    }

    fn is_idle(&mut self, rates: &ShardRates, now: Instant) -> bool {
        [
            (&mut self.written_records, rates.written_records),
            (&mut self.written_bytes, rates.written_bytes),
            (&mut self.reads, rates.reads),
            (&mut self.read_bytes, rates.read_bytes),
        ]
        .into_iter()
        .all(|(count, rate)| count.used_at(rate, now) == 0)
    }
}

/// What was used of one limit. A rate of `None` has no limit.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// Of the second that began then, and of those behind it.
    used: u64,
    since: Option<Instant>,
}

impl Count {
    /// What is used of the present second and those behind it.
    fn used_at(&mut self, rate: Option<u64>, now: Instant) -> u64 {
        let (Some(rate), Some(since)) = (rate, self.since) else { return 0 };
        let seconds = now.saturating_duration_since(since).as_secs();
        self.used = self.used.saturating_sub(seconds.saturating_mul(rate));
        self.since = (self.used > 0 || seconds == 0).then(|| since + Duration::from_secs(seconds));
        self.used
    }

    /// Whether there is room for all of an amount. One that is larger than a second's share takes a second that is unused.
    fn has_room(&mut self, amount: u64, rate: Option<u64>, now: Instant) -> bool {
        let used = self.used_at(rate, now);
        rate.is_none_or(|rate| used == 0 || used.saturating_add(amount) <= rate)
    }

    /// Whether the present second has nothing left.
    fn is_spent(&mut self, rate: Option<u64>, now: Instant) -> bool {
        let used = self.used_at(rate, now);
        rate.is_some_and(|rate| used >= rate)
    }

    fn take(&mut self, amount: u64, rate: Option<u64>, now: Instant) {
        let used = self.used_at(rate, now);
        if rate.is_some() {
            self.used = used.saturating_add(amount);
            self.since = self.since.or(Some(now));
        }
    }

    fn take_whole(&mut self, amount: u64, rate: Option<u64>, now: Instant) -> bool {
        let has_room = self.has_room(amount, rate, now);
        if has_room {
            self.take(amount, rate, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{PartitionId, TopicId, Uuid};
    use tokio::time::advance;

    use super::*;

    const AWS: ShardRates = ShardRates {
        written_bytes: Some(1 << 20),
        written_records: Some(1_000),
        read_bytes: Some(2 << 20),
        reads: Some(5),
    };

    fn shard(number: i32) -> Partition {
        Partition { topic: TopicId(Uuid([1; 16])), number: PartitionId(number) }
    }

    fn met(meters: &ShardMeters, demand: &Demand) -> usize {
        meters.meet(shard(0), demand, &AWS).into_iter().filter(|met| *met).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_has_its_share_and_no_more() {
        let meters = ShardMeters::default();
        assert_eq!(met(&meters, &Demand::Write(vec![10; 600])), 600);
        advance(Duration::from_millis(999)).await;
        assert_eq!(met(&meters, &Demand::Write(vec![10; 600])), 400);
        advance(Duration::from_millis(1)).await;
        assert_eq!(met(&meters, &Demand::Write(vec![1_000; 1_200])), 1_000);
        advance(Duration::from_secs(1)).await;
        // One that has no room is passed over, and a smaller one has.
        let sizes = vec![1 << 19, 1 << 20, 1 << 19, 1];
        let answer = meters.meet(shard(0), &Demand::Write(sizes), &AWS);
        assert_eq!(answer, [true, false, true, false]);
        assert_eq!(meters.meet(shard(1), &Demand::Write(vec![1]), &AWS), [true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_record_takes_the_seconds_behind_it() {
        let meters = ShardMeters::default();
        assert_eq!(met(&meters, &Demand::Write(vec![10 << 20])), 1);
        for _ in 0..9 {
            advance(Duration::from_secs(1)).await;
            assert_eq!(met(&meters, &Demand::Write(vec![1])), 0);
        }
        advance(Duration::from_secs(1)).await;
        assert_eq!(met(&meters, &Demand::Write(vec![1])), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_are_counted_and_so_are_their_bytes() {
        let meters = ShardMeters::default();
        let read = || met(&meters, &Demand::Read);
        assert_eq!((0..7).map(|_| read()).sum::<usize>(), 5);
        advance(Duration::from_secs(1)).await;
        assert_eq!(read(), 1);
        // As AWS says: behind 10 MiB nothing is read for five seconds.
        met(&meters, &Demand::WasRead(10 << 20));
        for _ in 0..4 {
            advance(Duration::from_secs(1)).await;
            assert_eq!(read(), 0);
        }
        advance(Duration::from_secs(1)).await;
        assert_eq!(read(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn shards_that_nobody_uses_are_forgotten() {
        let meters = ShardMeters::default();
        for round in 0..10 {
            for number in 0..1_000 {
                meters.meet(shard(round * 1_000 + number), &Demand::Read, &AWS);
            }
            advance(Duration::from_secs(2)).await;
        }
        let kept = meters.0.lock().expect("is whole").by_shard.len();
        assert!(kept <= 2 * METERS_MIN, "{kept}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_everything_is_met() {
        let meters = ShardMeters::default();
        let none = ShardRates::default();
        let demand = Demand::Write(vec![u32::MAX; 5_000]);
        assert!(meters.meet(shard(0), &demand, &none).into_iter().all(|met| met));
    }
}
