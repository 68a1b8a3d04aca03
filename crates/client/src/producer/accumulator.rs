//! Everything that a producer has taken and that is not yet acknowledged.

use std::time::Duration;

use logway_model::{Offset, PartitionId, TopicName, TopicPartition};
use logway_record::RecordError;
use tokio::time::Instant;

use super::batch::Batch;
use super::fate::{Fate, Unacknowledged};
use super::identity::ProducerIdentity;
use super::outcome::Setback;
use super::partition_queue::{Appended, PartitionQueue, record_bytes};
use super::{NewRecord, ProduceSummary, ProducerOptions};
use crate::ClientError;

/// The batches of all partitions, how much memory they take, and what has become of the rest.
#[derive(Debug)]
pub(super) struct Accumulator {
    topic: TopicName,
    partitions: Vec<PartitionQueue>,
    linger: Duration,
    delivery_timeout: Duration,
    in_flight_max: usize,
    buffer_bytes: usize,
    buffered_bytes: usize,
    buffered_records: u64,
    /// Someone waits: incomplete batches are not to.
    is_pressed: bool,
    failure: Option<ClientError>,
    /// Who writes, if the brokers are to know.
    identity: Option<ProducerIdentity>,
    /// The records of batches that will never be stored.
    lost: Unacknowledged,
    summary: ProduceSummary,
}

impl Accumulator {
    pub(super) fn new(
        topic: TopicName,
        partitions: u32,
        options: &ProducerOptions,
        identity: Option<ProducerIdentity>,
    ) -> Accumulator {
        let partition_ids = (0..).map(PartitionId).take(partitions as usize);
        let queue = |id| PartitionQueue::new(id, options.compression, options.batch_bytes);
        Accumulator {
            topic,
            partitions: partition_ids.map(queue).collect(),
            linger: options.linger,
            delivery_timeout: options.delivery_timeout,
            in_flight_max: options.in_flight_max(),
            buffer_bytes: options.buffer_bytes,
            buffered_bytes: 0,
            buffered_records: 0,
            is_pressed: false,
            failure: None,
            identity,
            lost: Unacknowledged::default(),
            summary: ProduceSummary::default(),
        }
    }

    /// Returns what ended the producer, if anything did.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Ends the producer; the first failure counts.
    pub(super) fn fail(&mut self, failure: ClientError) {
        self.failure.get_or_insert(failure);
    }

    /// Who writes.
    pub(super) fn identity(&self) -> Option<ProducerIdentity> {
        self.identity
    }

    /// Somebody else writes from now on. All that was taken before has to be acknowledged.
    pub(super) fn go_on_as(&mut self, identity: ProducerIdentity) {
        self.identity = Some(identity);
        self.partitions.iter_mut().for_each(PartitionQueue::restart);
    }

