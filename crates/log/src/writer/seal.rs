//! Sealing: putting full segments, their indexes and a snapshot of the producers on stable
//! storage, so that the recovery point may pass them.
//!
//! The background thread does it, one job after the other, and may be slower than the logs roll.
//! What waits for it is bounded, and the writer never waits:
//!
//! - A log has at most one job with the thread. What it fills meanwhile becomes one further job,
//!   with the producers as of the newest roll: an older snapshot is of no use to anybody.
//! - The thread is given at most [`JOBS_MAX`] jobs; further logs stand in line, as keys.
//! - The snapshots that wait share [`SNAPSHOTS_MAX_BYTES`]. A roll that finds no room has its
//!   segment wait for the next roll of the log, and the recovery point with it: after a crash more
//!   is scanned, and nothing is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use logway_model::Offset;

use super::Writer;
use super::background::Job;
use super::command::SealOutcome;
use super::log_tail::LogTail;
use super::round::Round;
use crate::LogError;
use crate::fs::{Fs, OpenMode};
use crate::log_state::{LogKey, LogState};
use crate::producer_state::ProducerStateTable;
use crate::producer_state::snapshot::Snapshot;
use crate::segment::{SNAPSHOT_EXTENSION, Segment, file_path};

/// How many jobs the background thread is given at most: enough that it always has the next one.
const JOBS_MAX: usize = 4;

/// Some 700,000 producers.
const SNAPSHOTS_MAX_BYTES: usize = 32 << 20;

/// Full segments of one log that are to be put on stable storage.
#[derive(Debug)]
pub(crate) struct SealJob {
    /// The log.
    pub(super) log: Arc<LogState>,
    /// The oldest first; at least one.
    segments: Vec<Arc<Segment>>,
    /// The offset before which they end.
    end: Offset,
    /// The producers as of that offset; `None` if there was no room for them.
    snapshot: Option<WaitingSnapshot>,
    index_interval_bytes: u32,
}

/// The sealing of one log, as the writer sees it.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    /// The full segments that are not sealed, the oldest first.
    unsealed: VecDeque<Arc<Segment>>,
    /// What is to be sealed next.
    next: Option<SealJob>,
    /// The background thread has a job of this log.
    is_under_way: bool,
    /// The log stands in line.
    is_in_line: bool,
    /// Why the last try failed.
    error: Option<LogError>,
}

/// The sealing of all logs of a directory.
#[derive(Debug, Default)]
pub(super) struct SealLine {
    /// The logs whose next job waits.
    waiting: VecDeque<LogKey>,
    /// How many jobs the background thread has.
    under_way: usize,
}

/// The memory that snapshots share until they are written.
#[derive(Debug, Clone)]
pub(super) struct SnapshotRoom {
    max_bytes: usize,
    used_bytes: Arc<AtomicUsize>,
}

/// A snapshot that holds its share of the room.
#[derive(Debug)]
struct WaitingSnapshot {
    snapshot: Snapshot,
    room: SnapshotRoom,
}

impl Default for SnapshotRoom {
    fn default() -> SnapshotRoom {
        SnapshotRoom { max_bytes: SNAPSHOTS_MAX_BYTES, used_bytes: Arc::default() }
    }
}

impl SnapshotRoom {
    /// Takes a snapshot of a log's producers, if there is room.
    fn snapshot_of(&self, producers: &ProducerStateTable) -> Option<WaitingSnapshot> {
        let bytes = Snapshot::size_bytes_of(producers);
        let used_bytes = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used_bytes > self.max_bytes {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(WaitingSnapshot { snapshot: Snapshot::of(producers), room: self.clone() })
    }
}

impl WaitingSnapshot {
    /// One with a room of its own.
    fn apart(snapshot: Snapshot) -> WaitingSnapshot {
        let bytes = snapshot.size_bytes();
        let room = SnapshotRoom { max_bytes: bytes, used_bytes: Arc::new(bytes.into()) };
        WaitingSnapshot { snapshot, room }
    }
}

impl Drop for WaitingSnapshot {
    fn drop(&mut self) {
        self.room.used_bytes.fetch_sub(self.snapshot.size_bytes(), Ordering::Relaxed);
    }
}

impl Writer {
    /// Has the full segments sealed for which the background thread is free.
    pub(super) fn start_seals(&mut self) {
        for key in std::mem::take(&mut self.round.rolled) {
            self.line_up(key);
        }
        while self.seals.under_way < JOBS_MAX
            && let Some(key) = self.seals.waiting.pop_front()
        {
            let Some(tail) = self.tails.get_mut(&key) else { continue };
            tail.sealing.is_in_line = false;
            if tail.truncating.is_some() {
                continue;
            }
            if let Some(job) = tail.sealing.next.take() {
                tail.sealing.is_under_way = true;
                self.seals.under_way += 1;
                self.round.background.send(Job::Seal(job));
            }
        }
    }

