//! Cutting the end of a log off: a follower has records that its leader has not.
//!
//! Until then no log changes what it has acknowledged, and much relies on that: the journal would write
//! records again that are gone, and a recovery point, a snapshot of the producers or a list of segments
//! behind the end say that records were lost. So all of these let go of what is to be cut off, on
//! stable storage, before anything is. In this order, whatever happens between two steps:
//!
//! | step | who | on the disk |
//! |---|---|---|
//! | 1 | [`LogDir`](crate::LogDir) | nobody compacts the log |
//! | 2 | writer | all files are synced, the journal is void; from here on the log takes no appends |
//! | 3 | `LogDir` | the list of segments is gone; the high watermark and the cleaner's offset are lowered |
//! | 4 | writer, background thread | the recovery point is lowered |
//! | 5 | background thread ([`truncate_job`](super::truncate_job)) | the end is cut off |
//! | 6 | writer | the log goes on in a new segment |
//!
//! What is cut off begins with a batch: one that holds the offset goes as a whole. The batches
//! before it stay in their segment, which ends there, and the next one begins. So nothing is ever
//! written where other records were, and whoever still has a range of the file reads the old records or
//! comes to the end of the file, but never to the new ones. (Apache Kafka appends to the file that was
//! cut off. A follower's reader of what is cut off has been told another leader's epoch by then, and
//! nobody else reads behind the high watermark. Redpanda waits for its readers.) Pictures of the log
//! that were taken before are not used any more: [`Log`](crate::Log) asks for another.
//!
//! To begin at another offset (`truncateFullyAndStartAt` in Apache Kafka) is the same, with all of it
//! cut off; then the checkpoint says where the log starts, and only then the log takes appends.

use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset};

use super::Writer;
use super::background::Job;
use super::command::Command;
use super::log_request::LogRequest;
use super::log_tail::LogTail;
use super::round::Round;
use super::truncate_job::{Cut, CutLog, TruncateJob, TruncateOutcome};
use super::truncating::{CutTo, Truncating};
use crate::LogError;
use crate::completion::Completer;
use crate::log_state::LogKey;
use crate::producer_state::ProducerLimits;
use crate::view::{LogPoint, LogView};

impl Writer {
    /// Prepares a truncation: from here on the log takes no appends. Answers the offset at which what
    /// is cut off begins and the one at which the log ends then; `None` if there is nothing to be cut
    /// off, and nothing is prepared.
    pub(super) fn begin_truncation(
        &mut self,
        key: LogKey,
        to: CutTo,
        epoch: LeaderEpoch,
        done: Completer<Option<(Offset, Offset)>>,
    ) {
        if self.tails.contains_key(&key) {
            done.complete(self.prepare_truncation(key, to, epoch));
        }
    }

    fn prepare_truncation(
        &mut self,
        key: LogKey,
        to: CutTo,
        epoch: LeaderEpoch,
    ) -> Result<Option<(Offset, Offset)>, LogError> {
        let tail = self.tails.get_mut(&key).expect("it was just looked for");
        tail.check_epoch(epoch)?;
        if let Some(error) = tail.poisoned() {
            return Err(error);
        }
        if tail.swap.is_some() {
            return Err(tail.busy("a compaction"));
        }
        if tail.truncating.is_some() {
            return Err(tail.busy("a truncation"));
        }
        let Some(truncating) = tail.plan_truncation(to)? else {
            // The epoch of a leader that has not come to append anything.
            tail.truncate_epochs(tail.view.end.offset);
            tail.publish();
            return Ok(None);
        };
        let partition = tail.log.topic_partition().clone();
        self.sync(vec![key]);
        let tail = &self.tails[&key];
        if tail.poison.is_some() || tail.unsynced_records() > 0 {
            return Err(tail.not_synced());
        }
        self.void_journal_of(&partition, false)?;
        self.journal.forget(key);
        let begun = (truncating.cut.offset, truncating.end());
        let tail = self.tails.get_mut(&key).expect("it was just looked for");
        tail.truncating = Some(Box::new(truncating));
        Ok(Some(begun))
    }

