//! Requests, encoded before the run.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use logway_model::{TimestampMs, TopicName};
use logway_record::{BatchBuilder, Compression};
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::{FetchRequest, ProduceRequest};
use logway_wire::{Request, WireString, encode_request};
use serde::{Deserialize, Serialize};

use super::records::Records;

/// The newest version of Produce and of Fetch that names topics by name.
pub(crate) const VERSION_MAX: i16 = 12;

/// How long a broker may wait for records, where there are none yet.
const WAIT_MAX_MS: i32 = 500;

/// What a record without key and headers has around its value, at most.
const RECORD_OVERHEAD_BYTES: usize = 20;

const CLIENT_ID: WireString = WireString::from_static("logway-bench");

/// When a broker is to acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Acks {
    None,
    Leader,
    All,
}

impl Acks {
    /// As Kafka's `acks` setting has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        }
    }

    fn wire(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// How many records a batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BatchShape {
    /// So many.
    Records(usize),
    /// As many as fit into so many bytes, but at least one.
    Bytes(usize),
}

impl BatchShape {
    /// Whether a batch has no room for one more value; an empty one has.
    fn is_full(self, batch: &BatchBuilder, value: &[u8]) -> bool {
        let is_full = match self {
            BatchShape::Records(count) => batch.record_count() as usize >= count,
            BatchShape::Bytes(bytes) => {
                batch.uncompressed_bytes() + value.len() + RECORD_OVERHEAD_BYTES > bytes
            }
        };
        is_full && !batch.is_empty()
    }
}

fn now() -> anyhow::Result<TimestampMs> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    Ok(TimestampMs(i64::try_from(now_ms)?))
}

/// What a produce request holds: one batch for one partition.
#[derive(Debug, Clone)]
pub(crate) struct ProduceShape {
    pub(crate) topic: TopicName,
    pub(crate) partition: i32,
    pub(crate) acks: Acks,
    pub(crate) version: i16,
}

/// How large a batch is as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchSize {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

/// What a report counts of what is sent or read: the same for all sides, whatever each puts around a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) records: u64,
    /// Bytes of their values, or of the bodies of as many messages.
    pub(crate) value_bytes: u64,
}

impl Payload {
    /// So many times that.
    pub(crate) fn times(self, count: u64) -> Payload {
        Payload { records: self.records * count, value_bytes: self.value_bytes * count }
    }
}

/// A batch and what is in it.
#[derive(Debug, Clone)]
pub(crate) struct EncodedBatch {
    pub(crate) bytes: Bytes,
    pub(crate) records: u64,
    value_bytes: u64,
}

impl EncodedBatch {
    /// A batch of records without keys, their values taken from `values` in turn, that with the
    /// index `first` before the others.
    pub(crate) fn of(
        shape: BatchShape,
        values: &[Vec<u8>],
        first: usize,
    ) -> anyhow::Result<EncodedBatch> {
        let timestamp = now()?;
        let mut batch = BatchBuilder::new(Compression::None);
        let mut value_bytes = 0;
        for value in values.iter().cycle().skip(first) {
            if shape.is_full(&batch, value) {
                break;
            }
            batch.append(timestamp, None, Some(value), &[])?;
            value_bytes += value.len() as u64;
        }
        EncodedBatch::finish(batch, value_bytes)
    }

    /// The same of the next records that come.
    pub(crate) fn of_records(
        shape: BatchShape,
        records: &mut Records,
    ) -> anyhow::Result<EncodedBatch> {
        let timestamp = now()?;
        let mut batch = BatchBuilder::new(Compression::None);
        let mut value_bytes = 0;
        loop {
            let value = records.peek()?;
            if shape.is_full(&batch, value) {
                return EncodedBatch::finish(batch, value_bytes);
            }
            value_bytes += value.len() as u64;
            batch.append(timestamp, None, Some(value), &[])?;
            records.take();
        }
    }

    fn finish(batch: BatchBuilder, value_bytes: u64) -> anyhow::Result<EncodedBatch> {
        let records = batch.record_count() as u64;
        Ok(EncodedBatch { bytes: batch.finish()?, records, value_bytes })
    }

    /// Bytes and records, as of one batch of the middle size, for those who look.
    pub(crate) fn average(batches: &[EncodedBatch]) -> BatchSize {
        let count = batches.len().max(1) as u64;
        BatchSize {
            bytes: batches.iter().map(|batch| batch.bytes.len() as u64).sum::<u64>() / count,
            records: batches.iter().map(|batch| batch.records).sum::<u64>() / count,
        }
    }

    /// Its bytes and records.
    pub(crate) fn size(&self) -> BatchSize {
        BatchSize { bytes: self.bytes.len() as u64, records: self.records }
    }

    /// What a report counts of it.
    pub(crate) fn payload(&self) -> Payload {
        Payload { records: self.records, value_bytes: self.value_bytes }
    }

