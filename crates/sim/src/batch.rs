//! The batches that the world writes.

use logway_coordinator::GroupRecord;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{BATCH_HEADER_BYTES, Batch, BatchBuilder, Compression, Header};

/// What a batch is made of.
#[derive(Debug, Clone)]
pub(crate) struct BatchPlan {
    /// In a header of each record, twice, so that no two batches have the same bytes.
    pub(crate) number: u64,
    /// The number of its key, and how long its value is if it has one.
    pub(crate) records: Vec<(usize, Option<usize>)>,
    pub(crate) timestamp: TimestampMs,
    /// The idempotent producer with the sequence of the first record.
    pub(crate) producer: Option<(ProducerId, Sequence)>,
    pub(crate) compression: Compression,
}

/// The batch that is planned.
pub(crate) fn batch(plan: &BatchPlan) -> Batch {
    let mut builder = BatchBuilder::new(plan.compression);
    if let Some((id, sequence)) = plan.producer {
        builder = builder.with_producer(id, ProducerEpoch(0), sequence);
    }
    filled(builder, plan)
}

/// The same as part of its producer's transaction, in an epoch of the producer.
pub(crate) fn transactional_batch(plan: &BatchPlan, epoch: ProducerEpoch) -> Batch {
    let builder = BatchBuilder::new(plan.compression);
    let attributes = builder.attributes().with_transactional(true);
    let mut builder = builder.with_attributes(attributes);
    if let Some((id, sequence)) = plan.producer {
        builder = builder.with_producer(id, epoch, sequence);
    }
    filled(builder, plan)
}

fn filled(mut builder: BatchBuilder, plan: &BatchPlan) -> Batch {
    let number = Header::new("number", Some(plan.number.to_string().into()));
    for (key, value_bytes) in &plan.records {
        let value = value_bytes.map(|bytes| vec![b'a' + (plan.number % 26) as u8; bytes]);
        let key = format!("key-{key}");
        let headers = [number.clone(), number.clone()];
        builder
            .append(plan.timestamp, Some(key.as_bytes()), value.as_deref(), &headers)
            .expect("a small record fits");
    }
    finish(builder)
}

/// A batch as a leader has taken it.
pub(crate) fn led(batch: &Batch, offset: Offset, epoch: LeaderEpoch) -> Batch {
    let mut bytes = batch.bytes().to_vec();
    bytes[..8].copy_from_slice(&offset.0.to_be_bytes());
    bytes[12..16].copy_from_slice(&epoch.0.to_be_bytes());
    Batch::parse(bytes.into()).expect("neither is under the CRC")
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
