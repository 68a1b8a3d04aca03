//! A batch with some of the records of another: what compaction writes.

use crc_fast::{CrcAlgorithm, Digest};
use logway_model::TimestampMs;

use crate::compression::{Compressor, PlainBytes, Unpacking};
use crate::fields::{FieldFailure, next_record};
use crate::header::CRC_COVERS_FROM;
use crate::{
    BATCH_HEADER_BYTES, Batch, BatchHeader, Compression, DecodeLimit, LOG_OVERHEAD_BYTES,
    RecordError, RecordProblem, RetainedRecords, TimestampType, crc, varint,
};

/// How a batch is to be rewritten.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// The records that stay, at their offsets; at least one.
    pub retained: RetainedRecords,
    /// Until when the tombstones, or the marker, of the batch must stay (KIP-534), if it is to say
    /// so anew. It takes the place of the base timestamp, which the deltas of the records then
    /// refer to.
    pub delete_horizon: Option<TimestampMs>,
}

/// A batch that is being made of the records of another, a piece at a time.
///
/// Base offset, last offset, producer and sequence stay, and the records that stay do so byte for
/// byte from their keys on, headers and all. They go through the decompressor and a compressor of
/// the same codec piece by piece, so that it takes the memory of the two and some pieces, whatever
/// the batch, or one record of it, unpacks to.
///
/// The body comes first, and then the header, which depends on it.
pub struct Rewriting<'a> {
    rewrite: &'a Rewrite,
    old: BatchHeader,
    new: BatchHeader,
    limit: DecodeLimit,
    plain: Unpacking<'a>,
    /// `None` once all is packed.
    packing: Option<Compressor>,
    /// How many records were passed.
    passed: usize,
    /// What of the last of them is still to be copied.
    uncopied_bytes: usize,
    /// The front of a record.
    front: Vec<u8>,
    /// Of zeros in the place of the header, and the body.
    crc: Digest,
    body_bytes: usize,
}

impl Batch {
    /// Begins to rewrite the batch, of which no more than `limit` is unpacked.
    ///
    /// # Errors
    ///
    /// An unknown codec, or a frame that does not begin as the codec's do.
    pub fn rewriting<'a>(
        &'a self,
        rewrite: &'a Rewrite,
        limit: DecodeLimit,
    ) -> Result<Rewriting<'a>, RecordError> {
        let old = *self.header();
        let codec = old.attributes.compression()?;
        // What is not packed unpacks to what it is.
        let limit = if codec == Compression::None { UNLIMITED } else { limit };
        let plain = Unpacking::new(codec, self.body_bytes(), limit)
            .map_err(|failure| failure.into_error(codec, limit))?;
        let mut new = BatchHeader { record_count: 0, ..old };
        if let Some(horizon) = rewrite.delete_horizon {
            new.base_timestamp = horizon;
            new.attributes = new.attributes.with_delete_horizon(true);
        }
        if new.attributes.timestamp_type() == TimestampType::CreateTime {
            new.max_timestamp = TimestampMs::NONE;
        }
        let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
        crc.update(&[0; CRC_COVERED_HEADER_BYTES]);
        Ok(Rewriting {
            rewrite,
            old,
            new,
            limit,
            plain,
            packing: Some(Compressor::new(codec.into())),
            passed: 0,
            uncopied_bytes: 0,
            front: Vec::new(),
            crc,
            body_bytes: 0,
        })
    }
}

