//! Cleaned segments that take the place of others.
//!
//! The background thread does what is to be done on the disk, in line with its other jobs, so that
//! whatever removes or renames files of the log later finds it done. Meanwhile the segments that
//! are being replaced stay in the log, and none of them is dropped. Their files stay open, so that
//! whoever has an older picture of the log reads them to the end although their names are gone.

use std::sync::Arc;

use super::Writer;
use super::background::Job;
use super::log_tail::LogTail;
use super::swap_job::{SwapJob, SwapOutcome, Swapping};
use crate::cleaner::{LastWrite, LastWrites};
use crate::completion::Completer;
use crate::log_state::LogKey;
use crate::segment::Segment;

impl Writer {
    /// Begins to replace segments, if they are all still there and not in use for another purpose,
    /// and the log is still to be compacted.
    pub(super) fn replace_segments(
        &mut self,
        key: LogKey,
        segments: Vec<Arc<Segment>>,
        size_bytes: u64,
        done: Completer<bool>,
    ) {
        let Some(tail) = self.tails.get(&key) else { return };
        let partition = tail.log.topic_partition().clone();
        // What it has of these segments must not be redone in the one that takes their place.
        if let Err(error) = self.void_journal_of(&partition, false) {
            return done.complete(Err(error));
        }
        let Some(tail) = self.tails.get_mut(&key) else { return };
        let is_usable = tail.poison.is_none() && tail.swap.is_none();
        let is_wanted = is_usable && tail.log.config().is_compacted();
        let first = tail.position_of(&segments).filter(|_| is_wanted);
        let Some(first) = first else { return done.complete(Ok(false)) };
        let base_offset = segments[0].base_offset();
        tail.swap = Some(Swapping { base_offset, done: Some(done), unfinished: None });
        let job = SwapJob {
            key,
            log: Arc::clone(&tail.log),
            end: tail.view.segment_end(first + segments.len() - 1),
            log_start: tail.view.log_start,
            segments,
            size_bytes,
            is_named: false,
            is_committed: false,
        };
        self.round.background.send(Job::Swap(job));
    }

    /// The background thread is done with a replacement, or not.
    pub(super) fn note_swapped(&mut self, job: SwapJob, outcome: SwapOutcome) {
        let Some(tail) = self.tails.get_mut(&job.key) else { return };
        let Some(swap) = &mut tail.swap else { return };
        let done = swap.done.take();
        let result = match outcome {
            SwapOutcome::Swapped => {
                tail.swap = None;
                tail.put_in_place(job);
                // What the log start has passed meanwhile.
                let dropped = tail.drop_before_log_start();
                let delay = tail.log.config().file_delete_delay();
                self.deleted.extend(dropped.into_iter().map(|segment| (segment, delay)));
                tail.publish();
                Ok(true)
            }
            SwapOutcome::TooEarly => {
                tail.swap = None;
                Ok(false)
            }
            SwapOutcome::NotBegun(error) => {
                tail.swap = None;
                Err(error)
            }
            SwapOutcome::Unfinished(error) => {
                let partition = tail.log.name();
                tracing::warn!(%partition, %error, "a cleaned segment is not in its place yet");
                swap.unfinished = Some(job);
                Err(error)
            }
            // The log takes no appends any more, and what is there is settled at the next start.
            SwapOutcome::SyncFailed(error) => Err(error),
        };
        if let Some(done) = done {
            done.complete(result);
        }
    }

    /// Tries again what could not be finished.
    pub(super) fn retry_swaps(&mut self) {
        for tail in self.tails.values_mut() {
            if let Some(job) = tail.swap.as_mut().and_then(|swap| swap.unfinished.take()) {
                self.round.background.send(Job::Swap(job));
            }
        }
    }
}

impl LogTail {
    /// How many of the oldest segments are not being replaced.
    pub(super) fn droppable_segments(&self) -> usize {
        match &self.swap {
            None => self.view.segments.len(),
            Some(swap) => self.view.segment_index(swap.base_offset),
        }
    }

    /// Where the idempotent producers have written last; `None` if a replacement is under way, whose
    /// files must stay as they are, or the log takes none.
    pub(super) fn last_writes(&self) -> Option<LastWrites> {
        if self.swap.is_some() || self.poison.is_some() {
            return None;
        }
        let of_producer = self.producers.iter().map(|(id, known)| {
            let last = known.last_batch().map(|batch| LastWrite::Records(batch.last_offset));
            (id, last.unwrap_or(LastWrite::Marker(known.epoch)))
        });
        Some(of_producer.collect())
    }

    /// Where full segments are in the log; `None` unless all are there, one behind the other, and
    /// sealed.
    fn position_of(&self, segments: &[Arc<Segment>]) -> Option<usize> {
        let (all, oldest) = (&self.view.segments, segments.first()?);
        let first = all.iter().position(|segment| Arc::ptr_eq(segment, oldest))?;
        let found = all.get(first..first + segments.len())?;
        let are_same = found.iter().zip(segments).all(|(found, wanted)| Arc::ptr_eq(found, wanted));
        let end = first + segments.len();
        let are_sealed = end < all.len() && all[end].base_offset() <= self.recovery_point();
        (are_same && are_sealed).then_some(first)
    }

    fn put_in_place(&mut self, job: SwapJob) {
        let first = self.position_of(&job.segments).expect("segments stay while they are replaced");
        let base_offset = job.segments[0].base_offset();
        let cleaned = Segment::existing(&self.fs, &self.dir, base_offset, job.size_bytes);
        let all = &self.view.segments;
        let (before, after) = (&all[..first], &all[first + job.segments.len()..]);
        self.view.segments = before
            .iter()
            .cloned()
            .chain([Arc::new(cleaned)])
            .chain(after.iter().cloned())
            .collect();
        self.is_unpublished = true;
    }
}
