//! A batch on its way.

use bytes::Bytes;
use logway_model::{PartitionId, Sequence, TopicName, TopicPartition};
use logway_record::{BatchBuilder, Compression, DecodeLimit, RecordError};
use tokio::time::Instant;

use super::NewRecord;
use super::fate::Fate;
use super::identity::ProducerIdentity;
use crate::ClientError;

/// Records for one partition, from the first append until they are acknowledged.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) partition: PartitionId,
    /// The number of the first record among all that this producer wrote to the partition in its
    /// epoch, from 0. It orders batches and gives the sequence.
    pub(super) first_record: u64,
    pub(super) record_count: u32,
    /// The records before compression: what the batch counts for in the buffer.
    pub(super) plain_bytes: usize,
    /// When to give up.
    pub(super) deadline: Instant,
    /// How often it was sent in vain.
    pub(super) failures: u32,
    /// What is known of it.
    pub(super) fate: Fate,
    /// Why it was last sent in vain, if that was for its own sake.
    pub(super) last_error: Option<ClientError>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Plain(BatchBuilder),
    Encoded(Bytes),
}

impl Batch {
    /// An empty batch.
    pub(super) fn new(
        partition: PartitionId,
        first_record: u64,
        compression: Compression,
        deadline: Instant,
    ) -> Batch {
        Batch {
            partition,
            first_record,
            record_count: 0,
            plain_bytes: 0,
            deadline,
            failures: 0,
            fate: Fate::Unsent,
            last_error: None,
            content: Content::Plain(BatchBuilder::new(compression)),
        }
    }

    /// Adds a record; the batch must not have been encoded yet.
    pub(super) fn append(&mut self, record: &NewRecord<'_>) -> Result<(), RecordError> {
        let Content::Plain(builder) = &mut self.content else {
            unreachable!("an encoded batch is closed");
        };
        builder.append(record.timestamp, record.key, record.value, record.headers)?;
        self.record_count += 1;
        self.plain_bytes = builder.uncompressed_bytes();
        Ok(())
    }

    /// The bytes to send: the same at each attempt.
    pub(super) fn encode(
        &mut self,
        identity: Option<ProducerIdentity>,
    ) -> Result<Bytes, RecordError> {
        let builder = match &mut self.content {
            Content::Encoded(bytes) => return Ok(bytes.clone()),
            // The builder that stays behind is replaced at once.
            Content::Plain(builder) => {
                std::mem::replace(builder, BatchBuilder::new(Compression::None))
            }
        };
        let builder = match identity {
            Some(identity) => {
                let attributes = builder.attributes();
                builder
                    .with_producer(identity.id, identity.epoch, self.base_sequence())
                    .with_attributes(attributes.with_transactional(identity.is_transactional))
            }
            None => builder,
        };
        let bytes = builder.finish()?;
        self.content = Content::Encoded(bytes.clone());
        Ok(bytes)
    }

    /// Cuts an encoded batch of several records into two that together take its place, also in
    /// the sequence.
    pub(super) fn split(self) -> Result<[Batch; 2], RecordError> {
        let Content::Encoded(bytes) = self.content else {
            unreachable!("only a batch that was sent is split");
        };
        let encoded = logway_record::Batch::parse(bytes)?;
        let compression = encoded.header().attributes.compression()?;
        let first_count = self.record_count / 2;
        let half = |first_record| Batch {
            failures: self.failures,
            fate: self.fate,
            ..Batch::new(self.partition, first_record, compression, self.deadline)
        };
        let mut halves =
            [half(self.first_record), half(self.first_record + u64::from(first_count))];
        // We wrote these bytes ourselves, so they do not decode to more than was put in.
        let limit = DecodeLimit::new(self.plain_bytes.max(DecodeLimit::DEFAULT.bytes()));
        for (index, record) in encoded.records(limit)?.enumerate() {
            let record = record?;
            let is_second = index >= first_count as usize;
            halves[usize::from(is_second)].append(&NewRecord {
                partition: Some(self.partition),
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &record.headers,
            })?;
        }
        Ok(halves)
    }

    /// Names the batch's partition.
    pub(super) fn topic_partition(&self, topic: &TopicName) -> TopicPartition {
        TopicPartition::new(topic.clone(), self.partition)
    }

    /// The producer's sequence for the first record: its number, wrapped.
    fn base_sequence(&self) -> Sequence {
        let wrapped = self.first_record % (1 << 31);
        Sequence(i32::try_from(wrapped).expect("a remainder by 2^31 fits"))
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{ProducerEpoch, ProducerId, TimestampMs};

    use super::*;

    const IDENTITY: ProducerIdentity =
        ProducerIdentity { id: ProducerId(7), epoch: ProducerEpoch(1), is_transactional: false };

    #[tokio::test]
    async fn halves_take_the_place_of_the_whole() {
        let first_record = (1 << 31) - 1;
        let mut whole = Batch::new(PartitionId(0), first_record, Compression::Gzip, Instant::now());
        for value in [b"a", b"b", b"c"] {
            let record = NewRecord {
                partition: None,
                timestamp: TimestampMs(5),
                key: None,
                value: Some(value),
                headers: &[],
            };
            whole.append(&record).expect("a small record");
        }
        whole.encode(Some(IDENTITY)).expect("records");

        let mut sequences = Vec::new();
        let mut values = Vec::new();
        for mut half in whole.split().expect("our own bytes") {
            let bytes = half.encode(Some(IDENTITY)).expect("records");
            let batch = logway_record::Batch::parse(bytes).expect("a batch");
            sequences.push(batch.header().base_sequence.0);
            let records = batch.records(DecodeLimit::DEFAULT).expect("gzip");
            values.extend(records.map(|record| record.expect("a record").value));
        }
        assert_eq!(sequences, [i32::MAX, 0]);
        assert_eq!(values, [b"a", b"b", b"c"].map(|v| Some(Bytes::from_static(v))));
    }
}
