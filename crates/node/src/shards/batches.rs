//! Records of the coordinator as the log takes them.

use logway_coordinator::StateMachine;
use logway_coordinator::transactions::Producer;
use logway_model::{Sequence, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression, TargetCompression};

use crate::failure::Failure;

/// What a record adds to its key and value at most: lengths, deltas, the count of headers.
const RECORD_OVERHEAD_BYTES_MAX: usize = 32;

/// The records as batches of at most so many bytes each before they are compressed, or of one record.
///
/// A group of thousands of members needs a larger record than clients may send; the coordinator
/// has bounds of its own.
pub(super) fn batches_of<M: StateMachine>(
    records: &[M::Record],
    now: TimestampMs,
    batch_bytes_max: usize,
    compression: TargetCompression,
    producer: Option<Producer>,
) -> Result<Vec<Batch>, Failure> {
    let mut batches = Vec::new();
    let mut builder = builder(producer);
    for record in records {
        let (key, value) = M::encode(record);
        let value = value.as_deref();
        let record_bytes_max = key.len() + value.map_or(0, <[u8]>::len) + RECORD_OVERHEAD_BYTES_MAX;
        let is_full = builder.uncompressed_bytes() + record_bytes_max > batch_bytes_max;
        if is_full && !builder.is_empty() {
            let full = std::mem::replace(&mut builder, self::builder(producer));
            batches.push(Batch::parse(full.finish_with(compression)?)?);
        }
        builder.append(now, Some(&key), value, &[])?;
    }
    batches.push(Batch::parse(builder.finish_with(compression)?)?);
    Ok(batches)
}

/// A batch that is part of a producer's transaction, if there is one.
fn builder(producer: Option<Producer>) -> BatchBuilder {
    let builder = BatchBuilder::new(Compression::None);
    match producer {
        None => builder,
        Some(Producer { id, epoch }) => {
            let attributes = builder.attributes().with_transactional(true);
            builder.with_attributes(attributes).with_producer(id, epoch, Sequence::NONE)
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_coordinator::{CommittedTopic, GroupId, GroupRecord, GroupShard};
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
        let one = batches_of::<GroupShard>(&records, NOW, 1 << 20, TargetCompression::None, None)
            .expect("they fit");
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].header().record_count, 100);

        let many = batches_of::<GroupShard>(&records, NOW, 512, TargetCompression::None, None)
            .expect("they fit");
        assert!(many.len() > 5, "{}", many.len());
        assert!(many.iter().all(|batch| batch.size_bytes() <= 512));
        let count: i32 = many.iter().map(|batch| batch.header().record_count).sum();
        assert_eq!(count, 100);
    }

    #[test]
    fn a_record_that_fits_no_batch_gets_one_of_its_own() {
        let records = [tombstone("a"), tombstone(&"g".repeat(600)), tombstone("b")];
        let batches = batches_of::<GroupShard>(&records, NOW, 512, TargetCompression::None, None)
            .expect("they are encoded");
        assert_eq!(batches.len(), 3);
        assert!(batches[1].size_bytes() > 600);
    }
}
