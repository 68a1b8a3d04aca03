//! The batches that the world writes.

use logway_coordinator::GroupRecord;
use logway_model::{ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{BATCH_HEADER_BYTES, Batch, BatchBuilder, Compression};

/// What a batch is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPlan {
    /// In each record, so that no two batches have the same bytes.
    pub(crate) number: u64,
    pub(crate) records: usize,
    pub(crate) value_bytes: usize,
    pub(crate) timestamp: TimestampMs,
    /// The idempotent producer with the sequence of the first record.
    pub(crate) producer: Option<(ProducerId, Sequence)>,
}

/// A batch of so many records.
pub(crate) fn batch(plan: &BatchPlan) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    if let Some((id, sequence)) = plan.producer {
        builder = builder.with_producer(id, ProducerEpoch(0), sequence);
    }
    for index in 0..plan.records {
        let key = format!("{}/{index}", plan.number);
        let value = vec![b'a' + (plan.number % 26) as u8; plan.value_bytes];
        builder
            .append(plan.timestamp, Some(key.as_bytes()), Some(&value), &[])
            .expect("a small record fits");
    }
    finish(builder)
}

/// The records of a group, as the broker appends them.
pub(crate) fn batch_of_group(records: &[GroupRecord], now: TimestampMs) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    for record in records {
        let (key, value) = record.encode();
        builder.append(now, Some(&key), value.as_deref(), &[]).expect("a small record fits");
    }
    finish(builder)
}

fn finish(builder: BatchBuilder) -> Batch {
    Batch::parse(builder.finish().expect("there are records")).expect("what was built can be read")
}

/// What no log changes of a batch: all from its CRC on. Offset and leader epoch come before.
pub(crate) fn content(batch: &Batch) -> &[u8] {
    const CRC_POSITION: usize = BATCH_HEADER_BYTES - 44;
    &batch.bytes()[CRC_POSITION..]
}
