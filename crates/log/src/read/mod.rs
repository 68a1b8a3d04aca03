//! Reading: which bytes of which files hold the records that somebody asks for.
//!
//! Nothing here copies a record. An index look-up and a scan of at most an index interval's
//! headers find the first batch; where the read ends is known without a scan when it is the log
//! end or the flushed offset, which is the usual case.

pub use committed::CommittedSlice;
pub use lookup::{TimestampLookup, TimestampedOffset};
pub use slice::{FileRange, ReadRequest, ReadSlice};

use std::sync::Arc;

use logway_model::Offset;

use crate::LogError;
use crate::scan::{HeaderScan, ScannedBatch};
use crate::segment::Segment;
use crate::view::LogView;
pub(crate) use locate::Boundary;

mod committed;
mod locate;
mod lookup;
mod slice;

impl LogView {
    /// Finds the batches of a request whose offset is within the log.
    pub(crate) fn read(&self, request: &ReadRequest) -> Result<ReadSlice, LogError> {
        let mut slice = ReadSlice {
            ranges: Vec::new(),
            log_start_offset: self.log_start,
            log_end_offset: self.end.offset,
            next_offset: request.offset,
            segments: Vec::new(),
        };
        let bound = request.upper_bound.min(self.end.offset);
        if request.offset >= bound {
            return Ok(slice);
        }
        let mut bytes_left = request.max_bytes;
        let mut is_owed = request.at_least_one_batch;
        let mut index = self.segment_index(request.offset);
        while index < self.segments.len() && self.segments[index].base_offset() < bound {
            let segment = &self.segments[index];
            let limit = self.limit(index, bound)?;
            let found = if slice.ranges.is_empty() || is_owed {
                first_piece(segment, limit, request.offset, bytes_left, is_owed)?
            } else {
                further_piece(segment, limit, bytes_left)?
            };
            index += 1;
            // Nothing of the segment is asked for: compaction can leave such a one.
            let Some(Piece { start, end, has_records }) = found else { continue };
            if start < end.position {
                let len_bytes = end.position - start;
                bytes_left = bytes_left.saturating_sub(len_bytes);
                let file = segment.file()?;
                slice.ranges.push(FileRange { file, position: start, len_bytes });
                slice.segments.push(Arc::clone(segment));
                slice.next_offset = end.offset;
                is_owed &= !has_records;
            }
            if end.position < limit.position || (bytes_left == 0 && !is_owed) {
                break;
            }
        }
        Ok(slice)
    }

    /// How far a segment may be read: to the end of the last batch that lies wholly before
    /// `bound`.
    fn limit(&self, index: usize, bound: Offset) -> Result<Boundary, LogError> {
        let end_position = self.segment_bytes(index);
        let end = Boundary { position: end_position, offset: self.segment_end(index) };
        if end.offset <= bound {
            return Ok(end);
        }
        let segment = &self.segments[index];
        if bound == self.flushed.offset && segment.base_offset() == self.flushed.segment {
            return Ok(Boundary { position: self.flushed.position, offset: bound });
        }
        let first_beyond = segment.find_batch(bound, end_position)?;
        Ok(first_beyond.map_or(end, |batch| Boundary::before(&batch)))
    }
}

/// The part of a segment to return; nothing if it ends where it starts.
struct Piece {
    start: u64,
    end: Boundary,
    /// Whether a batch of it is known to have records.
    has_records: bool,
}

/// The part of the first segment, or of a further one if there were only batches without records
/// before: empty if not even one batch fits, `None` if no batch in it ends at or after the offset.
///
/// If a batch is owed, it is one with records. Those without, which compaction leaves, do not get
/// every client on: some ask for them again and again.
fn first_piece(
    segment: &Segment,
    limit: Boundary,
    offset: Offset,
    bytes_left: u64,
    is_owed: bool,
) -> Result<Option<Piece>, LogError> {
    let Some(first) = segment.find_batch(offset, limit.position)? else { return Ok(None) };
    let start = first.position;
    let with_records = match is_owed {
        true => first_with_records(segment, &first, limit)?,
        false => None,
    };
    let wanted_end = start.saturating_add(bytes_left);
    let end = match &with_records {
        _ if wanted_end >= limit.position => limit,
        Some(owed) if wanted_end < owed.end() => Boundary::after(owed),
        None if is_owed => limit,
        _ if wanted_end >= first.end() => {
            segment.floor_boundary(Boundary::after(&first), wanted_end, limit)?
        }
        _ => Boundary::before(&first),
    };
    Ok(Some(Piece { start, end, has_records: with_records.is_some() }))
}

/// The first batch with records, from a batch on. In front of damage the batch itself: who reads on
/// finds the damage.
fn first_with_records(
    segment: &Segment,
    first: &ScannedBatch,
    limit: Boundary,
) -> Result<Option<ScannedBatch>, LogError> {
    if first.header.record_count > 0 {
        return Ok(Some(*first));
    }
    let mut headers = HeaderScan::new(segment.file()?, segment.path(), first.end(), limit.position);
    loop {
        match headers.next() {
            Ok(Some(batch)) if batch.header.record_count == 0 => {}
            Ok(found) => return Ok(found),
            Err(LogError::Corrupt { .. }) => return Ok(Some(*first)),
            Err(error) => return Err(error),
        }
    }
}

/// The part of a further segment, from its beginning.
fn further_piece(
    segment: &Segment,
    limit: Boundary,
    bytes_left: u64,
) -> Result<Option<Piece>, LogError> {
    let start = Boundary { position: 0, offset: segment.base_offset() };
    let end = match limit.position {
        0 => return Ok(None),
        _ if bytes_left >= limit.position => limit,
        _ => segment.floor_boundary(start, bytes_left, limit)?,
    };
    Ok(Some(Piece { start: 0, end, has_records: true }))
}
