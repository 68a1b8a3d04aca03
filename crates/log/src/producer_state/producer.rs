//! What a partition knows about one producer.

use logway_model::{Offset, ProducerEpoch, Sequence, TimestampMs};

use super::transactions::OpenTransaction;

/// How many of a producer's last batches are known by their sequences: as many as a client with
/// idempotence may have in flight.
const BATCHES_KEPT: usize = 5;

/// The newest state of one producer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// The newest epoch.
    pub epoch: ProducerEpoch,
    /// The epoch of the transaction coordinator that wrote the last marker; -1 if none did.
    pub coordinator_epoch: i32,
    /// The largest timestamp in the last batch, or that of the last marker.
    pub last_timestamp: TimestampMs,
    /// Where the open transaction began.
    pub transaction_start: Option<Offset>,
    /// The last batches of this epoch in a row from the oldest; `None` behind the newest.
    batches: [Option<AppendedBatch>; BATCHES_KEPT],
}

/// A batch that is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedBatch {
    /// The sequence of its last record.
    pub last_sequence: Sequence,
    /// The offset of its last record.
    pub last_offset: Offset,
    /// Its last offset less its first; also its last sequence less its first, if that did not
    /// wrap.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: TimestampMs,
}

impl AppendedBatch {
    /// The offset of its first record.
    pub fn base_offset(&self) -> Offset {
        Offset(self.last_offset.0.saturating_sub(i64::from(self.offset_delta)))
    }

    /// The sequence of its first record.
    pub fn base_sequence(&self) -> Sequence {
        // Sequences go from 0 to i32::MAX and then from 0 again, that is modulo 2^31.
        Sequence(self.last_sequence.0.wrapping_sub(self.offset_delta) & i32::MAX)
    }
}

impl ProducerState {
    /// A producer that is known by its epoch alone.
    pub fn new(epoch: ProducerEpoch) -> ProducerState {
        ProducerState {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: TimestampMs::NONE,
            transaction_start: None,
            batches: [None; BATCHES_KEPT],
        }
    }

    /// Its open transaction.
    pub(crate) fn open_transaction(&self) -> Option<OpenTransaction> {
        self.transaction_start.map(|first| OpenTransaction { first, epoch: self.epoch })
    }

    /// The newest batch of the current epoch.
    pub fn last_batch(&self) -> Option<AppendedBatch> {
        self.batches().last().copied()
    }

    /// The last batches of the current epoch, the oldest first; at most 5.
    pub fn batches(&self) -> impl Iterator<Item = &AppendedBatch> {
        self.batches.iter().flatten()
    }

    /// Notes a batch of `epoch`; one of another epoch makes those of the old one forgotten.
    pub fn push(&mut self, epoch: ProducerEpoch, batch: AppendedBatch) {
        self.enter(epoch);
        match self.batches.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(batch),
            None => {
                self.batches.rotate_left(1);
                self.batches[BATCHES_KEPT - 1] = Some(batch);
            }
        }
        self.last_timestamp = batch.timestamp;
    }

    /// Makes `epoch` the current one; if it is another, the known batches are forgotten.
    pub fn enter(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches = [None; BATCHES_KEPT];
        }
    }

    /// The sequence that the next batch of the current epoch begins with.
    pub fn next_sequence(&self) -> Sequence {
        match self.last_batch() {
            Some(AppendedBatch { last_sequence: last @ Sequence(0..), .. }) => last.advance(1),
            _ => Sequence(0),
        }
    }
}