    /// A batch of records with values of one size.
    pub(crate) fn of_size(shape: BatchShape, value_bytes: usize) -> anyhow::Result<EncodedBatch> {
        EncodedBatch::of(shape, &[filler(value_bytes)], 0)
    }
}

/// Bytes that no file system compresses away.
pub(crate) fn filler(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

impl ProduceShape {
    /// The request frame with that batch.
    pub(crate) fn encode(&self, batch: &EncodedBatch) -> anyhow::Result<Bytes> {
        let partition = PartitionProduceData {
            index: self.partition,
            records: Some(batch.bytes.clone().into()),
            ..Default::default()
        };
        let topic = TopicProduceData {
            name: WireString::copy_of(self.topic.as_str()),
            partition_data: vec![partition],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: self.acks.wire(),
            timeout_ms: 30_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        encode(&request, self.version)
    }
}

/// What a fetch request asks for.
#[derive(Debug, Clone)]
pub(crate) struct FetchShape {
    pub(crate) topic: TopicName,
    pub(crate) partition: i32,
    /// The most to be answered, but for a first batch that is larger.
    pub(crate) bytes_max: i32,
    pub(crate) version: i16,
}

impl FetchShape {
    /// The request frame, and the place of its offset in it.
    pub(crate) fn encode(&self) -> anyhow::Result<(Bytes, usize)> {
        // The offset's place is where two frames that differ in nothing else differ.
        let zeros = encode(&self.request(0), self.version)?;
        let ones = encode(&self.request(-1), self.version)?;
        let at = zeros.iter().zip(&ones).position(|(zero, one)| zero != one);
        Ok((zeros, at.expect("the offset is part of the request")))
    }

    fn request(&self, fetch_offset: i64) -> FetchRequest {
        let partition = FetchPartition {
            partition: self.partition,
            fetch_offset,
            partition_max_bytes: self.bytes_max,
            ..FetchPartition::default()
        };
        let topic = FetchTopic {
            topic: WireString::copy_of(self.topic.as_str()),
            partitions: vec![partition],
            ..FetchTopic::default()
        };
        FetchRequest {
            max_wait_ms: WAIT_MAX_MS,
            min_bytes: 1,
            max_bytes: self.bytes_max,
            // No session (KIP-227): each request stands for itself.
            session_id: 0,
            session_epoch: -1,
            topics: vec![topic],
            ..FetchRequest::default()
        }
    }
}

fn encode<R: Request>(request: &R, version: i16) -> anyhow::Result<Bytes> {
    Ok(encode_request(0, Some(&CLIENT_ID), version, request)?.bytes)
}

#[cfg(test)]
mod tests {
    use logway_record::{BATCH_HEADER_BYTES, BatchHeader};
    use logway_wire::{Decoder, Message, decode_request_header};

    use super::*;

    #[test]
    fn batches_have_the_size_that_was_asked_for() {
        let batch = EncodedBatch::of_size(BatchShape::Bytes(16 << 10), 100).expect("a batch");
        assert!(((16 << 10) - 120..=16 << 10).contains(&batch.bytes.len()));
        let header = BatchHeader::parse(&batch.bytes).expect("a header");
        assert_eq!(header.record_count as u64, batch.records);
        assert!(batch.records > 140, "{}", batch.records);

        let single = EncodedBatch::of_size(BatchShape::Bytes(10), 100).expect("a batch");
        assert_eq!(single.records, 1);
        let ten = EncodedBatch::of_size(BatchShape::Records(10), 7).expect("a batch");
        assert_eq!(ten.records, 10);
        assert!(ten.bytes.len() > BATCH_HEADER_BYTES + 70);
    }

    #[test]
    fn what_counts_is_what_the_values_have() {
        let ten = EncodedBatch::of_size(BatchShape::Records(10), 7).expect("a batch");
        assert_eq!(ten.payload(), Payload { records: 10, value_bytes: 70 });
        assert_eq!(ten.payload().times(3), Payload { records: 30, value_bytes: 210 });
        let values = [vec![0; 10], vec![0; 5]];
        let three = EncodedBatch::of(BatchShape::Records(3), &values, 1).expect("a batch");
        assert_eq!(three.payload(), Payload { records: 3, value_bytes: 5 + 10 + 5 });
    }

    #[test]
    fn a_fetch_asks_from_the_offset_that_is_put_in() {
        let shape = FetchShape {
            topic: TopicName::new("t").expect("a name"),
            partition: 3,
            bytes_max: 1 << 20,
            version: VERSION_MAX,
        };
        let (frame, at) = shape.encode().expect("a frame");
        let mut frame = frame.to_vec();
        frame[at..at + 8].copy_from_slice(&77_i64.to_be_bytes());
        let mut decoder = Decoder::new(Bytes::from(frame).slice(4..));
        decode_request_header(&mut decoder).expect("a header");
        let request = FetchRequest::decode(&mut decoder, VERSION_MAX).expect("a request");
        let partition = &request.topics[0].partitions[0];
        assert_eq!((partition.partition, partition.fetch_offset), (3, 77));
    }
}
