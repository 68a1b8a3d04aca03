//! Reading a shard's records back.

use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::GroupRecord;
use logway_log::ReadRequest;
use logway_model::Offset;
use logway_record::{Batch, Batches, DecodeLimit};

use crate::failure::Failure;
use crate::replica::Replica;
use crate::tasks::off_thread;

/// What is read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// The most that one batch may unpack to. Ours are not compressed; one of another origin may be.
const DECODE_LIMIT: DecodeLimit = DecodeLimit::new(64 << 20);

/// Reads the log of a partition of `__consumer_offsets`, from its start to where it ends now.
pub(super) struct LogReader {
    partition: Arc<Replica>,
    next: Offset,
    end: Offset,
}

impl LogReader {
    pub(super) fn new(partition: Arc<Replica>) -> LogReader {
        let log = partition.log();
        let (next, end) = (log.log_start_offset(), log.log_end_offset());
        LogReader { partition, next, end }
    }

    /// The first offset that was not read yet.
    pub(super) fn position(&self) -> Offset {
        self.next
    }

    /// The next records; `None` at the end. After a failure it can be tried again.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<GroupRecord>>, Failure> {
        if self.next >= self.end {
            return Ok(None);
        }
        let partition = Arc::clone(&self.partition);
        let (from, end) = (self.next, self.end);
        let (records, next) = off_thread(move || read_piece(&partition, from, end)).await?;
        self.next = next;
        Ok(Some(records))
    }
}

fn read_piece(
    partition: &Replica,
    from: Offset,
    end: Offset,
) -> Result<(Vec<GroupRecord>, Offset), Failure> {
    let slice = partition.log().read(ReadRequest {
        offset: from,
        max_bytes: PIECE_BYTES,
        upper_bound: end,
        at_least_one_batch: true,
    })?;
    if slice.is_empty() {
        // Compaction can leave nothing at the end.
        return Ok((Vec::new(), end));
    }
    let read_failed = |error| Failure::of_reading(partition.topic_partition(), &error);
    let bytes = slice.read().map_err(read_failed)?;
    Ok((decode_piece(partition, bytes)?, slice.next_offset))
}

fn decode_piece(partition: &Replica, bytes: Bytes) -> Result<Vec<GroupRecord>, Failure> {
    let mut records = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch?;
        batch.verify_crc()?;
        // Markers of transactions say nothing about groups.
        if !batch.header().attributes.is_control() {
            decode_batch(partition, &batch, &mut records)?;
        }
    }
    Ok(records)
}

fn decode_batch(
    partition: &Replica,
    batch: &Batch,
    records: &mut Vec<GroupRecord>,
) -> Result<(), Failure> {
    for record in batch.records(DECODE_LIMIT)? {
        let record = record?;
        let key = record.key.unwrap_or_default();
        match GroupRecord::decode(&key, record.value.as_ref()) {
            Ok(decoded) => records.extend(decoded),
            Err(error) => {
                let partition = partition.topic_partition();
                tracing::error!(%partition, offset = %record.offset, %error,
                    "a record of a group is passed over");
            }
        }
    }
    Ok(())
}
