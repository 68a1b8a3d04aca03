//! A look at the structure of every record, without holding any.
//!
//! The bytes pass through a [`PlainBytes`]: those of the batch itself, or what a decompressor gives
//! out piece by piece. Lengths, deltas and counts are read, keys, values and headers are passed
//! over. So a walk takes the same little memory whatever the records unpack to, and allocates
//! nothing for records that are not compressed.

use std::ops::ControlFlow;

use logway_model::{Offset, TimestampMs};

use crate::compression::{DecompressFailure, PlainBytes, Unpacking};
use crate::{Batch, BatchHeader, Compression, DecodeLimit, RecordError, RecordProblem, varint};

/// What a walk tells of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkedRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp, or, with log append time, that of the batch.
    pub timestamp: TimestampMs,
    /// Whether it has a key, which may be empty.
    pub has_key: bool,
}

/// Walks the records of `batch` in their order until `on_record` breaks.
pub(crate) fn walk(
    batch: &Batch,
    limit: DecodeLimit,
    on_record: impl FnMut(WalkedRecord) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let header = batch.header();
    let codec = header.attributes.compression()?;
    let body = batch.body_bytes();
    // Compaction leaves a header without a body to keep a producer's last sequence number.
    if codec == Compression::None || header.record_count == 0 {
        return Walk::new(header, body)?.run(on_record, limit);
    }
    let unpacking = Unpacking::new(codec, body, limit);
    let unpacking = unpacking.map_err(|failure| failure.into_error(codec, limit))?;
    Walk::new(header, unpacking)?.run(on_record, limit)
}

struct Walk<'a, P> {
    header: &'a BatchHeader,
    record_count: usize,
    /// There are as many records as offsets, so that each offset has one.
    is_dense: bool,
    plain: P,
}

impl<P: PlainBytes> Walk<'_, P> {
    fn new(header: &BatchHeader, plain: P) -> Result<Walk<'_, P>, RecordError> {
        let BatchHeader { base_offset, record_count, last_offset_delta, .. } = *header;
        let is_dense = i64::from(record_count) == i64::from(last_offset_delta) + 1;
        let record_count = usize::try_from(record_count)
            .map_err(|_| RecordError::InvalidRecordCount { base_offset, record_count })?;
        Ok(Walk { header, record_count, is_dense, plain })
    }

    fn run(
        mut self,
        mut on_record: impl FnMut(WalkedRecord) -> ControlFlow<()>,
        limit: DecodeLimit,
    ) -> Result<(), RecordError> {
        let mut least_delta = 0;
        for index in 0..self.record_count {
            let walked = self.next(least_delta);
            let (delta, record) = walked.map_err(|failure| self.error(failure, index, limit))?;
            least_delta = i64::from(delta) + 1;
            if on_record(record).is_break() {
                return Ok(());
            }
        }
        let last = self.record_count.saturating_sub(1);
        self.check_end().map_err(|failure| self.error(failure, last, limit))
    }

    #[inline]
    fn next(&mut self, least_delta: i64) -> Result<(i32, WalkedRecord), WalkFailure> {
        let record = pass_record(&mut self.plain)?;
        let delta = record.offset_delta;
        let offset = self.header.offset_at(delta)?;
        let is_next = i64::from(delta) == least_delta;
        if !is_next && (self.is_dense || i64::from(delta) < least_delta) {
            // The one that is due is at most one beyond the last.
            let expected = i32::try_from(least_delta).unwrap_or(i32::MAX);
            return Err(RecordProblem::UnexpectedOffsetDelta { found: delta, expected }.into());
        }
        let timestamp = self.header.timestamp_at(record.timestamp_delta_ms)?;
        Ok((delta, WalkedRecord { offset, timestamp, has_key: record.has_key }))
    }

    fn check_end(&mut self) -> Result<(), WalkFailure> {
        match self.plain.window(1)?.len() {
            0 => Ok(()),
            unread_bytes => Err(RecordProblem::TrailingBytes { unread_bytes }.into()),
        }
    }

    #[cold]
    fn error(&self, failure: WalkFailure, index: usize, limit: DecodeLimit) -> RecordError {
        match failure {
            WalkFailure::Problem(problem) => {
                let base_offset = self.header.base_offset;
                RecordError::MalformedRecord { base_offset, index, problem }
            }
            WalkFailure::Decompress(failure) => {
                let codec = self.header.attributes.compression().unwrap_or_default();
                failure.into_error(codec, limit)
            }
        }
    }
}

