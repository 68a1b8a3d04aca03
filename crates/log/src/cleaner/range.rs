//! Which part of a log is to be cleaned.

use std::sync::Arc;

use logway_model::{Offset, TimestampMs};

use crate::segment::Segment;
use crate::view::LogView;
use crate::{LogConfig, LogError};

/// What can be cleaned of a log at one moment.
#[derive(Debug, Clone)]
pub(super) struct CleanableRange {
    /// Everything before was cleaned.
    pub(super) first_dirty: Offset,
    /// Where the part ends: at the end of a full segment.
    pub(super) end: Offset,
    /// The bytes of the segments that are clean.
    pub(super) clean_bytes: u64,
    /// The bytes of the segments from `first_dirty` to `end`.
    pub(super) dirty_bytes: u64,
    /// How much longer than `max.compaction.lag.ms` the oldest of the dirty records waits; negative
    /// while there is time.
    pub(super) overdue_ms: i64,
}

/// From where on records must not be touched, whatever the settings say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Everything before was cleaned, according to the checkpoint.
    pub(super) cleaned: Option<Offset>,
    /// What comes from here on may be taken back, or consumers may not read it yet.
    pub(super) stable: Offset,
    pub(super) now: TimestampMs,
}

impl CleanableRange {
    /// Looks at a log. Only whole segments that are full and on stable storage, with everything
    /// that belongs to them, are cleaned; none with a record that is younger than
    /// `min.compaction.lag.ms`, nor any behind it.
    ///
    /// A checkpoint that is not within the log counts for nothing: the log was made anew, or it was
    /// truncated.
    pub(super) fn of(
        view: &LogView,
        config: &LogConfig,
        limits: &Limits,
    ) -> Result<CleanableRange, LogError> {
        let known = view.log_start..=view.end.offset;
        let first_dirty = limits.cleaned.filter(|cleaned| known.contains(cleaned));
        let first_dirty = first_dirty.unwrap_or(view.log_start);
        let full = view.segments.len() - 1;
        let limit = limits.stable.min(view.recovery_point);
        let mut range = CleanableRange {
            first_dirty,
            end: first_dirty,
            clean_bytes: 0,
            dirty_bytes: 0,
            overdue_ms: i64::MIN,
        };
        let mut oldest = None;
        for (index, segment) in view.segments[..full].iter().enumerate() {
            let end = view.segment_end(index);
            if end <= first_dirty {
                range.clean_bytes += segment.size_bytes();
                continue;
            }
            if end > limit || is_too_young(segment, config, limits.now)? {
                break;
            }
            range.dirty_bytes += segment.size_bytes();
            range.end = end;
            let first = segment.first_timestamp()?.filter(|first| *first > TimestampMs::NONE);
            oldest = oldest.into_iter().chain(first).min();
        }
        if let Some(oldest) = oldest {
            let age_ms = limits.now.0.saturating_sub(oldest.0);
            let lag_max_ms = i64::try_from(config.max_compaction_lag_ms).unwrap_or(i64::MAX);
            range.overdue_ms = age_ms.saturating_sub(lag_max_ms);
        }
        Ok(range)
    }

    /// How much of what can be cleaned is dirty, from 0 to 1.
    pub(super) fn dirty_ratio(&self) -> f64 {
        let all_bytes = self.clean_bytes + self.dirty_bytes;
        if all_bytes == 0 { 0.0 } else { self.dirty_bytes as f64 / all_bytes as f64 }
    }

    /// Whether the settings want it cleaned now.
    pub(super) fn is_due(&self, config: &LogConfig) -> bool {
        let is_dirty = self.dirty_ratio() > config.min_cleanable_dirty_ratio;
        self.dirty_bytes > 0 && (is_dirty || self.overdue_ms > 0)
    }
}

/// As in Apache Kafka, a segment is as young as its newest record.
fn is_too_young(segment: &Segment, config: &LogConfig, now: TimestampMs) -> Result<bool, LogError> {
    if config.min_compaction_lag_ms == 0 {
        return Ok(false);
    }
    let newest = segment.largest_timestamp()?;
    let lag_ms = i64::try_from(config.min_compaction_lag_ms).unwrap_or(i64::MAX);
    Ok(newest.is_some_and(|newest| newest.timestamp.0 > now.0.saturating_sub(lag_ms)))
}

/// Segments that become one.
#[derive(Debug)]
pub(super) struct Group {
    /// The oldest first; at least one, unless all were deleted.
    pub(super) segments: Vec<Arc<Segment>>,
    /// Where the segment behind them begins.
    pub(super) end: Offset,
}

impl Group {
    /// Leaves the segments out that begin before `start`.
    pub(super) fn drop_before(&mut self, start: Offset) {
        self.segments.retain(|segment| segment.base_offset() >= start);
    }
}

/// So many segments become one at a time: while they are replaced, their files are open.
const GROUP_SEGMENTS_MAX: usize = 32;

/// Deals the segments that begin before `end` out to groups, each of which fits into one segment as
/// it is. So a log that shrinks is not left with ever more and ever smaller segments.
pub(super) fn groups(view: &LogView, end: Offset, config: &LogConfig) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut size_bytes = 0;
    let full = view.segments.len() - 1;
    for (index, segment) in view.segments[..full].iter().enumerate() {
        if segment.base_offset() >= end {
            break;
        }
        let segment_end = view.segment_end(index);
        if let Some(group) = groups.last_mut() {
            let grown_bytes = size_bytes + segment.size_bytes();
            let spans = segment_end - group.segments[0].base_offset();
            if group.segments.len() < GROUP_SEGMENTS_MAX
                && grown_bytes <= u64::from(config.segment_bytes)
                && index_bytes(grown_bytes, config) <= u64::from(config.segment_index_bytes)
                && spans <= i64::from(i32::MAX)
            {
                group.segments.push(Arc::clone(segment));
                group.end = segment_end;
                size_bytes = grown_bytes;
                continue;
            }
        }
        groups.push(Group { segments: vec![Arc::clone(segment)], end: segment_end });
        size_bytes = segment.size_bytes();
    }
    groups
}

/// The most that the time index of so many bytes takes, the larger of the two.
fn index_bytes(size_bytes: u64, config: &LogConfig) -> u64 {
    const ENTRY_BYTES: u64 = 12;
    size_bytes / u64::from(config.index_interval_bytes).max(61) * ENTRY_BYTES
}
