//! Which segments go, and letting them go.

use std::sync::Arc;

use logway_model::{Offset, TimestampMs};

use super::log_tail::LogTail;
use super::round::Round;
use crate::LogError;
use crate::segment::Segment;
use crate::view::LogView;

/// The limits past which segments are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Segments whose newest record is older go.
    retention_ms: Option<u64>,
    /// The oldest go while at least this remains.
    retention_bytes: Option<u64>,
    now: TimestampMs,
}

impl LogTail {
    /// Deletes the segments that are past `retention.ms` or `retention.bytes`; returns them. The
    /// files are still in use by name. Nothing goes that is not flushed, or behind the high watermark.
    ///
    /// If all segments are past it, the active one is rolled first, so that a log that nobody
    /// appends to becomes empty.
    pub(super) fn enforce_retention(
        &mut self,
        round: &mut Round,
    ) -> Result<Vec<Arc<Segment>>, LogError> {
        let config = &round.config;
        if !config.deletes_old_segments() || self.poison.is_some() {
            return Ok(Vec::new());
        }
        let limits = Limits {
            retention_ms: config.retention_ms,
            retention_bytes: config.retention_bytes,
            now: round.now,
        };
        let bound = self.synced.offset.min(self.log.removal_bound());
        let count = expired_segments(&self.view, bound, &limits)?.min(self.droppable_segments());
        if count == self.view.segments.len() {
            self.roll(round)?;
        }
        let deleted = self.drop_segments(count);
        if !deleted.is_empty() {
            let partition = self.log.name();
            let log_start = self.view.log_start;
            tracing::info!(%partition, segments = deleted.len(), %log_start, "retention");
        }
        Ok(deleted)
    }

    /// Moves the log start to `before`; returns the segments that have no record left. If that is all of
    /// them, the active one is rolled first: who deletes all records may need the space.
    pub(super) fn delete_records(
        &mut self,
        before: Offset,
        round: &mut Round,
    ) -> Result<Vec<Arc<Segment>>, LogError> {
        let (start, end) = (self.view.log_start, self.view.end.offset);
        if before > end {
            let partition = self.log.topic_partition().clone();
            return Err(LogError::OffsetOutOfRange { partition, requested: before, start, end });
        }
        if before > self.synced.offset
            && let Some(error) = self.poisoned().or_else(|| self.delayed())
        {
            return Err(error);
        }
        self.advance_log_start(before);
        let has_records = self.view.end.position > 0;
        if before == end
            && has_records
            && self.poison.is_none()
            && self.synced.offset == end
            && let Err(error) = self.roll(round)
        {
            // The records are gone all the same, and the next one to be appended brings another try.
            let partition = self.log.name();
            tracing::warn!(%partition, %error, "the last segment of a log keeps its space for now");
        }
        Ok(self.drop_before_log_start())
    }

    /// Takes the segments out of the log that lie before its start.
    pub(super) fn drop_before_log_start(&mut self) -> Vec<Arc<Segment>> {
        let (full, start) = (self.view.segments.len() - 1, self.view.log_start);
        let count = (0..full).take_while(|&index| self.view.segment_end(index) <= start).count();
        self.drop_segments(count.min(self.droppable_segments()))
    }

    /// Takes the first `count` segments out of the log.
    fn drop_segments(&mut self, count: usize) -> Vec<Arc<Segment>> {
        if count == 0 {
            return Vec::new();
        }
        let (deleted, kept) = self.view.segments.split_at(count);
        let (deleted, kept): (Vec<_>, Arc<[_]>) = (deleted.to_vec(), kept.into());
        let start = kept.first().expect("the active segment is kept").base_offset();
        self.view.segments = kept;
        self.is_unpublished = true;
        self.unsynced.retain(|segment| segment.base_offset() >= start);
        self.sealing.forget_before(start);
        self.advance_log_start(start);
        deleted
    }

    fn advance_log_start(&mut self, start: Offset) {
        if start <= self.view.log_start {
            return;
        }
        self.view.log_start = start;
        self.is_unpublished = true;
        self.epochs_changed |= Arc::make_mut(&mut self.view.epochs).truncate_from_start(start);
    }
}

/// How many of the oldest segments are past the limits, of those that end before `bound`.
fn expired_segments(view: &LogView, bound: Offset, limits: &Limits) -> Result<usize, LogError> {
    let mut excess_bytes = limits
        .retention_bytes
        .map_or(0, |retention_bytes| view.size_bytes().saturating_sub(retention_bytes));
    let mut expired = 0;
    for (index, segment) in view.segments.iter().enumerate() {
        let size_bytes = view.segment_bytes(index);
        let may_go = view.segment_end(index) <= bound;
        let is_empty_active = index + 1 == view.segments.len() && size_bytes == 0;
        if !may_go || is_empty_active {
            return Ok(expired);
        }
        let is_surplus = limits.retention_bytes.is_some() && size_bytes <= excess_bytes;
        excess_bytes = excess_bytes.saturating_sub(size_bytes);
        if is_surplus || is_too_old(segment, limits)? {
            expired = index + 1;
        } else if limits.retention_ms.is_none() || segment.largest_timestamp()?.is_some() {
            return Ok(expired);
        }
        // What only fills a gap goes with what is behind it.
    }
    Ok(expired)
}

fn is_too_old(segment: &Segment, limits: &Limits) -> Result<bool, LogError> {
    let Some(retention_ms) = limits.retention_ms else { return Ok(false) };
    Ok(segment.newest_time()?.is_some_and(|newest| {
        let age_ms = limits.now.0.saturating_sub(newest.0);
        age_ms > i64::try_from(retention_ms).unwrap_or(i64::MAX)
    }))
}
