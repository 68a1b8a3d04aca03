//! Appending to one log: sequence checks, offsets, one write.
//!
//! The appends of a round are *staged* one after the other: each gets its offsets, its batches join
//! one vectored write, and its producers are noted. Then the write is made. If it fails, what was
//! staged is taken back and its appends fail; the log is as if they had never been made.

use std::sync::Arc;
use std::time::Instant;

use logway_model::{LeaderEpoch, Offset, TimestampMs, TransactionVersion};
use logway_record::{Batch, BatchHeader, PatchedHeader, TimestampType, TransactionMarker};

use super::log_request::{Append, Offsets};
use super::log_tail::{KEPT_PER_LOG, LogTail, Waiter};
use super::round::Round;
use super::staging::{Answer, Placed, Staging};
use crate::producer_state::{Marker, ProducerBatch, SequenceCheck, TransactionStep};
use crate::view::LogPoint;
use crate::{AppendBatches, AppendOrigin, AppendOutcome, LogError};

/// Lines about what clients can cause at will, which are limited in number.
const CLIENTS: &str = "logway_log::clients";

impl LogTail {
    /// Appends everything that came in this round. The new state is not published yet, and
    /// nobody is answered.
    pub(super) fn append_incoming(&mut self, round: &mut Round) {
        let mut incoming = std::mem::take(&mut self.incoming);
        if let Some(error) = self.refusal() {
            // At once, and not in the turn of those that wait for the sync.
            round.metrics.failed_appends.inc_by(incoming.len() as u64);
            for append in incoming.drain(..) {
                self.note_failed(append.offsets, &append.batches, &error);
                append.done.complete(Err(error.clone()));
            }
        }
        for Append { batches, offsets, done, .. } in incoming.drain(..) {
            let result = match offsets {
                Offsets::Followed(from) => self.stage_followed(batches, from, round),
                _ => {
                    let staged = self.stage(&batches, offsets, round);
                    staged.inspect_err(|error| self.note_failed(offsets, &batches, error))
                }
            };
            round.staging.answers.push(Answer { result, done });
        }
        self.write_staged(round);
        incoming.shrink_to(KEPT_PER_LOG);
        self.incoming = incoming;
    }

    /// What clients send behind an append that has failed is refused like it, if they can send that again.
    fn note_failed(&self, offsets: Offsets, append: &AppendBatches, error: &LogError) {
        if offsets == Offsets::Assigned
            && let Some(refusal) = error.passing_refusal()
        {
            let headers = append.batches.iter().map(Batch::header);
            self.log.note_refused(headers, refusal, error.to_string());
        }
    }

    /// Why the log takes no appends now, if it does not.
    fn refusal(&self) -> Option<LogError> {
        let is_truncating = self.truncating.is_some() && self.poison.is_none();
        self.delayed().or_else(|| is_truncating.then(|| self.busy("a truncation")))
    }

    /// Writes what is staged; the answers wait for their turn.
    pub(super) fn write_staged(&mut self, round: &mut Round) {
        if round.staging.answers.is_empty() {
            return;
        }
        if let Err(error) = self.write_batches(round) {
            self.take_back(error, round);
        }
        let is_durable = round.config.is_durable();
        for Answer { result, done } in round.staging.answers.drain(..) {
            let flushed_to = match &result {
                Ok(placed) if is_durable => placed.end,
                _ => Offset::ZERO,
            };
            if let Err(error) = &result {
                round.metrics.failed_appends.inc();
                round.is_disk_full |= error.is_disk_full();
            }
            let result = result.map(|placed| placed.outcome);
            self.waiting.push_back(Waiter { flushed_to, result, done });
        }
        round.staging.clear();
    }

