//! Batches that stand for offsets without records.

use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::header::CRC_COVERS_FROM;
use crate::{
    Attributes, BATCH_HEADER_BYTES, Batch, BatchHeader, Compression, LOG_OVERHEAD_BYTES, crc,
};

impl Batch {
    /// The same place, producer and sequence without any record: what compaction leaves where the
    /// last sequence of a producer, or the end of a segment, must stay known (KIP-98).
    ///
    /// As in Apache Kafka it keeps the largest timestamp, and has neither a base timestamp nor a
    /// delete horizon.
    #[must_use]
    pub fn emptied(&self) -> Batch {
        let header = *self.header();
        let attributes = header.attributes.with_compression(Compression::None);
        without_records(BatchHeader {
            attributes: attributes.with_delete_horizon(false),
            base_timestamp: TimestampMs::NONE,
            ..header
        })
    }

    /// Batches without records, with the offsets from `start` to before `end`: so a log that needs
    /// every offset takes the place of one in which compaction has left a gap.
    ///
    /// One, unless there are more offsets than a batch can have. `start` must not be negative.
    pub fn placeholders(start: Offset, end: Offset, leader_epoch: LeaderEpoch) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut base_offset = start;
        while base_offset < end {
            let last_offset_delta = i32::try_from(end - base_offset - 1).unwrap_or(i32::MAX);
            let placeholder = without_records(BatchHeader {
                base_offset,
                length_bytes: 0,
                leader_epoch,
                crc: 0,
                attributes: Attributes::default(),
                last_offset_delta,
                base_timestamp: TimestampMs::NONE,
                max_timestamp: TimestampMs::NONE,
                producer_id: ProducerId::NONE,
                producer_epoch: ProducerEpoch::NONE,
                base_sequence: Sequence::NONE,
                record_count: 0,
            });
            base_offset = placeholder.header().next_offset();
            batches.push(placeholder);
        }
        batches
    }
}

/// A header alone, with its length and CRC.
fn without_records(header: BatchHeader) -> Batch {
    let length_bytes = (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES) as i32;
    let mut header = BatchHeader { record_count: 0, length_bytes, ..header };
    header.crc = crc::crc32c_of_both(&header.encode()[CRC_COVERS_FROM..], &[]);
    let bytes = header.encode().to_vec();
    Batch::parse(bytes.into()).expect("the offsets are those of a batch, or count up from 0")
}
