//! A shard of transactions, for the driver of all shards.

use bytes::Bytes;
use logway_model::{ErrorCode, ProducerId};

use super::{
    MarkerOrder, TransactionEffect, TransactionOutcome, TransactionRecord, TransactionReply,
    TransactionRequest, TransactionShard,
};
use crate::effect::CommitToken;
use crate::error::RecordError;
use crate::machine::StateMachine;
use crate::moment::{ElapsedMs, Moment};
use crate::request::Request;

impl StateMachine for TransactionShard {
    type Body = TransactionRequest;
    type Reply = TransactionReply;
    type Record = TransactionRecord;
    type Errand = MarkerOrder;

    fn decode(
        key: &Bytes,
        value: Option<&Bytes>,
    ) -> Result<Option<TransactionRecord>, RecordError> {
        TransactionRecord::decode(key, value)
    }

    fn encode(record: &TransactionRecord) -> (Bytes, Option<Bytes>) {
        record.encode()
    }

    fn bytes_max(record: &TransactionRecord) -> usize {
        record.bytes_max()
    }

    fn waits_for_others(_body: &TransactionRequest) -> bool {
        false
    }

    fn waited_bytes(_reply: &TransactionReply) -> usize {
        0
    }

    fn no_room(_reply: &TransactionReply) -> ErrorCode {
        ErrorCode::CoordinatorLoadInProgress
    }

    fn answer_bytes(&self, body: &TransactionRequest) -> usize {
        self.answer_bytes(body)
    }

    fn replay(&mut self, record: &TransactionRecord) {
        self.replay(record);
    }

    /// No coordinator writes its own state as part of a transaction. What is in the log of another origin counts.
    fn replay_in_transaction(&mut self, _producer: ProducerId, record: &TransactionRecord) {
        self.replay(record);
    }

    fn replay_marker(&mut self, _producer: ProducerId, _outcome: TransactionOutcome) {}

    fn loaded(&mut self, now: Moment) -> Vec<TransactionEffect> {
        self.loaded(now)
    }

    fn request(
        &mut self,
        now: Moment,
        request: Request<TransactionRequest>,
    ) -> Vec<TransactionEffect> {
        self.request(now, request)
    }

    fn appended(
        &mut self,
        now: Moment,
        token: CommitToken,
        outcome: Result<(), ErrorCode>,
    ) -> Vec<TransactionEffect> {
        self.appended(now, token, outcome)
    }

    fn tick(&mut self, now: Moment) -> Vec<TransactionEffect> {
        self.tick(now)
    }

    fn next_deadline(&self) -> Option<ElapsedMs> {
        self.next_deadline()
    }

    fn unload(self, _now: Moment) -> Vec<TransactionEffect> {
        self.unload()
    }
}