enum WalkFailure {
    Problem(RecordProblem),
    Decompress(DecompressFailure),
}

impl From<RecordProblem> for WalkFailure {
    fn from(problem: RecordProblem) -> WalkFailure {
        WalkFailure::Problem(problem)
    }
}

impl From<DecompressFailure> for WalkFailure {
    fn from(failure: DecompressFailure) -> WalkFailure {
        WalkFailure::Decompress(failure)
    }
}

struct PassedRecord {
    timestamp_delta_ms: i64,
    offset_delta: i32,
    has_key: bool,
}

/// Passes over one record; the table of its fields is in [`crate::raw_record`].
#[inline]
fn pass_record(plain: &mut impl PlainBytes) -> Result<PassedRecord, WalkFailure> {
    let length = Fields { plain, left_bytes: usize::MAX }.i32()?;
    let left_bytes = usize::try_from(length).map_err(|_| RecordProblem::BadLength { length })?;
    let mut fields = Fields { plain, left_bytes };
    fields.pass_attributes()?;
    let timestamp_delta_ms = fields.i64()?;
    let offset_delta = fields.i32()?;
    let has_key = fields.pass_part()?;
    fields.pass_part()?;
    fields.pass_headers()?;
    match fields.left_bytes {
        0 => Ok(PassedRecord { timestamp_delta_ms, offset_delta, has_key }),
        unread_bytes => Err(RecordProblem::Overlong { unread_bytes }.into()),
    }
}

/// What is left of a record.
struct Fields<'a, P> {
    plain: &'a mut P,
    left_bytes: usize,
}

impl<P: PlainBytes> Fields<'_, P> {
    #[inline(always)]
    fn i32(&mut self) -> Result<i32, WalkFailure> {
        let window = self.plain.window(varint::I32_BYTES_MAX)?;
        let (value, bytes) = varint::i32_at(&window[..window.len().min(self.left_bytes)])?;
        self.consume(bytes);
        Ok(value)
    }

    #[inline(always)]
    fn i64(&mut self) -> Result<i64, WalkFailure> {
        let window = self.plain.window(varint::I64_BYTES_MAX)?;
        let (value, bytes) = varint::i64_at(&window[..window.len().min(self.left_bytes)])?;
        self.consume(bytes);
        Ok(value)
    }

    /// No attribute of a record means anything.
    #[inline(always)]
    fn pass_attributes(&mut self) -> Result<(), WalkFailure> {
        if self.left_bytes == 0 || self.plain.window(1)?.is_empty() {
            return Err(RecordProblem::Truncated.into());
        }
        self.consume(1);
        Ok(())
    }

    /// Passes over a key or a value, and says whether it is there.
    #[inline(always)]
    fn pass_part(&mut self) -> Result<bool, WalkFailure> {
        const NO_LENGTH: i32 = -1;
        let length = self.i32()?;
        if length == NO_LENGTH {
            return Ok(false);
        }
        match usize::try_from(length) {
            Ok(length_bytes) if length_bytes <= self.left_bytes => {
                if !self.plain.skip(length_bytes)? {
                    return Err(RecordProblem::Truncated.into());
                }
                self.left_bytes -= length_bytes;
                Ok(true)
            }
            _ => Err(RecordProblem::BadLength { length }.into()),
        }
    }

    #[inline(always)]
    fn pass_headers(&mut self) -> Result<(), WalkFailure> {
        const HEADER_BYTES_MIN: usize = 2;
        let count = self.i32()?;
        if count == 0 {
            return Ok(());
        }
        let bad_count = RecordProblem::BadHeaderCount { count };
        if usize::try_from(count).map_err(|_| bad_count)? > self.left_bytes / HEADER_BYTES_MIN {
            return Err(bad_count.into());
        }
        for _ in 0..count {
            if !self.pass_part()? {
                return Err(RecordProblem::BadLength { length: -1 }.into());
            }
            self.pass_part()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn consume(&mut self, bytes: usize) {
        self.plain.consume(bytes);
        self.left_bytes -= bytes;
    }
}
