//! Opening a log: loading what a clean shutdown left, or finding out what a crash did.
//!
//! After a crash, everything before the recovery point is known to have been on stable storage;
//! behind it may be anything. So the segments from the recovery point on are scanned, batch by
//! batch. Behind the recovery point, the first bad batch is where the crash cut the log off: it is
//! truncated there. Before the recovery point, a bad batch is damage to data that was
//! acknowledged: it is reported and left alone, and the scan looks for the next good batch.
//!
//! The recovery point moves at checkpoints, so that acknowledged batches may well lie behind it.
//! They are whole, because they were synced in order; no truncation reaches them. Where other
//! files show that more was on stable storage than the recovery point says (a snapshot of the
//! producers, which is written after the segments before it are synced; the list of segments that
//! the last start left), they count as much as it does. If the checkpoint itself is lost, nobody
//! knows where a crash may have cut: then only an end is truncated that no good batch follows.
//!
//! Segments that are not scanned are compared with that list, by the lengths that the listing of
//! the directory tells: that costs nothing, however much is stored. Only one that differs is
//! looked at.

use std::path::Path;
use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset, TopicId, TopicPartition, Uuid};
use logway_record::BatchHeader;

use crate::LogError;
use crate::checkpoint::segment_lists::SegmentList;
use crate::checkpoint::{
    LeaderEpochCache, PartitionMetadata, ReplicaMove, leader_epoch, remove_file, replace_file,
};
use crate::file_names::{ACCEPT_LOSS_FILE, FAILED_SYNC_FILE};
use crate::fs::Fs;
use crate::journal::{Piece, redo};
use crate::producer_state::snapshot::Snapshot;
use crate::producer_state::{
    EndedTransaction, Marker, ProducerBatch, ProducerLimits, ProducerStateTable,
};
use crate::scan::{HeaderScan, ScannedBatch};
use crate::segment::Segment;
use crate::transactions::EndedLately;
use crate::view::{LogPoint, LogView};
use early_sync::EarlySyncs;
use listing::Listing;

pub(crate) use producers::ProducersOnDisk;
pub use report::{Finding, RecoveryReport};

mod check;
mod early_sync;
mod known;
mod listing;
mod names;
mod producers;
mod report;
mod scan_log;
mod strays;
mod swaps;
mod uncommitted;

/// What is known of a log before it is opened.
pub(crate) struct RecoveryOptions<'a> {
    pub(crate) fs: &'a Arc<dyn Fs>,
    pub(crate) partition: &'a TopicPartition,
    /// The directory of the log.
    pub(crate) dir: &'a Path,
    /// The log directory was closed in good order.
    pub(crate) is_clean: bool,
    /// All that was written is there as it was written, up to where the last write was cut off; see
    /// [`CacheLife`](crate::checkpoint::cache_life::CacheLife).
    pub(crate) is_same_cache: bool,
    pub(crate) expected: Expected<'a>,
    pub(crate) index_interval_bytes: u32,
    /// See [`LogDirOptions::sync_later_bytes`](crate::LogDirOptions::sync_later_bytes).
    pub(crate) sync_later_bytes: u64,
    /// See [`LogDirOptions::checked_bytes_min`](crate::LogDirOptions::checked_bytes_min).
    pub(crate) checked_bytes_min: u64,
    pub(crate) producer_limits: &'a ProducerLimits,
    /// What the journal holds of the log.
    pub(crate) journalled: &'a [Piece],
    /// The one that was last written down, if the log had one.
    pub(crate) high_watermark: Option<Offset>,
}

/// What the files of the log directory say of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// From the checkpoint; zero for a log that is younger than it, `None` if nobody knows it
    /// because a checkpoint was lost.
    pub(crate) recovery_point: Option<Offset>,
    /// From the checkpoint.
    pub(crate) log_start: Offset,
    /// The segments that a log of this name had.
    pub(crate) listed: Option<&'a SegmentList>,
    /// A checkpoint speaks of the log, so that it was there and in use after all this was written down.
    pub(crate) was_in_use: bool,
    /// How far the journal had records of the log when the directory was opened.
    pub(crate) journalled: Option<JournalledEnd>,
}

