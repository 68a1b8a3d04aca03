//! The producers of a partition.

use std::collections::HashMap;

use logway_model::{
    Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicPartition, TransactionVersion,
};
use logway_record::{BatchHeader, TransactionMarker, TransactionOutcome};

use super::limits::ProducerLimits;
use super::origin::AppendOrigin;
use super::producer::{AppendedBatch, ProducerState};
use super::transactions::{
    AbortedTransaction, EndedTransaction, OpenTransaction, OpenTransactions, TransactionStep,
};
use super::verification::Verification;
use crate::LogError;

/// The idempotent producers of a partition, by producer id.
///
/// The log's writer owns it, checks every batch of such a producer before the append and
/// updates it after. The number of producers is bounded, because producer ids are the clients'
/// words (see [`ProducerLimits`]): when a new one does not fit, those that have not written for the
/// longest go. A producer that is forgotten may go on with any sequence, as in Apache Kafka one
/// whose `producer.id.expiration.ms` have passed; what it loses is the recognition of a duplicate.
#[derive(Debug)]
pub struct ProducerStateTable {
    partition: TopicPartition,
    producers: HashMap<ProducerId, KnownProducer>,
    /// Those of `producers`.
    open: OpenTransactions,
    limits: ProducerLimits,
    /// How many producers are counted for the limits.
    counted: usize,
}

#[derive(Debug, Clone, Copy)]
struct KnownProducer {
    state: ProducerState,
    /// When it last wrote, by the writer's clock; after a restart, by the producer's own.
    last_write: TimestampMs,
}

/// When a producer last wrote; the least is the first to be forgotten. Those with an open
/// transaction go last, because its start bounds what consumers may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LastUse {
    has_transaction: bool,
    last_write: TimestampMs,
    last_offset: Offset,
}

/// The part of a batch that its producer's state is about.
///
/// A batch that a client sends has no negative field here; the validation of the batch sees to
/// that. One that recovery finds may have anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerBatch {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of the first record.
    pub base_sequence: Sequence,
    /// The last offset less the first; the number of records less one, as clients send batches.
    pub offset_delta: i32,
    /// The largest timestamp.
    pub max_timestamp: TimestampMs,
    /// Whether the batch is part of a transaction.
    pub transactional: bool,
}

/// What a transaction marker says (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// Whose transaction it ends.
    pub producer_id: ProducerId,
    /// The producer's epoch from here on.
    pub epoch: ProducerEpoch,
    /// How the transaction ended.
    pub outcome: TransactionOutcome,
    /// That of the coordinator that wrote it.
    pub coordinator_epoch: i32,
    /// When it was written.
    pub timestamp: TimestampMs,
    /// Where it is.
    pub offset: Offset,
}

impl Marker {
    /// What a control batch says, with its header.
    pub fn of(header: &BatchHeader, marker: TransactionMarker) -> Marker {
        Marker {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            outcome: marker.outcome,
            coordinator_epoch: marker.coordinator_epoch,
            timestamp: header.max_timestamp,
            offset: header.last_offset(),
        }
    }
}

/// What to do with a batch whose sequence is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceCheck {
    /// It is the producer's next.
    Append,
    /// The log has it already: answer as for the first time.
    Duplicate(AppendedBatch),
}

/// The state of a producer before an update, to take it back if the append fails.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct PreviousState {
    producer_id: ProducerId,
    known: Option<KnownProducer>,
}

impl ProducerBatch {
    /// What the header of a batch says; `None` for a batch that has nothing to do with a producer's state: one of a
    /// producer that is not idempotent, or a control batch.
    ///
    /// What the group coordinator appends as part of a producer's transaction has no sequence.
    pub fn of(header: &BatchHeader) -> Option<ProducerBatch> {
        let has_producer = header.producer_id.is_some();
        let transactional = header.attributes.is_transactional();
        let has_state = header.base_sequence.0 >= 0 || transactional;
        let is_data = has_state && !header.attributes.is_control();
        (has_producer && is_data).then_some(ProducerBatch {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            offset_delta: header.last_offset_delta,
            max_timestamp: header.max_timestamp,
            transactional,
        })
    }

    /// The sequence of the last record; none if the first has none.
    pub fn last_sequence(&self) -> Sequence {
        match self.base_sequence {
            Sequence(..0) => Sequence::NONE,
            base => base.advance(self.offset_delta.max(0)),
        }
    }
}

impl ProducerStateTable {
    /// A table that knows nobody.
    pub fn new(partition: TopicPartition, limits: ProducerLimits) -> ProducerStateTable {
        let (producers, open) = Default::default();
        ProducerStateTable { partition, producers, open, limits, counted: 0 }
    }

