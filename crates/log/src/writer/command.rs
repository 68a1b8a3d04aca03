//! What the writer thread is asked to do.

use logway_model::{Offset, ProducerId};

use super::LogTail;
use crate::completion::Completer;
use crate::producer_state::ProducerState;
use crate::{AppendBatches, AppendOutcome, LogError};

/// How the writer's commands name a log; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogKey(pub(crate) u64);

/// A command for the writer thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Append to a log.
    Append(Append),
    /// Put everything on stable storage.
    Flush { key: LogKey, done: Completer<Offset> },
    /// Move the log start.
    DeleteRecords { key: LogKey, before: Offset, done: Completer<Offset> },
    /// Tell what is known of the idempotent producers of a log.
    DescribeProducers { key: LogKey, done: Completer<Vec<(ProducerId, ProducerState)>> },
    /// Write this log from now on.
    Adopt(Box<LogTail>),
    /// Forget a log; its waiters get [`LogError::Closed`].
    Release { key: LogKey, done: Completer<()> },
    /// The background thread has tried to put a full segment on stable storage.
    Sealed { key: LogKey, segment: Offset, outcome: SealOutcome },
    /// The background thread could not write down the leader epochs of a log.
    EpochsUnsaved { key: LogKey },
    /// Delete what is past its retention now, without waiting for the timer.
    EnforceRetention { done: Completer<()> },
    /// Flush, write everything down, and end.
    Close { done: Completer<()> },
    /// End at once, as in a crash.
    Abort,
}

/// What became of a full segment.
#[derive(Debug)]
pub(crate) enum SealOutcome {
    /// It is on stable storage, with its indexes and a snapshot of the producers.
    Sealed,
    /// Something that can be made again is missing; worth another try.
    NotYet(LogError),
    /// Nobody knows what of the segment is on the disk.
    SyncFailed(LogError),
}

/// An append on its way.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) key: LogKey,
    pub(crate) batches: AppendBatches,
    pub(crate) done: Completer<AppendOutcome>,
}

/// What an append takes beside the bytes of its batches.
const APPEND_COST_BYTES: usize = 400;

impl Command {
    /// The memory that an append takes while it waits, about; nothing for other commands.
    pub(crate) fn cost_bytes(&self) -> usize {
        match self {
            Command::Append(append) => append.batches.size_bytes() + APPEND_COST_BYTES,
            _ => 0,
        }
    }

    /// Answers an append with an error.
    pub(crate) fn fail(self, error: LogError) {
        if let Command::Append(append) = self {
            append.done.complete(Err(error));
        }
    }
}