/// How far the journal has records of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalledEnd {
    pub(crate) topic_id: TopicId,
    /// The offset after the last.
    pub(crate) end: Offset,
}

/// A log that is ready for the writer. All of it is on stable storage, unless there was so much to
/// scan that its sync is left to others: then all before `view.flushed` is.
pub(crate) struct RecoveredLog {
    pub(crate) topic_id: TopicId,
    pub(crate) replica_move: Option<ReplicaMove>,
    pub(crate) view: LogView,
    /// The recovery point in the checkpoint. `None` if nobody knows it, also because the log may be
    /// another than the one of this name that the files of the log directory speak of.
    pub(crate) known_recovery_point: Option<Offset>,
    pub(crate) producers: ProducerStateTable,
    /// Transactions that have their markers, at or behind the high watermark.
    pub(crate) uncommitted: EndedLately,
    /// Full segments whose indexes, or the snapshot behind them, found no space on the disk or are
    /// left to others; the oldest first.
    pub(crate) unsealed: Vec<Arc<Segment>>,
    /// Those of them that lie behind `view.flushed`, in a part or whole.
    pub(crate) unsynced: Vec<Arc<Segment>>,
    /// The producers as of the end of `unsealed`, if its sealing is left to others.
    pub(crate) snapshot: Option<Snapshot>,
    /// How much was scanned; if anything, checkpoints and snapshots on disk are behind.
    pub(crate) scanned_bytes: u64,
    /// The leader epochs are not those in their file.
    pub(crate) epochs_changed: bool,
    pub(crate) findings: Vec<Finding>,
}

/// Opens the log in a partition's directory; `None` if it never came to be: a crash interrupted
/// its creation, and the directory is removed. [`LogError::Vanished`] if nothing is in a
/// directory in which there were records.
pub(crate) fn recover_log(options: &RecoveryOptions<'_>) -> Result<Option<RecoveredLog>, LogError> {
    let RecoveryOptions { fs, dir, .. } = *options;
    recover(options).inspect_err(|error| {
        if let LogError::Io { op: "sync", .. } = error {
            note_failed_sync(&**fs, dir);
        }
    })
}

/// Else the next start would find clean pages that never reached the disk.
fn note_failed_sync(fs: &dyn Fs, dir: &Path) {
    if let Err(error) = replace_file(fs, &dir.join(FAILED_SYNC_FILE), b"") {
        let dir = dir.display();
        tracing::error!(%dir, %error, "cannot note down that a sync has failed");
    }
}