    /// Gives an append its offsets, and adds what the log does not have yet to the write.
    pub(super) fn stage(
        &mut self,
        append: &AppendBatches,
        offsets: Offsets,
        round: &mut Round,
    ) -> Result<Placed, LogError> {
        if offsets != Offsets::Kept {
            self.check_epoch(append.leader_epoch)?;
        }
        if self.must_roll_before(append, offsets, round) {
            self.write_staged(round);
            if self.poison.is_none() && self.view.end.position > 0 {
                self.roll(round)?;
            }
        }
        if let Some(error) = self.poisoned() {
            return Err(error);
        }
        let marks = (round.staging.undo.len(), round.staging.steps.len());
        let placed = self.place_all(append, offsets, round);
        if placed.is_err() {
            self.restore_producers(marks.0, round);
            round.staging.steps.truncate(marks.1);
            return placed;
        }
        let end_position = self.view.end.position;
        round.staging.push_placed(&append.batches, end_position);
        placed
    }

    /// Checks and places the batches of an append, one after the other.
    fn place_all(
        &mut self,
        append: &AppendBatches,
        offsets: Offsets,
        round: &mut Round,
    ) -> Result<Placed, LogError> {
        let mut next_offset = round.staging.next_offset(self.view.end.offset);
        if let AppendOrigin::ClientAt(expected) = append.origin
            && expected != next_offset
        {
            let partition = self.log.topic_partition().clone();
            return Err(LogError::EndMoved { partition, expected, end: next_offset });
        }
        let mut all: Option<Placed> = None;
        round.staging.headers.clear();
        for batch in &append.batches {
            let (header, outcome) = match offsets {
                Offsets::Assigned => {
                    let header = patch(batch, next_offset, append.leader_epoch, round);
                    (header, self.place(batch, header.header(), append.origin, round)?)
                }
                Offsets::Kept => {
                    let header = PatchedHeader::of(batch);
                    (header, self.place_copy(batch, next_offset, &mut round.staging)?)
                }
                Offsets::Followed(_) => {
                    let header = PatchedHeader::of(batch);
                    (header, self.place_followed(batch, append.leader_epoch, round)?)
                }
            };
            if outcome.is_duplicate {
                round.metrics.duplicate_batches.inc();
                round.staging.headers.push(None);
            } else {
                next_offset = self.below_limit(outcome.last_offset.next())?;
                round.staging.headers.push(Some(header));
            }
            all = Some(Placed::joined(all, outcome));
        }
        Ok(all.expect("an append is of at least one batch"))
    }

    /// A log end that a start would believe. Only damage to files that say how far a log went can
    /// bring one so far.
    fn below_limit(&self, end: Offset) -> Result<Offset, LogError> {
        if end < Offset::LIMIT {
            return Ok(end);
        }
        let partition = self.log.topic_partition().clone();
        Err(LogError::OffsetsExhausted { partition, end: self.view.end.offset })
    }

    /// Checks a batch by its producer's state and notes it with that; says where the batch is, or was
    /// the first time. `header` is what it gets.
    fn place(
        &mut self,
        batch: &Batch,
        header: &BatchHeader,
        origin: AppendOrigin,
        round: &mut Round,
    ) -> Result<AppendOutcome, LogError> {
        let outcome = self.outcome(header);
        let staging = &mut round.staging;
        let Some(of_producer) = ProducerBatch::of(header) else {
            if header.attributes.is_control() {
                self.place_marker(batch, header, origin, staging)?;
            }
            return Ok(outcome);
        };
        match self.check_producer(&of_producer, origin)? {
            SequenceCheck::Append => {
                self.note_producer(&of_producer, header.base_offset, round.now, staging);
                Ok(outcome)
            }
            SequenceCheck::Duplicate(known) => Ok(AppendOutcome {
                base_offset: known.base_offset(),
                last_offset: known.last_offset,
                log_append_time: match outcome.log_append_time {
                    TimestampMs::NONE => TimestampMs::NONE,
                    _ => known.timestamp,
                },
                is_duplicate: true,
                ..outcome
            }),
        }
    }

    fn note_producer(
        &mut self,
        batch: &ProducerBatch,
        base_offset: Offset,
        now: TimestampMs,
        staging: &mut Staging,
    ) {
        let previous = self.producers.update(batch, base_offset, now);
        if batch.transactional {
            staging.steps.extend(self.producers.step_since(&previous));
        }
        staging.undo.push(previous);
    }

