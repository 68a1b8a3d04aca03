//! From a timestamp to an offset.

use std::ops::{ControlFlow, Range};

use logway_model::{LeaderEpoch, Offset, TimestampMs};
use logway_record::{BatchHeader, DecodeLimit, RecordError, WalkedRecord};

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

/// What a search for a timestamp came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimestampLookup {
    /// The record, or where it begins to be unknown whether one is the record.
    pub found: Option<TimestampedOffset>,
    /// Why a batch that could hold the record could not be walked to the record. What was found is
    /// then the place up to which it is sure that there is none, with the timestamp in the header
    /// of the batch: who reads from there on misses nothing.
    pub undecodable: Option<RecordError>,
}

impl TimestampLookup {
    const NOTHING: TimestampLookup = TimestampLookup { found: None, undecodable: None };
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
        limit: DecodeLimit,
    ) -> Result<TimestampLookup, LogError> {
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
                    return Ok(TimestampLookup::NOTHING);
                }
                if batch.header.max_timestamp < target {
                    continue;
                }
                let visible = self.visible(segment, &batch, bound, limit);
                let lookup = visible.first_at_or_after(target)?;
                if lookup.found.is_some() {
                    return Ok(lookup);
                }
            }
        }
        Ok(TimestampLookup::NOTHING)
    }

    /// The first of the records before `bound` that have the largest timestamp (KIP-734).
    pub(crate) fn max_timestamp_offset(
        &self,
        bound: Offset,
        limit: DecodeLimit,
    ) -> Result<TimestampLookup, LogError> {
        let bound = bound.min(self.end.offset);
        let mut best: Option<Candidate<'_>> = None;
        for index in self.visible_segments(bound) {
            best = larger(best, self.largest_visible(index, bound, limit)?);
        }
        let Some(Candidate { segment, batch, .. }) = best else {
            return Ok(TimestampLookup::NOTHING);
        };
        let mut lookup = self.visible(segment, &batch, bound, limit).first_of_largest()?;
        lookup.found = lookup.found.filter(|record| record.timestamp > TimestampMs::NONE);
        Ok(lookup)
    }

    /// The batch with the largest timestamp of those in a segment that readers may see.
    fn largest_visible(
        &self,
        index: usize,
        bound: Offset,
        limit: DecodeLimit,
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
            best = larger(best, self.candidate(segment, batch, bound, limit)?);
        }
        Ok(best)
    }

    fn candidate<'a>(
        &self,
        segment: &'a Segment,
        batch: ScannedBatch,
        bound: Offset,
        limit: DecodeLimit,
    ) -> Result<Option<Candidate<'a>>, LogError> {
        let header = &batch.header;
        if header.record_count == 0 {
            return Ok(None);
        }
        let is_whole = header.base_offset >= self.log_start && header.last_offset() < bound;
        let timestamp = if is_whole {
            Some(header.max_timestamp)
        } else {
            let lookup = self.visible(segment, &batch, bound, limit).first_of_largest()?;
            lookup.found.map(|found| found.timestamp)
        };
        Ok(timestamp.map(|timestamp| Candidate { segment, batch, timestamp }))
    }

    /// The records of a batch that readers may see.
    fn visible<'a>(
        &self,
        segment: &'a Segment,
        batch: &'a ScannedBatch,
        bound: Offset,
        limit: DecodeLimit,
    ) -> VisibleRecords<'a> {
        VisibleRecords { segment, batch, offsets: self.log_start..bound, limit }
    }

    /// The indexes of the segments that have records from the log start on and before `bound`.
    fn visible_segments(&self, bound: Offset) -> impl Iterator<Item = usize> {
        let first = self.segment_index(self.log_start);
        (first..self.segments.len())
            .filter(move |&index| self.segments[index].base_offset() < bound)
    }
}

/// The records of a batch that readers may see.
struct VisibleRecords<'a> {
    segment: &'a Segment,
    batch: &'a ScannedBatch,
    offsets: Range<Offset>,
    limit: DecodeLimit,
}

impl VisibleRecords<'_> {
    fn first_at_or_after(&self, target: TimestampMs) -> Result<TimestampLookup, LogError> {
        let mut found = None;
        let mut next = self.first();
        let undecodable = self.walk(|record| {
            if record.timestamp >= target {
                found = Some(record);
                return ControlFlow::Break(());
            }
            next = record.offset.next();
            ControlFlow::Continue(())
        })?;
        Ok(match undecodable {
            None => TimestampLookup { found, undecodable },
            Some(_) => TimestampLookup { found: self.perhaps_from(next), undecodable },
        })
    }

    fn first_of_largest(&self) -> Result<TimestampLookup, LogError> {
        let mut found: Option<TimestampedOffset> = None;
        let undecodable = self.walk(|record| {
            if found.is_none_or(|found| record.timestamp > found.timestamp) {
                found = Some(record);
            }
            // No later one passes the maximum. Logs of old may have a header that is wrong.
            match record.timestamp == self.batch.header.max_timestamp {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(match undecodable {
            None => TimestampLookup { found, undecodable },
            Some(_) => TimestampLookup { found: self.perhaps_from(self.first()), undecodable },
        })
    }

    fn first(&self) -> Offset {
        self.batch.header.base_offset.max(self.offsets.start)
    }

    /// The place from which on a record may be the one, if it is visible.
    fn perhaps_from(&self, offset: Offset) -> Option<TimestampedOffset> {
        let BatchHeader { max_timestamp, leader_epoch, .. } = self.batch.header;
        let place = TimestampedOffset { timestamp: max_timestamp, offset, leader_epoch };
        self.offsets.contains(&offset).then_some(place)
    }

    /// Walks the records until `on_record` breaks; the error is that of the records' bytes.
    fn walk(
        &self,
        mut on_record: impl FnMut(TimestampedOffset) -> ControlFlow<()>,
    ) -> Result<Option<RecordError>, LogError> {
        let file = self.segment.file()?;
        let whole = read_batch(&*file, self.segment.path(), self.batch)?;
        let leader_epoch = self.batch.header.leader_epoch;
        let walked = whole.walk(self.limit, |WalkedRecord { offset, timestamp, .. }| {
            if offset >= self.offsets.end {
                return ControlFlow::Break(());
            }
            if offset < self.offsets.start {
                return ControlFlow::Continue(());
            }
            on_record(TimestampedOffset { timestamp, offset, leader_epoch })
        });
        Ok(walked.err())
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
