//! Metrics of streams and shards, by CloudWatch's names: what Kinesis clients of this node do.
//!
//! | file | idea |
//! |---|---|
//! | [`names`] | the metrics, and what they are called |
//! | [`exposition`] | as they are on `/metrics` |

mod exposition;
mod names;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_model::{PartitionId, TopicId};
use tokio::time::Instant;

pub(crate) use exposition::StreamMetricsCollector;
pub(crate) use names::{Counted, CountedOfShard};
use names::{SHARD_METRIC_COUNT, STREAM_METRIC_COUNT};

/// Streams and shards of which something is counted. Where there are more, those go that nothing was counted of for a while; more than
/// these are left out.
const STREAMS_MAX: usize = 1_000;
const SHARDS_MAX: usize = 10_000;

/// What was counted of a shard goes after this time, where there is no room for others.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// An age is told for so long.
const AGE_MAX: Duration = Duration::from_secs(300);

/// An age, and when it was found.
type Age = Option<(Instant, i64)>;

#[derive(Debug, Clone, Default)]
struct OfStream {
    counts: [u64; STREAM_METRIC_COUNT],
}

#[derive(Debug, Clone)]
struct OfShard {
    counts: [u64; SHARD_METRIC_COUNT],
    /// Of the latest GetRecords.
    age: Age,
    /// Of the latest event.
    behind: Age,
    used: Instant,
}

#[derive(Debug, Default)]
struct All {
    streams: HashMap<TopicId, OfStream>,
    shards: HashMap<(TopicId, PartitionId), OfShard>,
    /// When idle shards were looked for last.
    looked: Option<Instant>,
}

/// What is counted. All clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamMetrics(Arc<Mutex<All>>);

impl StreamMetrics {
    fn all(&self) -> MutexGuard<'_, All> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts of a stream.
    pub(crate) fn count(&self, stream: TopicId, counts: &[(Counted, u64)]) {
        let mut all = self.all();
        if all.streams.len() >= STREAMS_MAX && !all.streams.contains_key(&stream) {
            return;
        }
        let of_stream = all.streams.entry(stream).or_default();
        for (counted, more) in counts {
            let count = &mut of_stream.counts[*counted as usize];
            *count = count.saturating_add(*more);
        }
    }

    /// Counts of a shard.
    pub(crate) fn count_shard(
        &self,
        (stream, shard): (TopicId, PartitionId),
        counts: &[(CountedOfShard, u64)],
    ) {
        self.with_shard((stream, shard), |of_shard| {
            for (counted, more) in counts {
                let count = &mut of_shard.counts[*counted as usize];
                *count = count.saturating_add(*more);
            }
        });
    }

    /// Notes how old what GetRecords has given of a shard was.
    pub(crate) fn note_age(&self, shard: (TopicId, PartitionId), age_ms: i64) {
        self.with_shard(shard, |of_shard| of_shard.age = Some((Instant::now(), age_ms)));
    }

    /// Notes how far an event of a shard was behind.
    pub(crate) fn note_behind(&self, shard: (TopicId, PartitionId), behind_ms: i64) {
        self.with_shard(shard, |of_shard| of_shard.behind = Some((Instant::now(), behind_ms)));
    }

    fn with_shard(&self, shard: (TopicId, PartitionId), note: impl FnOnce(&mut OfShard)) {
        let (mut all, now) = (self.all(), Instant::now());
        if all.shards.len() >= SHARDS_MAX && !all.shards.contains_key(&shard) {
            // Not with each request.
            if all.looked.is_none_or(|looked| now.duration_since(looked) > IDLE_MAX / 10) {
                all.looked = Some(now);
                all.shards.retain(|_, of_shard| now.duration_since(of_shard.used) <= IDLE_MAX);
            }
            if all.shards.len() >= SHARDS_MAX {
                return;
            }
        }
        let of_shard = all.shards.entry(shard).or_insert_with(|| OfShard {
            counts: [0; SHARD_METRIC_COUNT],
            age: None,
            behind: None,
            used: now,
        });
        of_shard.used = now;
        note(of_shard);
    }

    /// Forgets streams that are no more.
    fn retain(&self, is_there: impl Fn(TopicId) -> bool) {
        let mut all = self.all();
        all.streams.retain(|stream, _| is_there(*stream));
        all.shards.retain(|(stream, _), _| is_there(*stream));
    }
}

/// A time in whole milliseconds.
pub(crate) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An age, where it was found not long ago.
fn fresh(age: Age) -> Option<i64> {
    age.filter(|(found, _)| found.elapsed() <= AGE_MAX).map(|(_, ms)| ms)
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;

    use super::*;

    fn stream(number: usize) -> TopicId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        TopicId(Uuid(id))
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_kept_than_there_may_be() {
        let metrics = StreamMetrics::default();
        for number in 0..STREAMS_MAX + 5 {
            metrics.count(stream(number), &[(Counted::IncomingRecords, 1)]);
        }
        for number in 0..i32::try_from(SHARDS_MAX).expect("is small") + 5 {
            let shard = (stream(0), PartitionId(number));
            metrics.count_shard(shard, &[(CountedOfShard::IncomingRecords, 1)]);
        }
        assert_eq!(metrics.all().streams.len(), STREAMS_MAX);
        assert_eq!(metrics.all().shards.len(), SHARDS_MAX);
        // Those that nobody uses make room.
        tokio::time::advance(IDLE_MAX + Duration::from_secs(1)).await;
        metrics.note_age((stream(1), PartitionId(0)), 5);
        assert_eq!(metrics.all().shards.len(), 1);
        metrics.retain(|id| id == stream(1));
        assert_eq!(metrics.all().streams.len(), 1);
        assert_eq!(metrics.all().shards.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_age_is_told_while_somebody_reads() {
        let age = Some((Instant::now(), 7));
        assert_eq!(fresh(age), Some(7));
        tokio::time::advance(AGE_MAX + Duration::from_secs(1)).await;
        assert_eq!((fresh(age), fresh(None)), (None, None));
    }
}
