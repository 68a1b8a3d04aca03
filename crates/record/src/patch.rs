//! What the log writes into the header of a received batch.

use logway_model::{LeaderEpoch, Offset, TimestampMs};

use crate::header::CRC_COVERS_FROM;
use crate::{BATCH_HEADER_BYTES, Batch, BatchHeader, TimestampType, crc};

/// A batch's header with the values that the log gives it.
///
/// The record bytes stay where they are: a write is the vector
/// `[&patched.bytes(), &batch.bytes()[BATCH_HEADER_BYTES..]]`.
///
/// The batch's CRC must have been verified. [`PatchedHeader::with_log_append_time`] carries the
/// stored CRC over to the changed header by arithmetic instead of summing up the records anew. It
/// therefore takes the same time for every batch, and a record byte that goes bad in memory after
/// the verification is still found by whoever reads the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchedHeader {
    header: BatchHeader,
}

impl PatchedHeader {
    /// The header of `batch`, nothing changed yet.
    pub fn of(batch: &Batch) -> PatchedHeader {
        PatchedHeader { header: *batch.header() }
    }

    /// With the offset of its first record and the epoch of the leader that appends it. Neither
    /// is covered by the CRC.
    ///
    /// `base_offset` is the log's own, so not negative and far from 2^63.
    #[must_use]
    pub fn assign(self, base_offset: Offset, leader_epoch: LeaderEpoch) -> PatchedHeader {
        PatchedHeader { header: BatchHeader { base_offset, leader_epoch, ..self.header } }
    }

    /// With the time of the append in place of the producer's timestamps (KIP-32).
    ///
    /// As in Kafka, the timestamp type changes and the max timestamp becomes that of all records;
    /// the base timestamp and the records' own deltas stay and are no longer looked at.
    #[must_use]
    pub fn with_log_append_time(self, now: TimestampMs) -> PatchedHeader {
        let old = self.header;
        let mut new = BatchHeader {
            attributes: old.attributes.with_timestamp_type(TimestampType::LogAppendTime),
            max_timestamp: now,
            ..old
        };
        new.crc = carry_crc(&old, &new);
        PatchedHeader { header: new }
    }

    /// The header as values.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The header as bytes.
    pub fn bytes(&self) -> [u8; BATCH_HEADER_BYTES] {
        self.header.encode()
    }
}

/// The CRC of the batch with header `new`, the rest of which is as it was with `old`.
pub(crate) fn carry_crc(old: &BatchHeader, new: &BatchHeader) -> u32 {
    let covered = |header: &BatchHeader| crc_fast::crc32_iscsi(&header.encode()[CRC_COVERS_FROM..]);
    crc::with_prefix_replaced(old.crc, covered(old), covered(new), old.body_bytes() as u64)
}
