//! What a coordinator knows of one transactional id, and how that goes on.
//!
//! | state | may become | by |
//! |---|---|---|
//! | Empty | Ongoing; PrepareAbort | a partition that is added; an EndTxn of version 2 that aborts |
//! | Ongoing | PrepareCommit, PrepareAbort | EndTxn; its timeout; another producer of the same id |
//! | PrepareCommit | CompleteCommit | the markers are written |
//! | PrepareAbort | CompleteAbort | the markers are written |
//! | CompleteCommit, CompleteAbort | as Empty | as Empty |
//! | Empty, CompleteCommit, CompleteAbort | Empty | InitProducerId |
//!
//! Each function here makes the next value out of one, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{
    ErrorCode, PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicName, TopicPartition,
    TransactionVersion,
};
use logway_record::TransactionOutcome;

/// Where a transactional id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// Its producer has begun no transaction yet.
    Empty,
    /// There is a transaction with partitions.
    Ongoing,
    /// It is committed; its markers are being written.
    PrepareCommit,
    /// It is aborted; its markers are being written.
    PrepareAbort,
    /// Its markers are written.
    CompleteCommit,
    /// The same.
    CompleteAbort,
}

impl TransactionState {
    /// All of them, in the order of their numbers.
    pub const ALL: [TransactionState; 6] = [
        TransactionState::Empty,
        TransactionState::Ongoing,
        TransactionState::PrepareCommit,
        TransactionState::PrepareAbort,
        TransactionState::CompleteCommit,
        TransactionState::CompleteAbort,
    ];

    /// The number in records.
    pub(crate) fn id(self) -> i8 {
        self as i8
    }

    /// The state of a number in a record.
    pub(crate) fn from_id(id: i8) -> Option<TransactionState> {
        TransactionState::ALL.into_iter().find(|state| state.id() == id)
    }

    /// The name that clients know (KIP-664).
    pub fn name(self) -> &'static str {
        match self {
            TransactionState::Empty => "Empty",
            TransactionState::Ongoing => "Ongoing",
            TransactionState::PrepareCommit => "PrepareCommit",
            TransactionState::PrepareAbort => "PrepareAbort",
            TransactionState::CompleteCommit => "CompleteCommit",
            TransactionState::CompleteAbort => "CompleteAbort",
        }
    }

    /// The state of a name that a client knows.
    pub fn from_name(name: &str) -> Option<TransactionState> {
        TransactionState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// What the markers of this state say; `None` where there are none to write.
    pub fn prepared(self) -> Option<TransactionOutcome> {
        match self {
            TransactionState::PrepareCommit => Some(TransactionOutcome::Commit),
            TransactionState::PrepareAbort => Some(TransactionOutcome::Abort),
            _ => None,
        }
    }

    /// What the last transaction has come to.
    fn completed(self) -> Option<TransactionOutcome> {
        match self {
            TransactionState::CompleteCommit => Some(TransactionOutcome::Commit),
            TransactionState::CompleteAbort => Some(TransactionOutcome::Abort),
            _ => None,
        }
    }
}

/// The state of a transaction that has come to that.
fn prepared_state(outcome: TransactionOutcome) -> TransactionState {
    match outcome {
        TransactionOutcome::Commit => TransactionState::PrepareCommit,
        TransactionOutcome::Abort => TransactionState::PrepareAbort,
    }
}

/// A producer in one of its epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Producer {
    /// Its id.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// The last epoch of a producer but one. No client gets the last, so that a producer can always be fenced.
const EPOCH_MAX_OF_CLIENTS: ProducerEpoch = ProducerEpoch(i16::MAX - 1);

impl Producer {
    /// Nobody.
    pub const NONE: Producer = Producer { id: ProducerId::NONE, epoch: ProducerEpoch::NONE };

    /// One that begins.
    pub fn first(id: ProducerId) -> Producer {
        Producer { id, epoch: ProducerEpoch(0) }
    }

    /// Whether no client can get another epoch of this id.
    pub(crate) fn is_exhausted(self) -> bool {
        self.epoch >= EPOCH_MAX_OF_CLIENTS
    }

    /// In the next epoch; the last one has none.
    fn bumped(self) -> Producer {
        Producer { epoch: ProducerEpoch(self.epoch.0.saturating_add(1)), ..self }
    }
}

/// The partitions of a transaction, by topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionPartitions(BTreeMap<TopicName, BTreeSet<PartitionId>>);

