//! The appends of one log that are about to be written: see [`append`](super::append).

use logway_model::{LeaderEpoch, Offset};
use logway_record::{Batch, PatchedHeader};

use super::write_vector::WriteVector;
use crate::completion::Completer;
use crate::producer_state::{PreviousState, TransactionStep};
use crate::scan::ScannedBatch;
use crate::{AppendOutcome, LogError};

/// Longer vectors are given back after the burst that needed them.
const STAGED_KEPT: usize = 4096;

/// Appends of one log that are about to be written. The writer has one, which it uses for each
/// log in turn.
#[derive(Debug, Default)]
pub(super) struct Staging {
    pub(super) vector: WriteVector,
    pub(super) batches: Vec<ScannedBatch>,
    pub(super) answers: Vec<Answer>,
    pub(super) undo: Vec<PreviousState>,
    /// What becomes of transactions with the write.
    pub(super) steps: Vec<TransactionStep>,
    /// The new headers of the append that is being staged; `None` for a duplicate.
    pub(super) headers: Vec<Option<PatchedHeader>>,
}

/// An append and what it will be answered if the write succeeds.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) result: Result<Placed, LogError>,
    pub(super) done: Completer<AppendOutcome>,
}

/// Where the batches of an append are in the log, or will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) outcome: AppendOutcome,
    /// Behind the last of them in the log, which is not the last of the append if that is a
    /// duplicate.
    pub(super) end: Offset,
}

impl Staging {
    /// The bytes that wait to be written.
    pub(super) fn size_bytes(&self) -> u64 {
        self.vector.size_bytes()
    }

    /// The offset that the next batch gets, in a log that ends at `log_end` on disk.
    pub(super) fn next_offset(&self, log_end: Offset) -> Offset {
        self.batches.last().map_or(log_end, |last| last.header.next_offset())
    }

    /// The offset and the epoch behind what is staged, the batches of the append that is being staged
    /// included; `None` if nothing is.
    pub(super) fn last_placed(&self) -> Option<(Offset, LeaderEpoch)> {
        let placed = self.headers.iter().rev().flatten().map(PatchedHeader::header).next();
        let last = placed.or_else(|| self.batches.last().map(|last| &last.header))?;
        Some((last.next_offset(), last.leader_epoch))
    }

    /// Adds the batches of the append that was just placed, duplicates apart, to the write that
    /// begins at `end_position`.
    pub(super) fn push_placed(&mut self, batches: &[Batch], end_position: u64) {
        for (batch, header) in batches.iter().zip(&self.headers) {
            let Some(header) = header else { continue };
            let position = end_position + self.vector.size_bytes();
            self.vector.push(header, batch);
            self.batches.push(ScannedBatch { position, header: *header.header() });
        }
    }

    pub(super) fn clear(&mut self) {
        self.vector.clear();
        self.batches.clear();
        self.batches.shrink_to(STAGED_KEPT);
        self.answers.clear();
        self.answers.shrink_to(STAGED_KEPT);
        self.undo.clear();
        self.undo.shrink_to(STAGED_KEPT);
        self.steps.clear();
        self.steps.shrink_to(STAGED_KEPT);
    }
}

impl Placed {
    /// What becomes of an append whose batches so far are `before`, with one more.
    pub(super) fn joined(before: Option<Placed>, next: AppendOutcome) -> Placed {
        let end = next.last_offset.next();
        let Some(before) = before else { return Placed { outcome: next, end } };
        let outcome = AppendOutcome {
            base_offset: before.outcome.base_offset,
            is_duplicate: before.outcome.is_duplicate && next.is_duplicate,
            ..next
        };
        Placed { outcome, end: end.max(before.end) }
    }
}
