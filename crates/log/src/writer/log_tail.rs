//! The writer's side of one log.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use logway_model::{LeaderEpoch, Offset, TimestampMs};

use super::log_request::Append;
use super::sealing::Sealing;
use super::swap_job::Swapping;
use super::sync_delay::SyncDelay;
use super::truncating::Truncating;
use crate::completion::Completer;
use crate::fs::{File, Fs};
use crate::log_state::LogState;
use crate::producer_state::ProducerStateTable;
use crate::producer_state::snapshot::Snapshot;
use crate::segment::Segment;
use crate::view::{LogPoint, LogView};
use crate::{AppendOutcome, LogError};

/// The end of a log, owned by the writer thread.
///
/// It holds what readers need not see: the open file, the idempotent producers, and the appends
/// that wait for a sync. What readers see is the `view`, which is published when a step is done.
///
/// Invariants: `view.end` is the end of the last whole batch that was written; `view.flushed` is
/// not behind it only if there is nothing that a power cut could take; `synced` is never behind
/// `view.flushed`; the appends in `waiting` are in the order in
/// which they were made.
pub(crate) struct LogTail {
    pub(super) log: Arc<LogState>,
    pub(super) fs: Arc<dyn Fs>,
    pub(super) dir: Arc<Path>,
    pub(super) view: LogView,
    /// Everything before is on stable storage in its own file. What is between here and
    /// `view.flushed` is in the journal.
    pub(super) synced: LogPoint,
    /// The system was told to put everything before on the disk, with nobody waiting for it.
    pub(super) write_back_begun: LogPoint,
    /// The file of the active segment, once it was needed.
    pub(super) file: Option<Arc<dyn File>>,
    /// When the active segment began to grow, by the clock.
    pub(super) active_since: TimestampMs,
    pub(super) producers: ProducerStateTable,
    /// The leader epochs changed since they were last written down.
    pub(super) epochs_changed: bool,
    /// The view differs from what readers see.
    pub(super) is_unpublished: bool,
    /// Anything was appended since the log was opened, or it was recovered by a scan.
    pub(super) is_changed: bool,
    /// Anything was appended since idle files were last closed.
    pub(super) was_appended: bool,
    /// Appends taken from the queue in this round.
    pub(super) incoming: Vec<Append>,
    /// Answers that wait for their turn.
    pub(super) waiting: VecDeque<Waiter>,
    /// Full segments with bytes that may not be on stable storage; the active one is not here.
    pub(super) unsynced: Vec<Arc<Segment>>,
    /// The name of a new segment may not be on stable storage.
    pub(super) needs_dir_sync: bool,
    /// A roll failed. Nothing is appended before one succeeds: the file of the next segment may be
    /// there, and its name says that what comes from here on is not in the one before.
    pub(super) must_roll: bool,
    /// When the oldest record that is not on stable storage was written.
    pub(super) unflushed_since: Option<Instant>,
    /// The last sync could not be begun; until one is, no append is taken.
    pub(super) sync_delay: Option<SyncDelay>,
    /// The full segments that the background thread has not yet sealed.
    pub(super) sealing: Sealing,
    /// Segments that are being replaced by a cleaned one.
    pub(super) swap: Option<Swapping>,
    /// The end of the log is being cut off.
    pub(super) truncating: Option<Box<Truncating>>,
    /// Why the log takes no more appends.
    pub(super) poison: Option<Arc<str>>,
}

/// How many entries a vector of a log keeps room for while it is empty: logs are many, and most
/// are idle.
pub(super) const KEPT_PER_LOG: usize = 16;

/// An append whose answer is known, but not yet due.
#[derive(Debug)]
pub(super) struct Waiter {
    /// What must be on stable storage first; [`Offset::ZERO`] for nothing.
    pub(super) flushed_to: Offset,
    pub(super) result: Result<AppendOutcome, LogError>,
    pub(super) done: Completer<AppendOutcome>,
}

/// What recovery or creation knows of a log when the writer is given it.
pub(crate) struct OpenedTail {
    pub(crate) log: Arc<LogState>,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: Arc<Path>,
    pub(crate) view: LogView,
    pub(crate) producers: ProducerStateTable,
    /// Full segments that recovery did not seal, the oldest first.
    pub(crate) unsealed: Vec<Arc<Segment>>,
    /// Those that may not be on stable storage.
    pub(crate) unsynced: Vec<Arc<Segment>>,
    /// The producers as of the end of `unsealed`, if that can be sealed.
    pub(crate) snapshot: Option<Snapshot>,
    /// The log was scanned, so that its indexes and snapshots on disk are behind.
    pub(crate) is_changed: bool,
    /// The leader epochs are not those in their file.
    pub(crate) epochs_changed: bool,
    /// The names of its files may not be on stable storage: a process before this one may have
    /// been killed between the creation of a segment and the sync of the directory.
    pub(crate) needs_dir_sync: bool,
    pub(crate) now: TimestampMs,
    /// The same time, for timers.
    pub(crate) started: Instant,
}

