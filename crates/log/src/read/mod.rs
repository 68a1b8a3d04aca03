//! Reading: which bytes of which files hold the records that somebody asks for.
//!
//! Nothing here copies a record. An index look-up and a scan of at most an index interval's
//! headers find the first batch; where the read ends is known without a scan when it is the log
//! end or the flushed offset, which is the usual case.

pub use lookup::TimestampedOffset;
pub use slice::{FileRange, ReadRequest, ReadSlice};

use std::ops::Range;

use logway_model::Offset;

use crate::LogError;
use crate::segment::Segment;
use crate::view::LogView;

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
        };
        let bound = request.upper_bound.min(self.end.offset);
        if request.offset >= bound {
            // A consumer that waits for news: nothing to look up.
            return Ok(slice);
        }
        if request.offset >= bound {
            return Ok(slice);
        }
        let mut bytes_left = request.max_bytes;
        let mut index = self.segment_index(request.offset);
        while index < self.segments.len() && self.segments[index].base_offset() < bound {
            let segment = &self.segments[index];
            let limit = self.bytes_before(index, bound)?;
            let range = if slice.ranges.is_empty() {
                first_range(segment, limit, request)?
            } else {
                further_range(segment, limit, bytes_left)?
            };
            index += 1;
            // Nothing of the segment is asked for: compaction can leave such a one.
            let Some(Range { start, end }) = range else { continue };
            if start < end {
                let len_bytes = end - start;
                bytes_left = bytes_left.saturating_sub(len_bytes);
                let file = segment.file()?;
                slice.ranges.push(FileRange { file, position: start, len_bytes });
            }
            if end < limit || bytes_left == 0 {
                break;
            }
        }
        Ok(slice)
    }

    /// The bytes of a segment's batches that lie wholly before `bound`.
    fn bytes_before(&self, index: usize, bound: Offset) -> Result<u64, LogError> {
        let all_bytes = self.segment_bytes(index);
        if self.segment_end(index) <= bound {
            return Ok(all_bytes);
        }
        let segment = &self.segments[index];
        if bound == self.flushed.offset && segment.base_offset() == self.flushed.segment {
            return Ok(self.flushed.position);
        }
        let first_beyond = segment.find_batch(bound, all_bytes)?;
        Ok(first_beyond.map_or(all_bytes, |batch| batch.position))
    }
}

/// The part of the first segment to return: empty if not even one batch fits, `None` if no batch
/// in it ends at or after the offset. `limit` is how far it may be read.
fn first_range(
    segment: &Segment,
    limit: u64,
    request: &ReadRequest,
) -> Result<Option<Range<u64>>, LogError> {
    let Some(first) = segment.find_batch(request.offset, limit)? else { return Ok(None) };
    let start = first.position;
    let wanted_end = start.saturating_add(request.max_bytes);
    let end = if wanted_end >= limit {
        limit
    } else if wanted_end >= first.end() {
        segment.floor_boundary(first.end(), wanted_end, limit)?
    } else if request.at_least_one_batch {
        first.end()
    } else {
        start
    };
    Ok(Some(start..end))
}

/// The part of a further segment to return, from its beginning.
fn further_range(
    segment: &Segment,
    limit: u64,
    bytes_left: u64,
) -> Result<Option<Range<u64>>, LogError> {
    let end = match limit {
        0 => return Ok(None),
        _ if bytes_left >= limit => limit,
        _ => segment.floor_boundary(0, bytes_left, limit)?,
    };
    Ok(Some(0..end))
}
