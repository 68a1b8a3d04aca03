//! The snapshots of producers that wait to be written share a bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::producer_state::ProducerStateTable;
use crate::producer_state::snapshot::Snapshot;

/// Some 700,000 producers.
const SNAPSHOTS_MAX_BYTES: usize = 32 << 20;

/// The memory that snapshots share until they are written.
#[derive(Debug, Clone)]
pub(super) struct SnapshotRoom {
    max_bytes: usize,
    used_bytes: Arc<AtomicUsize>,
}

/// A snapshot that holds its share of the room.
#[derive(Debug)]
pub(super) struct WaitingSnapshot {
    pub(super) snapshot: Snapshot,
    room: SnapshotRoom,
}

impl Default for SnapshotRoom {
    fn default() -> SnapshotRoom {
        SnapshotRoom { max_bytes: SNAPSHOTS_MAX_BYTES, used_bytes: Arc::default() }
    }
}

impl SnapshotRoom {
    /// Takes a snapshot of a log's producers, if there is room.
    pub(super) fn snapshot_of(&self, producers: &ProducerStateTable) -> Option<WaitingSnapshot> {
        let bytes = Snapshot::size_bytes_of(producers);
        let used_bytes = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used_bytes > self.max_bytes {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(WaitingSnapshot { snapshot: Snapshot::of(producers), room: self.clone() })
    }
}

impl WaitingSnapshot {
    /// One with a room of its own.
    pub(super) fn apart(snapshot: Snapshot) -> WaitingSnapshot {
        let bytes = snapshot.size_bytes();
        let room = SnapshotRoom { max_bytes: bytes, used_bytes: Arc::new(bytes.into()) };
        WaitingSnapshot { snapshot, room }
    }
}

impl Drop for WaitingSnapshot {
    fn drop(&mut self) {
        self.room.used_bytes.fetch_sub(self.snapshot.size_bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{
        Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicName,
        TopicPartition,
    };

    use super::*;
    use crate::LogMetrics;
    use crate::producer_state::{ProducerBatch, ProducerLimits};

    fn table_of(producers: i64) -> ProducerStateTable {
        let topic = TopicName::new("t").expect("a good name");
        let limits = ProducerLimits::new(100, 100, LogMetrics::new());
        let partition = TopicPartition::new(topic, PartitionId(0));
        let mut table = ProducerStateTable::new(partition, limits);
        for id in 0..producers {
            let batch = ProducerBatch {
                producer_id: ProducerId(id),
                epoch: ProducerEpoch(0),
                base_sequence: Sequence(0),
                offset_delta: 0,
                max_timestamp: TimestampMs(0),
                transactional: false,
            };
            let _ = table.update(&batch, Offset(id), TimestampMs(0));
        }
        table
    }

    #[test]
    fn snapshots_that_wait_have_a_bound() {
        let room = SnapshotRoom { max_bytes: 1000, ..SnapshotRoom::default() };
        let first = room.snapshot_of(&table_of(15)).expect("there is room");
        assert!(room.snapshot_of(&table_of(15)).is_none(), "46 bytes for each of 30");
        let small = room.snapshot_of(&table_of(5)).expect("there is room");
        drop((first, small));
        assert!(room.snapshot_of(&table_of(20)).is_some(), "what was written gives it back");
    }
}