fn recover(options: &RecoveryOptions<'_>) -> Result<Option<RecoveredLog>, LogError> {
    let RecoveryOptions { fs, dir, .. } = *options;
    let mut listing = Listing::read(&**fs, dir)?;
    if !listing.half_named.is_empty() {
        names::give_back(&**fs, &listing.half_named)?;
        listing = Listing::read(&**fs, dir)?;
    }
    if !listing.swaps.is_empty() {
        // What a swap replaces is removed because its name is on the disk. That of a process that was
        // killed may be in the page cache alone.
        match listing.has_failed_sync {
            true => names::make_again(&**fs, dir)?,
            false => fs.sync_dir(dir).map_err(LogError::io("sync", dir))?,
        }
        swaps::finish_swaps(&**fs, dir, &listing)?;
        listing = Listing::read(&**fs, dir)?;
    }
    if listing.is_unfinished() {
        if options.expected.had_records() {
            return Err(options.expected.vanished(dir));
        }
        tracing::info!(dir = %dir.display(), "a log whose creation was interrupted is removed");
        fs.remove_dir_all(dir).map_err(LogError::io("remove", dir))?;
        return Ok(None);
    }
    if !options.is_clean && !options.expected.was_in_use {
        // A process that was killed while it made the log may not have come to it, and from the next
        // checkpoint on the log counts as one whose files are on the disk.
        fs.sync_dir(dir).map_err(LogError::io("sync", dir))?;
    }
    let topic_id = read_topic_id(options, &listing)?;
    let replica_move = match listing.has_move {
        true => ReplicaMove::read(&**fs, &dir.join(ReplicaMove::FILE))?,
        false => None,
    };
    let redone_end = redo_journalled(options, topic_id, &listing)?;
    if redone_end.is_some() {
        listing = Listing::read(&**fs, dir)?;
    }
    let Expected { recovery_point, listed, .. } = options.expected;
    let listed = listed.filter(|listed| listed.topic_id == topic_id);
    let known_end = recovery_point.max(listed.map(|list| list.end)).max(redone_end);
    let mut recovery = Recovery {
        options,
        listed,
        recovery_point,
        durable_end: known_end.unwrap_or(Offset::ZERO),
        log_start: options.expected.log_start,
        segments: Vec::new(),
        epochs: LeaderEpochCache::default(),
        saved_epochs: LeaderEpochCache::default(),
        producers: ProducerStateTable::new(
            options.partition.clone(),
            options.producer_limits.clone(),
        ),
        findings: Vec::new(),
        unsealed: Vec::new(),
        unsynced: Vec::new(),
        snapshot: None,
        leaves_syncs: false,
        has_failed_sync: listing.has_failed_sync,
        is_unsettled: false,
        early_syncs: EarlySyncs::default(),
        last_durable: None,
        scanned_bytes: 0,
    };
    recovery.clear_leftovers(&listing);
    recovery.ask_snapshots(&listing)?;
    recovery.judge_log_start(&listing)?;
    recovery.find_segments(&listing)?;
    recovery.load_epochs(&listing)?;
    let end = match recovery.load_clean_end(&listing)? {
        Some(end) => end,
        None => recovery.scan(&listing)?,
    };
    let uncommitted = recovery.find_uncommitted(&listing, end)?;
    recovery.remove_stray_snapshots(&listing, end)?;
    recovery.remove_stray_indexes(&listing, end);
    recovery.close_files()?;
    Ok(Some(RecoveredLog { replica_move, uncommitted, ..recovery.into_log(topic_id, end) }))
}

/// A log that is being opened.
struct Recovery<'a> {
    options: &'a RecoveryOptions<'a>,
    /// The segments that the log had.
    listed: Option<&'a SegmentList>,
    /// As expected, unless the log turns out to be another one.
    recovery_point: Option<Offset>,
    /// Everything before was on stable storage.
    durable_end: Offset,
    /// As expected, unless that cannot be.
    log_start: Offset,
    segments: Vec<Arc<Segment>>,
    epochs: LeaderEpochCache,
    /// Those in their file.
    saved_epochs: LeaderEpochCache,
    producers: ProducerStateTable,
    findings: Vec<Finding>,
    unsealed: Vec<Arc<Segment>>,
    unsynced: Vec<Arc<Segment>>,
    snapshot: Option<Snapshot>,
    /// What is new is not synced here.
    leaves_syncs: bool,
    has_failed_sync: bool,
    /// Something was cut off or removed, which has to be synced.
    is_unsettled: bool,
    /// Of the segments that are scanned, as they were before.
    early_syncs: EarlySyncs,
    /// Where the last batch begins that was scanned and begins at or before `durable_end`.
    last_durable: Option<LogPoint>,
    scanned_bytes: u64,
}

