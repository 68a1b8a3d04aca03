//! How long the oldest record that a group has not read has been waiting for it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use logway_log::ReadRequest;
use logway_model::{Offset, TimestampMs, TopicPartition};
use logway_record::{Batch, DecodeLimit};
use logway_wire::UnreadAge;

use crate::failure::Failure;
use crate::partition::Partition;

/// The most that a batch may unpack to for one record's timestamp.
const DECODE_LIMIT: DecodeLimit = DecodeLimit::new(16 << 20);

/// The ages that one request asks for. Each place of a log is looked at once, and after some time
/// none is any more: batches have to be read from disk, and unpacked for one record's timestamp.
pub(crate) struct UnreadAges<'a> {
    /// Held while a batch is unpacked: one at a time in the broker.
    unpacking: &'a Mutex<()>,
    now: TimestampMs,
    deadline: Instant,
    known: HashMap<(TopicPartition, Offset), UnreadAge>,
}

impl<'a> UnreadAges<'a> {
    /// Ages at `now`, for which so much time may be spent.
    pub(crate) fn new(
        unpacking: &'a Mutex<()>,
        now: TimestampMs,
        time_max: Duration,
    ) -> UnreadAges<'a> {
        let deadline = Instant::now() + time_max;
        UnreadAges { unpacking, now, deadline, known: HashMap::new() }
    }

    /// The age of the first record from a committed offset on. Waits for the disk.
    pub(crate) fn of(&mut self, partition: &Partition, committed: Offset) -> UnreadAge {
        let end = partition.high_watermark().get();
        let first = committed.max(partition.log().log_start_offset());
        if first >= end {
            return UnreadAge::Ms(0);
        }
        let place = (partition.topic_partition().clone(), first);
        if let Some(age) = self.known.get(&place) {
            return *age;
        }
        if Instant::now() >= self.deadline {
            return UnreadAge::Unknown;
        }
        let age = self.look_up(partition, first, end);
        self.known.insert(place, age);
        age
    }

    fn look_up(&self, partition: &Partition, first: Offset, end: Offset) -> UnreadAge {
        match timestamp_at(partition, first, end, self.unpacking) {
            Ok(Some(timestamp)) => {
                // Producers' clocks may be ahead of ours.
                let age_ms = self.now.0.saturating_sub(timestamp.0);
                UnreadAge::Ms(u64::try_from(age_ms).unwrap_or(0))
            }
            // Compaction has left nothing there.
            Ok(None) => UnreadAge::Ms(0),
            Err(failure) => {
                let partition = partition.topic_partition();
                tracing::debug!(%partition, offset = %first, "no age is known: {}", failure.message);
                UnreadAge::Unknown
            }
        }
    }
}

/// The timestamp of the first record from an offset on.
fn timestamp_at(
    partition: &Partition,
    first: Offset,
    end: Offset,
    unpacking: &Mutex<()>,
) -> Result<Option<TimestampMs>, Failure> {
    let slice = partition.log().read(ReadRequest {
        offset: first,
        max_bytes: 1,
        upper_bound: end,
        at_least_one_batch: true,
    })?;
    if slice.is_empty() {
        return Ok(None);
    }
    let read_failed = |error| Failure::of_reading(partition.topic_partition(), &error);
    let bytes = slice.read().map_err(read_failed)?;
    let batch = Batch::parse(bytes)?;
    if batch.base_offset() >= first {
        return Ok(Some(batch.header().base_timestamp));
    }
    let _one_at_a_time = unpacking.lock().unwrap_or_else(PoisonError::into_inner);
    let mut timestamp = batch.header().max_timestamp;
    batch.walk(DECODE_LIMIT, |record| {
        if record.offset < first {
            return ControlFlow::Continue(());
        }
        timestamp = record.timestamp;
        ControlFlow::Break(())
    })?;
    Ok(Some(timestamp))
}