impl TransactionPartitions {
    /// Adds a partition; whether it is new.
    pub fn insert(&mut self, partition: &TopicPartition) -> bool {
        match self.0.get_mut(&partition.topic) {
            Some(of_topic) => of_topic.insert(partition.partition),
            None => {
                let of_topic = BTreeSet::from([partition.partition]);
                self.0.insert(partition.topic.clone(), of_topic);
                true
            }
        }
    }

    /// Whether the partition is among them.
    pub fn contains(&self, partition: &TopicPartition) -> bool {
        self.0.get(&partition.topic).is_some_and(|it| it.contains(&partition.partition))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// By topic, in the order of the names.
    pub fn by_topic(&self) -> impl Iterator<Item = (&TopicName, &BTreeSet<PartitionId>)> {
        self.0.iter()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        self.0.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(|&number| TopicPartition::new(topic.clone(), number))
        })
    }

    /// The length of all names.
    pub(crate) fn names_bytes(&self) -> usize {
        self.0.keys().map(|topic| topic.as_str().len()).sum()
    }
}

impl FromIterator<TopicPartition> for TransactionPartitions {
    fn from_iter<I: IntoIterator<Item = TopicPartition>>(partitions: I) -> TransactionPartitions {
        let mut all = TransactionPartitions::default();
        for partition in partitions {
            all.insert(&partition);
        }
        all
    }
}

/// What the log says of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who may write.
    pub producer: Producer,
    /// The id of the producer before the last change: most often the same.
    pub previous_producer_id: ProducerId,
    /// The id under which the producer goes on when the markers are written, where its epochs are used up.
    pub next_producer_id: ProducerId,
    /// The epoch before the last one, where the same client has both. Not in the log: a retry over a change of the
    /// coordinator is not known as one (KIP-360).
    pub last_epoch: ProducerEpoch,
    /// How long a transaction may take.
    pub timeout_ms: i32,
    /// Where it is.
    pub state: TransactionState,
    /// The partitions of the transaction; none in states without one.
    pub partitions: TransactionPartitions,
    /// When the transaction began, or [`TimestampMs::NONE`].
    pub started: TimestampMs,
    /// When something last changed.
    pub updated: TimestampMs,
    /// The protocol by which the state was reached.
    pub version: TransactionVersion,
}

/// What becomes of a request: the next value, or an answer at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// This is to be written down.
    Next(Box<Transaction>),
    /// Nothing changes, and all is well.
    Already(Producer),
    /// The step needs an id that no producer ever had.
    NeedsProducerId,
}

impl Step {
    fn next(transaction: Transaction) -> Result<Step, ErrorCode> {
        Ok(Step::Next(Box::new(transaction)))
    }
}

impl Transaction {
    /// The first producer of a transactional id.
    pub(crate) fn first(id: ProducerId, timeout_ms: i32, now: TimestampMs) -> Transaction {
        Transaction {
            producer: Producer::first(id),
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            last_epoch: ProducerEpoch::NONE,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: TransactionPartitions::default(),
            started: TimestampMs::NONE,
            updated: now,
            version: TransactionVersion::CLASSIC,
        }
    }

    /// As it is now, with what every step changes.
    fn at(&self, state: TransactionState, now: TimestampMs) -> Transaction {
        Transaction { state, previous_producer_id: self.producer.id, updated: now, ..self.clone() }
    }

    /// InitProducerId. `expected` is what a client that had an error believes that it is (KIP-360).
    ///
    /// A transaction that goes on is aborted first: the next value is then that of the fence, and the client asks again.
    pub(crate) fn init_producer(
        &self,
        expected: Option<Producer>,
        timeout_ms: i32,
        fresh_id: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        if expected.is_some_and(|expected| !self.may_expect(expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        match self.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                Err(ErrorCode::ConcurrentTransactions)
            }
            TransactionState::Ongoing => Step::next(self.fenced(now)),
            TransactionState::Empty
            | TransactionState::CompleteCommit
            | TransactionState::CompleteAbort => {
                let (producer, last_epoch) = match self.next_producer(expected, fresh_id)? {
                    Some(next) => next,
                    None => return Ok(Step::NeedsProducerId),
                };
                Step::next(Transaction {
                    producer,
                    last_epoch,
                    timeout_ms,
                    partitions: TransactionPartitions::default(),
                    started: TimestampMs::NONE,
                    ..self.at(TransactionState::Empty, now)
                })
            }
        }
    }

