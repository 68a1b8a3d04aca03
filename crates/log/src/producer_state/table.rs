//! The producers of a partition.

use std::collections::HashMap;

use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicPartition};
use logway_record::BatchHeader;

use super::producer::{AppendedBatch, ProducerState};
use crate::LogError;

/// The idempotent producers of a partition, by producer id.
///
/// The log's writer owns it, checks every batch of such a producer before the append and
/// updates it after. The number of producers is bounded, because producer ids are the clients'
/// words: when a new one does not fit, those that have not written for the longest go. A
/// producer that is forgotten may go on with any sequence, as in Apache Kafka; what it loses is
/// the recognition of a duplicate.
#[derive(Debug, Clone)]
pub struct ProducerStateTable {
    partition: TopicPartition,
    producers: HashMap<ProducerId, ProducerState>,
    capacity: usize,
    evictions: u64,
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
    state: Option<ProducerState>,
}

impl ProducerBatch {
    /// What the header of a batch says; `None` for a batch without a sequence: one of a producer
    /// that is not idempotent, or a transaction marker.
    pub fn of(header: &BatchHeader) -> Option<ProducerBatch> {
        let has_sequence = header.producer_id.is_some() && header.base_sequence.0 >= 0;
        has_sequence.then(|| ProducerBatch {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            offset_delta: header.last_offset_delta,
            max_timestamp: header.max_timestamp,
            transactional: header.attributes.is_transactional(),
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
    /// A table of at most `capacity` producers, which is at least 1.
    pub fn new(partition: TopicPartition, capacity: usize) -> ProducerStateTable {
        assert!(capacity > 0, "a table that holds nobody checks nothing");
        ProducerStateTable { partition, producers: HashMap::new(), capacity, evictions: 0 }
    }

    /// Whether a batch of a client continues what its producer has written.
    ///
    /// As Apache Kafka 4.3 decides: one of the last 5 batches again is a duplicate; an older
    /// epoch is [`LogError::FencedProducerEpoch`]; a newer epoch begins with sequence 0; within an
    /// epoch sequences have no gaps. An unknown producer may begin with any sequence, because its
    /// records may have been deleted.
    pub fn check(&self, batch: &ProducerBatch) -> Result<SequenceCheck, LogError> {
        let Some(producer) = self.producers.get(&batch.producer_id) else {
            return Ok(SequenceCheck::Append);
        };
        if batch.epoch < producer.epoch {
            return Err(LogError::FencedProducerEpoch {
                partition: self.partition.clone(),
                producer_id: batch.producer_id,
                current: producer.epoch,
                got: batch.epoch,
            });
        }
        let expected = if batch.epoch > producer.epoch {
            Sequence(0)
        } else {
            let is_same = |known: &&AppendedBatch| {
                known.base_sequence() == batch.base_sequence
                    && known.last_sequence == batch.last_sequence()
            };
            if let Some(&known) = producer.batches().find(is_same) {
                return Ok(SequenceCheck::Duplicate(known));
            }
            producer.next_sequence()
        };
        if batch.base_sequence != expected {
            return Err(LogError::OutOfOrderSequence {
                partition: self.partition.clone(),
                producer_id: batch.producer_id,
                expected,
                got: batch.base_sequence,
            });
        }
        Ok(SequenceCheck::Append)
    }

    /// Notes a batch that is in the log from `base_offset` on.
    ///
    /// The batch is not checked: recovery and followers take what the log holds. To take updates
    /// back, restore what they returned in reverse order.
    pub fn update(&mut self, batch: &ProducerBatch, base_offset: Offset) -> PreviousState {
        let previous = self.producers.get(&batch.producer_id).copied();
        if previous.is_none() {
            self.make_room();
        }
        let mut producer = previous.unwrap_or(ProducerState::new(batch.epoch));
        producer.push(
            batch.epoch,
            AppendedBatch {
                last_sequence: batch.last_sequence(),
                last_offset: Offset(base_offset.0.saturating_add(i64::from(batch.offset_delta))),
                offset_delta: batch.offset_delta,
                timestamp: batch.max_timestamp,
            },
        );
        if batch.transactional {
            producer.transaction_start.get_or_insert(base_offset);
        }
        self.producers.insert(batch.producer_id, producer);
        PreviousState { producer_id: batch.producer_id, state: previous }
    }

    /// Takes an update back.
    pub fn restore(&mut self, previous: PreviousState) {
        match previous.state {
            Some(state) => _ = self.producers.insert(previous.producer_id, state),
            None => _ = self.producers.remove(&previous.producer_id),
        }
    }

    /// Notes a marker that ends a producer's transaction.
    ///
    /// `timestamp` is the marker's, `coordinator_epoch` that of the coordinator that wrote it.
    pub fn end_transaction(
        &mut self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        coordinator_epoch: i32,
        timestamp: TimestampMs,
    ) -> PreviousState {
        let previous = self.producers.get(&producer_id).copied();
        if previous.is_none() {
            self.make_room();
        }
        let mut producer = previous.unwrap_or(ProducerState::new(epoch));
        producer.enter(epoch);
        producer.coordinator_epoch = coordinator_epoch;
        producer.last_timestamp = timestamp;
        producer.transaction_start = None;
        self.producers.insert(producer_id, producer);
        PreviousState { producer_id, state: previous }
    }

    /// Forgets producers whose last timestamp is `expiration_ms` (`producer.id.expiration.ms`) or
    /// more before `now` and that have no open transaction; returns how many.
    ///
    /// The log's start says nothing about producers: those whose records are all deleted are
    /// remembered until they expire (KIP-360).
    pub fn expire(&mut self, now: TimestampMs, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, producer| {
            producer.transaction_start.is_some()
                || now.0.saturating_sub(producer.last_timestamp.0) < expiration_ms
        });
        before - self.producers.len()
    }

    /// Replaces everything by the producers of a snapshot.
    pub fn load(&mut self, producers: impl IntoIterator<Item = (ProducerId, ProducerState)>) {
        self.producers.clear();
        for (producer_id, producer) in producers {
            self.make_room();
            self.producers.insert(producer_id, producer);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.producers = HashMap::new();
    }

    /// What is known about a producer.
    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&producer_id)
    }

    /// All producers, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ProducerId, &ProducerState)> {
        self.producers.iter().map(|(&id, producer)| (id, producer))
    }

    /// The number of producers.
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// How many producers were forgotten for lack of room since the table was made.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Makes room for one more producer.
    ///
    /// A sixteenth of a full table goes at once, so that a client that makes up producer ids
    /// does not make every append look through the whole table.
    fn make_room(&mut self) {
        if self.producers.len() < self.capacity {
            return;
        }
        // Those with an open transaction go last: its start bounds what consumers may read.
        let mut by_age: Vec<(bool, Offset, ProducerId)> = self
            .producers
            .iter()
            .map(|(&id, producer)| {
                let newest = producer.last_batch().map_or(Offset(-1), |batch| batch.last_offset);
                (producer.transaction_start.is_some(), newest, id)
            })
            .collect();
        let evicted = (self.capacity / 16).max(1);
        by_age.select_nth_unstable(evicted - 1);
        for (_, _, id) in &by_age[..evicted] {
            self.producers.remove(id);
        }
        self.evictions += evicted as u64;
    }
}
