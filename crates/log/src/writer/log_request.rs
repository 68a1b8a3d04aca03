//! What is asked of one log.

use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset, ProducerId};

use crate::cleaner::LastWrites;
use crate::completion::Completer;
use crate::log_state::LogKey;
use crate::producer_state::ProducerState;
use crate::segment::Segment;
use crate::{AppendBatches, AppendOutcome};

/// What is about the end of a log, behind all that was appended before. It must not see an end that is being
/// cut off, and waits until that is done.
#[derive(Debug)]
pub(crate) enum LogRequest {
    /// Put everything on stable storage.
    Flush { done: Completer<Offset> },
    /// Move the log start.
    DeleteRecords { before: Offset, done: Completer<Offset> },
    /// Tell the log end.
    TellEnd { done: Completer<Offset> },
    /// The same, and note that the epoch starts there.
    BeginLeading { epoch: LeaderEpoch, done: Completer<Offset> },
    /// Tell what is known of the idempotent producers.
    DescribeProducers { done: Completer<Vec<(ProducerId, ProducerState)>> },
    /// Tell where the idempotent producers have written last, if the log can be cleaned now.
    LastWrites { done: Completer<Option<LastWrites>> },
    /// Put a cleaned segment in the place of those that it was made from.
    Replace { segments: Vec<Arc<Segment>>, size_bytes: u64, done: Completer<bool> },
    /// Begin a new segment if the clock says that it is time.
    RollIfOld,
}

/// An append on its way.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) key: LogKey,
    pub(crate) batches: AppendBatches,
    pub(crate) offsets: Offsets,
    /// The settings of the log want no sync before the answer.
    pub(crate) is_sync_free: bool,
    pub(crate) done: Completer<AppendOutcome>,
}

/// Whether batches get the offsets that come next, or have theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offsets {
    /// The log gives them their offsets, epoch and append time.
    Assigned,
    /// They come from another log of the partition, and stay as they are.
    Kept,
    /// They are what the leader has from this offset on, and stay as they are: [`follow`](super::follow).
    Followed(Offset),
}