    /// Whether everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.buffered_records == 0
    }

    /// How many records were taken and are not acknowledged.
    pub(super) fn unacknowledged(&self) -> Unacknowledged {
        let mut counted = self.lost;
        self.partitions.iter().for_each(|queue| queue.count(&mut counted));
        counted
    }

    /// Whether the sender has batches, whose answers may be on their way.
    pub(super) fn is_in_flight(&self) -> bool {
        self.partitions.iter().any(PartitionQueue::is_in_flight)
    }

    /// Whether a record may be taken now. An empty buffer takes a record of any size.
    pub(super) fn has_room_for(&self, record: &NewRecord<'_>) -> bool {
        self.is_empty() || self.buffered_bytes + record_bytes(record) <= self.buffer_bytes
    }

    /// Whether a partition has a batch that the record fits into.
    pub(super) fn has_batch_for(&self, partition: PartitionId, record: &NewRecord<'_>) -> bool {
        let queue = usize::try_from(partition.0).ok().and_then(|i| self.partitions.get(i));
        queue.is_some_and(|queue| queue.has_batch_for(record))
    }

    /// Lets incomplete batches go without waiting for more, until the next record is taken.
    pub(super) fn press(&mut self) {
        self.is_pressed = true;
    }

    /// Takes a record.
    pub(super) fn append(
        &mut self,
        partition: PartitionId,
        record: &NewRecord<'_>,
    ) -> Result<Appended, ClientError> {
        let now = Instant::now();
        let (due, deadline) = (now + self.linger, now + self.delivery_timeout);
        let appended = self
            .queue(partition)?
            .append(record, due, deadline)
            .map_err(|source| self.unwritable(partition, source))?;
        self.is_pressed = false;
        self.buffered_bytes += appended.grown_bytes;
        self.buffered_records += 1;
        Ok(appended)
    }

    /// At most one batch of each partition, for which `may_send` says yes; none after a failure.
    pub(super) fn take_sendable(
        &mut self,
        now: Instant,
        may_send: impl Fn(PartitionId) -> bool,
    ) -> Vec<Batch> {
        if self.failure.is_some() {
            return Vec::new();
        }
        let (in_flight_max, is_pressed) = (self.in_flight_max, self.is_pressed);
        (0..)
            .map(PartitionId)
            .zip(&mut self.partitions)
            .filter(|(id, _)| may_send(*id))
            .filter_map(|(_, queue)| queue.take_sendable(now, in_flight_max, is_pressed))
            .collect()
    }

    /// When to look for batches of the partitions for which `may_send` says yes, if nothing else
    /// happens.
    pub(super) fn next_due(&self, may_send: impl Fn(PartitionId) -> bool) -> Option<Instant> {
        (0..)
            .map(PartitionId)
            .zip(&self.partitions)
            .filter(|(id, _)| may_send(*id))
            .filter_map(|(_, queue)| queue.next_due(self.in_flight_max))
            .min()
    }

    /// Takes note that a batch is being written to a connection.
    pub(super) fn sent(&mut self, batch: &Batch) {
        if let Ok(queue) = self.queue(batch.partition) {
            queue.sent(batch);
        }
    }

    /// Counts a batch that is stored.
    pub(super) fn acknowledge(&mut self, batch: Batch, base_offset: Option<Offset>) {
        let Ok(queue) = self.queue(batch.partition) else { return };
        queue.stored(&batch);
        self.buffered_bytes -= batch.plain_bytes;
        self.buffered_records -= u64::from(batch.record_count);
        let bytes = batch.plain_bytes as u64;
        self.summary.add(batch.partition, batch.record_count, bytes, base_offset);
    }

    /// Counts a batch that will never be stored, and ends the producer.
    pub(super) fn lose(&mut self, batch: &Batch, setback: Setback) {
        let Ok(queue) = self.queue(batch.partition) else { return };
        queue.lost(batch.first_record);
        self.lost.add(batch.fate.max(setback.fate), batch.record_count);
        self.fail(setback.error);
    }

    /// Takes a batch back that has to be sent again.
    pub(super) fn give_back(&mut self, mut batch: Batch, setback: Setback) {
        let Ok(queue) = self.queue(batch.partition) else { return };
        batch.failures += 1;
        batch.fate = batch.fate.max(setback.fate);
        batch.last_error = Some(setback.error);
        queue.give_back(batch);
    }

    /// Takes a batch back that was refused because an earlier one is not stored.
    pub(super) fn give_back_behind(&mut self, mut batch: Batch) {
        let Ok(queue) = self.queue(batch.partition) else { return };
        batch.failures += 1;
        batch.fate = batch.fate.max(Fate::Refused);
        queue.give_back(batch);
    }

    /// Takes a batch back that the broker found too large, in two halves.
    pub(super) fn give_back_halved(&mut self, mut batch: Batch) {
        let (partition, plain_bytes) = (batch.partition, batch.plain_bytes);
        batch.fate = batch.fate.max(Fate::Refused);
        let (fate, record_count, first_record) =
            (batch.fate, batch.record_count, batch.first_record);
        match batch.split() {
            Err(source) => {
                self.lost.add(fate, record_count);
                if let Ok(queue) = self.queue(partition) {
                    queue.lost(first_record);
                }
                self.fail(self.unwritable(partition, source));
            }
            Ok(halves) => {
                let halves_bytes: usize = halves.iter().map(|half| half.plain_bytes).sum();
                self.buffered_bytes = self.buffered_bytes - plain_bytes + halves_bytes;
                if let Ok(queue) = self.queue(partition) {
                    queue.give_back_halves(halves);
                }
            }
        }
    }

    /// Whether a batch was sent while one with earlier records of its partition is not stored.
    pub(super) fn waits_for_earlier(&self, batch: &Batch) -> bool {
        let queue = usize::try_from(batch.partition.0).ok().and_then(|i| self.partitions.get(i));
        queue.is_some_and(|queue| queue.waits_for_earlier(batch.first_record))
    }

    /// Fails if a batch has waited too long, with the reason why it was not stored.
    pub(super) fn expire(&mut self, now: Instant, otherwise: Option<&ClientError>) {
        let expired = self.partitions.iter().find_map(|queue| queue.expired(now));
        let Some((batch, reason)) = expired else { return };
        let partition = batch.topic_partition(&self.topic);
        // What keeps others from having a leader need not be what keeps this one.
        let otherwise = otherwise.filter(|error| !matches!(error, ClientError::NoLeader { .. }));
        let reason = reason.or(otherwise).cloned();
        self.fail(reason.unwrap_or(ClientError::NoLeader { partition }));
    }

    /// The partitions with records that are not on their way.
    pub(super) fn waiting(&self) -> Vec<PartitionId> {
        let ids = (0..).map(PartitionId).zip(&self.partitions);
        ids.filter(|(_, queue)| queue.has_waiting()).map(|(id, _)| id).collect()
    }

    /// What has been acknowledged.
    pub(super) fn summary(&self) -> &ProduceSummary {
        &self.summary
    }

    fn queue(&mut self, partition: PartitionId) -> Result<&mut PartitionQueue, ClientError> {
        let partitions = self.partitions.len();
        let index = usize::try_from(partition.0).ok().filter(|&index| index < partitions);
        match index {
            Some(index) => Ok(&mut self.partitions[index]),
            None => Err(ClientError::NoSuchPartition {
                topic: self.topic.clone(),
                partition,
                partitions,
            }),
        }
    }

    fn unwritable(&self, partition: PartitionId, source: RecordError) -> ClientError {
        let partition = TopicPartition::new(self.topic.clone(), partition);
        ClientError::UnwritableRecord { partition, source }
    }
}
