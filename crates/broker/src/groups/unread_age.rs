//! How long the oldest record that a group has not read has been waiting for it.

use logway_log::ReadRequest;
use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, DecodeLimit};
use logway_wire::UnreadAge;

use crate::failure::Failure;
use crate::partition::Partition;

/// The most that a batch may unpack to for one record's timestamp.
const DECODE_LIMIT: DecodeLimit = DecodeLimit::new(16 << 20);

/// The age at `now` of the first record from a committed offset on. Waits for the disk.
pub(crate) fn unread_age(partition: &Partition, committed: Offset, now: TimestampMs) -> UnreadAge {
    let end = partition.high_watermark().get();
    let first = committed.max(partition.log().log_start_offset());
    if first >= end {
        return UnreadAge::Ms(0);
    }
    match timestamp_at(partition, first, end) {
        Ok(Some(timestamp)) => {
            // Producers' clocks may be ahead of ours.
            UnreadAge::Ms(u64::try_from(now.0.saturating_sub(timestamp.0)).unwrap_or(0))
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

/// The timestamp of the first record from an offset on.
fn timestamp_at(
    partition: &Partition,
    first: Offset,
    end: Offset,
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
    for record in batch.records(DECODE_LIMIT)? {
        let record = record?;
        if record.offset >= first {
            return Ok(Some(record.timestamp));
        }
    }
    Ok(Some(batch.header().max_timestamp))
}
