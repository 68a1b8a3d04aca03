//! Writing the segment that a group of segments becomes.

use std::io::IoSlice;
use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset};
use logway_record::{BATCH_HEADER_BYTES, Batch, BatchHeader, DecodeLimit, RecordError, Rewriting};

use super::batches::{Batches, PlacedBatch, corrupt};
use super::filter::{Behind, Filter, Filtered};
use super::pace::{Cancelled, Pace};
use super::range::Group;
use super::swap::{self, cleaned_path};
use crate::LogError;
use crate::checkpoint::replace_file;
use crate::dir_syncs::DirSyncs;
use crate::file_names::{TXN_INDEX_EXTENSION, file_path};
use crate::fs::Fs;
use crate::index::encode_aborted;
use crate::producer_state::AbortedTransaction;
use crate::scan::ScannedBatch;
use crate::segment::Segment;

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
    /// Of the directory of the partition.
    pub(super) syncs: &'a DirSyncs,
    pub(super) index_interval_bytes: u32,
    pub(super) pace: Pace<'a>,
}

/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// What a segment can have: positions in it are of 31 bits. Without a change of the packer the segments
/// of a group fit into one.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// The cleaner stops while less is free: the last of it belongs to those who append.
pub(super) const FREE_MIN_BYTES: u64 = 16 << 20;

/// Writes the cleaned files of a group, on stable storage but for their names, if anything changes.
/// What is there after an error is to be discarded.
pub(super) fn rewrite(
    place: &Place<'_>,
    group: &Group,
    filter: &mut Filter<'_>,
    aborted: &[AbortedTransaction],
) -> Result<Rewritten, Interrupted> {
    let base_offset = group.segments[0].base_offset();
    swap::discard(&**place.fs, place.syncs.dir(), base_offset);
    // What nothing is to change in is not written in vain.
    let is_merged = group.segments.len() > 1;
    let mut output = is_merged.then(|| Output::create(place, base_offset)).transpose()?;
    let mut read_bytes = 0;
    let mut leader_epoch = LeaderEpoch::NONE;
    for (index, segment) in group.segments.iter().enumerate() {
        let next = group.segments.get(index + 1);
        let end = next.map_or(group.end, |next| next.base_offset());
        let mut batches = Batches::of(segment, end, place.pace)?;
        while let Some(PlacedBatch { batch, position, is_last }) = batches.next()? {
            let behind = match is_last && next.is_none() {
                false => Behind::Batch,
                true if group.end >= filter.log_end => Behind::LogEnd,
                true => Behind::Segment,
            };
            let filtered = filter.filter(&batch, behind);
            let filtered = filtered.map_err(|error| corrupt(segment, position, &error))?;
            leader_epoch = batch.header().leader_epoch;
            let output = match &mut output {
                Some(output) => output,
                None if matches!(filtered, Filtered::AsIs) => continue,
                None => output.insert(begin_with_copy(place, segment, end, position)?),
            };
            match filtered {
                Filtered::AsIs => output.push(&batch)?,
                Filtered::Rewritten(rewrite) => {
                    let rewriting = batch.rewriting(&rewrite, DecodeLimit::BATCH_MAX);
                    let corrupt = |error| corrupt(segment, position, &error);
                    output.rewrite(rewriting.map_err(corrupt)?, corrupt)?;
                }
                Filtered::Emptied => output.push(&batch.emptied())?,
                Filtered::Dropped => {}
            }
        }
        read_bytes += segment.size_bytes();
    }
    let Some(mut output) = output else {
        return Ok(Rewritten { read_bytes, size_bytes: read_bytes, is_changed: false });
    };
    if is_merged {
        output.fill_to(group.end, leader_epoch)?;
    }
    let size_bytes = output.end_position();
    output.finish(group.segments.last().expect("a group has a segment"))?;
    write_aborted(place, base_offset, aborted)?;
    place.syncs.sync_all(&**place.fs)?;
    Ok(Rewritten { read_bytes, size_bytes, is_changed: true })
}

/// Begins the successor of a segment with the batches before `position`, as they are.
fn begin_with_copy<'a>(
    place: &'a Place<'_>,
    segment: &Segment,
    end: Offset,
    position: u64,
) -> Result<Output<'a>, Interrupted> {
    let mut output = Output::create(place, segment.base_offset())?;
    let mut batches = Batches::of(segment, end, place.pace)?;
    while output.end_position() < position
        && let Some(PlacedBatch { batch, .. }) = batches.next()?
    {
        output.push(&batch)?;
    }
    Ok(output)
}

/// The segment that is being written.
struct Output<'a> {
    place: &'a Place<'a>,
    segment: Segment,
    buffer: Vec<u8>,
    written_bytes: u64,
    /// The offset behind the last batch.
    end: Offset,
}

