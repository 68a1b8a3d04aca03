//! What a reader sees of a log at one moment.

use std::sync::Arc;

use logway_model::{Offset, TopicId};

use crate::LogError;
use crate::checkpoint::LeaderEpochCache;
use crate::checkpoint::segment_lists::{ListedSegment, SegmentList};
use crate::read::Boundary;
use crate::segment::Segment;

/// A place in a log that is known both as an offset and as a place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPoint {
    /// The offset; a batch begins here, or the log ends.
    pub(crate) offset: Offset,
    /// The segment, by its base offset.
    pub(crate) segment: Offset,
    /// The place in the segment's file, in bytes.
    pub(crate) position: u64,
}

/// An immutable picture of a log.
///
/// The writer thread alone makes new ones and publishes them as a whole, so that what a reader
/// takes is consistent: every byte before `end` is written, and every byte before
/// `flushed` is on stable storage.
#[derive(Debug, Clone)]
pub(crate) struct LogView {
    /// All segments, by base offset; at least one, and the last is the one that grows.
    pub(crate) segments: Arc<[Arc<Segment>]>,
    /// The first offset that can be read.
    pub(crate) log_start: Offset,
    /// The log end, in the last segment.
    pub(crate) end: LogPoint,
    /// The end of what is on stable storage.
    pub(crate) flushed: LogPoint,
    /// Everything before is on stable storage with its indexes and a snapshot of the producers, and
    /// lies in full segments or is all there is.
    pub(crate) recovery_point: Offset,
    /// Which leader epoch wrote which part.
    pub(crate) epochs: Arc<LeaderEpochCache>,
}

impl LogView {
    /// The segment that grows.
    pub(crate) fn active(&self) -> &Arc<Segment> {
        self.segments.last().expect("a log has at least one segment")
    }

    /// The index of the segment that holds `offset`, or would: the last that begins at or before.
    pub(crate) fn segment_index(&self, offset: Offset) -> usize {
        let after = self.segments.partition_point(|segment| segment.base_offset() <= offset);
        after.saturating_sub(1)
    }

    /// The bytes of a segment that belong to this picture: a reader must not go beyond them.
    pub(crate) fn segment_bytes(&self, index: usize) -> u64 {
        let segment = &self.segments[index];
        if segment.base_offset() == self.end.segment {
            self.end.position
        } else {
            segment.size_bytes()
        }
    }

    /// Where a log that is cut off at `offset`, which is in it, ends: behind the last batch before. One
    /// that holds the offset is cut off as a whole, and offsets that compaction has taken away go, too.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] if the batches before cannot be told apart, [`LogError::Io`].
    pub(crate) fn cut_point(&self, offset: Offset) -> Result<LogPoint, LogError> {
        let index = self.segment_index(offset);
        let segment = &self.segments[index];
        let boundary = segment.boundary_before(offset, self.segment_bytes(index))?;
        let Boundary { offset, position } = boundary;
        Ok(LogPoint { offset, segment: segment.base_offset(), position })
    }

    /// The offset before which a segment ends.
    pub(crate) fn segment_end(&self, index: usize) -> Offset {
        self.segments.get(index + 1).map_or(self.end.offset, |next| next.base_offset())
    }

    /// The segments, to be written down. What is not on stable storage must not be.
    pub(crate) fn list(&self, topic_id: TopicId) -> SegmentList {
        let LogPoint { offset: end, position, .. } = self.flushed;
        let is_whole = end == self.end.offset;
        let segments = self.segments.iter().enumerate();
        let segments = segments
            .take_while(|(index, segment)| is_whole || *index == 0 || segment.base_offset() < end);
        let listed = segments.map(|(index, segment)| {
            let is_cut = !is_whole && end < self.segment_end(index);
            let size_bytes = if is_cut { position } else { self.segment_bytes(index) };
            ListedSegment { base_offset: segment.base_offset(), size_bytes }
        });
        SegmentList { topic_id, end, segments: listed.collect() }
    }

    /// The bytes of all segments.
    pub(crate) fn size_bytes(&self) -> u64 {
        (0..self.segments.len()).map(|index| self.segment_bytes(index)).sum()
    }
}
