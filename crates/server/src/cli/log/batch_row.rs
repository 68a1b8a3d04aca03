//! A batch as `logway log dump` prints it.

use logway_log::TimestampType;
use logway_log::inspect::{PlacedBatch, SegmentFile};
use logway_model::{TimestampMs, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::timestamp;

/// What a batch's header says, and where it is.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct BatchRow<'a> {
    topic: &'a str,
    partition: i32,
    /// The base offset of its segment
    segment: i64,
    /// The byte of its file at which it begins
    position: u64,
    base_offset: i64,
    last_offset: i64,
    records: i32,
    size_bytes: usize,
    leader_epoch: i32,
    /// `none`, `gzip`, `snappy`, `lz4`, `zstd`, or `unknown`
    compression: &'static str,
    /// `create` or `append`
    timestamp_type: &'static str,
    /// Milliseconds since 1970
    base_timestamp: i64,
    max_timestamp: i64,
    /// `null` if the producer has none
    producer_id: Option<i64>,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    /// Whether it ends a transaction
    control: bool,
    crc: u32,
}

impl<'a> BatchRow<'a> {
    /// Takes what matters out of a batch.
    pub(super) fn new(
        partition: &'a TopicPartition,
        segment: &SegmentFile,
        placed: &PlacedBatch,
    ) -> BatchRow<'a> {
        let header = placed.batch.header();
        let attributes = header.attributes;
        BatchRow {
            topic: partition.topic.as_str(),
            partition: partition.partition.0,
            segment: segment.base_offset.0,
            position: placed.position,
            base_offset: header.base_offset.0,
            last_offset: header.last_offset().0,
            records: header.record_count,
            size_bytes: placed.batch.size_bytes(),
            leader_epoch: header.leader_epoch.0,
            compression: attributes.compression().map_or("unknown", |codec| codec.name()),
            timestamp_type: match attributes.timestamp_type() {
                TimestampType::CreateTime => "create",
                TimestampType::LogAppendTime => "append",
            },
            base_timestamp: header.base_timestamp.0,
            max_timestamp: header.max_timestamp.0,
            producer_id: header.producer_id.is_some().then_some(header.producer_id.0),
            producer_epoch: header.producer_epoch.0,
            base_sequence: header.base_sequence.0,
            transactional: attributes.is_transactional(),
            control: attributes.is_control(),
            crc: header.crc,
        }
    }

    /// For people: without what goes without saying.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "at {} offsets {}-{} records {} bytes {} epoch {} {} time {}/{} ({}) crc {:08x}",
            self.position,
            self.base_offset,
            self.last_offset,
            self.records,
            self.size_bytes,
            self.leader_epoch,
            self.compression,
            timestamp::format(TimestampMs(self.base_timestamp)),
            timestamp::format(TimestampMs(self.max_timestamp)),
            self.timestamp_type,
            self.crc
        );
        if let Some(id) = self.producer_id {
            let (epoch, sequence) = (self.producer_epoch, self.base_sequence);
            line.push_str(&format!(" producer {id}/{epoch} sequence {sequence}"));
        }
        if self.transactional {
            line.push_str(" transactional");
        }
        if self.control {
            line.push_str(" control");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use logway_model::{
        LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TopicName,
    };
    use logway_record::{Batch, BatchBuilder, Compression};

    use super::*;

    #[test]
    fn a_batch_is_one_line() {
        let name = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(name, PartitionId(3));
        let segment = SegmentFile {
            path: PathBuf::from("t-3/00000000000000000040.log"),
            base_offset: Offset(40),
            len_bytes: 1000,
        };
        let mut builder = BatchBuilder::new(Compression::None)
            .with_assignment(Offset(42), LeaderEpoch(7))
            .with_producer(ProducerId(5), ProducerEpoch(1), Sequence(9));
        for timestamp in [1000, 1005] {
            builder.append(TimestampMs(timestamp), None, Some(b"v"), &[]).expect("small");
        }
        let batch = Batch::parse(builder.finish().expect("two records")).expect("a batch");
        let crc = batch.header().crc;
        let placed = PlacedBatch { position: 160, batch };
        let row = BatchRow::new(&partition, &segment, &placed);
        assert_eq!(
            row.line(),
            format!(
                "at 160 offsets 42-43 records 2 bytes 77 epoch 7 none \
                 time 1970-01-01T00:00:01.000Z/1970-01-01T00:00:01.005Z (create) \
                 crc {crc:08x} producer 5/1 sequence 9"
            )
        );
        let json = serde_json::to_string(&row).expect("data");
        assert!(json.starts_with(
            r#"{"topic":"t","partition":3,"segment":40,"position":160,"base_offset":42,"#
        ));
    }
}