impl LogTail {
    /// The tail of a log.
    pub(crate) fn new(opened: OpenedTail) -> LogTail {
        let OpenedTail { log, fs, dir, view, producers, .. } = opened;
        let OpenedTail { unsealed, unsynced, snapshot, .. } = opened;
        let OpenedTail { is_changed, epochs_changed, needs_dir_sync, now, started, .. } = opened;
        let sealing = Sealing::of_recovered(&log, unsealed, view.active(), snapshot);
        let synced = view.flushed;
        let unflushed_since = (synced.offset < view.end.offset).then_some(started);
        LogTail {
            log,
            fs,
            dir,
            view,
            synced,
            write_back_begun: synced,
            file: None,
            active_since: now,
            producers,
            epochs_changed,
            is_unpublished: false,
            is_changed,
            was_appended: false,
            incoming: Vec::new(),
            waiting: VecDeque::new(),
            unsynced,
            needs_dir_sync,
            must_roll: false,
            unflushed_since,
            sync_delay: None,
            sealing,
            swap: None,
            truncating: None,
            poison: None,
        }
    }

    /// The log.
    pub(crate) fn log(&self) -> &Arc<LogState> {
        &self.log
    }

    /// Refuses an append of an epoch that is over.
    pub(super) fn check_epoch(&self, epoch: LeaderEpoch) -> Result<(), LogError> {
        let current = self.log.raise_leader_epoch(epoch);
        if epoch >= current {
            return Ok(());
        }
        let partition = self.log.topic_partition().clone();
        Err(LogError::EpochOver { partition, current, got: epoch })
    }

    /// The open file of the active segment.
    pub(super) fn active_file(&mut self) -> Result<Arc<dyn File>, LogError> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = self.view.active().file()?;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// How many records are written and not known to be on stable storage.
    pub(super) fn unflushed_records(&self) -> u64 {
        u64::try_from(self.view.end.offset - self.view.flushed.offset)
            .expect("nothing is flushed before it is written")
    }

    /// How many records are written and not known to be on stable storage in their own file.
    pub(super) fn unsynced_records(&self) -> u64 {
        u64::try_from(self.view.end.offset - self.synced.offset)
            .expect("nothing is synced before it is written")
    }

    /// Everything before this is on stable storage, and the indexes and snapshots that belong to
    /// it too, so that recovery need not look at it.
    pub(super) fn recovery_point(&self) -> Offset {
        let point = self.sealing.begins().unwrap_or(self.synced.offset);
        self.truncating.as_ref().map_or(point, |truncating| point.min(truncating.mark()))
    }

    /// The error for everything that a poisoned log is asked to do.
    pub(super) fn poisoned(&self) -> Option<LogError> {
        self.poison.as_ref().map(|cause| LogError::Poisoned {
            partition: self.log.topic_partition().clone(),
            cause: Arc::clone(cause),
        })
    }

    /// Takes no more appends from here on, and fails all that wait.
    pub(super) fn poison(&mut self, cause: &LogError) {
        let partition = self.log.name();
        tracing::error!(%partition, %cause, "a log is poisoned until it is opened again");
        self.poison.get_or_insert_with(|| cause.to_string().into());
        self.sync_delay = None;
        self.log.note_failure(cause);
        let error = self.poisoned().expect("the poison was just given");
        for waiter in self.waiting.drain(..) {
            waiter.done.complete(Err(error.clone()));
        }
    }

    /// Makes the present state visible to readers.
    pub(super) fn publish(&mut self) {
        if std::mem::take(&mut self.is_unpublished) {
            self.view.recovery_point = self.recovery_point();
            self.log.publish(&self.view);
        }
    }

    /// Answers the appends whose turn has come; returns how many.
    pub(super) fn complete_due(&mut self) -> usize {
        let mut answered = 0;
        while let Some(waiter) = self.waiting.front()
            && waiter.flushed_to <= self.view.flushed.offset
        {
            let waiter = self.waiting.pop_front().expect("there is a front");
            waiter.done.complete(waiter.result);
            answered += 1;
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT_PER_LOG);
        }
        answered
    }

    /// Notes that everything before `point` is on stable storage in its own file.
    pub(super) fn set_synced(&mut self, point: LogPoint) {
        if point.offset >= self.synced.offset {
            self.synced = point;
            // The recovery point may have moved.
            self.is_unpublished = true;
        }
        self.set_flushed(point);
    }

    /// Notes that everything before `point` is on stable storage.
    pub(super) fn set_flushed(&mut self, point: LogPoint) {
        if point.offset >= self.view.flushed.offset {
            self.view.flushed = point;
            self.is_unpublished = true;
        }
        if self.view.flushed.offset == self.view.end.offset {
            self.unflushed_since = None;
            self.sync_delay = None;
        }
    }
}

impl fmt::Debug for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTail").field("log", &self.log).finish_non_exhaustive()
    }
}