    /// Has those sealed that were opened with full segments.
    pub(super) fn start_first_seals(&mut self) {
        // In the order in which they were opened.
        let mut keys: Vec<LogKey> = self.tails.keys().copied().collect();
        keys.sort_unstable();
        self.round.rolled = keys;
        self.start_seals();
    }

    /// The background thread is done with a job, or not.
    pub(super) fn note_sealed(&mut self, job: SealJob, outcome: SealOutcome) {
        self.seals.under_way -= 1;
        let key = job.log.key();
        let Some(tail) = self.tails.get_mut(&key) else { return };
        tail.sealing.is_under_way = false;
        match tail.note_sealed(job, outcome) {
            Ok(true) => {
                self.timers.checkpoint_soon(self.round.started);
                tail.publish();
                tail.complete_due();
                self.line_up(key);
            }
            Ok(false) => {}
            Err(error) => tail.fail_sync(&error),
        }
    }

    /// Tries again what could not be sealed.
    pub(super) fn retry_seals(&mut self) {
        let waits = |tail: &LogTail| tail.sealing.next.is_some();
        let keys = self.tails.iter().filter(|(_, tail)| waits(tail)).map(|(&key, _)| key);
        for key in keys.collect::<Vec<_>>() {
            self.line_up(key);
        }
    }

    /// Seals what waits, on this thread. Of a poisoned log nothing can be sealed.
    pub(super) fn seal_all(&mut self) {
        for tail in self.tails.values_mut().filter(|tail| tail.poison.is_none()) {
            let Some(job) = tail.sealing.next.take() else { continue };
            let outcome = job.run(&*self.round.fs);
            if let Err(error) = tail.note_sealed(job, outcome) {
                tail.fail_sync(&error);
            }
        }
    }

    /// Puts a log in line, if it has a job that can be done and none is under way.
    fn line_up(&mut self, key: LogKey) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        if tail.poison.is_some() || tail.truncating.is_some() {
            return;
        }
        tail.take_late_snapshot(&self.round.snapshots);
        let sealing = &mut tail.sealing;
        let is_ready = sealing.next.as_ref().is_some_and(|job| job.snapshot.is_some());
        if is_ready && !sealing.is_under_way && !sealing.is_in_line {
            sealing.is_in_line = true;
            self.seals.waiting.push_back(key);
        }
    }
}

impl LogTail {
    /// Notes a segment that was just filled.
    pub(super) fn seal_later(&mut self, full: Arc<Segment>, end: Offset, round: &mut Round) {
        self.sealing.unsealed.push_back(Arc::clone(&full));
        let mut segments = match self.sealing.next.take() {
            // Its snapshot is given up before there must be room for the new one.
            Some(earlier) => earlier.segments,
            None => Vec::new(),
        };
        segments.push(full);
        self.sealing.next = Some(SealJob {
            log: Arc::clone(&self.log),
            segments,
            end,
            snapshot: round.snapshots.snapshot_of(&self.producers),
            index_interval_bytes: round.config.index_interval_bytes,
        });
        round.rolled.push(self.log.key());
    }

