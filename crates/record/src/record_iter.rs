//! Decoding the records of a batch.

use std::iter::FusedIterator;

use bytes::Bytes;
use logway_model::Offset;

use crate::raw_record::RawRecord;
use crate::{Batch, BatchHeader, DecodeLimit, Record, RecordError, RecordProblem};

/// The records of a batch, in their order.
///
/// It yields as many as the header says, or an error and then nothing more. Bytes after the last
/// record are an error, too.
#[derive(Debug, Clone)]
pub struct RecordIter {
    raw: RawRecords,
    header: BatchHeader,
    limit: DecodeLimit,
}

impl RecordIter {
    /// See [`Batch::records`].
    pub(crate) fn new(batch: &Batch, limit: DecodeLimit) -> Result<RecordIter, RecordError> {
        let raw = RawRecords::new(batch, limit)?;
        Ok(RecordIter { raw, header: *batch.header(), limit })
    }

    fn resolve(&self, raw: RawRecord) -> Result<Record, RecordProblem> {
        Ok(Record {
            offset: self.offset(raw.offset_delta)?,
            timestamp: self.header.timestamp_at(raw.timestamp_delta_ms)?,
            headers: raw.headers(self.limit)?,
            key: raw.key,
            value: raw.value,
        })
    }

    fn offset(&self, delta: i32) -> Result<Offset, RecordProblem> {
        if !(0..=self.header.last_offset_delta).contains(&delta) {
            return Err(RecordProblem::OutOfRange);
        }
        Ok(self.header.base_offset + i64::from(delta))
    }
}

impl Iterator for RecordIter {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Result<Record, RecordError>> {
        let resolved = self.raw.next()?.and_then(|raw| {
            self.resolve(raw).map_err(|problem| self.raw.error_at_previous(problem))
        });
        if resolved.is_err() {
            self.raw.end();
        }
        Some(resolved)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.raw.left))
    }
}

impl FusedIterator for RecordIter {}

/// The records of a batch as they are encoded, headers left as bytes.
#[derive(Debug, Clone)]
pub(crate) struct RawRecords {
    base_offset: Offset,
    next_index: usize,
    left: usize,
    rest: Bytes,
}

impl RawRecords {
    pub(crate) fn new(batch: &Batch, limit: DecodeLimit) -> Result<RawRecords, RecordError> {
        let header = batch.header();
        let base_offset = header.base_offset;
        let record_count = header.record_count;
        let left = usize::try_from(record_count)
            .map_err(|_| RecordError::InvalidRecordCount { base_offset, record_count })?;
        let codec = header.attributes.compression()?;
        let body = batch.body();
        // Compaction leaves a header without a body to keep a producer's last sequence number.
        let rest = if left == 0 { body } else { codec.decompress(body, limit)? };
        let records = RawRecords { base_offset, next_index: 0, left, rest };
        records.check_end().map_err(|problem| records.error_at_previous(problem))?;
        Ok(records)
    }

    /// The error that the record given out last has `problem`.
    pub(crate) fn error_at_previous(&self, problem: RecordProblem) -> RecordError {
        let index = self.next_index.saturating_sub(1);
        RecordError::MalformedRecord { base_offset: self.base_offset, index, problem }
    }

    fn decode_next(&mut self) -> Result<RawRecord, RecordProblem> {
        let record = RawRecord::decode(&mut self.rest)?;
        self.check_end()?;
        Ok(record)
    }

    fn check_end(&self) -> Result<(), RecordProblem> {
        if self.left == 0 && !self.rest.is_empty() {
            return Err(RecordProblem::TrailingBytes { unread_bytes: self.rest.len() });
        }
        Ok(())
    }

    fn end(&mut self) {
        self.left = 0;
    }
}

impl Iterator for RawRecords {
    type Item = Result<RawRecord, RecordError>;

    fn next(&mut self) -> Option<Result<RawRecord, RecordError>> {
        self.left = self.left.checked_sub(1)?;
        self.next_index += 1;
        let decoded = self.decode_next();
        if decoded.is_err() {
            self.end();
        }
        Some(decoded.map_err(|problem| self.error_at_previous(problem)))
    }
}