impl Expected<'_> {
    /// Up to where the log had records. The list may be of a log that was deleted since, so that
    /// it counts only if the checkpoint is lost.
    pub(crate) fn end(&self) -> Offset {
        let listed = || self.listed.map_or(Offset::ZERO, |listed| listed.end);
        let journalled_end = self.journalled.map_or(Offset::ZERO, |journalled| journalled.end);
        self.recovery_point.unwrap_or_else(listed).max(self.log_start).max(journalled_end)
    }

    /// Whether the log had records, or may have had some.
    pub(crate) fn had_records(&self) -> bool {
        self.was_in_use || self.end() > Offset::ZERO
    }

    /// The error for a log of which nothing is in its directory, `dir`.
    pub(crate) fn vanished(&self, dir: &Path) -> LogError {
        LogError::Vanished { dir: dir.to_owned(), end: self.end() }
    }
}

/// Takes note, in a directory that holds nothing of a log, of an operator's word that the log may
/// go on without its records: gives it to a topic, as a creation does.
pub(crate) fn accept_loss(fs: &dyn Fs, dir: &Path, topic_id: TopicId) -> Result<(), LogError> {
    let word = dir.join(ACCEPT_LOSS_FILE);
    let is_accepted = fs.exists(&word).map_err(LogError::io("look for", &word))?;
    if !is_accepted || !Listing::read(fs, dir)?.is_unfinished() {
        return Ok(());
    }
    tracing::warn!(dir = %dir.display(), "the loss of a log's records is accepted");
    PartitionMetadata { topic_id }.write(fs, &dir.join(PartitionMetadata::FILE))?;
    remove_file(fs, &word)
}

