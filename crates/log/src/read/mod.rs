//! Reading: which bytes of which files hold the records that somebody asks for.
//!
//! Nothing here copies a record. An index look-up and a scan of at most an index interval's
//! headers find the first batch; where the read ends is known without a scan when it is the log
//! end or the flushed offset, which is the usual case.

pub use lookup::{TimestampLookup, TimestampedOffset};
pub use slice::{FileRange, ReadRequest, ReadSlice};

use logway_model::Offset;

use crate::LogError;
use crate::scan::BatchScan;
use crate::segment::Segment;
use crate::view::LogView;
use locate::Boundary;

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
        };
        let bound = request.upper_bound.min(self.end.offset);
        if request.offset >= bound {
            return Ok(slice);
        }
        let mut bytes_left = request.max_bytes;
        let mut index = self.segment_index(request.offset);
        while index < self.segments.len() && self.segments[index].base_offset() < bound {
            let segment = &self.segments[index];
            let limit = self.limit(index, bound)?;
            let found = if slice.ranges.is_empty() {
                first_piece(segment, limit, request)?
            } else {
                further_piece(segment, limit, bytes_left)?
            };
            index += 1;
            // Nothing of the segment is asked for: compaction can leave such a one.
            let Some(Piece { start, end }) = found else { continue };
            if start < end.position {
                let len_bytes = end.position - start;
                bytes_left = bytes_left.saturating_sub(len_bytes);
                let file = segment.file()?;
                slice.ranges.push(FileRange { file, position: start, len_bytes });
                slice.next_offset = end.offset;
            }
            if end.position < limit.position || bytes_left == 0 {
                break;
            }
        }
        Ok(slice)
    }

    /// Whether the batch that holds `offset`, or else the next one of its segment, is as it was
    /// written.
    pub(crate) fn check_batch(&self, offset: Offset) -> Result<(), LogError> {
        let index = self.segment_index(offset);
        let (segment, end) = (&self.segments[index], self.segment_bytes(index));
        let Some(found) = segment.find_batch(offset, end)? else { return Ok(()) };
        BatchScan::new(segment.file()?, segment.path(), found.position, end).next_header().map(drop)
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
}

/// The part of the first segment: empty if not even one batch fits, `None` if no batch in it ends
/// at or after the offset.
fn first_piece(
    segment: &Segment,
    limit: Boundary,
    request: &ReadRequest,
) -> Result<Option<Piece>, LogError> {
    let Some(first) = segment.find_batch(request.offset, limit.position)? else { return Ok(None) };
    let start = first.position;
    let wanted_end = start.saturating_add(request.max_bytes);
    let end = if wanted_end >= limit.position {
        limit
    } else if wanted_end >= first.end() {
        segment.floor_boundary(Boundary::after(&first), wanted_end, limit)?
    } else if request.at_least_one_batch {
        Boundary::after(&first)
    } else {
        Boundary::before(&first)
    };
    Ok(Some(Piece { start, end }))
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
    Ok(Some(Piece { start: 0, end }))
}