    /// Cuts off what was prepared for it, or gives it up.
    pub(super) fn cut(
        &mut self,
        key: LogKey,
        prepared: Result<(), LogError>,
        done: Completer<Offset>,
    ) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        let truncating = tail.truncating.as_mut().expect("it was prepared");
        truncating.done = Some(done);
        if let Err(error) = prepared {
            return self.end_truncation(key, Err(error));
        }
        let queue = Arc::clone(&self.queue);
        let then = move |written| queue.push(Command::MarksLowered { key, written });
        self.checkpoint_waiting.push(Box::new(then));
    }

    /// The recovery point is lowered, or is not.
    pub(super) fn note_marks_lowered(&mut self, key: LogKey, written: Result<(), LogError>) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        if let Err(error) = tail.poisoned().map_or(written, Err) {
            return self.end_truncation(key, Err(error));
        }
        let truncating = tail.truncating.as_ref().expect("its marks were lowered");
        let partition = tail.log.name();
        let (from, to) = (tail.view.end.offset, truncating.end());
        let kept_to = truncating.cut.offset;
        tracing::info!(%partition, %from, %kept_to, %to, "the end of a log is cut off");
        let lowered = tail.lowered_view(truncating);
        tail.log.publish_cut(&lowered);
        let job = tail.truncate_job(truncating, self.producer_limits.clone());
        self.round.background.send(Job::Truncate(Box::new(job)));
    }

    /// The background thread is done with a truncation, or not.
    pub(super) fn note_truncated(&mut self, job: Box<TruncateJob>, outcome: TruncateOutcome) {
        let key = job.key();
        let Some(tail) = self.tails.get_mut(&key) else { return };
        match outcome {
            TruncateOutcome::Cut(cut) => {
                let restarts = tail.go_on_behind_cut(*cut, &mut self.round);
                match restarts && tail.poison.is_none() {
                    true => self.await_log_start(key),
                    false => {
                        let result = tail.poisoned().map_or(Ok(tail.view.end.offset), Err);
                        self.end_truncation(key, result);
                    }
                }
            }
            TruncateOutcome::NotBegun(error) => self.end_truncation(key, Err(error)),
            TruncateOutcome::Unfinished(error) => {
                let partition = tail.log.name();
                tracing::warn!(%partition, %error, "the end of a log is not cut off yet");
                let truncating = tail.truncating.as_mut().expect("it is under way");
                truncating.unfinished = Some(job);
                truncating.answer(Err(error));
                self.timers.checkpoint_soon(self.round.started);
            }
            TruncateOutcome::Failed(error) => {
                tail.fail_sync(&error);
                let error = tail.poisoned().expect("it was just poisoned");
                // It stays, and with it the lower recovery point, and what readers see.
                let truncating = tail.truncating.as_mut().expect("it is under way");
                truncating.answer(Err(error));
                let held = std::mem::take(&mut truncating.held);
                held.into_iter().for_each(|request| self.serve(key, request));
            }
        }
    }

    /// The checkpoint has the new log start, or has not: then it is tried again with the next.
    pub(super) fn note_restarted(&mut self, key: LogKey, written: Result<(), LogError>) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        let end = tail.view.end.offset;
        match (tail.poisoned(), written) {
            (Some(error), _) => self.end_truncation(key, Err(error)),
            (None, Ok(())) => self.end_truncation(key, Ok(end)),
            (None, Err(error)) => {
                let truncating = tail.truncating.as_mut().expect("it is under way");
                truncating.needs_checkpoint = true;
                truncating.answer(Err(error));
                self.timers.checkpoint_soon(self.round.started);
            }
        }
    }

    /// Tries again what could not be finished. To be called before a checkpoint is sent.
    pub(super) fn retry_truncations(&mut self) {
        let mut awaited = Vec::new();
        for (key, tail) in &mut self.tails {
            let Some(truncating) = &mut tail.truncating else { continue };
            if let Some(job) = truncating.unfinished.take() {
                self.round.background.send(Job::Truncate(job));
            }
            if std::mem::take(&mut truncating.needs_checkpoint) {
                awaited.push(*key);
            }
        }
        awaited.into_iter().for_each(|key| self.await_log_start(key));
    }

    fn await_log_start(&mut self, key: LogKey) {
        let queue = Arc::clone(&self.queue);
        let then = move |written| queue.push(Command::Restarted { key, written });
        self.checkpoint_waiting.push(Box::new(then));
    }

    /// The log takes appends again, and what has waited is done.
    fn end_truncation(&mut self, key: LogKey, result: Result<Offset, LogError>) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        let Some(mut truncating) = tail.truncating.take() else { return };
        tail.is_unpublished = true;
        tail.publish();
        if result.is_err() {
            // It may have been sealed meanwhile.
            self.round.rolled.push(key);
        }
        truncating.answer(result);
        truncating.held.into_iter().for_each(|request| self.serve(key, request));
    }

    /// Keeps back what must not see a log whose end is being cut off; `None` if it was.
    pub(super) fn hold_while_truncating(
        &mut self,
        key: LogKey,
        request: LogRequest,
    ) -> Option<LogRequest> {
        let tail = self.tails.get_mut(&key).filter(|tail| tail.poison.is_none());
        let truncating = tail.and_then(|tail| tail.truncating.as_mut());
        let Some(truncating) = truncating else { return Some(request) };
        truncating.held.push(request);
        None
    }
}

