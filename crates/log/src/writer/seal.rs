//! Sealing: putting full segments, their indexes and a snapshot of the producers on stable
//! storage, so that the recovery point may pass them.
//!
//! The background thread does it, one job after the other, and may be slower than the logs roll.
//! What waits for it is bounded, and the writer never waits:
//!
//! - A log has at most one job with the thread. What it fills meanwhile becomes one further job,
//!   with the producers as of the newest roll: an older snapshot is of no use to anybody.
//! - The thread is given at most [`JOBS_MAX`] jobs; further logs stand in line, as keys.
//! - The snapshots that wait share [`SNAPSHOTS_MAX_BYTES`](super::snapshot_room). A roll that finds no room has its
//!   segment wait for the next roll of the log, and the recovery point with it: after a crash more
//!   is scanned, and nothing is lost.

use std::collections::VecDeque;
use std::sync::Arc;

use logway_model::Offset;

use super::Writer;
use super::background::Job;
use super::log_tail::LogTail;
use super::round::Round;
use super::seal_job::{SealJob, SealOutcome};
use super::sealing::Sealing;
use super::snapshot_room::SnapshotRoom;
use crate::LogError;
use crate::log_state::LogKey;
use crate::segment::Segment;

/// How many jobs the background thread is given at most: enough that it always has the next one.
const JOBS_MAX: usize = 4;

/// The sealing of all logs of a directory.
#[derive(Debug, Default)]
pub(super) struct SealLine {
    /// The logs whose next job waits.
    waiting: VecDeque<LogKey>,
    /// How many jobs the background thread has.
    under_way: usize,
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
