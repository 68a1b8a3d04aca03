//! Reading a shard's records back.

use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::StateMachine;
use logway_log::{LogError, ReadRequest};
use logway_model::{LeaderEpoch, Offset, ProducerId};
use logway_record::{Batch, Batches, DecodeLimit, TransactionMarker, TransactionOutcome};

use crate::failure::Failure;
use crate::replica::Replica;
use crate::tasks::off_thread;

/// What is read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// The most that one batch may unpack to. Ours are small; one of another origin may not be.
const DECODE_LIMIT: DecodeLimit = DecodeLimit::new(64 << 20);

/// Something in a coordinator's log.
pub(super) enum Loaded<R> {
    Record(R),
    /// A record that is part of a producer's transaction.
    InTransaction(ProducerId, R),
    /// The end of a producer's transaction.
    Marker(ProducerId, TransactionOutcome),
}

/// What was read of the log of a state machine.
type LoadedOf<M> = Vec<Loaded<<M as StateMachine>::Record>>;

impl<R> Loaded<R> {
    /// Tells it to a shard that is loaded.
    pub(super) fn replay_into<M: StateMachine<Record = R>>(&self, shard: &mut M) {
        match self {
            Loaded::Record(record) => shard.replay(record),
            Loaded::InTransaction(producer, record) => {
                shard.replay_in_transaction(*producer, record);
            }
            Loaded::Marker(producer, outcome) => shard.replay_marker(*producer, *outcome),
        }
    }
}

/// Reads the log of a coordinator's partition, from its start to where it ended when the epoch began.
pub(super) struct LogReader {
    replica: Arc<Replica>,
    next: Offset,
    end: Offset,
}

impl LogReader {
    /// Finds the end that the log has when `epoch` begins: what an earlier leader has appended, and was still on its
    /// way, is before it.
    pub(super) async fn open(
        replica: Arc<Replica>,
        epoch: LeaderEpoch,
    ) -> Result<LogReader, LogError> {
        let log = replica.log();
        let end = log.begin_epoch(epoch).await?;
        let next = log.log_start_offset();
        Ok(LogReader { replica, next, end })
    }

    /// What is read ends before this offset.
    pub(super) fn end(&self) -> Offset {
        self.end
    }

    /// The first offset that was not read yet.
    pub(super) fn position(&self) -> Offset {
        self.next
    }

    /// The next records; `None` at the end. After a failure it can be tried again.
    pub(super) async fn next<M: StateMachine>(&mut self) -> Result<Option<LoadedOf<M>>, Failure> {
        if self.next >= self.end {
            return Ok(None);
        }
        let replica = Arc::clone(&self.replica);
        let (from, end) = (self.next, self.end);
        let (records, next) = off_thread(move || read_piece::<M>(&replica, from, end)).await?;
        self.next = next;
        Ok(Some(records))
    }
}

fn read_piece<M: StateMachine>(
    replica: &Replica,
    from: Offset,
    end: Offset,
) -> Result<(LoadedOf<M>, Offset), Failure> {
    let slice = replica.log().read(ReadRequest {
        offset: from,
        max_bytes: PIECE_BYTES,
        upper_bound: end,
        at_least_one_batch: true,
    })?;
    if slice.is_empty() {
        // Compaction can leave nothing at the end.
        return Ok((Vec::new(), end));
    }
    let read_failed = |error| Failure::of_reading(replica.topic_partition(), &error);
    let bytes = slice.read().map_err(read_failed)?;
    Ok((decode_piece::<M>(replica, bytes)?, slice.next_offset))
}

fn decode_piece<M: StateMachine>(replica: &Replica, bytes: Bytes) -> Result<LoadedOf<M>, Failure> {
    let mut records = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch?;
        batch.verify_crc()?;
        match batch.header().attributes.is_control() {
            true => {
                let producer = batch.header().producer_id;
                let marker = TransactionMarker::of(&batch)?;
                records.extend(marker.map(|marker| Loaded::Marker(producer, marker.outcome)));
            }
            false => decode_batch::<M>(replica, &batch, &mut records)?,
        }
    }
    Ok(records)
}

fn decode_batch<M: StateMachine>(
    replica: &Replica,
    batch: &Batch,
    records: &mut Vec<Loaded<M::Record>>,
) -> Result<(), Failure> {
    let header = batch.header();
    let producer = header.attributes.is_transactional().then_some(header.producer_id);
    let loaded = |record| match producer {
        Some(producer) => Loaded::InTransaction(producer, record),
        None => Loaded::Record(record),
    };
    for record in batch.records(DECODE_LIMIT)? {
        let record = record?;
        let key = record.key.unwrap_or_default();
        match M::decode(&key, record.value.as_ref()) {
            Ok(decoded) => records.extend(decoded.map(loaded)),
            Err(error) => {
                let partition = replica.topic_partition();
                tracing::error!(%partition, offset = %record.offset, %error,
                    "a record of a coordinator is passed over");
            }
        }
    }
    Ok(())
}