    /// Whether a batch continues what its producer has written, and may be part of a transaction, or of none.
    ///
    /// As Apache Kafka 4.3 decides (`ProducerAppendInfo`): one of the last 5 batches again is a duplicate; an older epoch is
    /// [`LogError::FencedProducerEpoch`]; a newer epoch begins with sequence 0; within an
    /// epoch sequences have no gaps. An unknown producer may begin with any sequence, because its
    /// records may have been deleted.
    ///
    /// | batch | what it needs |
    /// |---|---|
    /// | not transactional | no open transaction of its producer; else [`LogError::TransactionOpen`] |
    /// | transactional, and none is open in its epoch | the word of the coordinator (KIP-890), which is `verification` or is not needed for this node's own; else [`LogError::UnverifiedTransaction`] |
    /// | the same | that this coordinator is none before the one that wrote the last marker; else [`LogError::StaleCoordinator`] |
    /// | the same, of a client that raises its epoch with each transaction, and the producer is unknown | sequence 0 |
    pub fn check(
        &self,
        batch: &ProducerBatch,
        origin: AppendOrigin,
        verification: Option<Verification>,
    ) -> Result<SequenceCheck, LogError> {
        let known = self.get(batch.producer_id);
        if let Some(producer) = known
            && let Some(same) = self.duplicate(producer, batch)?
        {
            return Ok(SequenceCheck::Duplicate(same));
        }
        if batch.transactional {
            self.check_part_of_transaction(batch, known, origin, verification)?;
        }
        if batch.base_sequence.0 >= 0 {
            self.check_sequence(batch, known, verification)?;
        }
        let is_open = known.is_some_and(|producer| producer.transaction_start.is_some());
        if is_open && !batch.transactional {
            let partition = self.partition.clone();
            let (producer_id, got) = (batch.producer_id, batch.epoch);
            return Err(LogError::TransactionOpen { partition, producer_id, got });
        }
        Ok(SequenceCheck::Append)
    }

    /// The batch that this one repeats.
    fn duplicate(
        &self,
        producer: &ProducerState,
        batch: &ProducerBatch,
    ) -> Result<Option<AppendedBatch>, LogError> {
        self.check_epoch(producer, batch.producer_id, batch.epoch)?;
        let is_same = |known: &&AppendedBatch| {
            known.base_sequence() == batch.base_sequence
                && known.last_sequence == batch.last_sequence()
        };
        let is_same_epoch = batch.epoch == producer.epoch;
        Ok(producer.batches().find(is_same).filter(|_| is_same_epoch).copied())
    }

    fn check_epoch(
        &self,
        producer: &ProducerState,
        producer_id: ProducerId,
        got: ProducerEpoch,
    ) -> Result<(), LogError> {
        if got >= producer.epoch {
            return Ok(());
        }
        let (partition, current) = (self.partition.clone(), producer.epoch);
        Err(LogError::FencedProducerEpoch { partition, producer_id, current, got })
    }

    fn check_part_of_transaction(
        &self,
        batch: &ProducerBatch,
        known: Option<&ProducerState>,
        origin: AppendOrigin,
        verification: Option<Verification>,
    ) -> Result<(), LogError> {
        let open = known.and_then(ProducerState::open_transaction);
        if open.is_some_and(|open| open.epoch == batch.epoch) {
            return Ok(());
        }
        if origin != AppendOrigin::Coordinator {
            let (partition, producer_id) = (self.partition.clone(), batch.producer_id);
            let current = known.map_or(-1, |producer| producer.coordinator_epoch);
            match verification.and_then(|verification| verification.vouched_by()) {
                Some(got) if got >= current => {}
                Some(got) => {
                    return Err(LogError::StaleCoordinator {
                        partition,
                        producer_id,
                        current,
                        got,
                    });
                }
                None => return Err(LogError::UnverifiedTransaction { partition, producer_id }),
            }
        }
        if open.is_none() && !self.limits.has_room_for_transaction(self.open.len()) {
            let partition = self.partition.clone();
            let max = self.limits.transactions_per_log_max();
            let directory_max = self.limits.transactions_max();
            return Err(LogError::TooManyTransactions { partition, max, directory_max });
        }
        Ok(())
    }

    fn check_sequence(
        &self,
        batch: &ProducerBatch,
        known: Option<&ProducerState>,
        verification: Option<Verification>,
    ) -> Result<(), LogError> {
        let expected = match known {
            Some(producer) if batch.epoch == producer.epoch => producer.next_sequence(),
            Some(_) => Sequence(0),
            None => match verification {
                Some(verification) => verification.first_sequence(batch.base_sequence),
                None => return Ok(()),
            },
        };
        if batch.base_sequence == expected {
            return Ok(());
        }
        Err(LogError::OutOfOrderSequence {
            partition: self.partition.clone(),
            producer_id: batch.producer_id,
            expected,
            got: batch.base_sequence,
        })
    }