    /// Has the full segments sealed that a truncation has left: those that were not, and the last one
    /// if it was shortened. The snapshot is as of the new end, and no sealing is under way.
    pub(super) fn seal_up_to_cut(&mut self, has_shortened: bool, round: &mut Round) {
        let (new, full) = self.view.segments.split_last().expect("a log has a segment");
        let begins = self.sealing.begins().unwrap_or(new.base_offset());
        let is_left = |index: usize, segment: &Arc<Segment>| {
            segment.base_offset() >= begins || (has_shortened && index + 1 == full.len())
        };
        let left = full.iter().enumerate().filter(|(index, segment)| is_left(*index, segment));
        let left: Vec<Arc<Segment>> = left.map(|(_, segment)| Arc::clone(segment)).collect();
        let is_in_line = self.sealing.is_in_line;
        self.sealing =
            Sealing { unsealed: left.iter().cloned().collect(), is_in_line, ..Sealing::default() };
        self.sealing.next = (!left.is_empty()).then(|| SealJob {
            log: Arc::clone(&self.log),
            segments: left,
            end: self.view.end.offset,
            snapshot: round.snapshots.snapshot_of(&self.producers),
            index_interval_bytes: self.log.config().index_interval_bytes,
        });
        round.rolled.push(self.log.key());
    }

    /// Takes the snapshot for which there was no room, if the producers are still as they were.
    fn take_late_snapshot(&mut self, room: &SnapshotRoom) {
        let end = self.view.end.offset;
        let lacks_it = |job: &SealJob| job.snapshot.is_none() && job.end == end;
        if self.sealing.next.as_ref().is_some_and(lacks_it) {
            let snapshot = room.snapshot_of(&self.producers);
            self.sealing.next.as_mut().expect("it was just looked at").snapshot = snapshot;
        }
    }

    /// Takes note of what became of a job, and says whether it is done; the error is one that
    /// poisons the log.
    fn note_sealed(&mut self, job: SealJob, outcome: SealOutcome) -> Result<bool, LogError> {
        match outcome {
            // Another sync of the same segments has failed: that this one did not says nothing about
            // what the failed one left behind.
            SealOutcome::Sealed | SealOutcome::SyncFailed(_) if self.poison.is_some() => Ok(false),
            SealOutcome::Sealed => {
                self.sealing.error = None;
                self.sealing.unsealed.retain(|segment| segment.base_offset() >= job.end);
                self.note_synced_before(job.end);
                // The recovery point has moved.
                self.is_unpublished = true;
                Ok(true)
            }
            // The next roll or checkpoint tries again.
            SealOutcome::NotYet(error) => {
                let partition = self.log.name();
                tracing::warn!(%partition, %error, "full segments are not sealed yet");
                self.sealing.take_back(job, error);
                Ok(false)
            }
            SealOutcome::SyncFailed(error) => Err(error),
        }
    }
}

impl Sealing {
    /// For a log that was opened, whose segments `unsealed` recovery did not seal. Without a
    /// snapshot of the producers they are sealed with the next roll, or by the close.
    ///
    /// The snapshot is no larger than the producers that it is of, and their number has a bound: it
    /// needs no room among those that wait.
    pub(super) fn of_recovered(
        log: &Arc<LogState>,
        unsealed: Vec<Arc<Segment>>,
        active: &Segment,
        snapshot: Option<Snapshot>,
    ) -> Sealing {
        let snapshot = snapshot.map(WaitingSnapshot::apart);
        let next = (!unsealed.is_empty()).then(|| SealJob {
            log: Arc::clone(log),
            segments: unsealed.clone(),
            end: active.base_offset(),
            snapshot,
            index_interval_bytes: log.config().index_interval_bytes,
        });
        Sealing { unsealed: unsealed.into(), next, ..Sealing::default() }
    }

    /// Where the oldest segment that is not sealed begins.
    pub(super) fn begins(&self) -> Option<Offset> {
        self.unsealed.front().map(|segment| segment.base_offset())
    }

    /// Forgets segments that were deleted: those before `start`.
    pub(super) fn forget_before(&mut self, start: Offset) {
        self.unsealed.retain(|segment| segment.base_offset() >= start);
        if let Some(job) = &mut self.next {
            job.segments.retain(|segment| segment.base_offset() >= start);
        }
        self.next.take_if(|job| job.segments.is_empty());
    }

