//! Whether the files of a partition are what they should be.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use logway_model::Offset;
use logway_record::{Batch, DecodeLimit};

use super::{Damage, LostOffsets, PlacedBatch, SegmentFile, Walked, segments};
use crate::LogError;
use crate::checkpoint::{PartitionMetadata, leader_epoch};
use crate::cleaner::{CLEANED_SUFFIX, SWAP_SUFFIX};
use crate::fs::{Fs, OpenMode, read_to_end};
use crate::index::{OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset};
use crate::producer_state::snapshot;
use crate::segment::{INDEX_EXTENSION, SNAPSHOT_EXTENSION, TIME_INDEX_EXTENSION, parse_file_name};

/// Something in a partition's files that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Where in it, in bytes from its start; 0 for the file as a whole.
    pub position: u64,
    /// What is wrong.
    pub reason: String,
    /// The records that cannot be read because of it.
    pub lost: Option<LostOffsets>,
    /// Whether it is at the end of the last segment, where an append may be under way, or was when
    /// the broker was killed; the next start of the broker settles it.
    pub may_be_unfinished: bool,
}

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

/// More than any index that a segment of 2 GiB can have.
const INDEX_MAX_BYTES: usize = 1 << 30;

/// Reads all files of a partition, down to each record, and reports what is wrong with them:
/// bad batches, offsets that do not increase, segments that are missing, index entries that point
/// to nowhere, snapshots and checkpoints that do not decode.
///
/// # Errors
///
/// Only what keeps it from reading; all else is a [`Problem`].
pub fn verify(
    fs: &dyn Fs,
    dir: &Path,
    mut on_problem: impl FnMut(Problem),
) -> Result<Verified, LogError> {
    let mut verified = Verified::default();
    let mut problems = 0;
    let mut report = |problem| {
        problems += 1;
        on_problem(problem);
    };
    let segments = segments(fs, dir)?;
    let mut has_inner_gaps = false;
    let mut missing = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let next_base = segments.get(index + 1).map(|next| next.base_offset);
        let mut check = SegmentCheck {
            segment,
            next_base,
            has_inner_gaps: false,
            verified: &mut verified,
            report: &mut report,
        };
        let is_whole = check.run(fs)?;
        has_inner_gaps |= check.has_inner_gaps;
        let end = verified.end_offset.unwrap_or(segment.base_offset).max(segment.base_offset);
        if let Some(next_base) = next_base.filter(|&next_base| is_whole && next_base > end) {
            let reason = "segments or their ends are missing behind it".to_owned();
            let lost = Some(LostOffsets { first: end, end: Some(next_base) });
            let (path, position) = (segment.path.clone(), segment.len_bytes);
            missing.push(Problem { path, position, reason, lost, may_be_unfinished: false });
        }
    }
    if !has_inner_gaps {
        // Compaction leaves gaps between segments, but then within them, too.
        missing.into_iter().for_each(&mut report);
    }
    verified.segments = segments.len();
    verify_companions(fs, dir, &mut report)?;
    verified.problems = problems;
    Ok(verified)
}

/// The check of one segment and its indexes.
struct SegmentCheck<'a> {
    segment: &'a SegmentFile,
    /// Where the next segment begins; `None` for the last one.
    next_base: Option<Offset>,
    /// Offsets were left out from one batch to the next, or before the first.
    has_inner_gaps: bool,
    verified: &'a mut Verified,
    report: &'a mut dyn FnMut(Problem),
}

