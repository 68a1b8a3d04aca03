//! What a shard writes down.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use logway_coordinator::{CommitToken, InTransaction, Marker, StateMachine};
use logway_log::{AppendOrigin, LogError, VerificationGuard};
use logway_record::{Compression, TargetCompression};

use super::batches::batches_of;
use crate::append::markers::begin_marker;
use crate::append::{AppendError, Appending, append_own};
use crate::failure::Failure;
use crate::replica::Replica;
use crate::tasks::{off_worker, wall_clock};

/// Encoded records of a shard that may be on their way to the log. In this form each repeats the
/// names of group and topic; what comes behind is kept in one that shares them.
const ENCODED_BYTES_MAX: usize = 4 << 20;

/// Compressing so much takes less time than it takes to have the worker's other tasks done elsewhere.
const COMPRESSED_HERE_BYTES_MAX: usize = 16 << 10;

/// The shard's appends, in their order: that of the log.
pub(super) struct Appends<M: StateMachine> {
    replica: Arc<Replica>,
    /// What batches are compressed with, unless the topic's `compression.type` says something else.
    compression: Compression,
    started: VecDeque<Started>,
    started_bytes: usize,
    /// Those that have yet to be encoded; none while nothing is started.
    waiting: VecDeque<(CommitToken, Written<M::Record>)>,
}

/// What a shard wants in its log.
pub(super) enum Written<R> {
    Records(Vec<R>),
    /// Records that count when a transaction is committed.
    InTransaction(InTransaction, Vec<R>),
    /// The end of a transaction.
    Marker(Marker),
}

impl<R> Written<R> {
    fn records(&self) -> &[R] {
        match self {
            Written::Records(records) | Written::InTransaction(_, records) => records,
            Written::Marker(_) => &[],
        }
    }
}

struct Started {
    token: CommitToken,
    bytes: usize,
    append: Result<Committing, Failure>,
}

/// An append until it is committed.
type Committing = BoxFuture<'static, Result<(), AppendFailed>>;

pub(super) type AppendResult = Result<(), AppendFailed>;

/// Why records were not appended.
pub(super) enum AppendFailed {
    /// They are not in the log, and will not be.
    WithoutTrace(Failure),
    /// They may be in the log.
    Unknown(AppendError),
}

impl<M: StateMachine> Appends<M> {
    pub(super) fn new(replica: Arc<Replica>, compression: Compression) -> Appends<M> {
        let (started, waiting) = (VecDeque::new(), VecDeque::new());
        Appends { replica, compression, started, started_bytes: 0, waiting }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.started.is_empty()
    }

    /// Appends something behind all else.
    pub(super) fn push(&mut self, token: CommitToken, written: Written<M::Record>) {
        self.waiting.push_back((token, written));
        self.start_waiting();
    }

    /// Waits for the earliest append; never ends while there is none. Cancel safe.
    pub(super) async fn next(&mut self) -> (CommitToken, AppendResult) {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(CommitToken, AppendResult)> {
        let Some(first) = self.started.front_mut() else { return Poll::Pending };
        let outcome = match &mut first.append {
            Ok(append) => match append.as_mut().poll(cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => return Poll::Pending,
            },
            Err(failure) => Err(AppendFailed::WithoutTrace(failure.clone())),
        };
        let token = first.token;
        self.started_bytes -= first.bytes;
        self.started.pop_front();
        self.start_waiting();
        Poll::Ready((token, outcome))
    }

    fn start_waiting(&mut self) {
        while let Some((token, written)) = self.waiting.pop_front() {
            let bytes = written.records().iter().map(M::bytes_max).sum();
            if !self.started.is_empty() && self.started_bytes + bytes > ENCODED_BYTES_MAX {
                self.waiting.push_front((token, written));
                return;
            }
            self.started_bytes += bytes;
            let append = self.append(&written, bytes);
            self.started.push_back(Started { token, bytes, append });
        }
    }

    fn append(&self, written: &Written<M::Record>, bytes: usize) -> Result<Committing, Failure> {
        let (producer, origin) = match written {
            Written::Records(_) => (None, AppendOrigin::Coordinator),
            Written::InTransaction(part, _) => (Some(part.producer), origin_of(part)),
            Written::Marker(marker) => {
                let started = begin_marker(&self.replica, *marker)?;
                return Ok(committing(started.into_appending()));
            }
        };
        let records = written.records();
        let config = self.replica.log().config();
        let batch_bytes_max = config.max_message_bytes as usize;
        let target = config.compression.unwrap_or(self.compression.into());
        let now = wall_clock();
        let build = || batches_of::<M>(records, now, batch_bytes_max, target, producer);
        let takes_long = target != TargetCompression::None && bytes > COMPRESSED_HERE_BYTES_MAX;
        let batches = if takes_long { off_worker(build)? } else { build()? };
        Ok(committing(append_own(&self.replica, batches, origin)?))
    }
}

fn committing(appending: Appending) -> Committing {
    Box::pin(async move { appending.finish().await.map(drop).map_err(AppendFailed::of) })
}

/// The log sees that the transaction has not ended since its coordinator was asked, or since it was found open.
fn origin_of(part: &InTransaction) -> AppendOrigin {
    match part.guard {
        Some(guard) => AppendOrigin::Verified(VerificationGuard(guard)),
        None => AppendOrigin::Client,
    }
}

impl AppendFailed {
    /// A write that failed was taken back; a sync that failed leaves doubt. So does the end of an epoch: the
    /// next leader may have the records or not.
    fn of(error: AppendError) -> AppendFailed {
        use LogError::{Closed, EpochOver, Poisoned};
        match error {
            AppendError::Log(Poisoned { .. } | Closed { .. } | EpochOver { .. })
            | AppendError::EpochEnded(_)
            | AppendError::NotInTime { .. } => AppendFailed::Unknown(error),
            AppendError::Log(error) => AppendFailed::WithoutTrace(error.into()),
            AppendError::NotTaken(not_taken) => AppendFailed::WithoutTrace(not_taken.into()),
        }
    }
}
