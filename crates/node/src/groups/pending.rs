//! Questions to shards, and their answers on the way.

use std::sync::Arc;

use logway_coordinator::{Client, Reply, RequestBody};
use logway_model::ErrorCode;
use logway_wire::WireString;
use tokio::sync::oneshot;

use super::shard_driver::{Ask, Command, ShardHandle};
use crate::memory::{BudgetShare, Held};

/// A request to a shard, ready but for the group's place.
pub struct Question {
    /// The version of the request.
    pub version: i16,
    /// Who asks.
    pub client: Client,
    /// What.
    pub body: RequestBody,
    /// The memory of the request and for its answer: held while the shard has something of them, even when the client
    /// that asked has gone.
    pub held: Vec<Arc<BudgetShare>>,
}

/// An answer, with the memory that it takes if it waited for other members and takes much.
pub type Answer = Result<(Reply, Held), ErrorCode>;

/// An answer of a shard, on its way, or why none is asked.
pub struct Pending(Result<oneshot::Receiver<Answer>, ErrorCode>);

impl Pending {
    pub(super) fn of(shard: Option<&ShardHandle>, question: Question) -> Pending {
        let shard = shard.ok_or(ErrorCode::NotCoordinator);
        Pending(shard.map(|shard| ask(shard, question, None)))
    }

    /// The answer to what no shard has to judge.
    pub fn refused(code: ErrorCode) -> Pending {
        Pending(Err(code))
    }

    /// The answer; or `NOT_COORDINATOR`, if the group's shard is not here or has just gone.
    pub async fn reply(self) -> Result<Reply, ErrorCode> {
        self.reply_that_waited().await.map(|(reply, _)| reply)
    }

    /// The same for an answer that waits for other members.
    pub async fn reply_that_waited(self) -> Answer {
        let answer = self.0?;
        answer.await.unwrap_or(Err(ErrorCode::NotCoordinator))
    }
}

fn ask(
    shard: &ShardHandle,
    question: Question,
    answer_bytes_max: Option<usize>,
) -> oneshot::Receiver<Answer> {
    let (send_answer, answer) = oneshot::channel();
    shard.send(Command::Ask(Box::new(Ask { question, answer_bytes_max, send_answer })));
    answer
}

/// A question whose answer is being measured, or why none is asked.
pub struct Measuring(Result<(ShardHandle, oneshot::Receiver<(Question, usize)>), ErrorCode>);

/// A question, and how much memory its answer takes.
pub struct Measured {
    shard: ShardHandle,
    question: Question,
    bytes: usize,
}

/// Groups grow: an answer may take so much more than when it was measured, in 1/4 and in bytes.
const GROWTH_BYTES: usize = 4 << 10;

impl Measuring {
    pub(super) fn of(shard: Option<&ShardHandle>, question: Question) -> Measuring {
        let shard = shard.ok_or(ErrorCode::NotCoordinator);
        Measuring(shard.map(|shard| {
            let (send, measured) = oneshot::channel();
            shard.send(Command::Measure(Box::new(question), send));
            (shard.clone(), measured)
        }))
    }

    /// The answer to what no shard has to judge.
    pub fn refused(code: ErrorCode) -> Measuring {
        Measuring(Err(code))
    }

    /// The question with its answer's size; or `NOT_COORDINATOR`, if the shard is not here or has just gone.
    pub async fn measured(self) -> Result<Measured, ErrorCode> {
        let (shard, measured) = self.0?;
        let (question, bytes) = measured.await.map_err(|_dropped| ErrorCode::NotCoordinator)?;
        Ok(Measured { shard, question, bytes })
    }
}

impl Measured {
    /// The memory to get before the question is asked.
    pub fn answer_bytes(&self) -> usize {
        match self.bytes {
            0 => 0,
            bytes => bytes + bytes / 4 + GROWTH_BYTES,
        }
    }

    /// Instead of the answer, the names of the shard's groups with how many partitions each has offsets of; `None` if
    /// the shard has just gone. It takes less than the answer to a ListGroups.
    pub async fn offset_counts(self) -> Option<Vec<(WireString, usize)>> {
        let (send, counts) = oneshot::channel();
        self.shard.send(Command::CountOffsets(send));
        counts.await.ok()
    }

    /// Asks. If the answer has grown beyond that memory meanwhile, it is `COORDINATOR_LOAD_IN_PROGRESS`, at which
    /// clients ask again.
    pub fn ask(mut self, held: Held) -> Pending {
        let answer_bytes_max = self.answer_bytes();
        self.question.held.extend(held);
        Pending(Ok(ask(&self.shard, self.question, Some(answer_bytes_max))))
    }
}
