//! A look at the files of a log directory from outside, for `logway log dump`, `verify` and `repair`.
//!
//! | file | idea |
//! |---|---|
//! | this one | the walk through the batches of a segment, and through the damage between them |
//! | `data_dir` | a log directory: its lock, its partitions, its own files |
//! | `partition_check`, `segment_check`, `companions` | what is wrong with the files of a partition |
//! | `checkpoint_check`, `identity` | what is wrong with those of the log directory |
//! | `journal_check` | what a crash has left in the journal |
//! | `index_cursor`, `epoch_runs` | what makes that cheap in memory |
//! | `known`, `root_files`, `expected` | what other files, and the metadata, say of a log |
//! | `repair` | writing what can be made again |
//!
//! To look, nothing is opened for writing, so that it also works beside a running broker; the end of
//! a log that is being appended to then looks like one that a crash cut off. Every part reads on
//! behind damage. Nothing here changes a record.

use std::fmt;
use std::iter::FusedIterator;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_model::Offset;
use logway_record::Batch;

use crate::LogError;
use crate::cleaner::{SWAP_SUFFIX, end_of_cleaned};
use crate::file_names::{LOG_EXTENSION, parse_file_name};
use crate::fs::{File, Fs, OpenMode};
use crate::resync::Search;
use crate::scan::BatchScan;

pub use data_dir::{Access, DataDir};
pub use expected::{ExpectedLog, ExpectedLogs};
pub use journal_check::{Journalled, JournalledRecords, journalled};
pub use partition_check::{CheckedPartition, Verified, verify};
pub use problem::{Problem, Repair};
pub use repair::Change;

mod checkpoint_check;
mod companions;
mod data_dir;
mod epoch_runs;
mod expected;
mod identity;
mod index_cursor;
mod journal_check;
mod known;
mod partition_check;
mod problem;
mod repair;
mod root_files;
mod segment_check;

/// The directories of partitions in a log directory; or `path` itself if it is one.
pub fn partition_dirs(fs: &dyn Fs, path: &Path) -> Result<Vec<PathBuf>, LogError> {
    if !segments(fs, path)?.is_empty() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs.read_dir(path).map_err(LogError::io("list", path))? {
        let dir = path.join(&entry.name);
        if entry.is_dir && !segments(fs, &dir)?.is_empty() {
            found.push(dir);
        }
    }
    Ok(found)
}

/// The segments in a partition's directory, by base offset.
///
/// One that is about to take the place of others, after compaction, is here in their place, as the
/// next start would have it.
pub fn segments(fs: &dyn Fs, dir: &Path) -> Result<Vec<SegmentFile>, LogError> {
    let (mut found, mut swaps) = (Vec::new(), Vec::new());
    for entry in fs.read_dir(dir).map_err(LogError::io("list", dir))? {
        let Some(name) = entry.name.to_str().filter(|_| !entry.is_dir) else { continue };
        let (name, list) = match name.strip_suffix(SWAP_SUFFIX) {
            Some(name) => (name, &mut swaps),
            None => (name, &mut found),
        };
        if let Some((base_offset, LOG_EXTENSION)) = parse_file_name(name) {
            let path = dir.join(&entry.name);
            let len_bytes = fs.file_len(&path).map_err(LogError::io("look at", &path))?;
            // One that a running broker removes meanwhile is as one that was never there.
            list.extend(len_bytes.map(|len_bytes| SegmentFile { path, base_offset, len_bytes }));
        }
    }
    for swap in swaps {
        let end = match end_of_cleaned(fs, &swap.path) {
            // It is for whoever reads it to find out what is wrong with it.
            Err(LogError::Corrupt { .. }) => swap.base_offset.next(),
            end => end?,
        };
        found.retain(|segment| !(swap.base_offset..end).contains(&segment.base_offset));
        found.push(swap);
    }
    found.sort_unstable_by_key(|segment| segment.base_offset);
    Ok(found)
}

/// A segment's file of batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// The file.
    pub path: PathBuf,
    /// The offset that it begins with, according to its name.
    pub base_offset: Offset,
    /// Its length.
    pub len_bytes: u64,
}

