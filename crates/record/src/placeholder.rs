//! Batches that stand for offsets without records.

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::{Attributes, BATCH_HEADER_BYTES, Batch, BatchHeader};

impl Batch {
    /// Batches without records, with the offsets from `start` to before `end`: so a log that needs
    /// every offset takes the place of one in which compaction has left a gap.
    ///
    /// One, unless there are more offsets than a batch can have. `start` must not be negative.
    pub fn placeholders(start: Offset, end: Offset, leader_epoch: LeaderEpoch) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut base_offset = start;
        while base_offset < end {
            let last_offset_delta = i32::try_from(end - base_offset - 1).unwrap_or(i32::MAX);
            let header = BatchHeader {
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
            };
            base_offset = header.next_offset();
            let encoded = crate::unpacked::encode(header, &Bytes::new());
            let bytes = encoded.expect("a header alone is short enough").bytes;
            debug_assert_eq!(bytes.len(), BATCH_HEADER_BYTES);
            batches.push(Batch::parse(bytes).expect("it was just encoded"));
        }
        batches
    }
}