    /// Whether a marker may end the transaction of its producer, as Apache Kafka 4.3 decides
    /// (`ProducerAppendInfo.checkProducerEpoch`, KIP-890, KAFKA-19999).
    ///
    /// | version of the transaction | the marker's epoch |
    /// |---|---|
    /// | before 2 | that of the producer, or a newer one |
    /// | from 2 on | a newer one; that of the producer, if no transaction is open: the marker is written a second time |
    ///
    /// # Errors
    ///
    /// [`LogError::FencedProducerEpoch`]; [`LogError::CoordinatorFenced`] if a later coordinator has written a marker.
    pub(crate) fn check_marker(
        &self,
        marker: &Marker,
        version: TransactionVersion,
    ) -> Result<(), LogError> {
        let Some(producer) = self.get(marker.producer_id) else { return Ok(()) };
        self.check_epoch(producer, marker.producer_id, marker.epoch)?;
        let is_open = producer.transaction_start.is_some();
        if version.bumps_epoch() && is_open && marker.epoch == producer.epoch {
            return Err(LogError::FencedProducerEpoch {
                partition: self.partition.clone(),
                producer_id: marker.producer_id,
                current: producer.epoch,
                got: marker.epoch,
            });
        }
        if marker.coordinator_epoch < producer.coordinator_epoch {
            return Err(LogError::CoordinatorFenced {
                partition: self.partition.clone(),
                producer_id: marker.producer_id,
                current: producer.coordinator_epoch,
                got: marker.coordinator_epoch,
            });
        }
        Ok(())
    }

    /// Notes a batch that is in the log from `base_offset` on, as one that was written at `now`.
    ///
    /// The batch is not checked: recovery and followers take what the log holds. To take updates
    /// back, restore what they returned in reverse order.
    pub fn update(
        &mut self,
        batch: &ProducerBatch,
        base_offset: Offset,
        now: TimestampMs,
    ) -> PreviousState {
        let previous = self.previous(batch.producer_id);
        let mut state = previous.state_or_new(batch.epoch);
        state.push(
            batch.epoch,
            AppendedBatch {
                last_sequence: batch.last_sequence(),
                last_offset: Offset(base_offset.0.saturating_add(i64::from(batch.offset_delta))),
                offset_delta: batch.offset_delta,
                timestamp: batch.max_timestamp,
            },
        );
        if batch.transactional {
            state.transaction_start.get_or_insert(base_offset);
        }
        self.set(&previous, state, now);
        previous
    }

    /// Takes an update back.
    pub fn restore(&mut self, previous: PreviousState) {
        match previous.known {
            Some(known) => _ = self.producers.insert(previous.producer_id, known),
            None => _ = self.producers.remove(&previous.producer_id),
        }
        self.note_open(previous.producer_id, previous.open_transaction());
        self.count();
    }

    /// What became of a producer's transaction with an update.
    pub(crate) fn step_since(&self, previous: &PreviousState) -> Option<TransactionStep> {
        let producer_id = previous.producer_id;
        let open = self.open.get(producer_id)?;
        let before = previous.open_transaction();
        (before != Some(open)).then_some(TransactionStep::Open { producer_id, open })
    }

    /// Notes a marker, which ends its producer's transaction if one is open; says which.
    ///
    /// It is not checked: see [`ProducerStateTable::update`].
    pub(crate) fn end_transaction(
        &mut self,
        marker: &Marker,
    ) -> (PreviousState, Option<EndedTransaction>) {
        let Marker { producer_id, offset, .. } = *marker;
        let previous = self.previous(producer_id);
        let mut state = previous.state_or_new(marker.epoch);
        let first = state.transaction_start.take();
        state.enter(marker.epoch);
        state.coordinator_epoch = marker.coordinator_epoch;
        state.last_timestamp = marker.timestamp;
        self.set(&previous, state, marker.timestamp);
        let ended = first.map(|first| {
            let last_stable = self.open.first().unwrap_or(offset.next());
            let aborted = AbortedTransaction { producer_id, first, last: offset, last_stable };
            let is_aborted = marker.outcome == TransactionOutcome::Abort;
            let aborted = is_aborted.then_some(aborted);
            EndedTransaction { producer_id, first, marker: offset, aborted }
        });
        (previous, ended)
    }

    /// The open transactions.
    pub(crate) fn open_transactions(&self) -> &OpenTransactions {
        &self.open
    }

