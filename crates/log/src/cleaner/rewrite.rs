//! Writing the segment that a group of segments becomes.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use bytes::BufMut;
use logway_model::Offset;
use logway_record::BatchHeader;

use super::batches::{Batches, PlacedBatch, corrupt};
use super::filter::{Filter, Filtered};
use super::pace::{Cancelled, Pace};
use super::range::Group;
use super::swap::{self, cleaned_path};
use super::transactions::AbortedTransaction;
use crate::LogError;
use crate::checkpoint::replace_file;
use crate::fs::Fs;
use crate::scan::ScannedBatch;
use crate::segment::{Segment, TXN_INDEX_EXTENSION, file_path};

/// Why a round has ended early.
#[derive(Debug, Clone)]
pub(super) enum Interrupted {
    /// It was told to.
    Cancelled,
    /// Something went wrong.
    Failed(LogError),
}

impl From<Cancelled> for Interrupted {
    fn from(_: Cancelled) -> Interrupted {
        Interrupted::Cancelled
    }
}

impl From<LogError> for Interrupted {
    fn from(error: LogError) -> Interrupted {
        Interrupted::Failed(error)
    }
}

/// What a group became.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rewritten {
    /// What the segments had.
    pub(super) read_bytes: u64,
    /// What their successor has.
    pub(super) size_bytes: u64,
    /// Whether anything is different.
    pub(super) is_changed: bool,
}

/// Where segments are rewritten.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) fs: &'a Arc<dyn Fs>,
    /// The directory of the partition.
    pub(super) dir: &'a Path,
    pub(super) index_interval_bytes: u32,
    pub(super) pace: Pace<'a>,
}

/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// The cleaner stops while less is free: the last of it belongs to those who append.
pub(super) const FREE_MIN_BYTES: u64 = 16 << 20;

/// Writes the cleaned files of a group, on stable storage but for their names. What is there after
/// an error or without a change is to be discarded.
pub(super) fn rewrite(
    place: &Place<'_>,
    group: &Group,
    filter: &mut Filter<'_>,
    aborted: &[AbortedTransaction],
) -> Result<Rewritten, Interrupted> {
    let base_offset = group.segments[0].base_offset();
    swap::discard(&**place.fs, place.dir, base_offset);
    let mut output = Output::create(place, base_offset)?;
    let mut read_bytes = 0;
    let mut is_changed = group.segments.len() > 1;
    for (index, segment) in group.segments.iter().enumerate() {
        let next = group.segments.get(index + 1);
        let end = next.map_or(group.end, |next| next.base_offset());
        let mut batches = Batches::of(segment, end, place.pace)?;
        while let Some(PlacedBatch { batch, position, is_last }) = batches.next()? {
            let filtered = filter.filter(&batch, is_last && next.is_none());
            let filtered = filtered.map_err(|error| corrupt(segment, position, &error))?;
            is_changed |= !matches!(filtered, Filtered::AsIs);
            match filtered {
                Filtered::AsIs => output.push(batch.header(), batch.bytes())?,
                Filtered::Replaced(retained) => output.push(&retained.header, &retained.bytes)?,
                Filtered::Dropped => {}
            }
        }
        read_bytes += segment.size_bytes();
    }
    let size_bytes = output.end_position();
    if is_changed {
        output.finish()?;
        write_aborted(place, base_offset, aborted)?;
        place.fs.sync_dir(place.dir).map_err(LogError::io("sync", place.dir))?;
    }
    Ok(Rewritten { read_bytes, size_bytes, is_changed })
}

/// The segment that is being written.
struct Output<'a> {
    place: &'a Place<'a>,
    segment: Segment,
    buffer: Vec<u8>,
    written_bytes: u64,
}

impl<'a> Output<'a> {
    fn create(place: &'a Place<'a>, base_offset: Offset) -> Result<Output<'a>, LogError> {
        let segment = Segment::create_cleaned(place.fs, place.dir, base_offset)?;
        Ok(Output { place, segment, buffer: Vec::new(), written_bytes: 0 })
    }

    fn push(&mut self, header: &BatchHeader, bytes: &[u8]) -> Result<(), Interrupted> {
        let batch = ScannedBatch { position: self.end_position(), header: *header };
        self.segment.note_batch(&batch, self.place.index_interval_bytes)?;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn end_position(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    fn write(&mut self) -> Result<(), Interrupted> {
        let Place { fs, dir, pace, .. } = *self.place;
        let free_bytes = fs.free_bytes(dir).map_err(LogError::io("look at", dir))?;
        if free_bytes < FREE_MIN_BYTES + self.buffer.len() as u64 {
            return Err(LogError::DiskFull { dir: dir.to_owned(), free_bytes }.into());
        }
        let path = self.segment.path();
        let file = self.segment.file()?;
        file.write_all_at(&[IoSlice::new(&self.buffer)], self.written_bytes)
            .map_err(LogError::io("write", path))?;
        let bytes = self.buffer.len() as u64;
        self.written_bytes += bytes;
        self.buffer.clear();
        self.segment.set_size_bytes(self.written_bytes);
        Ok(pace.use_disk(bytes)?)
    }

    fn finish(mut self) -> Result<(), Interrupted> {
        self.write()?;
        let sync = LogError::io("sync", self.segment.path());
        self.segment.file()?.sync_data().map_err(sync)?;
        Ok(self.segment.sync_indexes()?)
    }
}

/// Writes the index of aborted transactions, for those of which records stay; an empty one if there
/// was one.
///
/// An entry has 34 bytes: a version of 0 (2), the producer (8), the first offset (8), that of the
/// marker (8), and the last stable offset when the marker was written (8).
fn write_aborted(
    place: &Place<'_>,
    base_offset: Offset,
    aborted: &[AbortedTransaction],
) -> Result<(), LogError> {
    let fs = &**place.fs;
    let old = file_path(place.dir, base_offset, TXN_INDEX_EXTENSION);
    let exists = fs.exists(&old).map_err(LogError::io("look for", &old))?;
    if aborted.is_empty() && !exists {
        return Ok(());
    }
    let mut entries = Vec::with_capacity(aborted.len() * 34);
    for transaction in aborted {
        entries.put_i16(0);
        entries.put_i64(transaction.producer_id.0);
        entries.put_i64(transaction.first.0);
        entries.put_i64(transaction.last.0);
        entries.put_i64(transaction.last_stable.0);
    }
    replace_file(fs, &cleaned_path(place.dir, base_offset, TXN_INDEX_EXTENSION), &entries)
}
