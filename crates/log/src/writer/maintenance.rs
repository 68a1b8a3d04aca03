//! What the writer does by the clock, and at the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Writer;
use super::background::{ChangedEpochs, Checkpoint, CheckpointEnded, Job};
use super::command::Command;
use super::log_tail::LogTail;
use super::offset_checkpoints::OffsetCheckpoints;
use crate::LogError;
use crate::checkpoint::segment_lists::{self, SEGMENT_LISTS_FILE, SegmentLists};
use crate::checkpoint::{clean_shutdown, leader_epoch};
use crate::dir_syncs::DirSyncs;
use crate::file_names::{SNAPSHOT_EXTENSION, file_path};
use crate::log_state::LogKey;
use crate::producer_state::{LastUse, snapshot};
use crate::segment::Segment;

/// When the regular work is due next.
pub(super) struct Timers {
    checkpoint_interval: Duration,
    retention_interval: Duration,
    high_watermark_interval: Duration,
    next_high_watermarks: Instant,
    next_checkpoint: Instant,
    next_retention: Instant,
    /// The time of a checkpoint has come; the one before it may still be under way.
    is_checkpoint_due: bool,
    /// When that was the last time.
    last_checkpoint: Option<Instant>,
    /// When retention was last brought forward, because a disk is full.
    last_retention_soon: Option<Instant>,
}

impl Timers {
    /// Timers that are due for the first time one interval after `now`.
    pub(super) fn new(
        now: Instant,
        checkpoint_interval: Duration,
        retention_interval: Duration,
        high_watermark_interval: Duration,
    ) -> Timers {
        Timers {
            checkpoint_interval,
            retention_interval,
            high_watermark_interval,
            next_high_watermarks: now + high_watermark_interval,
            next_checkpoint: now + checkpoint_interval,
            next_retention: now + retention_interval,
            is_checkpoint_due: false,
            last_checkpoint: None,
            last_retention_soon: None,
        }
    }

    /// Makes retention due at once; or a fifth of a second after this was last asked for, as it takes
    /// some time for each log of the directory.
    fn retention_soon(&mut self, now: Instant) {
        const APART: Duration = Duration::from_millis(200);
        let soon = self.last_retention_soon.map_or(now, |last| now.max(last + APART));
        if soon < self.next_retention {
            self.next_retention = soon;
            self.last_retention_soon = Some(soon);
        }
    }

    /// Makes a checkpoint due shortly: not at once, so that it serves what follows, too, and not within
    /// a second of when the one before was due, as it takes some time for each log of the directory.
    pub(super) fn checkpoint_soon(&mut self, now: Instant) {
        const SOON: Duration = Duration::from_millis(100);
        const APART: Duration = Duration::from_secs(1);
        let apart = self.last_checkpoint.map_or(now, |last| last + APART);
        self.next_checkpoint = self.next_checkpoint.min(apart.max(now + SOON));
    }
}

impl Writer {
    /// How long the writer may sleep.
    pub(super) fn time_to_next_timer(&self) -> Duration {
        let syncs = self.lagging.iter().filter_map(|key| self.sync_due(*key));
        let Timers { next_checkpoint, next_retention, next_high_watermarks, .. } = self.timers;
        let timers = [next_checkpoint, next_retention, next_high_watermarks];
        let next = syncs.chain(timers).min().expect("there are timers");
        next.saturating_duration_since(self.clock.instant())
    }

    /// Does what is due.
    pub(super) fn run_due_timers(&mut self) {
        let now = self.round.started;
        let must_sync = |key: &LogKey| self.must_sync(*key);
        let due: Vec<LogKey> = self.lagging.iter().copied().filter(must_sync).collect();
        self.sync(due.clone());
        for key in due {
            self.note_lag(key);
        }
        if self.timers.next_checkpoint <= now {
            self.timers.next_checkpoint = now + self.timers.checkpoint_interval;
            self.timers.is_checkpoint_due = true;
            self.timers.last_checkpoint = Some(now);
        }
        if self.timers.next_high_watermarks <= now {
            self.timers.next_high_watermarks = now + self.timers.high_watermark_interval;
            self.write_high_watermarks();
        }
        if self.timers.next_retention <= now {
            self.timers.next_retention = now + self.timers.retention_interval;
            self.enforce_retention();
            self.expire_producers();
        }
    }