impl SegmentCheck<'_> {
    /// Returns whether the last batch is good.
    fn run(&mut self, fs: &dyn Fs) -> Result<bool, LogError> {
        let offsets = self.offset_entries(fs)?;
        let times = self.time_entries(fs)?;
        let mut offsets = offsets.iter().enumerate().peekable();
        let mut times = times.iter().enumerate().peekable();
        for walked in self.segment.batches(fs)? {
            let placed = match walked? {
                Walked::Batch(placed) => placed,
                Walked::Damage(damage) => {
                    let (end_position, end) = (damage.end_position, damage.lost.end);
                    self.damage(damage);
                    // Entries about batches that nobody can find say nothing.
                    let Some(end) = end else { return Ok(false) };
                    while offsets.next_if(|(_, entry)| entry.position < end_position).is_some() {}
                    while times.next_if(|(_, entry)| entry.offset < end).is_some() {}
                    continue;
                }
            };
            self.check_batch(&placed);
            let is_reached =
                |(_, entry): &(usize, &OffsetPosition)| entry.position <= placed.position;
            while let Some((index, entry)) = offsets.next_if(is_reached) {
                self.check_offset_entry(index, entry, &placed);
            }
            let last_offset = placed.batch.last_offset();
            let is_reached = |(_, entry): &(usize, &TimestampOffset)| entry.offset <= last_offset;
            while let Some((index, entry)) = times.next_if(is_reached) {
                self.check_time_entry(index, entry, &placed.batch);
            }
        }
        if let Some((index, entry)) = offsets.next() {
            let reason = format!("it points to byte {}, behind the batches", entry.position);
            self.entry_problem(INDEX_EXTENSION, index, reason);
        }
        if let Some((index, entry)) = times.next() {
            let reason = format!("it points to offset {}, behind the batches", entry.offset);
            self.entry_problem(TIME_INDEX_EXTENSION, index, reason);
        }
        Ok(true)
    }

    /// Reports damage; what was lost by it is no gap that compaction has left.
    fn damage(&mut self, damage: Damage) {
        let Damage { position, reason, mut lost, .. } = damage;
        let is_followed = lost.end.is_some();
        if let Some(end) = lost.end {
            self.verified.end_offset = self.verified.end_offset.max(Some(end));
        } else {
            lost.end = self.next_base.filter(|&next_base| next_base > lost.first);
        }
        let path = self.segment.path.clone();
        let may_be_unfinished = self.next_base.is_none() && !is_followed;
        (self.report)(Problem { path, position, reason, lost: Some(lost), may_be_unfinished });
    }

    fn check_batch(&mut self, placed: &PlacedBatch) {
        let PlacedBatch { position, batch } = placed;
        let (base, last) = (batch.base_offset(), batch.last_offset());
        let expected = self.verified.end_offset.unwrap_or(self.segment.base_offset);
        self.has_inner_gaps |= base > expected.max(self.segment.base_offset);
        if base < expected.max(self.segment.base_offset) {
            self.batch_problem(*position, format!("offset {base} comes where {expected} is next"));
        }
        if let Some(next_base) = self.next_base.filter(|&next_base| last >= next_base) {
            let reason = format!("offset {last} belongs into the segment of {next_base}");
            self.batch_problem(*position, reason);
        }
        match count_records(batch) {
            Ok(records) => self.verified.records += records,
            Err(reason) => self.batch_problem(*position, reason),
        }
        self.verified.batches += 1;
        self.verified.bytes += batch.size_bytes() as u64;
        self.verified.first_offset.get_or_insert(base);
        self.verified.end_offset = Some(last.next().max(expected));
    }

    fn check_offset_entry(&mut self, index: usize, entry: &OffsetPosition, placed: &PlacedBatch) {
        let last_offset = placed.batch.last_offset();
        if (entry.position, entry.offset) != (placed.position, last_offset) {
            let reason = format!(
                "it has offset {} at byte {}, but the batch at byte {} ends with {}",
                entry.offset, entry.position, placed.position, last_offset
            );
            self.entry_problem(INDEX_EXTENSION, index, reason);
        }
    }

    fn check_time_entry(&mut self, index: usize, entry: &TimestampOffset, batch: &Batch) {
        let (last_offset, largest) = (batch.last_offset(), batch.header().max_timestamp);
        if (entry.offset, entry.timestamp) != (last_offset, largest) {
            let reason = format!(
                "it has timestamp {} for offset {}, but the batch up to {} has {}",
                entry.timestamp, entry.offset, last_offset, largest
            );
            self.entry_problem(TIME_INDEX_EXTENSION, index, reason);
        }
    }

    fn offset_entries(&mut self, fs: &dyn Fs) -> Result<Vec<OffsetPosition>, LogError> {
        let coded = self.read_index(fs, INDEX_EXTENSION, OffsetIndex::ENTRY_BYTES)?;
        let entries: Vec<_> =
            OffsetIndex::decode_entries(self.segment.base_offset, &coded).collect();
        let increases = |pair: &[OffsetPosition]| {
            pair[0].offset < pair[1].offset && pair[0].position < pair[1].position
        };
        let reversed = entries.windows(2).position(|pair| !increases(pair));
        Ok(self.usable(INDEX_EXTENSION, entries, reversed))
    }

    fn time_entries(&mut self, fs: &dyn Fs) -> Result<Vec<TimestampOffset>, LogError> {
        let coded = self.read_index(fs, TIME_INDEX_EXTENSION, TimeIndex::ENTRY_BYTES)?;
        let entries: Vec<_> = TimeIndex::decode_entries(self.segment.base_offset, &coded).collect();
        let increases = |pair: &[TimestampOffset]| pair[0].timestamp < pair[1].timestamp;
        let reversed = entries.windows(2).position(|pair| !increases(pair));
        Ok(self.usable(TIME_INDEX_EXTENSION, entries, reversed))
    }

    /// The entries, unless the one after `reversed` is not above it: then they say nothing.
    fn usable<E>(&mut self, extension: &str, entries: Vec<E>, reversed: Option<usize>) -> Vec<E> {
        let Some(index) = reversed else { return entries };
        self.entry_problem(extension, index + 1, "it is not above the entry before".to_owned());
        Vec::new()
    }

    /// The bytes of an index; none if there is no file.
    fn read_index(
        &mut self,
        fs: &dyn Fs,
        extension: &'static str,
        entry_bytes: usize,
    ) -> Result<Vec<u8>, LogError> {
        let path = self.segment.path.with_extension(extension);
        if !fs.exists(&path).map_err(LogError::io("look for", &path))? {
            return Ok(Vec::new());
        }
        let file = fs.open(&path, OpenMode::Read).map_err(LogError::io("open", &path))?;
        let coded = read_to_end(&*file, INDEX_MAX_BYTES).map_err(LogError::io("read", &path))?;
        if coded.len() % entry_bytes != 0 {
            let reason = format!("the entry has not its {entry_bytes} bytes");
            self.entry_problem(extension, coded.len() / entry_bytes, reason);
        }
        Ok(coded)
    }

    fn batch_problem(&mut self, position: u64, reason: String) {
        let path = self.segment.path.clone();
        (self.report)(Problem { path, position, reason, lost: None, may_be_unfinished: false });
    }

    fn entry_problem(&mut self, extension: &str, index: usize, reason: String) {
        let entry_bytes = match extension {
            INDEX_EXTENSION => OffsetIndex::ENTRY_BYTES,
            _ => TimeIndex::ENTRY_BYTES,
        };
        let path = self.segment.path.with_extension(extension);
        let position = (index * entry_bytes) as u64;
        // The indexes of the last segment are made anew after a crash.
        let may_be_unfinished = self.next_base.is_none();
        (self.report)(Problem { path, position, reason, lost: None, may_be_unfinished });
    }
}

