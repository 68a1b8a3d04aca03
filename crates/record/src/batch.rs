//! A whole batch as received or read.

use std::ops::ControlFlow;

use bytes::Bytes;
use logway_model::{Offset, TimestampMs};

use crate::header::CRC_COVERS_FROM;
use crate::patch::carry_crc;
use crate::walk::WithoutKeys;
use crate::{
    BATCH_HEADER_BYTES, BatchHeader, DecodeLimit, RecordError, RecordIter, RecordVisitor,
    WalkedRecord, walk,
};

/// A batch: its parsed header and all its bytes, which are shared with the buffer they came in.
///
/// The bytes are exactly as many as the header says. The CRC is not checked until
/// [`Batch::verify_crc`] is asked to. A batch of [`Batch::with_max_timestamp`] has a header that
/// its bytes do not begin with, and is only to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

impl Batch {
    /// Takes `bytes` as exactly one batch.
    ///
    /// # Errors
    ///
    /// Those of [`BatchHeader::parse`], [`RecordError::TruncatedBatch`] when there are too few
    /// bytes and [`RecordError::TrailingBytes`] when there are too many.
    pub fn parse(bytes: Bytes) -> Result<Batch, RecordError> {
        let have_bytes = bytes.len();
        let mut rest = bytes;
        let batch = Batch::split_first(&mut rest)?;
        if !rest.is_empty() {
            return Err(RecordError::TrailingBytes {
                base_offset: batch.header.base_offset,
                size_bytes: batch.size_bytes(),
                have_bytes,
            });
        }
        Ok(batch)
    }

    /// Takes the first batch off `bytes`, which stay as they are when there is none.
    ///
    /// # Errors
    ///
    /// Those of [`BatchHeader::parse`], and [`RecordError::TruncatedBatch`].
    pub fn split_first(bytes: &mut Bytes) -> Result<Batch, RecordError> {
        let header = BatchHeader::parse(bytes)?;
        let size_bytes = header.size_bytes();
        if bytes.len() < size_bytes {
            return Err(RecordError::TruncatedBatch {
                base_offset: header.base_offset,
                size_bytes,
                have_bytes: bytes.len(),
            });
        }
        Ok(Batch { header, bytes: bytes.split_to(size_bytes) })
    }

    /// The header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// All bytes as received, header included.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes after the header: the records as stored.
    pub fn body(&self) -> Bytes {
        self.bytes.slice(BATCH_HEADER_BYTES..)
    }

    pub(crate) fn body_bytes(&self) -> &[u8] {
        &self.bytes[BATCH_HEADER_BYTES..]
    }

    /// The size of the whole batch.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The offset of the first record.
    pub fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// The offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.header.last_offset()
    }

    /// Compares the bytes with the stored CRC-32C; [`RecordError::BadCrc`] if they differ.
    pub fn verify_crc(&self) -> Result<(), RecordError> {
        let computed = self.compute_crc();
        if computed != self.header.crc {
            return Err(RecordError::BadCrc {
                base_offset: self.header.base_offset,
                stored: self.header.crc,
                computed,
            });
        }
        Ok(())
    }

    /// The CRC-32C that the header should have.
    pub fn compute_crc(&self) -> u32 {
        crc_fast::crc32_iscsi(&self.bytes[CRC_COVERS_FROM..])
    }

    /// Decodes the records, one by one as the iterator is driven; compressed ones are
    /// decompressed at once, up to `limit`.
    ///
    /// # Errors
    ///
    /// An unknown codec, compressed bytes that do not decompress or exceed the limit, a negative
    /// record count. What is wrong with a single record the iterator reports.
    pub fn records(&self, limit: DecodeLimit) -> Result<RecordIter, RecordError> {
        RecordIter::new(self, limit)
    }

    /// Passes over the records in their order, until `on_record` breaks or one is not as it
    /// should be: lengths fit exactly, offsets are those of the header, each once where there is a
    /// record for each, and nothing follows the last record.
    ///
    /// Nothing is held of the records, so `limit` bounds only the time that a walk takes: what
    /// compressed records may unpack to. The memory is that of the codec, and little.
    ///
    /// # Errors
    ///
    /// As [`Batch::records`] and its iterator, and [`RecordProblem::UnexpectedOffsetDelta`].
    ///
    /// [`RecordProblem::UnexpectedOffsetDelta`]: crate::RecordProblem::UnexpectedOffsetDelta
    pub fn walk(
        &self,
        limit: DecodeLimit,
        on_record: impl FnMut(WalkedRecord) -> ControlFlow<()>,
    ) -> Result<(), RecordError> {
        walk::walk(self, limit, &mut WithoutKeys(on_record))
    }

    /// As [`Batch::walk`], and shows the keys, too.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::walk`].
    pub fn visit(
        &self,
        limit: DecodeLimit,
        visitor: &mut impl RecordVisitor,
    ) -> Result<(), RecordError> {
        walk::walk(self, limit, visitor)
    }

    /// The batch as it is, with another max timestamp in its header and the CRC to go with it.
    ///
    /// The bytes stay those that were received: what is written is a [`crate::PatchedHeader`] and
    /// the body. The CRC must have been verified before: [`Batch::verify_crc`] would compare the
    /// new CRC with the old bytes.
    #[must_use]
    pub fn with_max_timestamp(mut self, max_timestamp: TimestampMs) -> Batch {
        let old = self.header;
        self.header.max_timestamp = max_timestamp;
        self.header.crc = carry_crc(&old, &self.header);
        self
    }
}
