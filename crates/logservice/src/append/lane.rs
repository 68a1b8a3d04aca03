//! The appends of one partition, batch by batch.
//!
//! # Whose records the log has
//!
//! The log knows the records of a session by their number alone. So it takes another stream of the session, which appends other
//! records, for the same stream that repeats itself. What is in the log beyond the appends that this stream knows of is one of these:
//!
//! | records | may be there | are answered |
//! |---|---|---|
//! | of the batch under way | after an attempt of it whose outcome is unknown | as appended, if the log has just this batch |
//! | of an earlier stream of the session | in a session that goes on, until this stream has appended something here itself | as duplicates: the client sends again what had no reply |
//! | of others | else | with `SESSION_ELSEWHERE`, which ends the stream |
//!
//! An earlier stream may still append when this one has begun, such as while its broken connection was not noticed. It has one
//! batch under way at most. Once this stream has appended a batch, the batch of the earlier one does not follow any more, and the log
//! refuses it; so from then on there are no records of earlier streams to be found. Two streams that are alive, have gone on
//! with one session and have appended nothing yet cannot be told apart by this: `docs/LOGSERVICE.md` says that a session is for one stream
//! at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_model::{ErrorCode, Offset};
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::{Appended, Partition, Until};
use logway_node::{Failure, Node};
use logway_record::{BatchBuilder, Compression};
use tokio::time::{Instant, sleep};

use super::request::{NewRecords, RECORDS_MAX};
use super::session::{Session, Stored};
use crate::grpc::status::{Code, Status};

/// Appends of a lane become one batch up to this size, whatever the topic's bound is: one that is refused is cut.
const BATCH_BYTES: usize = 512 << 10;

/// Bytes that a batch has for each record beside its content, where records are many.
const RECORD_OVERHEAD_BYTES: usize = 10;

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

impl Pending {
    /// About what it has in a batch.
    fn batch_bytes(&self) -> usize {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        self.size_bytes.saturating_add(count.saturating_mul(RECORD_OVERHEAD_BYTES))
    }
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
    /// Whether an earlier stream of the session may have appended what is found: this one has appended nothing here.
    may_repeat: bool,
    /// So many appends go alone, since a batch of several was refused.
    alone: usize,
}

/// One batch on its way.
pub(super) struct Round {
    pendings: Vec<Pending>,
    /// Records of the session before it.
    records: u64,
    stored: Option<u64>,
    may_repeat: bool,
    end: RoundEnd,
}

enum RoundEnd {
    UnderWay,
    /// This stream has appended it, at this offset.
    Appended(Offset),
    /// It is there, at this offset, and an earlier stream may have appended it.
    Found(Offset),
    /// The log has so many records of the session: some of these appends were there before.
    Stored(u64),
    /// Nothing was appended, and it is the fault of the records.
    Refused(Failure),
    /// The stream ends.
    Failed(Status),
}

impl Lane {
    /// Of a new session.
    pub(super) fn new() -> Lane {
        Lane { stored: Some(0), ..Lane::default() }
    }

    /// Of a session that goes on. It has had so many records acknowledged here, and the log has so many; `None` where the log
    /// was not asked.
    pub(super) fn going_on(acknowledged: u64, stored: Option<u64>) -> Lane {
        Lane { records: acknowledged, stored, may_repeat: true, ..Lane::default() }
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
            bytes += next.batch_bytes();
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
            may_repeat: self.may_repeat,
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
                self.may_repeat = false;
                self.place_all(pendings, first, false, &mut done);
            }
            RoundEnd::Found(first) => self.place_all(pendings, first, true, &mut done),
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
                    return Err(elsewhere(
                        "the log has a part of an append: it was sent with other records before",
                    ));
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

    /// Of a batch that begins at an offset.
    fn place_all(
        &mut self,
        pendings: Vec<Pending>,
        first: Offset,
        is_duplicate: bool,
        done: &mut Vec<Done>,
    ) {
        let mut next = first;
        for pending in pendings {
            let first_offset = Some(next);
            next = next + signed(pending.count);
            done.push(self.placed(pending, first_offset, is_duplicate));
        }
        self.stored = Some(self.records);
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
        // Whether an attempt of this round may have appended the batch.
        let mut may_be_own = false;
        let mut must_ask = self.stored.is_none();
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
                        return self.found(stored, may_be_own);
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
            let deadline = give_up_at.min(Instant::now() + ATTEMPT_MAX);
            let batches = vec![(partition, batch.clone())];
            let outcome = node.append_anywhere(batches, until, deadline).await.pop();
            let failure = match outcome {
                Some(Ok(Appended { base_offset, is_duplicate, .. })) => {
                    return match is_duplicate {
                        false => Ok(RoundEnd::Appended(base_offset)),
                        true if self.may_repeat => Ok(RoundEnd::Found(base_offset)),
                        true if may_be_own => Ok(RoundEnd::Appended(base_offset)),
                        true => Err(elsewhere(OF_OTHERS)),
                    };
                }
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
                Next::Ask => {
                    must_ask = true;
                    may_be_own |= failure.code != ErrorCode::OutOfOrderSequenceNumber;
                }
            }
            sleep(RETRY).await;
        }
    }

    /// What the log has beyond what this stream knows of.
    fn found(&self, stored: Stored, may_be_own: bool) -> Result<RoundEnd, Status> {
        let count = self.count();
        // What was sent is one batch, so that the offsets are known.
        let first = stored.end + -signed(count);
        match may_be_own && stored.records == self.records + count {
            true if self.may_repeat => Ok(RoundEnd::Found(first)),
            true => Ok(RoundEnd::Appended(first)),
            false if self.may_repeat => Ok(RoundEnd::Stored(stored.records)),
            false => Err(elsewhere(OF_OTHERS)),
        }
    }

    fn count(&self) -> u64 {
        self.pendings.iter().map(|pending| pending.count).sum()
    }

    fn batch(&self, session: Session) -> Result<Bytes, Failure> {
        let count = self.count();
        if count > RECORDS_MAX {
            let message = format!("an append of {count} records; {RECORDS_MAX} are the most");
            return Err(Failure::new(ErrorCode::MessageTooLarge, message));
        }
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

/// Said of records that this stream does not know of.
const OF_OTHERS: &str = "the log has records of the session that this stream has not appended";

fn elsewhere(message: &'static str) -> Status {
    Status::new(Code::Aborted, "SESSION_ELSEWHERE", message).remedy(
        "use a session on one stream at a time; begin a new session, and look yourself whether the last appends are there",
    )
}

fn forgotten() -> Status {
    let message = "the log has lost records of the session, or has forgotten it";
    Status::new(Code::DataLoss, "SESSION_FORGOTTEN", message)
        .remedy("begin a new session; look yourself whether the last appends are there")
}
