//! Questions to shards, and their answers on the way.

use std::sync::Arc;

use logway_coordinator::{Client, StateMachine};
use logway_model::ErrorCode;
use tokio::sync::oneshot;

use super::driver::{Ask, Command, ShardHandle};
use crate::memory::{BudgetShare, Held};

/// A request to a shard, ready but for the group's place.
pub struct Question<M: StateMachine> {
    /// The version of the request.
    pub version: i16,
    /// Who asks.
    pub client: Client,
    /// What.
    pub body: M::Body,
    /// The memory of the request and for its answer: held while the shard has something of them, even when the client
    /// that asked has gone.
    pub held: Vec<Arc<BudgetShare>>,
}

/// What a shard says, with the memory that it takes if it waited for other clients and takes much.
pub type ShardOutcome<M> = Result<(<M as StateMachine>::Reply, Held), ErrorCode>;

/// An answer of a shard, on its way, or why none is asked.
pub struct Pending<M: StateMachine>(Result<oneshot::Receiver<ShardOutcome<M>>, ErrorCode>);

impl<M: StateMachine> Pending<M> {
    pub(crate) fn of(shard: Option<&ShardHandle<M>>, question: Question<M>) -> Pending<M> {
        let shard = shard.ok_or(ErrorCode::NotCoordinator);
        Pending(shard.map(|shard| ask(shard, question, None)))
    }

    /// The answer to what no shard has to judge.
    pub fn refused(code: ErrorCode) -> Pending<M> {
        Pending(Err(code))
    }

    /// The answer; or `NOT_COORDINATOR`, if the group's shard is not here or has just gone.
    pub async fn reply(self) -> Result<M::Reply, ErrorCode> {
        self.outcome_of_parked().await.map(|(reply, _)| reply)
    }

    /// The same for an answer that waits for other members.
    pub async fn outcome_of_parked(self) -> ShardOutcome<M> {
        let answer = self.0?;
        answer.await.unwrap_or(Err(ErrorCode::NotCoordinator))
    }
}

fn ask<M: StateMachine>(
    shard: &ShardHandle<M>,
    question: Question<M>,
    answer_bytes_max: Option<usize>,
) -> oneshot::Receiver<ShardOutcome<M>> {
    let (send_outcome, answer) = oneshot::channel();
    shard.send(Command::Ask(Box::new(Ask { question, answer_bytes_max, send_outcome })));
    answer
}

/// A question whose answer is being measured, or why none is asked.
pub struct Measuring<M: StateMachine>(Result<(ShardHandle<M>, MeasuredReceiver<M>), ErrorCode>);

/// The question comes back with the size of its answer.
type MeasuredReceiver<M> = oneshot::Receiver<(Question<M>, usize)>;

/// A question, and how much memory its answer takes.
pub struct Measured<M: StateMachine> {
    shard: ShardHandle<M>,
    question: Question<M>,
    bytes: usize,
}

/// Groups grow: an answer may take so much more than when it was measured, in 1/4 and in bytes.
const GROWTH_BYTES: usize = 4 << 10;

impl<M: StateMachine> Measuring<M> {
    pub(crate) fn of(shard: Option<&ShardHandle<M>>, question: Question<M>) -> Measuring<M> {
        let shard = shard.ok_or(ErrorCode::NotCoordinator);
        Measuring(shard.map(|shard| {
            let (send, measured) = oneshot::channel();
            shard.send(Command::Measure(Box::new(question), send));
            (shard.clone(), measured)
        }))
    }

    /// The answer to what no shard has to judge.
    pub fn refused(code: ErrorCode) -> Measuring<M> {
        Measuring(Err(code))
    }

    /// The question with its answer's size; or `NOT_COORDINATOR`, if the shard is not here or has just gone.
    pub async fn measured(self) -> Result<Measured<M>, ErrorCode> {
        let (shard, measured) = self.0?;
        let (question, bytes) = measured.await.map_err(|_dropped| ErrorCode::NotCoordinator)?;
        Ok(Measured { shard, question, bytes })
    }
}

impl<M: StateMachine> Measured<M> {
    /// The memory to get before the question is asked.
    pub fn answer_bytes(&self) -> usize {
        match self.bytes {
            0 => 0,
            bytes => bytes + bytes / 4 + GROWTH_BYTES,
        }
    }

    /// What somebody sees who looks at the shard, in the place of the answer; `None` if it has just gone.
    pub async fn look<T: Send + 'static>(
        self,
        look: impl FnOnce(&M) -> T + Send + 'static,
    ) -> Option<T> {
        let (send, seen) = oneshot::channel();
        // Who asked may have gone.
        self.shard.send(Command::Look(Box::new(move |shard| _ = send.send(look(shard)))));
        seen.await.ok()
    }

    /// Asks. If the answer has grown beyond that memory meanwhile, it is `COORDINATOR_LOAD_IN_PROGRESS`, at which
    /// clients ask again.
    pub fn ask(mut self, held: Held) -> Pending<M> {
        let answer_bytes_max = self.answer_bytes();
        self.question.held.extend(held);
        Pending(Ok(ask(&self.shard, self.question, Some(answer_bytes_max))))
    }
}