    /// Checks a marker by its producer's state, and ends the transaction.
    fn place_marker(
        &mut self,
        batch: &Batch,
        header: &BatchHeader,
        origin: AppendOrigin,
        staging: &mut Staging,
    ) -> Result<(), LogError> {
        let Some(marker) = self.marker(batch)? else { return Ok(()) };
        let marker = Marker::of(header, marker);
        let version = match origin {
            AppendOrigin::Markers(version) => version,
            _ => TransactionVersion::CLASSIC,
        };
        self.producers.check_marker(&marker, version)?;
        self.end_transaction(&marker, version, staging);
        Ok(())
    }

    fn end_transaction(
        &mut self,
        marker: &Marker,
        version: TransactionVersion,
        staging: &mut Staging,
    ) {
        // Also if none is open yet, or here: what the coordinator has said before is over. A copy ends what this node was
        // told when it led before.
        self.log.transactions().void_verification(marker, version);
        let (previous, ended) = self.producers.end_transaction(marker);
        staging.undo.push(previous);
        staging.steps.extend(ended.map(TransactionStep::End));
    }

    fn marker(&self, batch: &Batch) -> Result<Option<TransactionMarker>, LogError> {
        TransactionMarker::of(batch).map_err(|reason| {
            let partition = self.log.topic_partition().clone();
            LogError::BadBatch { partition, reason }
        })
    }

    fn check_producer(
        &self,
        batch: &ProducerBatch,
        origin: AppendOrigin,
    ) -> Result<SequenceCheck, LogError> {
        let verification = match origin {
            AppendOrigin::Verified(guard) => {
                self.log.transactions().verified(batch.producer_id, guard)
            }
            _ => None,
        };
        let checked = self.producers.check(batch, origin, verification);
        let refused = self.log.refused();
        if refused.is_empty() || batch.base_sequence.0 < 0 {
            return checked;
        }
        let may_be_behind = match &checked {
            Ok(SequenceCheck::Duplicate(_)) => false,
            // Of one that is not known, any sequence would be the first.
            Ok(SequenceCheck::Append) => self.producers.get(batch.producer_id).is_none(),
            Err(error) => matches!(error, LogError::OutOfOrderSequence { .. }),
        };
        if let Some(before) = refused.before(batch, Instant::now()).filter(|_| may_be_behind) {
            return Err(LogError::BehindRefused {
                partition: self.log.topic_partition().clone(),
                producer_id: batch.producer_id,
                refused: before.base_sequence,
                got: batch.base_sequence,
                refusal: before.refusal,
                reason: before.reason,
            });
        }
        if matches!(checked, Ok(SequenceCheck::Append)) {
            refused.appended(batch);
        }
        checked
    }

    /// Notes a copied batch with its producer; says where it is, which is where it was: at `end`.
    pub(super) fn place_copy(
        &mut self,
        batch: &Batch,
        end: Offset,
        staging: &mut Staging,
    ) -> Result<AppendOutcome, LogError> {
        let header = batch.header();
        let got = header.base_offset;
        // Recovery takes a gap for the place where a crash has cut the log off.
        if got != end {
            let partition = self.log.topic_partition().clone();
            return Err(LogError::OffsetNotNext { partition, end, got });
        }
        if let Some(of_producer) = ProducerBatch::of(header) {
            // As old as the batch is, and not as its copy.
            self.note_producer(&of_producer, got, of_producer.max_timestamp, staging);
        } else if header.attributes.is_control()
            && let Some(marker) = self.marker(batch)?
        {
            // No copy tells the version. Nothing is verified where another broker leads, so all may go.
            self.end_transaction(&Marker::of(header, marker), TransactionVersion::CLASSIC, staging);
        }
        Ok(self.outcome(header))
    }

    /// Where a batch with this header goes, unless the log has it.
    fn outcome(&self, header: &BatchHeader) -> AppendOutcome {
        AppendOutcome {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time: match header.attributes.timestamp_type() {
                TimestampType::LogAppendTime => header.max_timestamp,
                TimestampType::CreateTime => TimestampMs::NONE,
            },
            log_start_offset: self.view.log_start,
            is_duplicate: false,
        }
    }