impl LogTail {
    /// The error for what cannot be done now.
    pub(super) fn busy(&self, with: &'static str) -> LogError {
        LogError::Busy { partition: self.log.topic_partition().clone(), with }
    }

    /// Where the log is to be cut off; `None` if it is already as it is to be.
    fn plan_truncation(&self, to: CutTo) -> Result<Option<Truncating>, LogError> {
        let LogView { log_start, end, .. } = self.view;
        let first = self.view.segments[0].base_offset();
        // With what is before the log start: a start would not believe one behind the end of records.
        let all = LogPoint { offset: first, segment: first, position: 0 };
        let (cut, restart) = match to {
            CutTo::Before(offset) if offset >= end.offset => return Ok(None),
            CutTo::Before(offset) if offset < log_start => (all, Some(offset)),
            CutTo::Before(offset) => match self.view.cut_point(offset)? {
                // The log starts in the middle of the batch that goes.
                cut if cut.offset < log_start => (all, Some(cut.offset)),
                cut => (cut, None),
            },
            CutTo::Restart(start) if start == log_start && start == end.offset => return Ok(None),
            CutTo::Restart(start) => (all, Some(start)),
        };
        let (done, unfinished, held) = (None, None, Vec::new());
        Ok(Some(Truncating { cut, restart, done, unfinished, needs_checkpoint: false, held }))
    }

    fn truncate_epochs(&mut self, end: Offset) {
        if self.view.epochs.latest().is_some_and(|latest| latest.start_offset >= end) {
            self.epochs_changed |= Arc::make_mut(&mut self.view.epochs).truncate_from_end(end);
            self.is_unpublished = true;
        }
    }

    /// What readers see while the end is being cut off.
    fn lowered_view(&self, truncating: &Truncating) -> LogView {
        let cut = truncating.cut;
        let kept = self.view.segment_index(cut.segment) + 1;
        let mut epochs = Arc::clone(&self.view.epochs);
        Arc::make_mut(&mut epochs).truncate_from_end(cut.offset);
        LogView {
            segments: self.view.segments[..kept].into(),
            log_start: self.view.log_start.min(cut.offset),
            end: cut,
            flushed: cut,
            recovery_point: self.recovery_point(),
            epochs,
        }
    }

    /// Goes on in the new segment; says whether the log starts anew.
    fn go_on_behind_cut(&mut self, cut: Cut, round: &mut Round) -> bool {
        let Cut { segments, has_shortened, restart, producers } = cut;
        let new = segments.last().expect("the new segment is there").base_offset();
        let end = LogPoint { offset: new, segment: new, position: 0 };
        self.view.segments = segments;
        (self.view.end, self.view.flushed) = (end, end);
        (self.synced, self.write_back_begun) = (end, end);
        let epochs = Arc::make_mut(&mut self.view.epochs);
        match restart {
            Some(start) => {
                epochs.clear();
                self.view.log_start = start;
            }
            None => _ = epochs.truncate_from_end(new),
        }
        self.epochs_changed = true;
        self.producers = producers;
        let open = self.producers.open_transactions();
        self.log.transactions().cut(open, new);
        self.unsynced.clear();
        (self.needs_dir_sync, self.must_roll) = (false, false);
        self.file = None;
        self.active_since = round.now;
        self.is_changed = true;
        self.seal_up_to_cut(has_shortened, round);
        self.view.recovery_point = self.recovery_point();
        self.log.publish_cut(&self.view);
        self.log.lower_high_watermark(new);
        if let Some(truncating) = &mut self.truncating {
            truncating.cut = end;
        }
        restart.is_some()
    }

    fn truncate_job(
        &self,
        truncating: &Truncating,
        producer_limits: ProducerLimits,
    ) -> TruncateJob {
        TruncateJob::new(CutLog {
            log: Arc::clone(&self.log),
            fs: Arc::clone(&self.fs),
            segments: Arc::clone(&self.view.segments),
            cut: truncating.cut,
            restart: truncating.restart,
            index_interval_bytes: self.log.config().index_interval_bytes,
            delete_delay: self.log.config().file_delete_delay(),
            producer_limits,
        })
    }
}