impl Rewriting<'_> {
    /// The next piece of the body; `None` behind the last.
    ///
    /// # Errors
    ///
    /// What is wrong with a record, as far as it is looked at: a walk has seen more.
    /// [`RecordError::RewrittenTooLarge`] where the records pack so much worse than they were, by
    /// another packer of the codec, that consumers may not take the batch any more: it may be twice
    /// as large as before, or 64 MiB.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        while let Some(packing) = &mut self.packing {
            if let Some(piece) = packing.take_piece(PIECE_BYTES) {
                return self.hand_out(piece);
            }
            let has_more = self.pack_more().map_err(|failure| {
                failure.into_error(&self.old, self.passed.saturating_sub(1), self.limit)
            })?;
            if !has_more && let Some(packing) = self.packing.take() {
                return self.hand_out(packing.finish());
            }
        }
        Ok(None)
    }

    /// The header, when all of the body was given.
    pub fn into_header(self) -> BatchHeader {
        debug_assert!(self.packing.is_none(), "the header depends on all of the body");
        let length_bytes = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + self.body_bytes;
        let mut header = BatchHeader {
            length_bytes: i32::try_from(length_bytes).expect("each piece was held to the limit"),
            ..self.new
        };
        header.crc = crc::with_prefix_replaced(
            self.crc.finalize() as u32,
            crc_fast::crc32_iscsi(&[0; CRC_COVERED_HEADER_BYTES]),
            crc_fast::crc32_iscsi(&header.encode()[CRC_COVERS_FROM..]),
            self.body_bytes as u64,
        );
        header
    }

    fn hand_out(&mut self, piece: Vec<u8>) -> Result<Option<Vec<u8>>, RecordError> {
        self.body_bytes += piece.len();
        let size_bytes = BATCH_HEADER_BYTES + self.body_bytes;
        let limit_bytes = size_max_bytes(self.old.size_bytes());
        if size_bytes > limit_bytes {
            let base_offset = self.old.base_offset;
            return Err(RecordError::RewrittenTooLarge { base_offset, limit_bytes });
        }
        self.crc.update(&piece);
        Ok(Some(piece))
    }

    /// Packs a piece of a record, or passes over one that does not stay; false behind the last.
    fn pack_more(&mut self) -> Result<bool, FieldFailure> {
        if self.uncopied_bytes > 0 {
            return self.copy_piece().map(|()| true);
        }
        if self.passed >= usize::try_from(self.old.record_count).unwrap_or(0) {
            return Ok(false);
        }
        self.passed += 1;
        if self.rewrite.retained.contains(self.passed - 1) {
            self.begin_record()?;
        } else {
            let record_bytes = next_record(&mut self.plain)?.left_bytes();
            if !self.plain.skip(record_bytes)? {
                return Err(RecordProblem::Truncated.into());
            }
        }
        Ok(true)
    }

    /// Packs the front of a record, up to its key, which is relative to the base timestamp.
    fn begin_record(&mut self) -> Result<(), FieldFailure> {
        let mut fields = next_record(&mut self.plain)?;
        let attributes = fields.attributes()?;
        let timestamp_delta_ms = fields.i64()?;
        let offset_delta = fields.i32()?;
        self.uncopied_bytes = fields.left_bytes();
        let timestamp = self.old.timestamp_at(timestamp_delta_ms)?;
        let timestamp_delta_ms = self.rebased(timestamp_delta_ms)?;

        let content_bytes = size_of_val(&attributes)
            + varint::size_bytes(timestamp_delta_ms)
            + varint::size_bytes(i64::from(offset_delta))
            + self.uncopied_bytes;
        let length = i32::try_from(content_bytes).map_err(|_| RecordProblem::OutOfRange)?;
        self.front.clear();
        varint::put(&mut self.front, i64::from(length));
        self.front.push(attributes);
        varint::put(&mut self.front, timestamp_delta_ms);
        varint::put(&mut self.front, i64::from(offset_delta));
        if let Some(packing) = &mut self.packing {
            packing.pack(&self.front);
        }
        self.new.record_count += 1;
        self.new.max_timestamp = self.new.max_timestamp.max(timestamp);
        Ok(())
    }

    fn copy_piece(&mut self) -> Result<(), FieldFailure> {
        let window = self.plain.window(1)?;
        let piece = &window[..window.len().min(self.uncopied_bytes)];
        if piece.is_empty() {
            return Err(RecordProblem::Truncated.into());
        }
        if let Some(packing) = &mut self.packing {
            packing.pack(piece);
        }
        let piece_bytes = piece.len();
        self.uncopied_bytes -= piece_bytes;
        self.plain.consume(piece_bytes);
        Ok(())
    }

    /// A timestamp's delta relative to the new base timestamp.
    fn rebased(&self, delta_ms: i64) -> Result<i64, RecordProblem> {
        let timestamp_ms = i128::from(self.old.base_timestamp.0) + i128::from(delta_ms);
        let delta_ms = timestamp_ms - i128::from(self.new.base_timestamp.0);
        i64::try_from(delta_ms).map_err(|_| RecordProblem::OutOfRange)
    }
}

/// Packed bytes are given out in pieces of about so many.
const PIECE_BYTES: usize = 64 << 10;

const CRC_COVERED_HEADER_BYTES: usize = BATCH_HEADER_BYTES - CRC_COVERS_FROM;

const UNLIMITED: DecodeLimit = DecodeLimit::new(usize::MAX);

/// What a rewritten batch may have that had so many bytes. Another packer, or the same with another
/// window, may find less in common: without a limit, few bytes could become a gigabyte that no
/// consumer takes from a fetch.
fn size_max_bytes(old_bytes: usize) -> usize {
    const SMALL_BYTES: usize = 64 << 20;
    let format_bytes = LOG_OVERHEAD_BYTES + i32::MAX as usize;
    old_bytes.saturating_mul(2).max(SMALL_BYTES).min(format_bytes)
}
