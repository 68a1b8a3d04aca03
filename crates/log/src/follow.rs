//! What a follower appends: batches to which the leader has given offsets and epochs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, TopicPartition};
use logway_record::{Batch, Batches, RecordError};

use crate::append::HeldAppend;
use crate::log::Log;
use crate::writer::Command;
use crate::{AppendBatches, AppendFuture, LogDir, LogError};

/// Batches from the leader of a partition that are whole and have the right CRC.
#[derive(Debug, Clone)]
pub struct FollowerBatches {
    fetch_offset: Offset,
    batches: Vec<Batch>,
    leader_epoch: LeaderEpoch,
}

impl FollowerBatches {
    /// Cuts the records of a Fetch answer into batches and compares each with its CRC. An incomplete
    /// batch at the end, where a broker has cut the answer off, is passed over.
    ///
    /// `leader_epoch` is the epoch in which this replica follows, `fetch_offset` the one that was asked
    /// for. What the leader has not between that and the first batch, or between two, compaction has taken
    /// away.
    ///
    /// # Errors
    ///
    /// [`LogError::BadBatch`].
    pub fn parse(
        partition: &TopicPartition,
        leader_epoch: LeaderEpoch,
        fetch_offset: Offset,
        records: Bytes,
    ) -> Result<FollowerBatches, LogError> {
        let checked = |batch: Result<Batch, RecordError>| {
            batch.and_then(|batch| batch.verify_crc().map(|()| batch))
        };
        let batches = Batches::with_partial_tail(records).map(checked);
        let batches = batches.collect::<Result<Vec<Batch>, RecordError>>();
        match batches {
            Ok(batches) => Ok(FollowerBatches { fetch_offset, batches, leader_epoch }),
            Err(reason) => Err(LogError::BadBatch { partition: partition.clone(), reason }),
        }
    }

    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// The offset from which the follower fetches next, whether or not these are appended yet.
    pub fn next_offset(&self) -> Offset {
        self.batches.last().map_or(self.fetch_offset, |last| last.header().next_offset())
    }
}

/// How far the log of a follower has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowedEnd {
    /// Before this all is written that was appended, as of this append.
    pub written: Offset,
    /// Before this all is on stable storage. On a durable log it is not before `written`.
    pub flushed: Offset,
}

/// The answer to an append of a follower: on a durable log when the batches are on stable storage, on
/// another one when they are written. That they are written a
/// [`TailListener`](crate::TailListener) is told before.
///
/// Its errors are those of [`AppendFuture`], and [`LogError::OffsetNotNext`],
/// [`LogError::EpochOutOfOrder`], [`LogError::EpochOver`]: then nothing was appended.
#[derive(Debug)]
pub struct FollowerAppend {
    log: Arc<Log>,
    answer: AppendFuture,
}

impl FollowerAppend {
    /// Blocks the thread until the answer is there.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn wait(self) -> Result<FollowedEnd, LogError> {
        let FollowerAppend { log, answer } = self;
        answer.wait().map(|outcome| FollowedEnd {
            written: outcome.last_offset.next(),
            flushed: log.flushed_offset(),
        })
    }
}

impl Future for FollowerAppend {
    type Output = Result<FollowedEnd, LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map_ok(|outcome| FollowedEnd {
            written: outcome.last_offset.next(),
            flushed: self.log.flushed_offset(),
        })
    }
}

impl LogDir {
    /// Hands what a leader has sent for any number of partitions to the writer thread, at least one
    /// batch each. All of it is one round, and on durable logs one sync as far as
    /// [`LogDirOptions::burst_bytes_max`](crate::LogDirOptions::burst_bytes_max) reaches. The answers
    /// are in the order asked; who gets them may hand over more before. What was fetched behind an answer
    /// that is refused is refused, too ([`LogError::OffsetNotNext`]).
    ///
    /// Batches keep their offsets and epochs. A gap before one, as compaction leaves it, is filled with a
    /// batch without records. No segment reaches over more than 2^31 offsets: what lies further behind
    /// the log end is not appended, and [`FollowedEnd::written`] tells from where to go on.
    ///
    /// An empty log whose leader begins in the middle of a batch cannot take that batch, which begins
    /// before the log end: [`LogError::OffsetNotNext`]. The follower has it begin with the batch
    /// ([`LogDir::truncate_fully_and_start_at`]) and tries again, as Apache Kafka does.
    pub fn append_followed(
        &self,
        appends: Vec<(Arc<Log>, FollowerBatches)>,
    ) -> Vec<FollowerAppend> {
        let mut commands: Vec<Command> = Vec::with_capacity(appends.len());
        let mut answers = Vec::with_capacity(appends.len());
        for (log, FollowerBatches { fetch_offset, batches, leader_epoch }) in appends {
            debug_assert!(self.is_writer_of(&log), "{log:?} is in another directory");
            let batches = AppendBatches::new(batches, leader_epoch);
            let (held, answer) = HeldAppend::new(batches, log.state().name());
            commands.push(log.followed_command(held, fetch_offset));
            answers.push(FollowerAppend { log, answer });
        }
        self.push_all(commands);
        answers
    }
}
