//! How long the oldest record that a group has not read has been waiting for it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use logway_log::ReadRequest;
use logway_model::{Offset, TimestampMs, TopicPartition};
use logway_record::{Batch, DecodeLimit, RecordError};
use logway_wire::UnreadAge;

use crate::failure::Failure;
use crate::replica::Replica;

/// The most that a batch may unpack to for one record's timestamp.
const DECODE_LIMIT: DecodeLimit = DecodeLimit::new(16 << 20);

/// The ages that one request asks for. Each place of a log is looked at once, and after some time
/// none is any more: batches have to be read from disk, and unpacked for one record's timestamp.
pub struct UnreadAges<'a> {
    /// Held while a batch is unpacked: one at a time in the broker.
    unpacking: &'a Mutex<()>,
    now: TimestampMs,
    deadline: Instant,
    known: HashMap<(TopicPartition, Offset), UnreadAge>,
}

impl<'a> UnreadAges<'a> {
    /// Ages at `now`, for which so much time may be spent.
    pub fn new(unpacking: &'a Mutex<()>, now: TimestampMs, time_max: Duration) -> UnreadAges<'a> {
        let deadline = Instant::now() + time_max;
        UnreadAges { unpacking, now, deadline, known: HashMap::new() }
    }

    /// The age of the first record from a committed offset on. Waits for the disk.
    pub fn of(&mut self, partition: &Replica, committed: Offset) -> UnreadAge {
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

    fn look_up(&self, partition: &Replica, first: Offset, end: Offset) -> UnreadAge {
        match self.timestamp_from(partition, first, end) {
            Ok(Found::Timestamp(timestamp)) => {
                // Producers' clocks may be ahead of ours.
                let age_ms = self.now.0.saturating_sub(timestamp.0);
                UnreadAge::Ms(u64::try_from(age_ms).unwrap_or(0))
            }
            // Compaction has left nothing there.
            Ok(Found::Nothing) => UnreadAge::Ms(0),
            Ok(Found::NotInTime) => UnreadAge::Unknown,
            Err(failure) => {
                let partition = partition.topic_partition();
                tracing::debug!(%partition, offset = %first, "no age is known: {}", failure.message);
                UnreadAge::Unknown
            }
        }
    }

    /// Looks for the first record from an offset on; compaction leaves batches that have none.
    fn timestamp_from(
        &self,
        partition: &Replica,
        first: Offset,
        end: Offset,
    ) -> Result<Found, Failure> {
        let mut next = first;
        while next < end {
            if Instant::now() >= self.deadline {
                return Ok(Found::NotInTime);
            }
            let slice = partition.log().read(ReadRequest {
                offset: next,
                max_bytes: 1,
                upper_bound: end,
                at_least_one_batch: true,
            })?;
            if slice.is_empty() {
                break;
            }
            let read_failed = |error| Failure::of_reading(partition.topic_partition(), &error);
            let batch = Batch::parse(slice.read().map_err(read_failed)?)?;
            if let Some(timestamp) = first_timestamp(&batch, first, self.unpacking)? {
                return Ok(Found::Timestamp(timestamp));
            }
            next = batch.header().next_offset();
        }
        Ok(Found::Nothing)
    }
}

/// What there is from an offset on.
enum Found {
    /// The timestamp of the first record.
    Timestamp(TimestampMs),
    /// No record.
    Nothing,
    /// The time was over.
    NotInTime,
}

/// The timestamp of the first record of a batch from an offset on; `None` if it has none.
///
/// The header has it of a batch from which compaction has taken no record, and in which it has not
/// put a delete horizon in the place of the first timestamp.
fn first_timestamp(
    batch: &Batch,
    first: Offset,
    unpacking: &Mutex<()>,
) -> Result<Option<TimestampMs>, RecordError> {
    let header = batch.header();
    if header.record_count == 0 {
        return Ok(None);
    }
    let is_whole = i64::from(header.record_count) == i64::from(header.last_offset_delta) + 1;
    if header.base_offset >= first && is_whole && header.delete_horizon().is_none() {
        return Ok(Some(header.base_timestamp));
    }
    let _one_at_a_time = unpacking.lock().unwrap_or_else(PoisonError::into_inner);
    let mut timestamp = None;
    batch.walk(DECODE_LIMIT, |record| {
        if record.offset < first {
            return ControlFlow::Continue(());
        }
        timestamp = Some(record.timestamp);
        ControlFlow::Break(())
    })?;
    Ok(timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logway_model::LeaderEpoch;
    use logway_record::{BatchBuilder, Compression, RetainedRecords, Rewrite};

    /// Three records with the timestamps 1, 2 and 3, at the offsets 10 to 12.
    fn three() -> Batch {
        let mut builder =
            BatchBuilder::new(Compression::None).with_assignment(Offset(10), LeaderEpoch(0));
        for timestamp in 1..=3 {
            builder.append(TimestampMs(timestamp), Some(b"key"), None, &[]).expect("it fits");
        }
        Batch::parse(builder.finish().expect("it is encoded")).expect("it is good")
    }

    fn thinned(keeps: [bool; 3], delete_horizon: Option<TimestampMs>) -> Batch {
        let mut retained = RetainedRecords::default();
        keeps.into_iter().for_each(|keep| retained.push(keep));
        let (batch, rewrite) = (three(), Rewrite { retained, delete_horizon });
        let mut rewriting = batch.rewriting(&rewrite, DECODE_LIMIT).expect("it is good");
        let mut records = Vec::new();
        while let Some(piece) = rewriting.next_piece().expect("it is good") {
            records.extend_from_slice(&piece);
        }
        let mut bytes = rewriting.into_header().encode().to_vec();
        bytes.extend(records);
        Batch::parse(bytes.into()).expect("it is good")
    }

    #[test]
    fn what_compaction_has_left_of_a_batch_says_how_old_it_is() {
        let timestamp = |batch: &Batch, first| {
            let found = first_timestamp(batch, Offset(first), &Mutex::new(()));
            found.expect("it can be read").map(|timestamp| timestamp.0)
        };
        assert_eq!(timestamp(&three(), 5), Some(1));
        assert_eq!(timestamp(&three(), 11), Some(2));
        assert_eq!(timestamp(&three(), 13), None);
        assert_eq!(timestamp(&three().emptied(), 5), None);
        assert_eq!(timestamp(&thinned([false, true, false], None), 5), Some(2));
        assert_eq!(timestamp(&thinned([false, true, false], None), 12), None);
        let horizon = Some(TimestampMs(1_000_000));
        assert_eq!(timestamp(&thinned([true, true, true], horizon), 5), Some(1));
    }
}