    /// Why something could not be sealed that still waits.
    pub(super) fn error(&self) -> Option<LogError> {
        self.error.clone().filter(|_| !self.unsealed.is_empty())
    }

    /// Keeps a job that could not be done, as part of the next one if there is one.
    fn take_back(&mut self, mut job: SealJob, error: LogError) {
        self.error = Some(error);
        let Some(start) = self.begins() else { return };
        job.segments.retain(|segment| segment.base_offset() >= start);
        if job.segments.is_empty() {
            return;
        }
        self.next = Some(match self.next.take() {
            None => job,
            Some(mut newer) => {
                job.segments.append(&mut newer.segments);
                SealJob { segments: job.segments, ..newer }
            }
        });
    }
}

impl SealJob {
    /// Does it.
    pub(super) fn run(&self, fs: &dyn Fs) -> SealOutcome {
        for segment in &self.segments {
            let path = segment.path();
            // A handle of its own: the system reports a failed write-back once to each open
            // file, and the writer's sync must not miss it.
            let file = match fs.open(path, OpenMode::ReadWrite) {
                Ok(file) => file,
                Err(error) => return SealOutcome::NotYet(LogError::io("open", path)(error)),
            };
            if let Err(error) = file.sync_data() {
                return SealOutcome::SyncFailed(LogError::io("sync", path)(error));
            }
        }
        match self.seal_companions(fs) {
            Ok(()) => SealOutcome::Sealed,
            // The writer's own sync of the directory, which must vouch for the name of the next
            // segment, would find nothing wrong any more.
            Err(error) if error.is_failed_sync_of(self.log.dir_syncs().dir()) => {
                SealOutcome::SyncFailed(error)
            }
            Err(error) => SealOutcome::NotYet(error),
        }
    }

    fn seal_companions(&self, fs: &dyn Fs) -> Result<(), LogError> {
        for segment in &self.segments {
            if let Err(error) = segment.sync_indexes() {
                let path = segment.path().display();
                tracing::warn!(segment = %path, %error, "the indexes are made anew");
                segment.rebuild_indexes(self.index_interval_bytes)?;
                segment.sync_indexes()?;
            }
        }
        // Recovery takes the snapshot for a sign that the indexes are there.
        let syncs = self.log.dir_syncs();
        syncs.sync_all(fs)?;
        let Some(WaitingSnapshot { snapshot, .. }) = &self.snapshot else { return Ok(()) };
        let path = file_path(syncs.dir(), self.end, SNAPSHOT_EXTENSION);
        syncs.work(|| snapshot.write(fs, &path))
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{
        PartitionId, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicName, TopicPartition,
    };

    use super::*;
    use crate::LogMetrics;
    use crate::producer_state::{ProducerBatch, ProducerLimits};

    fn table_of(producers: i64) -> ProducerStateTable {
        let topic = TopicName::new("t").expect("a good name");
        let limits = ProducerLimits::new(100, 100, LogMetrics::new());
        let partition = TopicPartition::new(topic, PartitionId(0));
        let mut table = ProducerStateTable::new(partition, limits);
        for id in 0..producers {
            let batch = ProducerBatch {
                producer_id: ProducerId(id),
                epoch: ProducerEpoch(0),
                base_sequence: Sequence(0),
                offset_delta: 0,
                max_timestamp: TimestampMs(0),
                transactional: false,
            };
            let _ = table.update(&batch, Offset(id), TimestampMs(0));
        }
        table
    }

    #[test]
    fn snapshots_that_wait_have_a_bound() {
        let room = SnapshotRoom { max_bytes: 1000, ..SnapshotRoom::default() };
        let first = room.snapshot_of(&table_of(15)).expect("there is room");
        assert!(room.snapshot_of(&table_of(15)).is_none(), "46 bytes for each of 30");
        let small = room.snapshot_of(&table_of(5)).expect("there is room");
        drop((first, small));
        assert!(room.snapshot_of(&table_of(20)).is_some(), "what was written gives it back");
    }
}