impl<'a> Output<'a> {
    fn create(place: &'a Place<'a>, base_offset: Offset) -> Result<Output<'a>, LogError> {
        let segment = Segment::create_cleaned(place.fs, place.syncs.dir(), base_offset)?;
        Ok(Output { place, segment, buffer: Vec::new(), written_bytes: 0, end: base_offset })
    }

    /// Takes a batch as it is.
    fn push(&mut self, batch: &Batch) -> Result<(), Interrupted> {
        self.note(self.end_position(), batch.header())?;
        self.buffer.extend_from_slice(batch.bytes());
        self.write_if_much()
    }

    /// Takes what becomes of a batch, piece by piece; the header, which comes last, into the room
    /// that it is left.
    fn rewrite(
        &mut self,
        mut rewriting: Rewriting<'_>,
        corrupt: impl Fn(RecordError) -> LogError,
    ) -> Result<(), Interrupted> {
        let position = self.end_position();
        self.buffer.extend_from_slice(&[0; BATCH_HEADER_BYTES]);
        while let Some(piece) = rewriting.next_piece().map_err(&corrupt)? {
            self.buffer.extend_from_slice(&piece);
            self.write_if_much()?;
        }
        let header = rewriting.into_header();
        self.put(position, &header.encode())?;
        Ok(self.note(position, &header)?)
    }

    /// Says that the segment goes on to `end`, should its last batches not say it: the last of its
    /// predecessors may have no batch at all, when what it had was lost.
    fn fill_to(&mut self, end: Offset, leader_epoch: LeaderEpoch) -> Result<(), Interrupted> {
        let missing = Batch::placeholders(self.end, end, leader_epoch);
        missing.iter().try_for_each(|placeholder| self.push(placeholder))
    }

    fn note(&mut self, position: u64, header: &BatchHeader) -> Result<(), LogError> {
        self.end = header.next_offset();
        let batch = ScannedBatch { position, header: *header };
        self.segment.note_batch(&batch, self.place.index_interval_bytes)
    }

    /// Puts bytes where others were left room for.
    fn put(&mut self, position: u64, bytes: &[u8]) -> Result<(), LogError> {
        match position.checked_sub(self.written_bytes) {
            Some(at) => self.buffer[at as usize..][..bytes.len()].copy_from_slice(bytes),
            None => self.write_at(position, bytes)?,
        }
        Ok(())
    }

    fn end_position(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    fn write_if_much(&mut self) -> Result<(), Interrupted> {
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Interrupted> {
        let Place { fs, syncs, pace, .. } = *self.place;
        let dir = syncs.dir();
        if self.end_position() > SEGMENT_BYTES_MAX {
            let (path, position) = (self.segment.path().to_owned(), self.written_bytes);
            let reason = "what stays packs to more than a segment can have".to_owned();
            return Err(LogError::Corrupt { path, position, reason }.into());
        }
        let free_bytes = fs.free_bytes(dir).map_err(LogError::io("look at", dir))?;
        if free_bytes < FREE_MIN_BYTES + self.buffer.len() as u64 {
            return Err(LogError::DiskFull { dir: dir.to_path_buf(), free_bytes }.into());
        }
        self.write_at(self.written_bytes, &self.buffer)?;
        let bytes = self.buffer.len() as u64;
        self.written_bytes += bytes;
        self.buffer.clear();
        self.segment.set_size_bytes(self.written_bytes);
        Ok(pace.use_disk(bytes)?)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> Result<(), LogError> {
        let path = self.segment.path();
        let file = self.segment.file()?;
        file.write_all_at(&[IoSlice::new(bytes)], position).map_err(LogError::io("write", path))
    }

    /// `newest` is the last of those that the segment is made from.
    fn finish(mut self, newest: &Segment) -> Result<(), Interrupted> {
        self.write()?;
        self.segment.date_as(newest)?;
        let sync = LogError::io("sync", self.segment.path());
        self.segment.file()?.sync_data().map_err(sync)?;
        Ok(self.segment.sync_indexes()?)
    }
}

/// Writes the index of aborted transactions, for those of which records stay; an empty one if there
/// was one.
fn write_aborted(
    place: &Place<'_>,
    base_offset: Offset,
    aborted: &[AbortedTransaction],
) -> Result<(), LogError> {
    let fs = &**place.fs;
    let old = file_path(place.syncs.dir(), base_offset, TXN_INDEX_EXTENSION);
    let exists = fs.exists(&old).map_err(LogError::io("look for", &old))?;
    if aborted.is_empty() && !exists {
        return Ok(());
    }
    let mut entries = Vec::new();
    aborted.iter().for_each(|aborted| encode_aborted(aborted, &mut entries));
    let path = cleaned_path(place.syncs.dir(), base_offset, TXN_INDEX_EXTENSION);
    place.syncs.work(|| replace_file(fs, &path, &entries))
}
