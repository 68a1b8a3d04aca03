//! What leaves a shard of transactions.

use std::collections::VecDeque;

use logway_model::ErrorCode;

use super::request::TransactionReply;
use super::{MarkerOrder, TransactionEffect, TransactionRecord};
use crate::effect::{CommitToken, Effect};
use crate::request::RequestToken;

/// What leaves the shard, and what is to happen when its records are durable.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    effects: Vec<TransactionEffect>,
    /// Tokens of neighbours follow each other.
    in_flight: VecDeque<InFlight>,
    appends: u64,
}

/// Records on their way to the log.
#[derive(Debug)]
pub(super) struct InFlight {
    token: CommitToken,
    /// The records, to be replayed when they are durable.
    pub(super) records: Vec<TransactionRecord>,
    /// What is told then; if the append failed, as an error.
    pub(super) reply: Option<(RequestToken, TransactionReply)>,
    outcome: Option<Result<(), ErrorCode>>,
}

impl Outbox {
    /// Answers a request.
    pub(super) fn reply(&mut self, token: RequestToken, reply: TransactionReply) {
        self.effects.push(Effect::Reply { token, reply });
    }

    /// Has markers written.
    pub(super) fn write_markers(&mut self, order: MarkerOrder) {
        self.effects.push(Effect::Errand(order));
    }

    /// Sends records to the log; there has to be one at least.
    pub(super) fn append(
        &mut self,
        records: Vec<TransactionRecord>,
        reply: Option<(RequestToken, TransactionReply)>,
    ) {
        debug_assert!(!records.is_empty(), "an append has records");
        let token = CommitToken(self.appends);
        self.appends += 1;
        self.effects.push(Effect::Append { token, records: records.clone() });
        self.in_flight.push_back(InFlight { token, records, reply, outcome: None });
    }

    /// What the driver has to do.
    pub(super) fn take_effects(&mut self) -> Vec<TransactionEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Notes how an append went.
    ///
    /// # Panics
    ///
    /// If there is no such append in flight: it was told twice, or belongs to another shard.
    pub(super) fn note_outcome(&mut self, token: CommitToken, outcome: Result<(), ErrorCode>) {
        let first = self.in_flight.front().map(|append| append.token.0);
        let place = first.and_then(|first| token.0.checked_sub(first));
        let place = place.and_then(|place| usize::try_from(place).ok());
        let noted = place.and_then(|place| self.in_flight.get_mut(place));
        let noted = noted.expect("an append is told of once, and only to the shard that made it");
        assert!(noted.outcome.is_none(), "an append is told of once");
        noted.outcome = Some(outcome);
    }

    /// The next append whose outcome is known, if those before it are done.
    pub(super) fn pop_settled(&mut self) -> Option<(InFlight, Result<(), ErrorCode>)> {
        let outcome = self.in_flight.front()?.outcome?;
        self.in_flight.pop_front().map(|append| (append, outcome))
    }

    /// Gives up on all appends, for a shard that ends; returns who waits for them.
    pub(super) fn abandon(&mut self) -> Vec<(RequestToken, TransactionReply)> {
        self.in_flight.drain(..).filter_map(|append| append.reply).collect()
    }
}
