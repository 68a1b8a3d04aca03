//! The appends of one partition, batch by batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_model::{ErrorCode, Offset};
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::{Partition, Until};
use logway_node::{Failure, Node};
use logway_record::{BatchBuilder, Compression};
use tokio::time::{Instant, sleep};

use super::request::NewRecords;
use super::session::Session;
use crate::grpc::status::{Code, Status};

/// Appends of a lane become one batch up to this size, whatever the topic's bound is: one that is refused is cut.
const BATCH_BYTES: usize = 512 << 10;

/// How long an attempt may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// How long a round tries again.
const ROUND_MAX: Duration = Duration::from_secs(30);

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(50);

/// An append that was not answered.
pub(super) struct Pending {
    pub(super) sequence: u64,
    /// Of the partition.
    pub(super) number: u32,
    pub(super) records: NewRecords,
    pub(super) count: u64,
    pub(super) size_bytes: usize,
    pub(super) _share: BudgetShare,
}

/// Where records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    /// `None` where it is not known any more.
    pub(super) first_offset: Option<Offset>,
    pub(super) session_records: u64,
    pub(super) is_duplicate: bool,
}

/// An append that is answered.
pub(super) struct Done {
    pub(super) pending: Pending,
    pub(super) outcome: Result<Placed, Status>,
}

/// The appends of one partition.
#[derive(Default)]
pub(super) struct Lane {
    waiting: VecDeque<Pending>,
    has_round: bool,
    /// Records of the session up to the last append that was answered.
    records: u64,
    /// Records of the session that the log has; `None` where it has to be asked.
    stored: Option<u64>,
    /// So many appends go alone, since a batch of several was refused.
    alone: usize,
}

/// One batch on its way.
pub(super) struct Round {
    pendings: Vec<Pending>,
    /// Records of the session before it.
    records: u64,
    stored: Option<u64>,
    end: RoundEnd,
}

enum RoundEnd {
    UnderWay,
    /// It is there, at this offset.
    Appended(Offset),
    /// The log has so many records of the session: some of these appends were there before.
    Stored(u64),
    /// Nothing was appended, and it is the fault of the records.
    Refused(Failure),
    /// The stream ends.
    Failed(Status),
}

impl Lane {
    /// Of a session that has had so many records acknowledged, and whose log has so many.
    pub(super) fn at(acknowledged: u64, stored: u64) -> Lane {
        Lane { records: acknowledged, stored: Some(stored), ..Lane::default() }
    }

    /// Of a session that goes on and has had nothing acknowledged here.
    pub(super) fn unknown() -> Lane {
        Lane::default()
    }

    pub(super) fn push(&mut self, pending: Pending) {
        self.waiting.push_back(pending);
    }

    /// What is appended next, if anything waits and nothing is under way.
    pub(super) fn begin_round(&mut self) -> Option<Round> {
        if self.has_round || self.waiting.is_empty() {
            return None;
        }
        self.has_round = true;
        let (mut pendings, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            bytes += next.size_bytes;
            let is_enough = self.alone > 0 || bytes > BATCH_BYTES;
            if !pendings.is_empty() && is_enough {
                break;
            }
            pendings.extend(self.waiting.pop_front());
        }
        self.alone = self.alone.saturating_sub(1);
        Some(Round {
            pendings,
            records: self.records,
            stored: self.stored,
            end: RoundEnd::UnderWay,
        })
    }

    /// Takes note of how a round has ended; gives what is answered.
    pub(super) fn settle(&mut self, round: Round) -> Result<Vec<Done>, Status> {
        let Round { pendings, end, .. } = round;
        self.has_round = false;
        let mut done = Vec::with_capacity(pendings.len());
        match end {
            RoundEnd::Appended(first) => {
                let mut next = first;
                for pending in pendings {
                    let first_offset = Some(next);
                    next = next + signed(pending.count);
                    done.push(self.placed(pending, first_offset, false));
                }
                self.stored = Some(self.records);
            }
            RoundEnd::Stored(stored) => {
                self.stored = Some(stored);
                let mut left = Vec::new();
                for pending in pendings {
                    match left.is_empty() && self.records + pending.count <= stored {
                        true => done.push(self.placed(pending, None, true)),
                        false => left.push(pending),
                    }
                }
                if stored > self.records && !left.is_empty() {
                    let message =
                        "the log has a part of an append: it was sent with other records before";
                    return Err(Status::new(Code::Aborted, "SESSION_ELSEWHERE", message));
                }
                left.into_iter().rev().for_each(|pending| self.waiting.push_front(pending));
            }
            RoundEnd::Refused(failure) => {
                if pendings.len() > 1 {
                    self.alone = pendings.len();
                    pendings.into_iter().rev().for_each(|pending| self.waiting.push_front(pending));
                } else {
                    let outcome = |pending| Done { pending, outcome: Err(failure.clone().into()) };
                    done.extend(pendings.into_iter().map(outcome));
                }
            }
            RoundEnd::Failed(status) => return Err(status),
            RoundEnd::UnderWay => {
                return Err(Status::new(Code::Internal, "INTERNAL", "see the broker's log"));
            }
        }
        Ok(done)
    }