impl Recovery<'_> {
    fn clear_leftovers(&self, listing: &Listing) {
        for path in &listing.leftovers {
            if let Err(error) = self.options.fs.remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "a leftover cannot be removed");
            }
        }
    }

    /// Takes up the segments that hold records from the log start on, and makes the first one of
    /// a log that has none.
    fn find_segments(&mut self, listing: &Listing) -> Result<(), LogError> {
        let RecoveryOptions { fs, dir, .. } = *self.options;
        let log_start = self.log_start;
        let ends = listing.segments.iter().skip(1).map(|next| Some(next.base_offset));
        for (found, end) in listing.segments.iter().zip(ends.chain([None])) {
            let segment = Segment::existing(fs, dir, found.base_offset, found.len_bytes);
            if !found.has_transaction_index {
                segment.aborted.note_absent();
            }
            if end.is_some_and(|end| end <= log_start) {
                for path in segment.mark_deleted()? {
                    fs.remove_file(&path).map_err(LogError::io("remove", &path))?;
                }
            } else {
                self.segments.push(Arc::new(segment));
            }
        }
        if self.segments.is_empty() {
            self.segments.push(Arc::new(Segment::create(fs, dir, log_start)?));
            fs.sync_dir(dir).map_err(LogError::io("sync", dir))?;
        }
        Ok(())
    }

    /// Reads the leader epochs; from the batches if the file is damaged.
    fn load_epochs(&mut self, listing: &Listing) -> Result<(), LogError> {
        if !listing.has_epochs {
            return Ok(());
        }
        let path = self.options.dir.join(leader_epoch::LEADER_EPOCH_FILE);
        match leader_epoch::read(&**self.options.fs, &path) {
            Ok(epochs) => {
                self.saved_epochs = epochs.clone();
                self.epochs = epochs;
            }
            Err(error @ LogError::Malformed { .. }) => {
                self.findings.push(Finding::Rebuilt { error });
                for segment in self.segments.clone() {
                    for_each_batch(&segment, Offset::LIMIT, |batch| {
                        self.note_epoch(&batch.header);
                        Ok(())
                    })?;
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The end of a log that was closed in good order, without a scan; `None` if there must be
    /// one.
    fn load_clean_end(&mut self, listing: &Listing) -> Result<Option<Offset>, LogError> {
        if !self.options.is_clean || listing.has_failed_sync || !self.knows_recovery_point() {
            return Ok(None);
        }
        let Some(end) = self.end_of_active()? else { return Ok(None) };
        if end < self.durable_end.max(self.log_start) {
            // Something was removed since. A scan reports it, and gives no offset again.
            return Ok(None);
        }
        if !self.is_as_closed(end) {
            let partition = self.options.partition;
            tracing::warn!(%partition, "the log is not the one that was closed in good order: \
                somebody has put it there, and it is scanned");
            self.recovery_point = None;
            return Ok(None);
        }
        let active = self.segments.len() - 1;
        self.check_segments_before(active, listing)?;
        self.rebuild_missing_indexes(listing)?;
        self.load_producers(listing, end)?;
        Ok(Some(end))
    }

    /// Whether a log that ends at `end` is the one that the log directory was closed with, by what
    /// was written down then. What vouches for all that was there says nothing about another log.
    fn is_as_closed(&self, end: Offset) -> bool {
        let active = self.segments.last().expect("a log has at least one segment");
        match self.listed.filter(|listed| listed.end == end) {
            Some(listed) => listed.segments.last().is_some_and(|last| {
                (last.base_offset, last.size_bytes) == (active.base_offset(), active.size_bytes())
            }),
            // Apache Kafka writes no list.
            None => self.recovery_point == Some(end),
        }
    }

    /// The offset after the last batch; `None` if that is not a whole one.
    fn end_of_active(&mut self) -> Result<Option<Offset>, LogError> {
        let active = self.segments.last().expect("a log has at least one segment");
        if active.size_bytes() == 0 {
            return Ok(Some(active.base_offset()));
        }
        let indexes = active.times.check().and_then(|()| active.offsets.last());
        let last_indexed = match indexes {
            Ok(last) => last.map_or(0, |last| last.position),
            Err(error @ LogError::Corrupt { .. }) => {
                self.findings.push(Finding::Rebuilt { error });
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let file = active.file()?;
        let mut headers = HeaderScan::new(file, active.path(), last_indexed, active.size_bytes());
        let mut end = None;
        loop {
            match headers.next() {
                Ok(Some(batch)) => end = Some(batch.header.next_offset()),
                Ok(None) => return Ok(end),
                Err(error @ LogError::Corrupt { .. }) => {
                    let partition = self.options.partition;
                    tracing::warn!(%partition, %error, "closed in good order, but not whole");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Loads the producers of the log that ends at `end`.
    fn load_producers(&mut self, listing: &Listing, end: Offset) -> Result<(), LogError> {
        let RecoveryOptions { fs, dir, .. } = *self.options;
        let Recovery { segments, producers, findings, .. } = self;
        let on_disk = ProducersOnDisk { fs: &**fs, dir, snapshots: &listing.snapshots, segments };
        on_disk.load(end, producers, |error| findings.push(Finding::Rebuilt { error }))
    }

    fn note_epoch(&mut self, header: &BatchHeader) {
        if header.leader_epoch > LeaderEpoch::NONE {
            self.epochs.assign(header.leader_epoch, header.base_offset);
        }
    }

    fn into_log(mut self, topic_id: TopicId, end: Offset) -> RecoveredLog {
        let first = self.segments.first().expect("a log has at least one segment");
        let active = self.segments.last().expect("a log has at least one segment");
        let log_start = self.log_start.max(first.base_offset()).min(end);
        let end =
            LogPoint { offset: end, segment: active.base_offset(), position: active.size_bytes() };
        let flushed = if self.leaves_syncs { self.synced_point(end) } else { end };
        let unsealed_from = self.unsealed.first().map(|segment| segment.base_offset());
        self.epochs.truncate_from_end(end.offset);
        self.epochs.truncate_from_start(log_start);
        // An epoch that was begun at the end, and has no record, must not come back when there are records of earlier ones.
        let epochs_changed = self.epochs != self.saved_epochs;
        let view = LogView {
            segments: self.segments.into(),
            log_start,
            end,
            flushed,
            recovery_point: unsealed_from.map_or(flushed.offset, |from| from.min(flushed.offset)),
            epochs: Arc::new(self.epochs),
        };
        RecoveredLog {
            topic_id,
            replica_move: None,
            view,
            known_recovery_point: self.recovery_point,
            producers: self.producers,
            uncommitted: EndedLately::default(),
            unsealed: self.unsealed,
            unsynced: self.unsynced,
            snapshot: self.snapshot,
            scanned_bytes: self.scanned_bytes,
            epochs_changed,
            findings: self.findings,
        }
    }

    /// Up to where a log that ends at `end` is on stable storage if syncs are left to others.
    fn synced_point(&self, end: LogPoint) -> LogPoint {
        let first = self.unsynced.first().map_or(end.segment, |segment| segment.base_offset());
        self.last_durable.unwrap_or(LogPoint { offset: first, segment: first, position: 0 })
    }

    /// Closes what was opened: most logs are idle, and open files are few. An index that finds no
    /// space stays in memory.
    fn close_files(&self) -> Result<(), LogError> {
        let close = |segment: &Arc<Segment>| unless_disk_full(segment.close());
        self.segments.iter().filter(|segment| segment.is_open()).try_for_each(close)
    }
}

/// Writes what the journal holds of the log to its segments; returns up to where that was on stable
/// storage.
fn redo_journalled(
    options: &RecoveryOptions<'_>,
    topic_id: TopicId,
    listing: &Listing,
) -> Result<Option<Offset>, LogError> {
    if options.journalled.is_empty() {
        return Ok(None);
    }
    let segments: Vec<Offset> = listing.segments.iter().map(|found| found.base_offset).collect();
    redo(&**options.fs, options.dir, topic_id, &segments, options.journalled)
}

fn read_topic_id(options: &RecoveryOptions<'_>, listing: &Listing) -> Result<TopicId, LogError> {
    let metadata = match listing.has_metadata {
        true => {
            let path = options.dir.join(PartitionMetadata::FILE);
            PartitionMetadata::read(&**options.fs, &path)?
        }
        false => None,
    };
    Ok(metadata.map_or(TopicId(Uuid::ZERO), |metadata| metadata.topic_id))
}

/// Calls `each` for the batches of a segment before `end`, or up to the first bad one.
fn for_each_batch(
    segment: &Segment,
    end: Offset,
    mut each: impl FnMut(&ScannedBatch) -> Result<(), LogError>,
) -> Result<(), LogError> {
    if segment.base_offset() >= end || segment.size_bytes() == 0 {
        return Ok(());
    }
    let mut batches = HeaderScan::new(segment.file()?, segment.path(), 0, segment.size_bytes());
    loop {
        let noted = match batches.next() {
            Ok(Some(batch)) if batch.header.base_offset < end => each(&batch),
            Ok(_) => return Ok(()),
            Err(error) => Err(error),
        };
        match noted {
            Ok(()) => {}
            Err(error @ LogError::Corrupt { .. }) => {
                let segment = segment.path().display();
                tracing::warn!(%segment, %error, "the rest of the segment cannot be read");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// What was to be written can be made again and is in memory: a full disk is no error then.
fn unless_disk_full(result: Result<(), LogError>) -> Result<(), LogError> {
    result.or_else(|error| if error.is_disk_full() { Ok(()) } else { Err(error) })
}

/// Notes a batch of a segment with its producer; says which transaction it ends.
fn note_producer(
    producers: &mut ProducerStateTable,
    segment: &Segment,
    batch: &ScannedBatch,
) -> Result<Option<EndedTransaction>, LogError> {
    let header = &batch.header;
    // Nothing is taken back here.
    if let Some(batch) = ProducerBatch::of(header) {
        let _ = producers.update(&batch, header.base_offset, batch.max_timestamp);
    }
    let marker = match segment.marker(batch) {
        Err(error @ LogError::Corrupt { .. }) => {
            tracing::error!(%error, "a transaction stays open, because its marker cannot be read");
            None
        }
        marker => marker?,
    };
    let Some(marker) = marker else { return Ok(None) };
    Ok(producers.end_transaction(&Marker::of(header, marker)).1)
}
