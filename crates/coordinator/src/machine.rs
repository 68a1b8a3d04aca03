//! What a driver needs of a coordinator.

use std::convert::Infallible;

use bytes::Bytes;
use logway_model::{ErrorCode, ProducerId};

use crate::effect::{CommitToken, Effect};
use crate::error::RecordError;
use crate::moment::{ElapsedMs, Moment};
use crate::request::{Request, RequestToken};
use crate::shard::GroupShard;
use crate::transactions::TransactionOutcome;
use crate::{GroupRecord, Reply, RequestBody};

/// The effects of a state machine.
pub type EffectsOf<M> = Vec<
    Effect<<M as StateMachine>::Reply, <M as StateMachine>::Record, <M as StateMachine>::Errand>,
>;

/// A coordinator of one partition: its state is what the partition's log holds.
///
/// One driver runs any of them; the rules of the calls are those of the
/// [crate's documentation](crate#how-to-drive-a-shard).
pub trait StateMachine: Send + Sized + 'static {
    /// What clients ask.
    type Body: Send + 'static;
    /// What they are answered.
    type Reply: Send + 'static;
    /// What the log holds.
    type Record: Send + Sync + 'static;
    /// What it has others do.
    type Errand: Send + 'static;

    /// A record of the log; `None` for one that says nothing to this coordinator.
    fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<Self::Record>, RecordError>;

    /// Key and value of a record.
    fn encode(record: &Self::Record) -> (Bytes, Option<Bytes>);

    /// What key and value take at most, in bytes.
    fn bytes_max(record: &Self::Record) -> usize;

    /// Whether the answer waits for other clients, and so perhaps for long.
    fn waits_for_others(body: &Self::Body) -> bool;

    /// What an answer that waited for other clients takes, in bytes; 0 for others.
    fn waited_bytes(reply: &Self::Reply) -> usize;

    /// What a client is told in the place of a reply for which there is no memory: it asks again.
    fn no_room(reply: &Self::Reply) -> ErrorCode;

    /// What the answer takes, in bytes, where that can be much more than the request; 0 for others.
    fn answer_bytes(&self, body: &Self::Body) -> usize;

    /// Takes over a record of the log, while it is loaded.
    fn replay(&mut self, record: &Self::Record);

    /// The same for a record that is part of a producer's transaction.
    fn replay_in_transaction(&mut self, producer: ProducerId, record: &Self::Record);

    /// The same for the end of a producer's transaction.
    fn replay_marker(&mut self, producer: ProducerId, outcome: TransactionOutcome);

    /// The log has been read to its end.
    fn loaded(&mut self, now: Moment) -> EffectsOf<Self>;

    /// Handles a request.
    fn request(&mut self, now: Moment, request: Request<Self::Body>) -> EffectsOf<Self>;

    /// Whether the newest request of a token is kept whole, until what is on its way to the log has arrived.
    fn keeps_request(&self, _token: RequestToken) -> bool {
        false
    }

    /// An append is durable, or has failed without a trace.
    fn appended(
        &mut self,
        now: Moment,
        token: CommitToken,
        outcome: Result<(), ErrorCode>,
    ) -> EffectsOf<Self>;

    /// Does what is due.
    fn tick(&mut self, now: Moment) -> EffectsOf<Self>;

    /// When something is due.
    fn next_deadline(&self) -> Option<ElapsedMs>;

    /// Ends the state machine: all that wait are told to look for the coordinator.
    fn unload(self, now: Moment) -> EffectsOf<Self>;
}

impl StateMachine for GroupShard {
    type Body = RequestBody;
    type Reply = Reply;
    type Record = GroupRecord;
    type Errand = Infallible;

    fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<GroupRecord>, RecordError> {
        GroupRecord::decode(key, value)
    }

    fn encode(record: &GroupRecord) -> (Bytes, Option<Bytes>) {
        record.encode()
    }

    fn bytes_max(record: &GroupRecord) -> usize {
        record.bytes_max()
    }

    fn keeps_request(&self, token: RequestToken) -> bool {
        GroupShard::keeps_request(self, token)
    }

    fn waits_for_others(body: &RequestBody) -> bool {
        matches!(body, RequestBody::JoinGroup { .. } | RequestBody::SyncGroup(_))
    }

    fn waited_bytes(reply: &Reply) -> usize {
        reply.waited_bytes()
    }

    /// At a SyncGroup, clients ask again only if they are told that the group gathers anew.
    fn no_room(reply: &Reply) -> ErrorCode {
        match reply {
            Reply::SyncGroup(_) => ErrorCode::RebalanceInProgress,
            _ => ErrorCode::CoordinatorLoadInProgress,
        }
    }

    fn answer_bytes(&self, body: &RequestBody) -> usize {
        self.answer_bytes(body)
    }

    fn replay(&mut self, record: &GroupRecord) {
        self.replay(record);
    }

    fn replay_in_transaction(&mut self, producer: ProducerId, record: &GroupRecord) {
        self.replay_in_transaction(producer, record);
    }

    fn replay_marker(&mut self, producer: ProducerId, outcome: TransactionOutcome) {
        self.replay_marker(producer, outcome);
    }

    fn loaded(&mut self, now: Moment) -> Vec<Effect> {
        self.loaded(now)
    }

    fn request(&mut self, now: Moment, request: Request) -> Vec<Effect> {
        self.request(now, request)
    }

    fn appended(
        &mut self,
        now: Moment,
        token: CommitToken,
        outcome: Result<(), ErrorCode>,
    ) -> Vec<Effect> {
        self.appended(now, token, outcome)
    }

    fn tick(&mut self, now: Moment) -> Vec<Effect> {
        self.tick(now)
    }

    fn next_deadline(&self) -> Option<ElapsedMs> {
        self.next_deadline()
    }

    fn unload(self, now: Moment) -> Vec<Effect> {
        self.unload(now)
    }
}