    /// Whether a client that believes to be that producer may go on as the next one: the epoch is looked at later.
    /// One whose epochs are used up may ask again without having heard of its new id, or have heard of it already.
    fn may_expect(&self, expected: Producer) -> bool {
        expected.id == self.producer.id
            || self.is_early(expected)
            || (expected.id == self.previous_producer_id && expected.is_exhausted())
    }

    /// Who the producer becomes, and its epoch before that, if the same client had it. `None` if that needs a new id.
    fn next_producer(
        &self,
        expected: Option<Producer>,
        fresh_id: Option<ProducerId>,
    ) -> Result<Option<(Producer, ProducerEpoch)>, ErrorCode> {
        let current = self.producer;
        let is_current = expected.is_none_or(|expected| expected.epoch == current.epoch);
        let last_epoch = match expected {
            Some(_) => current.epoch,
            None => ProducerEpoch::NONE,
        };
        match expected {
            _ if is_current && current.is_exhausted() => {
                Ok(fresh_id.map(|id| (Producer::first(id), last_epoch)))
            }
            _ if is_current => Ok(Some((current.bumped(), last_epoch))),
            // It asks again, since it has not heard the answer. Nobody else came in between.
            Some(expected) if expected.epoch == self.last_epoch => {
                Ok(Some((current, self.last_epoch)))
            }
            _ => Err(ErrorCode::ProducerFenced),
        }
    }

    /// The abort of a transaction whose producer shall write no more.
    pub(crate) fn fenced(&self, now: TimestampMs) -> Transaction {
        Transaction {
            producer: self.producer.bumped(),
            last_epoch: ProducerEpoch::NONE,
            version: TransactionVersion::EPOCH_BUMP,
            ..self.at(TransactionState::PrepareAbort, now)
        }
    }

