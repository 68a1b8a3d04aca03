//! The offset index of a segment: Kafka's `.index` file.
//!
//! | bytes | type | field |
//! |---|---|---|
//! | 0–3 | i32, big-endian | offset, less the segment's base offset |
//! | 4–7 | i32, big-endian | position in the segment's file, in bytes |
//!
//! Entries increase in both fields. There is no header and no padding.

use logway_model::Offset;

use super::sparse_index::{Entry, SparseIndex};
use crate::LogError;

/// Maps offsets to positions in a segment's file, one entry about every `index.interval.bytes`.
///
/// An entry holds the *last* offset of a batch and the position where that batch begins, as
/// `kafka-dump-log` demands. One thread writes; look-ups may come from any thread at any time.
pub type OffsetIndex = SparseIndex<OffsetEntry>;

/// Where to begin a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// The last offset of the batch there, or the base offset of the segment.
    pub offset: Offset,
    /// Where the batch begins in the segment's file, in bytes.
    ///
    /// It comes from a file that is not covered by a checksum: check what is there.
    pub position: u64,
}

impl SparseIndex<OffsetEntry> {
    /// Notes that the batch that ends with `offset` begins at `position`.
    ///
    /// An entry that is not above the last one, or more than `i32::MAX` above the base offset
    /// or into the file, is left out, which makes the index sparser and not wrong. An error
    /// is about the file: the index stays usable, and at worst lacks the entry.
    pub fn append(&self, offset: Offset, position: u64) -> Result<(), LogError> {
        match (self.relative(offset), i32::try_from(position)) {
            (Some(relative_offset), Ok(position)) => {
                self.push(OffsetEntry { relative_offset, position })
            }
            _ => Ok(()),
        }
    }

    /// The entry with the largest offset that is not above `target`; the start of the segment
    /// if there is none.
    pub fn lookup(&self, target: Offset) -> Result<OffsetPosition, LogError> {
        let found = self.last_where(|entry| self.offset_of(entry) <= target)?;
        let start = OffsetPosition { offset: self.base_offset(), position: 0 };
        Ok(found.map_or(start, |entry| self.decoded(entry)))
    }

    /// The entry with the largest position that is not above `limit`; the start of the segment if
    /// there is none.
    pub fn lookup_position(&self, limit: u64) -> Result<OffsetPosition, LogError> {
        let found = self.last_where(|entry| self.decoded(*entry).position <= limit)?;
        let start = OffsetPosition { offset: self.base_offset(), position: 0 };
        Ok(found.map_or(start, |entry| self.decoded(entry)))
    }

    /// The first entry whose position is above `position`.
    pub fn next_position(&self, position: u64) -> Result<Option<OffsetPosition>, LogError> {
        let found = self.first_where_not(|entry| self.decoded(*entry).position <= position)?;
        Ok(found.map(|entry| self.decoded(entry)))
    }

    /// Decodes the whole entries of the index of a segment, whatever they say.
    pub fn decode_entries(
        base_offset: Offset,
        coded: &[u8],
    ) -> impl Iterator<Item = OffsetPosition> {
        coded.chunks_exact(OffsetEntry::WIDTH).map(move |coded| {
            let entry = OffsetEntry::decode(coded);
            OffsetPosition {
                offset: Offset(base_offset.0.saturating_add(i64::from(entry.relative_offset))),
                position: u64::from(entry.position.unsigned_abs()),
            }
        })
    }

    /// The last entry.
    pub fn last(&self) -> Result<Option<OffsetPosition>, LogError> {
        Ok(self.last_entry()?.map(|entry| self.decoded(entry)))
    }

    fn decoded(&self, entry: OffsetEntry) -> OffsetPosition {
        // Valid entries are not negative.
        let position = u64::from(entry.position.unsigned_abs());
        OffsetPosition { offset: self.offset_of(&entry), position }
    }
}

/// An entry of an offset index, as coded.
#[derive(Debug, Clone, Copy)]
pub struct OffsetEntry {
    relative_offset: i32,
    position: i32,
}

impl Entry for OffsetEntry {
    const WIDTH: usize = 8;

    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.relative_offset.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(coded: &[u8]) -> OffsetEntry {
        let (relative_offset, position) = coded.split_at(4);
        OffsetEntry {
            relative_offset: i32::from_be_bytes(relative_offset.try_into().expect("4 bytes")),
            position: i32::from_be_bytes(position.try_into().expect("4 bytes")),
        }
    }

    fn is_before(&self, next: &OffsetEntry) -> bool {
        self.relative_offset < next.relative_offset && self.position < next.position
    }

    fn is_valid(&self) -> bool {
        self.relative_offset >= 0 && self.position >= 0
    }

    fn relative_offset(&self) -> i32 {
        self.relative_offset
    }
}