/// Walks all records of a batch and counts them.
fn count_records(batch: &Batch) -> Result<u64, String> {
    let mut count = 0;
    let walked = batch.walk(DecodeLimit::BATCH_MAX, |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    walked.map(|()| count).map_err(|error| error.to_string())
}

/// Decodes the small files beside the segments.
fn verify_companions(
    fs: &dyn Fs,
    dir: &Path,
    report: &mut dyn FnMut(Problem),
) -> Result<(), LogError> {
    for entry in fs.read_dir(dir).map_err(LogError::io("list", dir))? {
        let path = dir.join(&entry.name);
        let Some(name) = entry.name.to_str().filter(|_| !entry.is_dir) else { continue };
        if name.ends_with(SWAP_SUFFIX) || name.ends_with(CLEANED_SUFFIX) {
            let reason = "compaction has not come to its end".to_owned();
            report(Problem { path, position: 0, reason, lost: None, may_be_unfinished: true });
            continue;
        }
        let read = match parse_file_name(name) {
            Some((_, SNAPSHOT_EXTENSION)) => snapshot::read(fs, &path).map(drop),
            None if name == leader_epoch::LEADER_EPOCH_FILE => {
                leader_epoch::read(fs, &path).map(drop)
            }
            None if name == PartitionMetadata::FILE => PartitionMetadata::read(fs, &path).map(drop),
            _ => Ok(()),
        };
        let (position, reason) = match read {
            Ok(()) => continue,
            Err(LogError::Corrupt { position, reason, .. }) => (position, reason),
            Err(LogError::Malformed { line, reason, .. }) => (0, format!("line {line}: {reason}")),
            Err(error) => return Err(error),
        };
        report(Problem { path, position, reason, lost: None, may_be_unfinished: false });
    }
    Ok(())
}
