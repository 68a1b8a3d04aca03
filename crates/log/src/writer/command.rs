//! What the writer thread is asked to do.

use std::sync::Arc;
use std::time::Duration;

use logway_model::{LeaderEpoch, Offset, TopicPartition};

use super::log_request::{Append, LogRequest};
use super::log_tail::LogTail;
use super::seal_job::{SealJob, SealOutcome};
use super::swap_job::{SwapJob, SwapOutcome};
use super::truncate_job::{TruncateJob, TruncateOutcome};
use super::truncating::CutTo;
use crate::LogError;
use crate::completion::Completer;
use crate::dir_syncs::DirSyncs;
use crate::journal::JournalFile;
use crate::log_state::LogKey;
use crate::segment::Segment;
use crate::view::LogPoint;

/// A command for the writer thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Append to a log.
    Append(Append),
    /// Answer what is asked of the end of a log, or change it.
    Request { key: LogKey, request: LogRequest },
    /// Take note that other flush settings are in force.
    Reconfigured { key: LogKey },
    /// The background thread has tried to.
    Swapped { job: SwapJob, outcome: SwapOutcome },
    /// Prepare to cut the end of a log off; answers where, and where the log ends then.
    Truncate {
        key: LogKey,
        to: CutTo,
        leader_epoch: LeaderEpoch,
        done: Completer<Option<(Offset, Offset)>>,
    },
    /// Do it, now that what else speaks of what is cut off does not any more; or do not.
    Cut { key: LogKey, prepared: Result<(), LogError>, done: Completer<Offset> },
    /// The checkpoint has the lower recovery point of a log, or has not.
    MarksLowered { key: LogKey, written: Result<(), LogError> },
    /// The background thread has tried to cut the end of a log off.
    Truncated { job: Box<TruncateJob>, outcome: TruncateOutcome },
    /// The checkpoint has the log start of a log that has nothing left, or has not.
    Restarted { key: LogKey, written: Result<(), LogError> },
    /// Write this log from now on.
    Adopt(Box<LogTail>),
    /// Forget a log; its waiters get [`LogError::Closed`]. If the lists of segments still speak of it,
    /// the checkpoints go on doing so, as of a log that could not be opened.
    Release { key: LogKey, is_listed: bool, done: Completer<()> },
    /// Forget what the checkpoints say of a log that could not be opened.
    Forget { partition: TopicPartition, done: Completer<()> },
    /// The background thread has tried to put full segments on stable storage.
    Sealed { job: SealJob, outcome: SealOutcome },
    /// The background thread has made a journal, or could not.
    JournalMade { made: Result<JournalFile, LogError> },
    /// The background thread has synced files up to these points.
    WrittenBack { synced: Vec<(LogKey, LogPoint)> },
    /// The checkpoint that was under way is no more.
    CheckpointEnded,
    /// The background thread could not write down the leader epochs of a log.
    EpochsUnsaved { key: LogKey },
    /// A sync of a log's files or directory has failed in the background thread.
    SyncFailed { key: LogKey, error: LogError },
    /// The background thread has left the files of deleted segments, because the log starts could
    /// not be written down.
    NotDeleted { segments: Vec<(Arc<Segment>, Duration)>, left: Vec<Arc<DirSyncs>> },
    /// Delete what is past its retention now, without waiting for the timer.
    EnforceRetention { done: Completer<()> },
    /// Flush, write everything down, and end.
    Close { done: Completer<()> },
    /// End at once, as in a crash.
    Abort,
}

/// Above, copying an append takes longer than handing it over.
const QUICK_BYTES_MAX: usize = 64 << 10;

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

    /// Whether it is done so soon as a rule that any thread may do it; one with a sync, if `are_syncs_quick`.
    pub(crate) fn is_quick(&self, are_syncs_quick: bool) -> bool {
        match self {
            Command::Append(append) => {
                (append.is_sync_free || are_syncs_quick) && self.cost_bytes() <= QUICK_BYTES_MAX
            }
            _ => false,
        }
    }

    /// The log of an append whose answer waits for a sync.
    pub(crate) fn synced_log(&self) -> Option<LogKey> {
        match self {
            Command::Append(append) if !append.is_sync_free => Some(append.key),
            _ => None,
        }
    }

    /// Answers an append with an error.
    pub(crate) fn fail(self, error: LogError) {
        if let Command::Append(append) = self {
            append.done.complete(Err(error));
        }
    }
}
