//! Who waits for a shard's replies.

use std::collections::HashMap;
use std::sync::Arc;

use logway_coordinator::{Effect, EffectsOf, RequestToken, StateMachine};
use tokio::sync::oneshot;

use super::pending::ShardOutcome;
use crate::memory::{BudgetShare, MemoryBudget};

/// An answer up to this size is not counted among the replies. It is what most members get, and a connection can have no
/// more than a thousand of them.
const FREE_BYTES: usize = 1024;

/// The requests of a shard that have no reply yet.
pub(super) struct Waiting<M: StateMachine> {
    by_token: HashMap<RequestToken, Waiter<M>>,
    reply_memory: MemoryBudget,
}

struct Waiter<M: StateMachine> {
    send_outcome: oneshot::Sender<ShardOutcome<M>>,
    /// The memory of the request, and for the reply.
    _held: Vec<Arc<BudgetShare>>,
}

impl<M: StateMachine> Waiting<M> {
    pub(super) fn new(reply_memory: MemoryBudget) -> Waiting<M> {
        Waiting { by_token: HashMap::new(), reply_memory }
    }

    /// Someone waits for a reply.
    pub(super) fn add(
        &mut self,
        token: RequestToken,
        send_outcome: oneshot::Sender<ShardOutcome<M>>,
        held: Vec<Arc<BudgetShare>>,
    ) {
        self.by_token.insert(token, Waiter { send_outcome, _held: held });
    }

    /// The memory of a request is held until it is answered.
    pub(super) fn hold(&mut self, token: RequestToken, held: Vec<Arc<BudgetShare>>) {
        if let Some(waiter) = self.by_token.get_mut(&token) {
            waiter._held = held;
        }
    }

    /// Sends a reply to who waits for it.
    ///
    /// One that has waited for other members stays with its connection until all before it there are sent. So large ones
    /// count as replies from now on, which nobody waits for; if there is no room, the member is told to ask again.
    pub(super) fn answer(&mut self, token: RequestToken, reply: M::Reply) {
        let Some(waiter) = self.by_token.remove(&token) else { return };
        let answer = match M::waited_bytes(&reply) {
            ..=FREE_BYTES => Ok((reply, None)),
            bytes => match self.reply_memory.take_now(bytes) {
                Some(share) => Ok((reply, Some(Arc::new(share)))),
                None => Err(M::no_room(&reply)),
            },
        };
        // Its client may have gone.
        let _ = waiter.send_outcome.send(answer);
    }

    /// What a shard says at its end: replies, and no more appends.
    pub(super) fn answer_all(&mut self, effects: EffectsOf<M>) {
        for effect in effects {
            if let Effect::Reply { token, reply } = effect {
                self.answer(token, reply);
            }
        }
    }
}