impl SegmentFile {
    /// Walks the batches.
    pub fn batches(&self, fs: &dyn Fs) -> Result<SegmentBatches, LogError> {
        let file = fs.open(&self.path, OpenMode::Read).map_err(LogError::io("open", &self.path))?;
        Ok(SegmentBatches {
            scan: BatchScan::new(Arc::clone(&file), &self.path, 0, self.len_bytes),
            segment: self.clone(),
            file,
            end: self.base_offset,
            behind_damage: None,
            has_ended: false,
        })
    }
}

/// The batches of a segment, each with the right CRC, and the damage between them.
///
/// Anything but damage that keeps it from reading ends the iteration.
pub struct SegmentBatches {
    scan: BatchScan,
    segment: SegmentFile,
    file: Arc<dyn File>,
    /// The offset after the last batch so far.
    end: Offset,
    /// The batch behind the damage that was returned last.
    behind_damage: Option<PlacedBatch>,
    has_ended: bool,
}

/// What a walk through a segment comes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walked {
    /// A good batch.
    Batch(PlacedBatch),
    /// Bytes that are no good batch.
    Damage(Damage),
}

/// A batch and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedBatch {
    /// Where it begins, in bytes from the start of the segment's file.
    pub position: u64,
    /// The batch.
    pub batch: Batch,
}

/// A part of a segment that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, in bytes from the start of the segment's file.
    pub position: u64,
    /// Where it ends: at the next good batch, or with the file.
    pub end_position: u64,
    /// What is wrong at its beginning.
    pub reason: String,
    /// The records that were there.
    pub lost: LostOffsets,
}

/// Offsets whose records cannot be read, if there were any: compaction leaves gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostOffsets {
    /// The first of them.
    pub first: Offset,
    /// The offset of the next good batch, if there is one in the segment.
    pub end: Option<Offset>,
}

impl fmt::Display for LostOffsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end.map(|end| end + -1) {
            Some(last) if last <= self.first => write!(f, "offset {}", self.first),
            Some(last) => write!(f, "offsets {} to {last}", self.first),
            None => write!(f, "offsets from {} on", self.first),
        }
    }
}

impl SegmentBatches {
    /// Finds the way out of the damage where the scan stands.
    fn pass_damage(&mut self, reason: String) -> Result<Damage, LogError> {
        let position = self.scan.position();
        let search = Search {
            file: &self.file,
            path: &self.segment.path,
            base_offset: self.segment.base_offset,
            len_bytes: self.segment.len_bytes,
            end: self.end,
        };
        let resumed = search.find_batch_after(position)?;
        if let Some(resumed) = resumed {
            self.scan.seek(resumed);
            let batch = self.scan.next()?;
            self.behind_damage = batch.map(|batch| PlacedBatch { position: resumed, batch });
        }
        self.has_ended = self.behind_damage.is_none();
        Ok(Damage {
            position,
            end_position: resumed.unwrap_or(self.segment.len_bytes),
            reason,
            lost: LostOffsets {
                first: self.end,
                end: self.behind_damage.as_ref().map(|placed| placed.batch.base_offset()),
            },
        })
    }

    fn walk(&mut self) -> Result<Option<Walked>, LogError> {
        let position = self.scan.position();
        let placed = match self.behind_damage.take() {
            Some(placed) => Some(placed),
            None => match self.scan.next() {
                Ok(batch) => batch.map(|batch| PlacedBatch { position, batch }),
                Err(LogError::Corrupt { reason, .. }) => {
                    return self.pass_damage(reason).map(|damage| Some(Walked::Damage(damage)));
                }
                Err(error) => return Err(error),
            },
        };
        if let Some(placed) = &placed {
            self.end = self.end.max(placed.batch.last_offset().next());
        }
        Ok(placed.map(Walked::Batch))
    }
}

impl Iterator for SegmentBatches {
    type Item = Result<Walked, LogError>;

    fn next(&mut self) -> Option<Result<Walked, LogError>> {
        if self.has_ended {
            return None;
        }
        let walked = self.walk();
        self.has_ended |= !matches!(walked, Ok(Some(_)));
        walked.transpose()
    }
}

impl FusedIterator for SegmentBatches {}
