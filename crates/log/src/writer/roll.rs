//! When a segment is full, and what follows.

use std::sync::Arc;

use logway_model::TimestampMs;
use logway_record::TimestampType;

use super::log_request::Offsets;
use super::log_tail::LogTail;
use super::round::Round;
use crate::index::{OffsetIndex, TimeIndex};
use crate::segment::Segment;
use crate::view::LogPoint;
use crate::{AppendBatches, LogConfig, LogError};

impl LogTail {
    /// Whether the active segment, with what is staged for it, has no room for an append: in
    /// bytes, in its indexes, in the 31 bits of a relative offset, or in time.
    ///
    /// As in Apache Kafka, time is that of the records: a record `segment.ms` younger than the
    /// first one of the segment begins a new one.
    pub(super) fn must_roll_before(
        &self,
        append: &AppendBatches,
        offsets: Offsets,
        round: &Round,
    ) -> bool {
        let segment_bytes = self.view.end.position + round.staging.size_bytes();
        if segment_bytes == 0 {
            return false;
        }
        let config = &*round.config;
        let next_offset = round.staging.next_offset(self.view.end.offset);
        let last_offset = next_offset + (record_count(append) - 1);
        let newest = match (config.timestamp_type, offsets) {
            (TimestampType::LogAppendTime, Offsets::Assigned) => round.now,
            _ => newest_timestamp(append),
        };
        self.must_roll
            || segment_bytes + append.size_bytes() as u64 > u64::from(config.segment_bytes)
            || last_offset - self.view.active().base_offset() > i64::from(i32::MAX)
            || self.is_index_full(config)
            || self.is_too_old(newest, config)
    }

    /// Begins a new segment at the log end. Nothing may be staged.
    ///
    /// The full one goes to the background thread, which puts it and its indexes on stable
    /// storage, with a snapshot of the producers; the recovery point follows then.
    pub(super) fn roll(&mut self, round: &mut Round) -> Result<(), LogError> {
        let base_offset = self.view.end.offset;
        self.must_roll = true;
        let next = Segment::create(&self.fs, &self.dir, base_offset)
            .map_err(|error| round.described(error))?;
        self.must_roll = false;
        let next = Arc::new(next);
        let full = Arc::clone(self.view.active());
        if self.synced.offset < base_offset {
            self.unsynced.push(Arc::clone(&full));
        }
        self.needs_dir_sync = true;
        self.is_unpublished = true;
        self.is_changed = true;
        self.file = None;
        self.active_since = round.now;
        self.view.segments = self.view.segments.iter().cloned().chain([next]).collect();
        self.view.end = LogPoint { offset: base_offset, segment: base_offset, position: 0 };

        self.seal_later(full, base_offset, round);
        Ok(())
    }

    /// Rolls a segment that took its first record longer than `segment.ms` ago, by the clock: a
    /// log that nobody appends to any more would otherwise keep its last records for ever.
    pub(super) fn roll_if_old(&mut self, round: &mut Round) -> Result<(), LogError> {
        let age_ms = round.now.0.saturating_sub(self.active_since.0);
        let is_old = age_ms > segment_age_max_ms(&round.config, self.log.name());
        if self.poison.is_none() && self.view.end.position > 0 && is_old {
            self.roll(round)?;
        }
        Ok(())
    }

    /// An index that cannot be read counts as full: the next segment gets a new one.
    fn is_index_full(&self, config: &LogConfig) -> bool {
        let active = self.view.active();
        let index_bytes = u64::from(config.segment_index_bytes);
        // Sealing adds one entry to the time index.
        let has_room = |entries: Result<u64, LogError>, reserved, entry_bytes| {
            entries.is_ok_and(|entries| (entries + reserved) * entry_bytes as u64 <= index_bytes)
        };
        !has_room(active.offsets.len_entries(), 1, OffsetIndex::ENTRY_BYTES)
            || !has_room(active.times.len_entries(), 2, TimeIndex::ENTRY_BYTES)
    }

    fn is_too_old(&self, newest: TimestampMs, config: &LogConfig) -> bool {
        let first = self.view.active().first_timestamp().ok().flatten();
        first.is_some_and(|first| {
            let age_ms = newest.0.saturating_sub(first.0);
            let has_times = first > TimestampMs::NONE && newest > TimestampMs::NONE;
            has_times && age_ms > segment_age_max_ms(config, self.log.name())
        })
    }
}

/// `segment.ms` less this log's share of `segment.jitter.ms`, or `max.compaction.lag.ms`.
fn segment_age_max_ms(config: &LogConfig, log_name: &str) -> i64 {
    let jitter_ms = match config.segment_jitter_ms.min(config.segment_ms) {
        0 => 0,
        most_ms => hash_of(log_name) % most_ms,
    };
    let age_max_ms = config.segment_ms - jitter_ms;
    // Only full segments are cleaned.
    let age_max_ms = match config.is_compacted() {
        true => age_max_ms.min(config.max_compaction_lag_ms),
        false => age_max_ms,
    };
    i64::try_from(age_max_ms).unwrap_or(i64::MAX)
}

/// FNV-1a: the same for a name in each process, so that a restart does not deal the jitter anew.
fn hash_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn record_count(append: &AppendBatches) -> i64 {
    append.batches.iter().map(|batch| i64::from(batch.header().last_offset_delta) + 1).sum()
}

fn newest_timestamp(append: &AppendBatches) -> TimestampMs {
    let timestamps = append.batches.iter().map(|batch| batch.header().max_timestamp);
    timestamps.max().unwrap_or(TimestampMs::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jitter_is_a_logs_own_and_bounded() {
        let config = LogConfig { segment_ms: 1000, segment_jitter_ms: 400, ..LogConfig::default() };
        let ages: Vec<i64> =
            (0..50).map(|log| segment_age_max_ms(&config, &format!("t-{log}"))).collect();
        assert!(ages.iter().all(|&age_ms| (601..=1000).contains(&age_ms)), "{ages:?}");
        assert!(ages.iter().any(|&age_ms| age_ms != ages[0]), "{ages:?}");
        let none = LogConfig { segment_jitter_ms: 0, ..config };
        assert_eq!(segment_age_max_ms(&none, "t-0"), 1000);
    }
}
