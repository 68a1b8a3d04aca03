//! A look at partitions' files from outside, for `logway log dump` and `logway log verify`.
//!
//! Nothing is opened for writing, so that it also works beside a running broker; the end of a
//! log that is being appended to then looks like one that a crash cut off.

use std::iter::FusedIterator;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_model::Offset;
use logway_record::Batch;

use crate::LogError;
use crate::fs::{Fs, OpenMode};
use crate::resync::Search;
use crate::scan::BatchScan;
use crate::segment::{LOG_EXTENSION, file_path, parse_file_name};

pub use verify::{Problem, Verified, verify};

mod verify;

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
pub fn segments(fs: &dyn Fs, dir: &Path) -> Result<Vec<SegmentFile>, LogError> {
    let mut found = Vec::new();
    for entry in fs.read_dir(dir).map_err(LogError::io("list", dir))? {
        let name = entry.name.to_str().filter(|_| !entry.is_dir);
        if let Some((base_offset, LOG_EXTENSION)) = name.and_then(parse_file_name) {
            let path = file_path(dir, base_offset, LOG_EXTENSION);
            found.push(SegmentFile { path, base_offset, len_bytes: entry.len_bytes });
        }
    }
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
        let scan = BatchScan::new(Arc::clone(&file), &self.path, 0, self.len_bytes);
        Ok(SegmentBatches { scan, has_ended: false })
    }

    /// Whether a good batch follows somewhere behind the bad one at `bad`: then it is damage, and
    /// not an append that was cut off.
    pub(super) fn has_batch_after(&self, fs: &dyn Fs, bad: u64) -> Result<bool, LogError> {
        let file = fs.open(&self.path, OpenMode::Read).map_err(LogError::io("open", &self.path))?;
        let search = Search {
            file: &file,
            path: &self.path,
            base_offset: self.base_offset,
            len_bytes: self.len_bytes,
            end: self.base_offset,
        };
        Ok(search.find_batch_after(bad)?.is_some())
    }
}

/// The batches of a segment, each with the right CRC.
///
/// The first bad one ends the iteration with [`LogError::Corrupt`].
pub struct SegmentBatches {
    scan: BatchScan,
    has_ended: bool,
}

/// A batch and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedBatch {
    /// Where it begins, in bytes from the start of the segment's file.
    pub position: u64,
    /// The batch.
    pub batch: Batch,
}

impl Iterator for SegmentBatches {
    type Item = Result<PlacedBatch, LogError>;

    fn next(&mut self) -> Option<Result<PlacedBatch, LogError>> {
        if self.has_ended {
            return None;
        }
        let position = self.scan.position();
        let next = self.scan.next();
        self.has_ended = !matches!(next, Ok(Some(_)));
        let placed = next.transpose()?;
        Some(placed.map(|batch| PlacedBatch { position, batch }))
    }
}

impl FusedIterator for SegmentBatches {}
