//! What the files of a log directory, and the metadata, say of one log.

use std::path::Path;

use logway_model::{Offset, TopicId};

use super::SegmentFile;
use crate::checkpoint::PartitionMetadata;
use crate::checkpoint::segment_lists::SegmentList;
use crate::fs::Fs;

/// What is known of a log before its own files are looked at. By default nothing: the directory of a
/// partition may stand alone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'a> {
    /// The log directory was closed in good order: a start looks at the end of the log and no
    /// further.
    pub(super) is_clean: bool,
    /// Up to where a start scans nothing after a crash; `None` if nobody knows.
    pub(super) recovery_point: Option<Offset>,
    /// Where the log starts at the earliest; `None` if nobody knows.
    pub(super) log_start: Option<Offset>,
    /// Where the newest good snapshot of the producers stands, which is written when all before it
    /// is on stable storage.
    pub(super) snapshot_end: Option<Offset>,
    /// The segments that a log of this name had.
    pub(super) list: Option<&'a SegmentList>,
    /// The topic's id, as the metadata has it.
    pub(super) topic_id: Option<TopicId>,
}

impl<'a> Known<'a> {
    /// The list, if it is of the log in this directory and not of another one of that name.
    pub(super) fn list_of(
        &self,
        fs: &dyn Fs,
        dir: &Path,
        segments: &[SegmentFile],
    ) -> Option<&'a SegmentList> {
        let said = PartitionMetadata::read(fs, &dir.join(PartitionMetadata::FILE));
        let said = said.ok().flatten().map(|metadata| metadata.topic_id);
        self.list.filter(|list| {
            let is_same = said.or(self.topic_id).is_none_or(|id| id == list.topic_id);
            is_same || self.topic_id == Some(list.topic_id) || self.is_as_closed(segments)
        })
    }

    /// Whether the directory may be a running broker's, or one that was killed, for all that is known.
    pub(super) fn may_be_in_use(&self) -> bool {
        !self.is_clean && self.recovery_point.is_none()
    }

    /// Whether the next start scans a segment, and so makes its indexes anew. `end` is where the
    /// next segment begins; `None` for the last one.
    pub(super) fn is_scanned(&self, end: Option<Offset>) -> bool {
        let is_behind_recovery_point = match (end, self.recovery_point) {
            (None, _) => true,
            (Some(end), Some(point)) => end > point,
            (Some(_), None) => false,
        };
        !self.is_clean && is_behind_recovery_point
    }

    /// Whether a crash may have left what is at an offset unfinished.
    pub(super) fn is_unflushed(&self, offset: Offset) -> bool {
        let listed_end = self.list.map(|list| list.end);
        let durable_end = self.recovery_point.max(listed_end).max(self.snapshot_end);
        !self.is_clean && offset >= durable_end.unwrap_or(Offset::ZERO)
    }

    /// Whether the next start cuts the log off at an offset if it finds no good batch there,
    /// whatever comes behind.
    pub(super) fn is_cut_off_at(&self, offset: Offset) -> bool {
        self.recovery_point.is_some() && self.is_unflushed(offset)
    }

    /// Whether these are just the segments that the log had when it was closed in good order.
    pub(super) fn is_as_closed(&self, segments: &[SegmentFile]) -> bool {
        let Some(list) = self.list.filter(|_| self.is_clean) else { return false };
        let listed = list.segments.iter().map(|listed| (listed.base_offset, listed.size_bytes));
        listed.eq(segments.iter().map(|segment| (segment.base_offset, segment.len_bytes)))
    }
}
