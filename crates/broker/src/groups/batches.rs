//! Records of the coordinator as the log takes them.

use logway_coordinator::GroupRecord;
use logway_model::{ErrorCode, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression};

use crate::failure::Failure;

/// What a record adds to its key and value at most: lengths, deltas, the count of headers.
const RECORD_OVERHEAD_BYTES_MAX: usize = 32;

/// The records as batches, each of at most so many bytes.
///
/// # Errors
///
/// `MESSAGE_TOO_LARGE` if a record does not fit into a batch of its own.
pub(super) fn batches_of(
    records: &[GroupRecord],
    now: TimestampMs,
    batch_bytes_max: usize,
) -> Result<Vec<Batch>, Failure> {
    let mut batches = Vec::new();
    let mut builder = BatchBuilder::new(Compression::None);
    for record in records {
        let (key, value) = record.encode();
        let value = value.as_deref();
        let record_bytes_max = key.len() + value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD_BYTES_MAX;
        let is_full = builder.uncompressed_bytes() + record_bytes_max > batch_bytes_max;
        if is_full && !builder.is_empty() {
            let full = std::mem::replace(&mut builder, BatchBuilder::new(Compression::None));
            batches.push(finished(full, batch_bytes_max)?);
        }
        builder.append(now, Some(&key), value, &[])?;
    }
    batches.push(finished(builder, batch_bytes_max)?);
    Ok(batches)
}

fn finished(builder: BatchBuilder, batch_bytes_max: usize) -> Result<Batch, Failure> {
    let bytes = builder.finish()?;
    if bytes.len() > batch_bytes_max {
        let message = format!(
            "a record of a group needs {} bytes; max.message.bytes of __consumer_offsets is {}",
            bytes.len(),
            batch_bytes_max
        );
        return Err(Failure::new(ErrorCode::MessageTooLarge, message));
    }
    Ok(Batch::parse(bytes)?)
}

#[cfg(test)]
mod tests {
    use logway_coordinator::{CommittedTopic, GroupId};
    use logway_model::PartitionId;

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_000);

    fn tombstone(group: &str) -> GroupRecord {
        GroupRecord::Offset {
            group: GroupId::from(group),
            topic: CommittedTopic::from("orders"),
            partition: PartitionId(0),
            offset: None,
        }
    }

    #[test]
    fn records_share_a_batch_while_they_fit() {
        let records: Vec<GroupRecord> =
            (0..100).map(|number| tombstone(&format!("group-{number}"))).collect();
        let one = batches_of(&records, NOW, 1 << 20).expect("they fit");
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].header().record_count, 100);

        let many = batches_of(&records, NOW, 512).expect("they fit");
        assert!(many.len() > 5, "{}", many.len());
        assert!(many.iter().all(|batch| batch.size_bytes() <= 512));
        let count: i32 = many.iter().map(|batch| batch.header().record_count).sum();
        assert_eq!(count, 100);
    }

    #[test]
    fn a_record_that_fits_no_batch_is_refused() {
        let failure = batches_of(&[tombstone(&"g".repeat(600))], NOW, 512).expect_err("too large");
        assert_eq!(failure.code, ErrorCode::MessageTooLarge);
    }
}
