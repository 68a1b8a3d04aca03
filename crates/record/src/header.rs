//! The header of a batch, the first 61 bytes.
//!
//! ```text
//! at  bytes  field
//!  0  8      base offset: of the first record; the leader assigns it
//!  8  4      length: of all that follows this field, in bytes
//! 12  4      partition leader epoch; the leader assigns it
//! 16  1      magic: 2
//! 17  4      CRC-32C of all that follows this field
//! 21  2      attributes
//! 23  4      last offset delta: last offset minus base offset
//! 27  8      base timestamp: of the first record, ms; or a delete horizon
//! 35  8      max timestamp: of all records, ms
//! 43  8      producer id, or -1
//! 51  2      producer epoch, or -1
//! 53  4      base sequence: of the first record, or -1
//! 57  4      record count
//! 61  …      the records, compressed as one piece unless the codec is none
//! ```
//!
//! All integers are big-endian and signed, the CRC apart. The fields that the leader assigns are
//! before the CRC and not covered by it. The formats before 2 also have an offset, a length and,
//! at 16, their magic, so that they can be told apart.

use bytes::{Buf, BufMut};
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::{Attributes, RecordError, RecordProblem, TimestampType};

/// The size of a batch header, and so that of the smallest batch.
pub const BATCH_HEADER_BYTES: usize = 61;

/// The size of base offset and length: what a batch has in front of the bytes that its length
/// counts.
pub const LOG_OVERHEAD_BYTES: usize = 12;

/// The number of the only format that is supported.
pub const MAGIC_V2: i8 = 2;

/// Where the bytes begin that the CRC covers.
pub const CRC_COVERS_FROM: usize = 21;

/// Where the number of the format is, in this one as in those before.
pub const MAGIC_AT: usize = 16;