    fn write_batches(&mut self, round: &mut Round) -> Result<(), LogError> {
        let Some(last) = round.staging.batches.last() else { return Ok(()) };
        let (end_offset, end_position) = (last.header.next_offset(), last.end());
        round.take_space(round.staging.size_bytes())?;
        let staging = &mut round.staging;
        let active = Arc::clone(self.view.active());
        let file = self.active_file()?;
        active.trust().note_write(round.now);
        staging
            .vector
            .write_to(&*file, self.view.end.position)
            .map_err(LogError::io("write", active.path()))?;
        let start = self.view.end;
        let end = LogPoint { offset: end_offset, position: end_position, ..start };
        if round.config.is_durable() {
            round.pieces.note_write(self, (start, end), &staging.vector);
        }
        round.metrics.writes.inc();
        round.metrics.written_bytes.inc_by(staging.vector.size_bytes());

        for batch in &staging.batches {
            self.note_epoch(batch.header.leader_epoch, batch.header.base_offset);
            if let Err(error) = active.note_batch(batch, round.config.index_interval_bytes) {
                let partition = self.log.name();
                tracing::warn!(%partition, %error, "an index misses an entry");
            }
        }
        self.note_transactions(&staging.steps);
        if self.view.end.position == 0 {
            self.active_since = round.now;
        }
        active.set_size_bytes(end_position);
        self.is_unpublished = true;
        self.view.end.offset = end_offset;
        self.view.end.position = end_position;
        self.is_changed = true;
        self.was_appended = true;
        self.unflushed_since.get_or_insert(round.started);
        Ok(())
    }

    /// Takes note of what became of transactions with the batches that were just written to the active segment. Readers
    /// learn of it before they see these.
    fn note_transactions(&self, steps: &[TransactionStep]) {
        for step in steps {
            if let TransactionStep::End(ended) = step
                && let Some(aborted) = &ended.aborted
                && let Err(error) = self.view.active().aborted.append(aborted)
            {
                let partition = self.log.name();
                tracing::warn!(%partition, %error, "the index of aborted transactions is not saved yet");
            }
        }
        self.log.transactions().note(steps);
    }

    pub(super) fn note_epoch(&mut self, epoch: LeaderEpoch, start: Offset) {
        let is_latest = self.view.epochs.latest().is_some_and(|latest| latest.epoch == epoch);
        if !is_latest && epoch > LeaderEpoch::NONE {
            self.epochs_changed |= Arc::make_mut(&mut self.view.epochs).assign(epoch, start);
        }
    }

    /// Makes it as if nothing had been staged: the appends that the write was for fail.
    fn take_back(&mut self, error: LogError, round: &mut Round) {
        self.restore_producers(0, round);
        let error = round.described(error);
        let partition = self.log.name();
        tracing::warn!(target: CLIENTS, %partition, %error, "appends failed");
        if let Err(cut_error) = self.cut_to_end() {
            self.poison(&cut_error);
        }
        if let Some(refusal) = error.passing_refusal() {
            let staged = round.staging.batches.iter().map(|batch| &batch.header);
            self.log.note_refused(staged, refusal, error.to_string());
        }
        let error = self.poisoned().unwrap_or(error);
        for answer in &mut round.staging.answers {
            // A duplicate of what was written before is as good as ever.
            let is_lost = |placed: &Placed| placed.end > self.view.end.offset;
            if self.poison.is_some() || answer.result.as_ref().is_ok_and(is_lost) {
                answer.result = Err(error.clone());
            }
        }
    }

    /// Removes what a failed write left behind the end of the log.
    fn cut_to_end(&mut self) -> Result<(), LogError> {
        let position = self.view.end.position;
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(position).map_err(LogError::io("cut", self.view.active().path()))
    }

    fn restore_producers(&mut self, mark: usize, round: &mut Round) {
        for previous in round.staging.undo.drain(mark..).rev() {
            self.producers.restore(previous);
        }
    }
}

/// The header that a batch gets.
fn patch(
    batch: &Batch,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    round: &Round,
) -> PatchedHeader {
    let header = PatchedHeader::of(batch).assign(base_offset, leader_epoch);
    match round.config.timestamp_type {
        TimestampType::CreateTime => header,
        TimestampType::LogAppendTime => header.with_log_append_time(round.now),
    }
}