    /// Forgets producers whose last timestamp is `expiration_ms` (`producer.id.expiration.ms`) or
    /// more before `now` and that have no open transaction; returns how many.
    ///
    /// The log's start says nothing about producers: those whose records are all deleted are
    /// remembered until they expire (KIP-360).
    pub fn expire(&mut self, now: TimestampMs, expiration_ms: i64) -> usize {
        self.forget(|known| {
            let idle_ms = now.0.saturating_sub(known.state.last_timestamp.0);
            known.state.transaction_start.is_none() && idle_ms >= expiration_ms
        })
    }

    /// When each of the producers last wrote.
    pub(crate) fn last_uses(&self) -> impl Iterator<Item = LastUse> {
        self.producers.values().map(KnownProducer::last_use)
    }

    /// Forgets, for want of room, the producers that have not written since `newest` and have no open transaction.
    pub(crate) fn evict(&mut self, newest: LastUse) -> usize {
        let evicted = self
            .forget(|known| known.state.transaction_start.is_none() && known.last_use() <= newest);
        self.limits.note_evicted(evicted);
        evicted
    }

    /// Replaces everything by the producers of a snapshot.
    pub fn load(&mut self, producers: impl IntoIterator<Item = (ProducerId, ProducerState)>) {
        self.clear();
        for (producer_id, state) in producers {
            let previous = self.previous(producer_id);
            self.set(&previous, state, state.last_timestamp);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.producers = HashMap::new();
        self.limits.note_transactions(self.open.len(), 0);
        self.open = OpenTransactions::default();
        self.count();
    }

    /// What is known about a producer.
    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&producer_id).map(|known| &known.state)
    }

    /// All producers, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ProducerId, &ProducerState)> {
        self.producers.iter().map(|(&id, known)| (id, &known.state))
    }

    /// The number of producers.
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    fn previous(&self, producer_id: ProducerId) -> PreviousState {
        PreviousState { producer_id, known: self.producers.get(&producer_id).copied() }
    }

    fn set(&mut self, previous: &PreviousState, state: ProducerState, last_write: TimestampMs) {
        if previous.known.is_none() {
            self.make_room();
        }
        self.producers.insert(previous.producer_id, KnownProducer { state, last_write });
        self.note_open(previous.producer_id, state.open_transaction());
        self.count();
    }

    /// Takes note of the transaction of a producer that may have changed.
    fn note_open(&mut self, producer_id: ProducerId, open: Option<OpenTransaction>) {
        if open == self.open.get(producer_id) {
            return;
        }
        let before = self.open.len();
        self.open.set(producer_id, open);
        self.limits.note_transactions(before, self.open.len());
    }

    /// Makes room for one more producer.
    ///
    /// A sixteenth goes at once, so that a client that makes up producer ids does not make every
    /// append look through the whole table.
    fn make_room(&mut self) {
        let is_full = self.producers.len() >= self.limits.per_log_max();
        if self.producers.is_empty() || !(is_full || self.limits.is_reached()) {
            return;
        }
        let mut uses: Vec<LastUse> = self.last_uses().collect();
        let newest_to_go = (uses.len() / 16).saturating_sub(1);
        let (_, &mut newest, _) = uses.select_nth_unstable(newest_to_go);
        self.evict(newest);
    }

    /// Forgets the producers for which `is_to_go`; returns how many.
    fn forget(&mut self, is_to_go: impl Fn(&KnownProducer) -> bool) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, known| !is_to_go(known));
        // A map does not give memory back by itself.
        if self.producers.capacity() > 4 * self.producers.len() {
            self.producers.shrink_to(2 * self.producers.len());
        }
        self.count();
        before - self.producers.len()
    }

    /// Has the producers counted for the limits.
    fn count(&mut self) {
        let len = self.producers.len();
        if len != self.counted {
            self.limits.note_change(self.counted, len);
            self.counted = len;
        }
    }
}

impl Drop for ProducerStateTable {
    fn drop(&mut self) {
        self.clear();
    }
}

impl KnownProducer {
    fn last_use(&self) -> LastUse {
        let last_batch = self.state.last_batch();
        LastUse {
            has_transaction: self.state.transaction_start.is_some(),
            last_write: self.last_write,
            last_offset: last_batch.map_or(Offset(-1), |batch| batch.last_offset),
        }
    }
}

impl PreviousState {
    fn open_transaction(&self) -> Option<OpenTransaction> {
        self.known.and_then(|known| known.state.open_transaction())
    }

    fn state_or_new(&self, epoch: ProducerEpoch) -> ProducerState {
        self.known.map_or_else(|| ProducerState::new(epoch), |known| known.state)
    }
}