/// The header of a batch as values.
///
/// One that comes out of [`BatchHeader::parse`] has a length that covers at least the header, a
/// base offset that is not negative, and a next offset that fits in 63 bits. All else is as the
/// bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record; in a batch from a producer it means nothing yet.
    pub base_offset: Offset,
    /// The bytes that follow the length field.
    pub length_bytes: i32,
    /// The epoch of the leader that appended the batch.
    pub leader_epoch: LeaderEpoch,
    /// The CRC-32C of the bytes from the attributes to the end of the batch.
    pub crc: u32,
    /// Codec, timestamp type, transaction marks.
    pub attributes: Attributes,
    /// The offset of the last record, relative to the base offset. Compaction can remove that
    /// record and leave this as it was.
    pub last_offset_delta: i32,
    /// The timestamp that those of the records are relative to; the first record's, or, when the
    /// attributes say so, the delete horizon.
    pub base_timestamp: TimestampMs,
    /// The latest timestamp of the records, according to who built the batch.
    pub max_timestamp: TimestampMs,
    /// Which idempotent producer built the batch.
    pub producer_id: ProducerId,
    /// The incarnation of that producer.
    pub producer_epoch: ProducerEpoch,
    /// The sequence number of the first record.
    pub base_sequence: Sequence,
    /// How many records there are: as many as there are offsets, until compaction removes some.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the beginning of `bytes`, which may, but need not, go on after it.
    ///
    /// This is all that a scan of a segment needs: read 61 bytes, parse, move on by
    /// [`BatchHeader::size_bytes`].
    ///
    /// # Errors
    ///
    /// [`RecordError::TruncatedHeader`], [`RecordError::UnsupportedMagic`],
    /// [`RecordError::InvalidLength`], [`RecordError::InvalidOffsetRange`].
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, RecordError> {
        refuse_other_formats(bytes)?;
        let Some(fixed) = bytes.first_chunk::<BATCH_HEADER_BYTES>() else {
            return Err(RecordError::TruncatedHeader { have_bytes: bytes.len() });
        };
        let header = BatchHeader::decode(fixed);
        header.check_length()?;
        header.check_offsets()?;
        Ok(header)
    }

    /// The header as bytes: [`BatchHeader::parse`] of them gives the same header.
    pub fn encode(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        let mut fields = &mut bytes[..];
        fields.put_i64(self.base_offset.0);
        fields.put_i32(self.length_bytes);
        fields.put_i32(self.leader_epoch.0);
        fields.put_i8(MAGIC_V2);
        fields.put_u32(self.crc);
        fields.put_i16(self.attributes.0);
        fields.put_i32(self.last_offset_delta);
        fields.put_i64(self.base_timestamp.0);
        fields.put_i64(self.max_timestamp.0);
        fields.put_i64(self.producer_id.0);
        fields.put_i16(self.producer_epoch.0);
        fields.put_i32(self.base_sequence.0);
        fields.put_i32(self.record_count);
        debug_assert!(fields.is_empty(), "the fields fill the header");
        bytes
    }

    /// The size of the whole batch: this header and the records. It is at least
    /// [`BATCH_HEADER_BYTES`] after [`BatchHeader::parse`], which refuses negative lengths.
    pub fn size_bytes(&self) -> usize {
        LOG_OVERHEAD_BYTES + usize::try_from(self.length_bytes).unwrap_or(0)
    }

    /// The size of the records as they are stored.
    pub fn body_bytes(&self) -> usize {
        self.size_bytes().saturating_sub(BATCH_HEADER_BYTES)
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// The offset after the last record: the base offset of the batch that follows.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().next()
    }

    /// The time before which compaction must keep the tombstones of this batch (KIP-534).
    pub fn delete_horizon(&self) -> Option<TimestampMs> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// The timestamp of a record that is so far from the base timestamp.
    #[inline]
    pub(crate) fn timestamp_at(&self, delta_ms: i64) -> Result<TimestampMs, RecordProblem> {
        if self.attributes.timestamp_type() == TimestampType::LogAppendTime {
            return Ok(self.max_timestamp);
        }
        let sum_ms = self.base_timestamp.0.checked_add(delta_ms);
        sum_ms.map(TimestampMs).ok_or(RecordProblem::OutOfRange)
    }

    fn decode(bytes: &[u8; BATCH_HEADER_BYTES]) -> BatchHeader {
        let mut fields = &bytes[..];
        let base_offset = Offset(fields.get_i64());
        let length_bytes = fields.get_i32();
        let leader_epoch = LeaderEpoch(fields.get_i32());
        let _magic = fields.get_i8();
        BatchHeader {
            base_offset,
            length_bytes,
            leader_epoch,
            crc: fields.get_u32(),
            attributes: Attributes(fields.get_i16()),
            last_offset_delta: fields.get_i32(),
            base_timestamp: TimestampMs(fields.get_i64()),
            max_timestamp: TimestampMs(fields.get_i64()),
            producer_id: ProducerId(fields.get_i64()),
            producer_epoch: ProducerEpoch(fields.get_i16()),
            base_sequence: Sequence(fields.get_i32()),
            record_count: fields.get_i32(),
        }
    }

    fn check_length(&self) -> Result<(), RecordError> {
        if self.size_bytes() < BATCH_HEADER_BYTES {
            return Err(RecordError::InvalidLength {
                base_offset: self.base_offset,
                length_bytes: self.length_bytes,
            });
        }
        Ok(())
    }

    fn check_offsets(&self) -> Result<(), RecordError> {
        let offsets = i64::from(self.last_offset_delta) + 1;
        let next_offset = self.base_offset.0.checked_add(offsets);
        if self.base_offset < Offset::ZERO || self.last_offset_delta < 0 || next_offset.is_none() {
            return Err(RecordError::InvalidOffsetRange {
                base_offset: self.base_offset,
                last_offset_delta: self.last_offset_delta,
            });
        }
        Ok(())
    }
}

/// The old formats have shorter headers, so the magic is judged before the length.
fn refuse_other_formats(bytes: &[u8]) -> Result<(), RecordError> {
    match (bytes.first_chunk::<8>(), bytes.get(MAGIC_AT)) {
        (Some(&base_offset), Some(&magic)) if magic as i8 != MAGIC_V2 => {
            Err(RecordError::UnsupportedMagic {
                base_offset: Offset(i64::from_be_bytes(base_offset)),
                magic: magic as i8,
            })
        }
        _ => Ok(()),
    }
}