    /// AddPartitionsToTxn, and what Produce of version 12 does in its stead.
    pub(crate) fn add_partitions(
        &self,
        producer: Producer,
        partitions: &[TopicPartition],
        version: TransactionVersion,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        self.check_producer(producer)?;
        let is_ongoing = match self.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                return Err(ErrorCode::ConcurrentTransactions);
            }
            TransactionState::Ongoing => true,
            TransactionState::Empty
            | TransactionState::CompleteCommit
            | TransactionState::CompleteAbort => false,
        };
        let mut next = self.at(TransactionState::Ongoing, now);
        next.version = version;
        if !is_ongoing {
            next.partitions = TransactionPartitions::default();
            next.started = now;
        }
        let mut is_changed = !is_ongoing;
        for partition in partitions {
            is_changed |= next.partitions.insert(partition);
        }
        match is_changed {
            true => Step::next(next),
            false => Ok(Step::Already(self.producer)),
        }
    }

    /// Whether the producer may write to partitions as part of its transaction.
    pub(crate) fn verify(
        &self,
        producer: Producer,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        self.check_producer(producer)?;
        match self.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                Err(ErrorCode::ConcurrentTransactions)
            }
            TransactionState::Ongoing if self.partitions.contains(partition) => Ok(()),
            _ => Err(ErrorCode::TransactionAbortable),
        }
    }

    fn check_producer(&self, producer: Producer) -> Result<(), ErrorCode> {
        if self.is_early(producer) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if producer.id != self.producer.id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if producer.epoch != self.producer.epoch || producer.epoch > EPOCH_MAX_OF_CLIENTS {
            return Err(ErrorCode::ProducerFenced);
        }
        Ok(())
    }

    /// Whether the client has its new id already, which is its own only when the markers of the old one are written.
    /// The answer to EndTxn comes before that, and its next transaction may come, too.
    fn is_early(&self, producer: Producer) -> bool {
        self.next_producer_id.is_some() && producer == self.client_producer()
    }

    /// EndTxn. Where each end raises the epoch, a request that is sent again is known by the epoch before.
    pub(crate) fn end(
        &self,
        producer: Producer,
        outcome: TransactionOutcome,
        version: TransactionVersion,
        fresh_id: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        match version.bumps_epoch() {
            true => self.end_with_bump(producer, outcome, version, fresh_id, now),
            false => self.end_classic(producer, outcome, version, now),
        }
    }

    fn end_classic(
        &self,
        producer: Producer,
        outcome: TransactionOutcome,
        version: TransactionVersion,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        self.check_producer(producer)?;
        match self.state {
            TransactionState::Ongoing => {
                Step::next(Transaction { version, ..self.at(prepared_state(outcome), now) })
            }
            state if state.prepared() == Some(outcome) => Err(ErrorCode::ConcurrentTransactions),
            state if state.completed() == Some(outcome) => Ok(Step::Already(self.producer)),
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    fn end_with_bump(
        &self,
        producer: Producer,
        outcome: TransactionOutcome,
        version: TransactionVersion,
        fresh_id: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        if self.is_early(producer) {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let current = self.producer;
        // An end by the older protocol raises no epoch. The epoch before is then that of a producer that was replaced.
        let is_raised = self.version.bumps_epoch();
        let is_over_the_last_epoch = is_raised
            && producer.id == self.previous_producer_id
            && producer.epoch == EPOCH_MAX_OF_CLIENTS
            && current.epoch == ProducerEpoch(0);
        if producer.id != current.id && !is_over_the_last_epoch {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        let is_before = is_raised && producer.id == current.id && producer.bumped() == current;
        let is_current = producer == current;
        let is_again = is_before || is_over_the_last_epoch;
        match self.state {
            TransactionState::Empty | TransactionState::Ongoing if !is_current => {
                Err(ErrorCode::ProducerFenced)
            }
            TransactionState::PrepareCommit | TransactionState::PrepareAbort if !is_before => {
                Err(ErrorCode::ProducerFenced)
            }
            _ if !is_current && !is_again => Err(ErrorCode::ProducerFenced),
            TransactionState::Ongoing => self.prepared(outcome, version, fresh_id, now),
            state if state.prepared() == Some(outcome) => Err(ErrorCode::ConcurrentTransactions),
            state if is_again && state.completed() == Some(outcome) => {
                self.after_the_end(fresh_id, now)
            }
            // A transaction without partitions: what a client has begun may never have come here.
            TransactionState::Empty
            | TransactionState::CompleteCommit
            | TransactionState::CompleteAbort
                if outcome == TransactionOutcome::Abort && !is_again =>
            {
                self.prepared(outcome, version, fresh_id, now)
            }
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    /// Who goes on after a transaction that has ended already. Where the coordinator ended it, by the last epoch, no
    /// client gets that epoch: it goes on under another id.
    fn after_the_end(
        &self,
        fresh_id: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        match fresh_id {
            _ if self.producer.epoch <= EPOCH_MAX_OF_CLIENTS => Ok(Step::Already(self.producer)),
            Some(id) => Step::next(Transaction {
                producer: Producer::first(id),
                last_epoch: self.producer.epoch,
                ..self.at(self.state, now)
            }),
            None => Ok(Step::NeedsProducerId),
        }
    }

    /// The transaction has come to that; its markers carry the next epoch.
    fn prepared(
        &self,
        outcome: TransactionOutcome,
        version: TransactionVersion,
        fresh_id: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<Step, ErrorCode> {
        let next_producer_id = match (self.producer.is_exhausted(), fresh_id) {
            (false, _) => ProducerId::NONE,
            (true, Some(id)) => id,
            (true, None) => return Ok(Step::NeedsProducerId),
        };
        let started = match self.state {
            TransactionState::Ongoing => self.started,
            _ => now,
        };
        Step::next(Transaction {
            producer: self.producer.bumped(),
            next_producer_id,
            last_epoch: self.producer.epoch,
            started,
            version,
            ..self.at(prepared_state(outcome), now)
        })
    }

    /// All markers are written; `None` if there are none to write.
    pub(crate) fn complete(&self, now: TimestampMs) -> Option<Transaction> {
        let state = match self.state.prepared()? {
            TransactionOutcome::Commit => TransactionState::CompleteCommit,
            TransactionOutcome::Abort => TransactionState::CompleteAbort,
        };
        Some(Transaction {
            producer: self.client_producer(),
            next_producer_id: ProducerId::NONE,
            partitions: TransactionPartitions::default(),
            ..self.at(state, now)
        })
    }

    /// Who the client is from now on: after an EndTxn it is told so before the markers are written.
    pub(crate) fn client_producer(&self) -> Producer {
        match self.next_producer_id.is_some() {
            true => Producer::first(self.next_producer_id),
            false => self.producer,
        }
    }

    /// Whether nothing is under way, and nothing was for so long.
    pub(crate) fn is_idle(&self, now: TimestampMs, expiration_ms: i64) -> bool {
        let is_at_rest = matches!(
            self.state,
            TransactionState::Empty
                | TransactionState::CompleteCommit
                | TransactionState::CompleteAbort
        );
        is_at_rest && now.0.saturating_sub(self.updated.0) >= expiration_ms
    }
}
