//! What an append asks for and what it gets.

use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset, TimestampMs};
use logway_record::Batch;

use crate::Completion;
use crate::completion::Completer;
use crate::producer_state::AppendOrigin;

/// Batches to append to one log, all or none.
///
/// They must have passed [`logway_record::validate_for_append`]: the log checks the sequences of
/// idempotent producers, and nothing else of what a client sent.
#[derive(Debug, Clone)]
pub struct AppendBatches {
    /// The batches, in order; at least one. Their offsets and epochs mean nothing: the log
    /// assigns them.
    pub batches: Vec<Batch>,
    /// The epoch of the leader that appends, which is stamped into the batches.
    pub leader_epoch: LeaderEpoch,
    /// Who appends them.
    pub origin: AppendOrigin,
}

impl AppendBatches {
    /// Batches of a client, or of this node, that are part of no transaction.
    pub fn new(batches: Vec<Batch>, leader_epoch: LeaderEpoch) -> AppendBatches {
        AppendBatches { batches, leader_epoch, origin: AppendOrigin::Client }
    }

    /// All bytes that the append will add to the log.
    pub fn size_bytes(&self) -> usize {
        self.batches.iter().map(Batch::size_bytes).sum()
    }
}

/// An append that is held back until it is known which log it goes to:
/// [`Log::append_held`](crate::Log::append_held). Dropped, it is answered with
/// [`LogError::Closed`](crate::LogError::Closed).
#[derive(Debug)]
pub struct HeldAppend {
    pub(crate) batches: AppendBatches,
    pub(crate) done: Completer<AppendOutcome>,
}

impl HeldAppend {
    /// An append, and its answer; `what` names the partition.
    pub fn new(batches: AppendBatches, what: &Arc<str>) -> (HeldAppend, AppendFuture) {
        let (done, answer) = Completion::new(what);
        (HeldAppend { batches, done }, answer)
    }
}

/// The answer to an append.
///
/// Its errors: [`LogError::DiskFull`](crate::LogError::DiskFull) and
/// [`LogError::Io`](crate::LogError::Io) when the write failed and nothing was appended,
/// [`LogError::Poisoned`](crate::LogError::Poisoned) when a sync failed and nobody knows,
/// [`LogError::OutOfOrderSequence`](crate::LogError::OutOfOrderSequence),
/// [`LogError::FencedProducerEpoch`](crate::LogError::FencedProducerEpoch),
/// [`LogError::SyncDelayed`](crate::LogError::SyncDelayed) when nothing was appended because an
/// earlier append still waits for a sync that cannot be begun, and
/// [`LogError::Closed`](crate::LogError::Closed).
///
/// The appends of one log complete in the order in which they were made, but for those that are
/// refused because a sync is delayed: they do not wait for it.
pub type AppendFuture = Completion<AppendOutcome>;

/// Where an append went.
///
/// On a durable log it is handed out when the batches are on stable storage, on another one when
/// they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendOutcome {
    /// The offset of the first record.
    pub base_offset: Offset,
    /// The offset of the last record.
    pub last_offset: Offset,
    /// The timestamp given to all records where the log's timestamp type is `LogAppendTime`,
    /// else [`TimestampMs::NONE`].
    pub log_append_time: TimestampMs,
    /// The first offset of the log at the time of the append.
    pub log_start_offset: Offset,
    /// Whether the log had the batches already: a retry by an idempotent producer (KIP-98). The
    /// offsets are those of the first time.
    pub is_duplicate: bool,
}