    /// Has the high watermarks written down, if any has changed.
    fn write_high_watermarks(&mut self) {
        if self.high_watermarks.take_change() {
            let high_watermarks = Arc::clone(&self.high_watermarks);
            let logs = self.tails.values().map(|tail| Arc::clone(&tail.log)).collect();
            self.round.background.send(Job::HighWatermarks { high_watermarks, logs });
        }
    }

    /// Begins a new segment in a log if the active one is too old.
    pub(super) fn roll_if_old(&mut self, key: LogKey) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        self.round.config = tail.log.config();
        if let Err(error) = tail.roll_if_old(&mut self.round) {
            let partition = tail.log.name();
            tracing::warn!(%partition, %error, "no new segment can be begun");
        }
        tail.publish();
    }

    /// An append was refused because the disk is full: what was deleted goes, and so does what is past
    /// its limits. These may have just been lowered to make room.
    pub(super) fn look_for_room(&mut self) {
        self.round.background.make_room();
        self.timers.retention_soon(self.round.started);
    }

    /// Deletes the segments that are past their limits, in all logs.
    pub(super) fn enforce_retention(&mut self) {
        for tail in self.tails.values_mut().filter(|tail| tail.truncating.is_none()) {
            self.round.config = tail.log.config();
            let rolled = tail.roll_if_old(&mut self.round);
            let deleted = rolled.and_then(|()| tail.enforce_retention(&mut self.round));
            tail.publish();
            match deleted {
                Ok(segments) => {
                    let delay = self.round.config.file_delete_delay();
                    self.deleted.extend(segments.into_iter().map(|segment| (segment, delay)));
                }
                Err(error) if self.retention_reports.is_time() => {
                    let partition = tail.log.name();
                    tracing::warn!(%partition, %error, "retention has to wait");
                }
                Err(_) => {}
            }
        }
    }

    /// Has the recovery points, the log starts and the leader epochs that changed written down, if
    /// it is time, or a log start moved or a log went; only then lets the files go that lie
    /// before the log starts.
    pub(super) fn start_checkpoint(&mut self) {
        let has_cause = !self.deleted.is_empty() || !self.checkpoint_waiting.is_empty();
        let is_wanted = has_cause || self.timers.is_checkpoint_due;
        if !is_wanted || self.is_checkpointing {
            return;
        }
        self.retry_seals();
        self.retry_swaps();
        self.retry_truncations();
        if self.timers.is_checkpoint_due {
            // So that a start after a crash does not scan what has long been written.
            self.write_back();
        }
        let epochs = self.tails.values_mut().filter_map(LogTail::take_changed_epochs).collect();
        let then = std::mem::take(&mut self.checkpoint_waiting);
        let mut deleted = std::mem::take(&mut self.deleted);
        deleted.append(&mut self.undeleted);
        let left = std::mem::take(&mut self.left);
        let queue = Arc::clone(&self.queue);
        let ended = CheckpointEnded(Box::new(move || queue.push(Command::CheckpointEnded)));
        let logs = self.tails.values().map(|tail| Arc::clone(&tail.log)).collect();
        let offsets = self.offsets();
        let checkpoint = Checkpoint { epochs, left, offsets, deleted, logs, then, ended };
        self.is_checkpointing = true;
        self.round.background.send(Job::Checkpoint(checkpoint));
        if std::mem::take(&mut self.timers.is_checkpoint_due) {
            self.close_unused();
        }
    }

    /// Leaves what is in the directory of a log that went as it is. The next checkpoint, which
    /// forgets its log start, will have put on stable storage what was taken from it before: a start
    /// that finds a part of that, and no log start, would miss the rest.
    pub(super) fn leave(&mut self, dir: Arc<DirSyncs>) {
        let is_elsewhere =
            |(segment, _): &(Arc<Segment>, Duration)| segment.path().parent() != Some(dir.dir());
        self.deleted.retain(is_elsewhere);
        self.undeleted.retain(is_elsewhere);
        self.left.push(dir);
    }

    /// Has the checkpoints go on speaking of a log that is taken out of service.
    pub(super) fn remember_unopened(&mut self, tail: &LogTail) {
        let partition = tail.log.topic_partition().clone();
        self.of_unopened.note(tail);
        // As of other logs, without one that is half replaced.
        if tail.swap.is_none() {
            self.lists_of_unopened.insert(partition, tail.view.list(tail.log.topic_id()));
        }
    }

    /// The offsets to be written down.
    fn offsets(&self) -> OffsetCheckpoints {
        let mut offsets = self.of_unopened.clone();
        self.tails.values().for_each(|tail| offsets.note(tail));
        offsets
    }

    /// The segments to be written down.
    fn segment_lists(&self) -> SegmentLists {
        let mut lists = self.lists_of_unopened.clone();
        // Of what is half replaced the next start makes the whole.
        for tail in self.tails.values().filter(|tail| tail.swap.is_none()) {
            let list = tail.view.list(tail.log.topic_id());
            lists.insert(tail.log.topic_partition().clone(), list);
        }
        lists
    }

    /// The leader epochs of a log have to be written down again.
    pub(super) fn note_epochs_unsaved(&mut self, key: LogKey) {
        if let Some(tail) = self.tails.get_mut(&key) {
            tail.epochs_changed = true;
        }
    }

    fn sync_due(&self, key: LogKey) -> Option<Instant> {
        let tail = self.tails.get(&key)?;
        tail.sync_due(&tail.log.config())
    }

    /// Closes the files of segments that nobody reads or writes any more.
    fn close_unused(&mut self) {
        let mut full = Vec::new();
        for tail in self.tails.values_mut() {
            tail.close_if_idle();
            let (_, earlier) = tail.view.segments.split_last().expect("a log has a segment");
            full.extend(earlier.iter().filter(|segment| segment.is_open()).cloned());
        }
        self.round.background.send(Job::CloseUnused(full));
    }

    fn expire_producers(&mut self) {
        let expiration_ms = self.producer_expiration_ms.load(Ordering::Relaxed);
        for tail in self.tails.values_mut() {
            tail.producers.expire(self.round.now, expiration_ms);
        }
    }

    /// Forgets the producers, of all logs, that have not written for the longest, if the logs
    /// know more than they should.
    pub(super) fn evict_producers(&mut self) {
        let Some(excess) = self.producer_limits.excess() else { return };
        let uses = self.tails.values().flat_map(|tail| tail.producers.last_uses());
        let mut uses: Vec<LastUse> = uses.collect();
        // Some may be in logs that are not the writer's yet.
        let Some(newest_to_go) = excess.min(uses.len()).checked_sub(1) else { return };
        let (_, &mut newest, _) = uses.select_nth_unstable(newest_to_go);
        let evicted: usize = self.tails.values_mut().map(|tail| tail.producers.evict(newest)).sum();
        if self.eviction_reports.is_time() {
            let dir = self.round.dir.display();
            tracing::warn!(
                %dir, evicted,
                "too many idempotent producers: those that were idle for the longest are forgotten"
            );
        }
    }

    /// Puts everything on stable storage, with all that a start without a scan needs, answers those
    /// who wait for that, and marks the directory as closed in good order, unless something failed.
    pub(super) fn close(mut self) -> Result<(), LogError> {
        self.sync(self.tails.keys().copied().collect());
        self.finish_background();
        self.seal_all();
        // What fails for one log must not cost the others their checkpoints.
        let epochs: Vec<_> = self.tails.values_mut().map(LogTail::save_epochs).collect();
        let sealed: Vec<_> = self.tails.values_mut().map(LogTail::seal_for_close).collect();
        let written = self.write_last_offsets();
        for then in std::mem::take(&mut self.checkpoint_waiting) {
            then(written.clone());
        }
        let said = self.tails.values().filter_map(|tail| tail.log.watermark_to_remember());
        if let Err(error) = self.high_watermarks.write(&*self.round.fs, &self.root_syncs, said) {
            // The older ones are as true.
            tracing::warn!(%error, "high watermarks cannot be written down");
        }
        written?;
        epochs.into_iter().chain(sealed).collect::<Result<(), LogError>>()?;
        let (fs, dir) = (&*self.round.fs, &self.round.dir);
        segment_lists::write(fs, &dir.join(SEGMENT_LISTS_FILE), &self.segment_lists())?;
        // All of it is where it belongs.
        self.remove_journal()?;
        let (fs, dir) = (&*self.round.fs, &self.round.dir);
        if !self.unscanned.is_empty() {
            let logs = self.unscanned.len();
            tracing::warn!(dir = %dir.display(), logs, "logs that could not be opened after a crash \
                have yet to be scanned: the next start scans");
            return Ok(());
        }
        let no_broker_epoch = -1;
        clean_shutdown::mark(fs, &dir.join(clean_shutdown::CLEAN_SHUTDOWN_FILE), no_broker_epoch)
    }

    /// Waits until the background thread has done what it was told, and takes note of it.
    fn finish_background(&mut self) {
        self.round.background.stop();
        let late = self.queue.take_last();
        for command in std::mem::take(&mut self.backlog).into_iter().chain(late) {
            match command {
                Command::Sealed { job, outcome } => self.note_sealed(job, outcome),
                Command::Swapped { job, outcome } => self.note_swapped(job, outcome),
                Command::Truncated { job, outcome } => self.note_truncated(job, outcome),
                Command::EpochsUnsaved { key } => self.note_epochs_unsaved(key),
                Command::JournalMade { made } => self.note_journal_made(made),
                Command::SyncFailed { key, error } => {
                    if let Some(tail) = self.tails.get_mut(&key) {
                        tail.fail_sync(&error);
                    }
                }
                // What else comes now is told that the log is closed. The files of segments
                // before the log start are removed at the next start.
                _ => {}
            }
        }
    }

    /// Writes the offsets down.
    fn write_last_offsets(&self) -> Result<(), LogError> {
        let (fs, dir) = (&*self.round.fs, &self.round.dir);
        let mut offsets = self.offsets();
        let unsaved = self.tails.values().filter(|tail| tail.epochs_changed);
        offsets.keep_points(fs, dir, unsaved.map(|tail| tail.log.topic_partition()))?;
        offsets.write(fs, dir)
    }
}

