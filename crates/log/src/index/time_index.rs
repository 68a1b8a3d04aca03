//! The time index of a segment: Kafka's `.timeindex` file.
//!
//! | bytes | type | field |
//! |---|---|---|
//! | 0–7 | i64, big-endian | timestamp, in milliseconds since the Unix epoch |
//! | 8–11 | i32, big-endian | offset, less the segment's base offset |
//!
//! Timestamps increase from entry to entry, offsets do not decrease. There is no header and no
//! padding.

use logway_model::{Offset, TimestampMs};

use super::sparse_index::{Entry, SparseIndex};
use crate::LogError;

/// Maps timestamps to offsets.
///
/// The entry (T, O) says that T is the largest timestamp up to offset O: a record with a larger
/// one comes after O. One thread writes; look-ups may come from any thread at any time.
pub type TimeIndex = SparseIndex<TimeEntry>;

/// A timestamp and the offset up to which there is no larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The timestamp; [`TimestampMs::NONE`] for the start of a segment.
    pub timestamp: TimestampMs,
    /// The offset.
    pub offset: Offset,
}

impl SparseIndex<TimeEntry> {
    /// Notes that `timestamp` is the largest up to `offset`.
    ///
    /// An entry whose timestamp is not above the last one's, and one whose offset is below it or
    /// more than `i32::MAX` above the base offset, is left out. An error is about the file:
    /// the index stays usable, and at worst lacks the entry.
    pub fn append(&self, timestamp: TimestampMs, offset: Offset) -> Result<(), LogError> {
        match self.relative(offset) {
            Some(relative_offset) => self.push(TimeEntry { timestamp, relative_offset }),
            None => Ok(()),
        }
    }

    /// The entry with the largest timestamp that is not above `target`; no timestamp and the
    /// base offset if there is none.
    ///
    /// The first record with a timestamp at or after `target` is in the batch that holds that
    /// offset, or behind it.
    pub fn lookup(&self, target: TimestampMs) -> Result<TimestampOffset, LogError> {
        let found = self.last_where(|entry| entry.timestamp <= target)?;
        let start = TimestampOffset { timestamp: TimestampMs::NONE, offset: self.base_offset() };
        Ok(found.map_or(start, |entry| self.decoded(entry)))
    }

    /// The last entry whose offset is below `end`; no timestamp and the base offset if there is
    /// none.
    pub fn lookup_offset(&self, end: Offset) -> Result<TimestampOffset, LogError> {
        let found = self.last_where(|entry| self.offset_of(entry) < end)?;
        let start = TimestampOffset { timestamp: TimestampMs::NONE, offset: self.base_offset() };
        Ok(found.map_or(start, |entry| self.decoded(entry)))
    }

    /// Decodes the whole entries of the index of a segment, whatever they say.
    pub fn decode_entries(
        base_offset: Offset,
        coded: &[u8],
    ) -> impl Iterator<Item = TimestampOffset> {
        coded.chunks_exact(TimeEntry::WIDTH).map(move |coded| {
            let entry = TimeEntry::decode(coded);
            TimestampOffset {
                timestamp: entry.timestamp,
                offset: Offset(base_offset.0.saturating_add(i64::from(entry.relative_offset))),
            }
        })
    }

    /// The last entry.
    pub fn last(&self) -> Result<Option<TimestampOffset>, LogError> {
        Ok(self.last_entry()?.map(|entry| self.decoded(entry)))
    }

    fn decoded(&self, entry: TimeEntry) -> TimestampOffset {
        TimestampOffset { timestamp: entry.timestamp, offset: self.offset_of(&entry) }
    }
}

/// An entry of a time index, as coded.
#[derive(Debug, Clone, Copy)]
pub struct TimeEntry {
    timestamp: TimestampMs,
    relative_offset: i32,
}

impl Entry for TimeEntry {
    const WIDTH: usize = 12;

    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.0.to_be_bytes());
        out.extend_from_slice(&self.relative_offset.to_be_bytes());
    }

    fn decode(coded: &[u8]) -> TimeEntry {
        let (timestamp, relative_offset) = coded.split_at(8);
        TimeEntry {
            timestamp: TimestampMs(i64::from_be_bytes(timestamp.try_into().expect("8 bytes"))),
            relative_offset: i32::from_be_bytes(relative_offset.try_into().expect("4 bytes")),
        }
    }

    fn is_before(&self, next: &TimeEntry) -> bool {
        self.timestamp < next.timestamp && self.relative_offset <= next.relative_offset
    }

    fn is_valid(&self) -> bool {
        self.timestamp.0 >= 0 && self.relative_offset >= 0
    }

    fn relative_offset(&self) -> i32 {
        self.relative_offset
    }
}