    fn placed(
        &mut self,
        pending: Pending,
        first_offset: Option<Offset>,
        is_duplicate: bool,
    ) -> Done {
        self.records += pending.count;
        let session_records = self.records;
        Done { pending, outcome: Ok(Placed { first_offset, session_records, is_duplicate }) }
    }
}

/// What is to be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing was appended: try again.
    Again,
    /// It may have been appended: ask the log.
    Ask,
    /// Nothing was appended, nor will be.
    Refuse,
    /// Nothing will be.
    End,
}

fn next(code: ErrorCode) -> Next {
    use ErrorCode as E;
    match code {
        E::LeaderNotAvailable | E::NotEnoughReplicas => Next::Again,
        E::MessageTooLarge
        | E::InvalidRecord
        | E::InvalidTimestamp
        | E::UnsupportedCompressionType
        | E::PolicyViolation => Next::Refuse,
        E::RequestTimedOut
        | E::NotLeaderOrFollower
        | E::NotEnoughReplicasAfterAppend
        | E::KafkaStorageError
        | E::OutOfOrderSequenceNumber => Next::Ask,
        _ => Next::End,
    }
}

impl Round {
    /// Appends the batch, or finds out that it is there.
    pub(super) async fn run(
        mut self,
        node: &Arc<Node>,
        partition: Partition,
        session: Session,
        until: Until,
    ) -> Round {
        self.end = match self.try_run(node, partition, session, until).await {
            Ok(end) => end,
            Err(status) => RoundEnd::Failed(status),
        };
        self
    }

    async fn try_run(
        &self,
        node: &Arc<Node>,
        partition: Partition,
        session: Session,
        until: Until,
    ) -> Result<RoundEnd, Status> {
        let give_up_at = Instant::now() + ROUND_MAX;
        let (mut must_ask, mut was_sent) = (self.stored.is_none(), false);
        let count: u64 = self.pendings.iter().map(|pending| pending.count).sum();
        let is_behind = self.stored.is_some_and(|stored| stored > self.records);
        if let (true, Some(stored)) = (is_behind, self.stored) {
            return Ok(RoundEnd::Stored(stored));
        }
        let batch = match self.batch(session) {
            Ok(batch) => batch,
            Err(failure) => return Ok(RoundEnd::Refused(failure)),
        };
        loop {
            if must_ask {
                match session.stored(node, partition, self.records).await {
                    Ok(Some(stored)) if stored.records > self.records => {
                        let is_all_of_it = stored.records == self.records + count;
                        return Ok(match was_sent && is_all_of_it {
                            // What was sent is one batch, so that the offsets are known.
                            true => RoundEnd::Appended(stored.end + -signed(count)),
                            false => RoundEnd::Stored(stored.records),
                        });
                    }
                    Ok(Some(stored)) if stored.records == self.records => must_ask = false,
                    Ok(_) => return Err(forgotten()),
                    Err(failure) if Instant::now() >= give_up_at => return Err(failure.into()),
                    Err(_) => {
                        sleep(RETRY).await;
                        continue;
                    }
                }
            }
            was_sent = true;
            let deadline = give_up_at.min(Instant::now() + ATTEMPT_MAX);
            let batches = vec![(partition, batch.clone())];
            let outcome = node.append_anywhere(batches, until, deadline).await.pop();
            let failure = match outcome {
                Some(Ok(appended)) => return Ok(RoundEnd::Appended(appended.base_offset)),
                Some(Err(failure)) => failure,
                None => {
                    return Err(Status::new(Code::Internal, "INTERNAL", "see the broker's log"));
                }
            };
            match next(failure.code) {
                Next::Refuse => return Ok(RoundEnd::Refused(failure)),
                Next::End => return Err(failure.into()),
                Next::Again | Next::Ask if Instant::now() >= give_up_at => {
                    return Err(failure.into());
                }
                Next::Again => {}
                Next::Ask => must_ask = true,
            }
            sleep(RETRY).await;
        }
    }

    fn batch(&self, session: Session) -> Result<Bytes, Failure> {
        let (id, epoch) = session.producer();
        let sequence = Session::sequence_behind(self.records);
        let mut batch = BatchBuilder::new(Compression::None).with_producer(id, epoch, sequence);
        let refused = |error: String| Failure::new(ErrorCode::InvalidRecord, error);
        for pending in &self.pendings {
            pending.records.add_to(&mut batch).map_err(|error| refused(error.to_string()))?;
        }
        batch.finish().map_err(|error| refused(error.to_string()))
    }
}

/// A count of records, of which a batch has fewer than 2^31.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn forgotten() -> Status {
    let message = "the log has lost records of the session, or has forgotten it";
    Status::new(Code::DataLoss, "SESSION_FORGOTTEN", message)
        .remedy("begin a new session; look yourself whether the last appends are there")
}
