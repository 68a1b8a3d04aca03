//! A look at the structure of every record, without holding any.
//!
//! The bytes pass through a [`PlainBytes`]: those of the batch itself, or what a decompressor gives
//! out piece by piece. Lengths, deltas and counts are read, keys, values and headers are passed
//! over. So a walk takes the same little memory whatever the records unpack to, and allocates
//! nothing for records that are not compressed.

use std::ops::ControlFlow;

use logway_model::{Offset, TimestampMs};

use crate::compression::{PlainBytes, Unpacking};
use crate::fields::{FieldFailure, next_record};
use crate::{Batch, BatchHeader, Compression, DecodeLimit, RecordError, RecordProblem};

/// What a walk tells of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkedRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp, or, with log append time, that of the batch.
    pub timestamp: TimestampMs,
    /// Whether it has a key, which may be empty.
    pub has_key: bool,
    /// Whether it has a value, which may be empty; without one it is a tombstone on a compacted
    /// topic.
    pub has_value: bool,
}

/// Who is shown what a walk passes.
pub trait RecordVisitor {
    /// A piece of the key of the next record: however long a key is, no more than a piece of it is
    /// in memory. An empty key has none.
    fn on_key_piece(&mut self, piece: &[u8]);

    /// The next record. The walk ends where this breaks.
    fn on_record(&mut self, record: WalkedRecord) -> ControlFlow<()>;
}

/// Walks the records of `batch` in their order until the visitor breaks.
pub(crate) fn walk(
    batch: &Batch,
    limit: DecodeLimit,
    visitor: &mut impl RecordVisitor,
) -> Result<(), RecordError> {
    let header = batch.header();
    let codec = header.attributes.compression()?;
    let body = batch.body_bytes();
    // Compaction leaves a header without a body to keep a producer's last sequence number.
    if codec == Compression::None || header.record_count == 0 {
        return walk_plain(header, body, visitor, limit);
    }
    let unpacking = Unpacking::new(codec, body, limit);
    let unpacking = unpacking.map_err(|failure| failure.into_error(codec, limit))?;
    walk_plain(header, unpacking, visitor, limit)
}

/// As [`walk`], through what gives out the records' bytes.
pub(crate) fn walk_plain(
    header: &BatchHeader,
    plain: impl PlainBytes,
    visitor: &mut impl RecordVisitor,
    limit: DecodeLimit,
) -> Result<(), RecordError> {
    Walk::new(header, plain)?.run(visitor, limit)
}

/// Passes over keys, too.
pub(crate) struct WithoutKeys<F>(pub(crate) F);

impl<F: FnMut(WalkedRecord) -> ControlFlow<()>> RecordVisitor for WithoutKeys<F> {
    #[inline(always)]
    fn on_key_piece(&mut self, _piece: &[u8]) {}

    #[inline(always)]
    fn on_record(&mut self, record: WalkedRecord) -> ControlFlow<()> {
        (self.0)(record)
    }
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
        visitor: &mut impl RecordVisitor,
        limit: DecodeLimit,
    ) -> Result<(), RecordError> {
        let header = self.header;
        let mut least_delta = 0;
        for index in 0..self.record_count {
            let walked = self.next(least_delta, visitor);
            let (delta, record) =
                walked.map_err(|failure| failure.into_error(header, index, limit))?;
            least_delta = i64::from(delta) + 1;
            if visitor.on_record(record).is_break() {
                return Ok(());
            }
        }
        let last = self.record_count.saturating_sub(1);
        self.check_end().map_err(|failure| failure.into_error(header, last, limit))
    }

    #[inline]
    fn next(
        &mut self,
        least_delta: i64,
        visitor: &mut impl RecordVisitor,
    ) -> Result<(i32, WalkedRecord), FieldFailure> {
        let record = pass_record(&mut self.plain, visitor)?;
        let delta = record.offset_delta;
        if !(0..=self.header.last_offset_delta).contains(&delta) {
            return Err(RecordProblem::OutOfRange.into());
        }
        let is_next = i64::from(delta) == least_delta;
        if !is_next && (self.is_dense || i64::from(delta) < least_delta) {
            // The one that is due is at most one beyond the last.
            let expected = i32::try_from(least_delta).unwrap_or(i32::MAX);
            return Err(RecordProblem::UnexpectedOffsetDelta { found: delta, expected }.into());
        }
        let offset = self.header.base_offset + i64::from(delta);
        let timestamp = self.header.timestamp_at(record.timestamp_delta_ms)?;
        let PassedRecord { has_key, has_value, .. } = record;
        Ok((delta, WalkedRecord { offset, timestamp, has_key, has_value }))
    }

    fn check_end(&mut self) -> Result<(), FieldFailure> {
        match self.plain.window(1)?.len() {
            0 => Ok(()),
            unread_bytes => Err(RecordProblem::TrailingBytes { unread_bytes }.into()),
        }
    }
}

struct PassedRecord {
    timestamp_delta_ms: i64,
    offset_delta: i32,
    has_key: bool,
    has_value: bool,
}

/// Passes over one record.
#[inline]
fn pass_record(
    plain: &mut impl PlainBytes,
    visitor: &mut impl RecordVisitor,
) -> Result<PassedRecord, FieldFailure> {
    let mut fields = next_record(plain)?;
    fields.attributes()?;
    let timestamp_delta_ms = fields.i64()?;
    let offset_delta = fields.i32()?;
    fields.end_front(timestamp_delta_ms)?;
    let has_key = fields.show_part(|piece| visitor.on_key_piece(piece))?;
    let has_value = fields.pass_part()?;
    fields.pass_headers()?;
    match fields.left_bytes() {
        0 => Ok(PassedRecord { timestamp_delta_ms, offset_delta, has_key, has_value }),
        unread_bytes => Err(RecordProblem::Overlong { unread_bytes }.into()),
    }
}
