//! Whether the files of a partition are what they should be.

use std::path::Path;

use logway_model::{Offset, TopicId};

use super::companions::newest_snapshot;
use super::epoch_runs::EpochRuns;
use super::known::Known;
use super::repair::{Change, NewContent};
use super::segment_check::{FoundSegment, SegmentCheck};
use super::{LostOffsets, Problem, SegmentFile, segments};
use crate::LogError;
use crate::file_names::{INDEX_EXTENSION, LOG_EXTENSION, TIME_INDEX_EXTENSION, file_path};
use crate::fs::Fs;

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// The segments.
    pub segments: usize,
    /// The batches in them that are good.
    pub batches: u64,
    /// The records in those.
    pub records: u64,
    /// The bytes of those.
    pub bytes: u64,
    /// The first offset; `None` if there is no batch.
    pub first_offset: Option<Offset>,
    /// The offset after the last record.
    pub end_offset: Option<Offset>,
    /// The problems that were reported.
    pub problems: u64,
}

/// A partition whose files were looked at.
#[derive(Debug)]
pub struct CheckedPartition {
    /// What was looked at.
    pub verified: Verified,
    /// What a repair does to the files in the partition's directory.
    pub changes: Vec<Change>,
    pub(super) log: FoundLog,
}

/// What a log directory's own files are compared with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundLog {
    /// Where the first segment begins.
    pub(super) first: Offset,
    /// Where the log ends.
    pub(super) end: Offset,
    /// Nothing but damage may be behind `end`.
    pub(super) is_end_damaged: bool,
    /// The segments are those with which the log was closed in good order.
    pub(super) is_as_closed: bool,
    /// Where the first leader epoch begins: the log starts there or later.
    pub(super) epochs_start: Option<Offset>,
    /// There are no batches.
    pub(super) is_empty: bool,
}

/// Reads all files of a partition, down to each record, and reports what is wrong with them: bad
/// batches, offsets that do not increase, segments that are missing, index entries that point to
/// nowhere, leader epochs that are not those of the batches, snapshots and checkpoints that do not
/// decode. What it takes in memory does not grow with the partition.
///
/// # Errors
///
/// Only if the directory cannot be listed; all else is a [`Problem`].
pub fn verify(
    fs: &dyn Fs,
    dir: &Path,
    mut on_problem: impl FnMut(Problem),
) -> Result<Verified, LogError> {
    Ok(check(fs, dir, Known::default(), &mut on_problem)?.verified)
}

/// See [`verify`]; with what is known of the log from elsewhere.
pub(super) fn check(
    fs: &dyn Fs,
    dir: &Path,
    known: Known<'_>,
    on_problem: &mut dyn FnMut(Problem),
) -> Result<CheckedPartition, LogError> {
    let mut problems = 0;
    let mut report = |problem| {
        problems += 1;
        on_problem(problem);
    };
    let segments = segments(fs, dir)?;
    let list = known.list_of(fs, dir, &segments);
    let known = Known { list, snapshot_end: newest_snapshot(fs, dir)?, ..known };
    let mut check = PartitionCheck {
        fs,
        dir,
        known,
        segments: &segments,
        verified: Verified { segments: segments.len(), ..Verified::default() },
        epochs: EpochRuns::default(),
        is_end_damaged: false,
        is_swapping: false,
        changes: Vec::new(),
        report: &mut report,
    };
    check.is_swapping = check.report_swaps()?;
    check.check_segments();
    if !check.is_swapping {
        check.check_listed();
        check.check_companions()?;
    }
    let log = check.found_log();
    let PartitionCheck { mut verified, changes, .. } = check;
    verified.problems = problems;
    Ok(CheckedPartition { verified, changes, log })
}

/// The check of one partition.
pub(super) struct PartitionCheck<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) dir: &'a Path,
    pub(super) known: Known<'a>,
    pub(super) segments: &'a [SegmentFile],
    pub(super) verified: Verified,
    pub(super) epochs: EpochRuns,
    /// The last segment ends with damage.
    pub(super) is_end_damaged: bool,
    /// A compaction was interrupted while segments took the place of others: until a start has
    /// finished that, files that seem to be missing or superfluous say nothing.
    is_swapping: bool,
    pub(super) changes: Vec<Change>,
    pub(super) report: &'a mut dyn FnMut(Problem),
}