impl LogTail {
    fn take_changed_epochs(&mut self) -> Option<ChangedEpochs> {
        std::mem::take(&mut self.epochs_changed).then(|| ChangedEpochs {
            log: Arc::clone(&self.log),
            epochs: Arc::clone(&self.view.epochs),
        })
    }

    /// Writes the leader epochs down if they changed, also those of a log that is poisoned: its
    /// recovery point may have moved before.
    fn save_epochs(&mut self) -> Result<(), LogError> {
        if self.epochs_changed {
            let path = self.dir.join(leader_epoch::LEADER_EPOCH_FILE);
            leader_epoch::write(&*self.fs, &path, &self.view.epochs)?;
            self.epochs_changed = false;
        }
        Ok(())
    }

    /// Closes the active segment if nothing was appended or read since the last call.
    fn close_if_idle(&mut self) {
        let was_appended = std::mem::take(&mut self.was_appended) || self.truncating.is_some();
        if was_appended || self.unsynced_records() > 0 || !self.view.active().is_open() {
            return;
        }
        self.file = None;
        if let Err(error) = self.view.active().close_if_unused() {
            let partition = self.log.name();
            tracing::warn!(%partition, %error, "an index was not saved");
        }
    }

    /// Writes down what a start without a scan needs beside the batches and the leader epochs.
    fn seal_for_close(&mut self) -> Result<(), LogError> {
        if let Some(error) = self.poisoned().or_else(|| self.delayed()) {
            return Err(error);
        }
        if self.truncating.is_some() {
            // The disk may have less than is known here.
            return Err(self.busy("a truncation"));
        }
        if self.unsynced_records() > 0 {
            let not_tried = io::Error::other("the files could not be opened for it");
            return Err(LogError::io("sync", self.view.active().path())(not_tried));
        }
        if let Some(error) = self.sealing.error() {
            return Err(error);
        }
        if self.is_changed {
            self.view.active().sync_indexes()?;
            let path = file_path(&self.dir, self.view.end.offset, SNAPSHOT_EXTENSION);
            snapshot::write(&*self.fs, &path, &self.producers)?;
        }
        Ok(())
    }
}
