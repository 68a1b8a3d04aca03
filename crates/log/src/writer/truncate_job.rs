//! Cutting the end of a log off on the disk, by the background thread.
//!
//! Everything that was sent to the thread before is done by then: no sealing is under way that would
//! write a snapshot of what is cut off, and no sync of it.
//!
//! | step | a crash behind it leaves |
//! |---|---|
//! | snapshots of producers behind the cut are removed; the directory is synced | the log as it was |
//! | the cut in the middle of a segment: the new segment is made; the directory is synced | the cut log: what does not belong before the new segment is cut off by a start |
//! | the old one gets its new length, and its file is synced | |
//! | the cut between two segments: the one behind loses its name; the directory is synced | the cut log: a start removes what does not follow on from its end |
//! | the segments behind lose their names; the directory is synced | |
//! | the new segment is made, if it is not yet; the directory is synced | |
//!
//! So one name says whether the log is cut off. Only of a log that is cut off as a whole the first
//! segment is the last to go, as those behind it would be a log without it. A crash may leave a beginning
//! of that.
//!
//! Every step can be done again. Of an error before the first segment changes the log is as it was; later,
//! one that passes has all tried again, and nobody knows what another one has left.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use logway_model::Offset;

use crate::LogError;
use crate::dir_syncs::DirSyncs;
use crate::file_names::{SNAPSHOT_EXTENSION, file_path, parse_file_name};
use crate::fs::{Fs, OpenMode};
use crate::log_state::{LogKey, LogState};
use crate::producer_state::{ProducerLimits, ProducerStateTable};
use crate::recovery::ProducersOnDisk;
use crate::segment::Segment;
use crate::view::LogPoint;

/// A truncation on the disk.
#[derive(Debug)]
pub(crate) struct TruncateJob {
    what: CutLog,
    /// The length of the segment with the cut may have changed.
    is_begun: bool,
}

/// The log, and where it is cut off.
pub(super) struct CutLog {
    pub(super) log: Arc<LogState>,
    pub(super) fs: Arc<dyn Fs>,
    /// As they are before.
    pub(super) segments: Arc<[Arc<Segment>]>,
    /// Where what is cut off begins.
    pub(super) cut: LogPoint,
    /// Where the log starts then, if nothing of it is left.
    pub(super) restart: Option<Offset>,
    pub(super) index_interval_bytes: u32,
    /// How long the files of what is cut off stay.
    pub(super) delete_delay: Duration,
    pub(super) producer_limits: ProducerLimits,
}

/// What became of a truncation.
#[derive(Debug)]
pub(crate) enum TruncateOutcome {
    /// The log ends at the cut, for good.
    Cut(Box<Cut>),
    /// The log is as it was.
    NotBegun(LogError),
    /// To be tried again until it is done.
    Unfinished(LogError),
    /// Nobody knows what is on the disk.
    Failed(LogError),
}

/// What is left of a log.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The new segment, which is empty, at the end.
    pub(super) segments: Arc<[Arc<Segment>]>,
    /// The segment before the new one ends with the cut.
    pub(super) has_shortened: bool,
    /// Where the log starts, if nothing of it is left.
    pub(super) restart: Option<Offset>,
    /// As of the new end.
    pub(super) producers: ProducerStateTable,
}

/// Files that are to be removed, some time.
pub(super) struct Removable {
    pub(super) paths: Vec<PathBuf>,
    pub(super) delay: Duration,
}

impl TruncateJob {
    pub(super) fn new(what: CutLog) -> TruncateJob {
        TruncateJob { what, is_begun: false }
    }

    /// Which log it is of.
    pub(super) fn key(&self) -> LogKey {
        self.what.log.key()
    }

    /// Does what is left to do; says what files nobody needs any more.
    pub(super) fn run(&mut self) -> (TruncateOutcome, Removable) {
        let delay = self.what.delete_delay;
        let mut removable = Removable { paths: Vec::new(), delay };
        let outcome = match self.try_run(&mut removable.paths) {
            Ok(cut) => TruncateOutcome::Cut(Box::new(cut)),
            Err(error) if error.is_failed_sync_of(self.what.syncs().dir()) => {
                TruncateOutcome::Failed(error)
            }
            Err(error) if !self.is_begun => TruncateOutcome::NotBegun(error),
            Err(error) if error.is_disk_full() || error.is_want_of_descriptors() => {
                TruncateOutcome::Unfinished(error)
            }
            Err(error) => TruncateOutcome::Failed(error),
        };
        (outcome, removable)
    }

    fn try_run(&mut self, removable: &mut Vec<PathBuf>) -> Result<Cut, LogError> {
        // From the snapshots that are about to go, too: the newest may be just before the cut.
        let producers = self.what.producers()?;
        self.what.remove_snapshots()?;
        self.is_begun = true;
        let new = match self.what.is_shortened() {
            true => self.what.cut_within_segment(removable)?,
            false => self.what.cut_between_segments(removable)?,
        };
        let kept = self.what.kept_segments();
        let segments = self.what.segments[..kept].iter().cloned().chain([Arc::new(new)]).collect();
        let CutLog { restart, .. } = self.what;
        let has_shortened = self.what.is_shortened();
        Ok(Cut { segments, has_shortened, restart, producers })
    }
}