impl PartitionCheck<'_> {
    /// Where the log ends, as far as is known.
    pub(super) fn end(&self) -> Offset {
        let last = self.segments.last().map_or(Offset::ZERO, |last| last.base_offset);
        self.verified.end_offset.unwrap_or(last).max(last)
    }

    /// Where the first segment begins.
    pub(super) fn first(&self) -> Offset {
        self.segments.first().map_or(Offset::ZERO, |first| first.base_offset)
    }

    /// Where the log starts.
    pub(super) fn log_start(&self) -> Offset {
        self.known.log_start.unwrap_or(Offset::ZERO).max(self.first())
    }

    /// Walks the segments, and looks for those that are missing between them.
    fn check_segments(&mut self) {
        let segments = self.segments;
        let mut has_inner_gaps = false;
        let mut missing = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let next_base = segments.get(index + 1).map(|next| next.base_offset);
            let check = SegmentCheck {
                segment,
                next_base,
                known: self.known,
                has_indexes: !self.is_swapping,
                verified: &mut self.verified,
                epochs: &mut self.epochs,
                report: &mut *self.report,
                found: FoundSegment::default(),
            };
            let found = check.run(self.fs);
            self.rebuild_indexes(segment, &found);
            has_inner_gaps |= found.has_inner_gaps;
            self.is_end_damaged = !found.is_whole;
            let end = self.verified.end_offset.unwrap_or(segment.base_offset);
            let end = end.max(segment.base_offset);
            let is_listed = self.known.list.is_some_and(|list| list.find(end).is_some());
            let is_gap = |next: &Offset| found.is_whole && *next > end && !is_listed;
            if let Some(next_base) = next_base.filter(is_gap) {
                let reason = "segments or their ends are missing behind it";
                let problem = Problem::new(&segment.path, segment.len_bytes, reason);
                let is_cut_off = self.is_swapping || self.known.is_cut_off_at(end);
                missing.push(problem.losing(end, next_base).unfinished_if(is_cut_off));
            }
        }
        if !has_inner_gaps {
            // Compaction leaves gaps between segments, but then within them, too.
            missing.into_iter().for_each(|problem| (self.report)(problem));
        }
    }

    fn rebuild_indexes(&mut self, segment: &SegmentFile, found: &FoundSegment) {
        let needed =
            [(found.needs_offsets, INDEX_EXTENSION), (found.needs_times, TIME_INDEX_EXTENSION)];
        for (_, extension) in needed.into_iter().filter(|(is_needed, _)| *is_needed) {
            let path = segment.path.with_extension(extension);
            self.changes.push(Change::new(path, NewContent::Index(segment.clone())));
        }
    }

    /// Compares the segments with those that the log is known to have had.
    fn check_listed(&mut self) {
        let Some(list) = self.known.list else { return };
        let log_start = self.known.log_start.unwrap_or(Offset::ZERO);
        for (listed, end) in list.with_ends().filter(|(_, end)| *end > log_start) {
            let base = listed.base_offset;
            let is_there = self.segments.binary_search_by_key(&base, |found| found.base_offset);
            if is_there.is_err() {
                let path = file_path(self.dir, base, LOG_EXTENSION);
                let reason = format!("it is gone; it had {} bytes", listed.size_bytes);
                (self.report)(Problem::new(path, 0, reason).losing(base.max(log_start), end));
            }
        }
        let end = self.end();
        let Some(last) = self.segments.last().filter(|_| !self.is_end_damaged) else { return };
        if list.end > end {
            let reason = format!("the log ends here, but went on to offset {}", list.end);
            let problem = Problem::new(&last.path, last.len_bytes, reason);
            (self.report)(problem.losing(end, list.end));
        }
    }

    fn found_log(&self) -> FoundLog {
        FoundLog {
            first: self.first(),
            end: self.end(),
            is_end_damaged: self.is_end_damaged,
            is_as_closed: self.known.is_as_closed(self.segments)
                && self.known.list.is_some_and(|list| list.end == self.end()),
            epochs_start: self.epochs_start(),
            is_empty: self.verified.batches == 0,
        }
    }

    /// The id of the topic, as far as it is certain: the metadata has it, or the list of the
    /// segments that are there.
    pub(super) fn certain_topic_id(&self) -> Option<TopicId> {
        let listed = self.known.list.filter(|_| self.known.is_as_closed(self.segments));
        self.known.topic_id.or(listed.map(|list| list.topic_id))
    }

    /// The records before `known_end` that are behind the log's end, unless they are reported already.
    pub(super) fn lost_behind_end(&self, known_end: Offset) -> Option<LostOffsets> {
        let listed_end = self.known.list.map_or(Offset::ZERO, |list| list.end);
        let end = self.end().max(listed_end);
        (known_end > end && !self.is_end_damaged)
            .then_some(LostOffsets { first: end, end: Some(known_end) })
    }
}
