//! From a timestamp to an offset.

use logway_model::{LeaderEpoch, Offset, TimestampMs};
use logway_record::{DecodeLimit, RecordError};

use crate::LogError;
use crate::scan::{ScannedBatch, read_batch};
use crate::segment::Segment;
use crate::view::LogView;

/// A record found by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's timestamp.
    pub timestamp: TimestampMs,
    /// The record's offset.
    pub offset: Offset,
    /// The leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

/// A batch that may hold the record with the largest timestamp.
struct Candidate<'a> {
    segment: &'a Segment,
    batch: ScannedBatch,
    /// The largest timestamp of its visible records.
    timestamp: TimestampMs,
}

impl LogView {
    /// The first record before `bound` whose timestamp is at or after `target` (KIP-79).
    pub(crate) fn offset_for_timestamp(
        &self,
        target: TimestampMs,
        bound: Offset,
    ) -> Result<Option<TimestampedOffset>, LogError> {
        let bound = bound.min(self.end.offset);
        for index in self.visible_segments(bound) {
            let segment = &self.segments[index];
            let largest = segment.largest_timestamp()?;
            if largest.is_none_or(|largest| largest.timestamp < target) {
                continue;
            }
            let hint = segment.offset_before(target).max(self.log_start);
            let mut headers = segment.headers_from(hint, self.segment_bytes(index))?;
            while let Some(batch) = headers.next()? {
                if batch.header.base_offset >= bound {
                    return Ok(None);
                }
                if batch.header.max_timestamp < target {
                    continue;
                }
                let mut records = self.visible_records(segment, &batch, bound)?.into_iter();
                if let Some(found) = records.find(|record| record.timestamp >= target) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The first of the records before `bound` that have the largest timestamp (KIP-734).
    pub(crate) fn max_timestamp_offset(
        &self,
        bound: Offset,
    ) -> Result<Option<TimestampedOffset>, LogError> {
        let bound = bound.min(self.end.offset);
        let mut best: Option<Candidate<'_>> = None;
        for index in self.visible_segments(bound) {
            best = larger(best, self.largest_visible(index, bound)?);
        }
        let Some(Candidate { segment, batch, .. }) = best else { return Ok(None) };
        // The header's word for the largest timestamp is the client's.
        let records = self.visible_records(segment, &batch, bound)?;
        let first_of_largest = records.into_iter().rev().max_by_key(|record| record.timestamp);
        Ok(first_of_largest.filter(|record| record.timestamp > TimestampMs::NONE))
    }

    /// The batch with the largest timestamp of those in a segment that readers may see.
    fn largest_visible(
        &self,
        index: usize,
        bound: Offset,
    ) -> Result<Option<Candidate<'_>>, LogError> {
        let segment = &*self.segments[index];
        let end = self.segment_bytes(index);
        let Some(largest) = segment.largest_timestamp()? else { return Ok(None) };
        let mut known = segment.largest_indexed_before(bound).max(self.log_start);
        if (self.log_start..bound).contains(&largest.offset)
            && let Some(batch) = segment.find_batch(largest.offset, end)?
            && batch.header.base_offset >= self.log_start
        {
            let timestamp = batch.header.max_timestamp;
            if batch.header.record_count != 0 {
                return Ok(Some(Candidate { segment, batch, timestamp }));
            }
            // Apache Kafka's indexes name batches that compaction has emptied, too.
            known = self.log_start;
        }
        // The largest of all may be invisible. Up to the last entry before the bound, the time
        // index knows the largest; behind it there are only the headers.
        let mut headers = segment.headers_from(known, end)?;
        let mut best = None;
        while let Some(batch) = headers.next()?
            && batch.header.base_offset < bound
        {
            best = larger(best, self.candidate(segment, batch, bound)?);
        }
        Ok(best)
    }

    fn candidate<'a>(
        &self,
        segment: &'a Segment,
        batch: ScannedBatch,
        bound: Offset,
    ) -> Result<Option<Candidate<'a>>, LogError> {
        let header = &batch.header;
        if header.record_count == 0 {
            return Ok(None);
        }
        let is_whole = header.base_offset >= self.log_start && header.last_offset() < bound;
        let timestamp = if is_whole {
            Some(header.max_timestamp)
        } else {
            let visible = self.visible_records(segment, &batch, bound)?;
            visible.iter().map(|record| record.timestamp).max()
        };
        Ok(timestamp.map(|timestamp| Candidate { segment, batch, timestamp }))
    }

    /// The records of a batch that readers may see, in their order.
    fn visible_records(
        &self,
        segment: &Segment,
        batch: &ScannedBatch,
        bound: Offset,
    ) -> Result<Vec<TimestampedOffset>, LogError> {
        let corrupt = |error: RecordError| LogError::Corrupt {
            path: segment.path().to_owned(),
            position: batch.position,
            reason: error.to_string(),
        };
        let whole = read_batch(&*segment.file()?, segment.path(), batch)?;
        let mut visible = Vec::new();
        for record in whole.records(DecodeLimit::DEFAULT).map_err(corrupt)? {
            let record = record.map_err(corrupt)?;
            if (self.log_start..bound).contains(&record.offset) {
                visible.push(TimestampedOffset {
                    timestamp: record.timestamp,
                    offset: record.offset,
                    leader_epoch: batch.header.leader_epoch,
                });
            }
        }
        Ok(visible)
    }

    /// The indexes of the segments that have records from the log start on and before `bound`.
    fn visible_segments(&self, bound: Offset) -> impl Iterator<Item = usize> {
        let first = self.segment_index(self.log_start);
        (first..self.segments.len())
            .filter(move |&index| self.segments[index].base_offset() < bound)
    }
}

/// The one with the larger timestamp; of two with the same, the earlier.
fn larger<'a>(
    earlier: Option<Candidate<'a>>,
    later: Option<Candidate<'a>>,
) -> Option<Candidate<'a>> {
    match (earlier, later) {
        (Some(earlier), Some(later)) if later.timestamp > earlier.timestamp => Some(later),
        (None, later) => later,
        (earlier, _) => earlier,
    }
}