impl CutLog {
    fn syncs(&self) -> &DirSyncs {
        self.log.dir_syncs()
    }

    /// The index of the segment with the cut.
    fn index(&self) -> usize {
        let found = self.segments.iter().position(|found| found.base_offset() == self.cut.segment);
        found.expect("the cut is in a segment of the log")
    }

    fn segment(&self) -> &Arc<Segment> {
        &self.segments[self.index()]
    }

    /// Whether the segment with the cut stays, with fewer batches.
    fn is_shortened(&self) -> bool {
        self.restart.is_none() && self.cut.position > 0
    }

    /// How many segments stay.
    fn kept_segments(&self) -> usize {
        match self.restart {
            Some(_) => 0,
            None => self.index() + usize::from(self.is_shortened()),
        }
    }

    /// The producers as of the new end.
    fn producers(&self) -> Result<ProducerStateTable, LogError> {
        let partition = self.log.topic_partition().clone();
        let mut table = ProducerStateTable::new(partition, self.producer_limits.clone());
        if self.restart.is_none() {
            let snapshots = self.snapshots()?;
            let on_disk = ProducersOnDisk {
                fs: &*self.fs,
                dir: self.syncs().dir(),
                snapshots: &snapshots,
                segments: &self.segments,
            };
            on_disk.load(self.cut.offset, &mut table, |error| {
                tracing::warn!(%error, "a snapshot of the producers is not believed");
            })?;
        }
        Ok(table)
    }

    /// The offsets of the snapshots of the producers, ascending.
    fn snapshots(&self) -> Result<Vec<Offset>, LogError> {
        let dir = self.syncs().dir();
        let entries = self.fs.read_dir(dir).map_err(LogError::io("list", dir))?;
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let found = names.filter_map(parse_file_name);
        Ok(found.filter(|(_, kind)| *kind == SNAPSHOT_EXTENSION).map(|(at, _)| at).collect())
    }

    /// A start would believe that the log went as far as a snapshot; or of one as of the cut itself,
    /// that the segment which ends there is as it was sealed.
    fn remove_snapshots(&self) -> Result<(), LogError> {
        for offset in self.snapshots()? {
            let is_of_kept = match self.is_shortened() {
                true => offset < self.cut.offset,
                false => self.restart.is_none() && offset <= self.cut.offset,
            };
            if is_of_kept {
                continue;
            }
            let path = file_path(self.syncs().dir(), offset, SNAPSHOT_EXTENSION);
            unless_missing(self.fs.remove_file(&path)).map_err(LogError::io("remove", &path))?;
        }
        // Those that an earlier try has removed may have lost their names in the page cache alone.
        self.syncs().sync_all(&*self.fs)
    }

    fn cut_within_segment(&self, removable: &mut Vec<PathBuf>) -> Result<Segment, LogError> {
        let new = self.begin_segment()?;
        let segment = self.segment();
        let path = segment.path();
        let file = self.fs.open(path, OpenMode::ReadWrite).map_err(LogError::io("open", path))?;
        // Who finds the file too short learns from this that it was cut off.
        segment.set_size_bytes(self.cut.position);
        file.set_len(self.cut.position).map_err(LogError::io("cut", path))?;
        file.sync_data().map_err(LogError::io("sync", path))?;
        segment.follow_cut(self.cut.offset, self.index_interval_bytes)?;
        self.take_names(&self.segments[self.index() + 1..], removable)?;
        Ok(new)
    }

    fn cut_between_segments(&self, removable: &mut Vec<PathBuf>) -> Result<Segment, LogError> {
        let (before, from) = self.segments.split_at(self.index());
        let (first, behind) = from.split_first().expect("the cut is in a segment");
        let first = std::slice::from_ref(first);
        match before.is_empty() {
            true => {
                self.take_names(behind, removable)?;
                self.take_names(first, removable)?;
            }
            false => {
                self.take_names(first, removable)?;
                self.take_names(behind, removable)?;
            }
        }
        self.begin_segment()
    }

    /// Takes segments out of use, on stable storage.
    fn take_names(
        &self,
        segments: &[Arc<Segment>],
        removable: &mut Vec<PathBuf>,
    ) -> Result<(), LogError> {
        for segment in segments {
            removable.extend(segment.mark_deleted()?);
        }
        self.syncs().sync_all(&*self.fs)
    }

    /// Makes the segment in which the log goes on.
    fn begin_segment(&self) -> Result<Segment, LogError> {
        let start = self.restart.unwrap_or(self.cut.offset);
        let new = Segment::create(&self.fs, self.syncs().dir(), start)?;
        self.syncs().sync_all(&*self.fs)?;
        Ok(new)
    }
}

impl std::fmt::Debug for CutLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CutLog { log, cut, restart, .. } = self;
        let mut fields = f.debug_struct("CutLog");
        fields.field("log", log).field("cut", cut).field("restart", restart).finish_non_exhaustive()
    }
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
