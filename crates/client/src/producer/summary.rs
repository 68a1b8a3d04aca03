//! What a producer has achieved.

use std::collections::BTreeMap;

use logway_model::{Offset, PartitionId};

/// What has been acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProduceSummary {
    /// How many records.
    pub records: u64,
    /// The size of their batches before compression.
    pub bytes: u64,
    /// How many batches they came in.
    pub batches: u64,
    /// The partitions that got any.
    pub partitions: BTreeMap<PartitionId, PartitionSummary>,
}

/// What has been acknowledged in one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionSummary {
    /// How many records.
    pub records: u64,
    /// The offset of the first; unknown with acks 0.
    pub first_offset: Option<Offset>,
    /// The offset of the last; unknown with acks 0. Other producers' records may lie in between.
    pub last_offset: Option<Offset>,
}

impl ProduceSummary {
    /// Adds a batch.
    pub(super) fn add(
        &mut self,
        partition: PartitionId,
        records: u32,
        bytes: u64,
        base_offset: Option<Offset>,
    ) {
        self.records += u64::from(records);
        self.bytes += bytes;
        self.batches += 1;
        let entry = self.partitions.entry(partition).or_default();
        entry.records += u64::from(records);
        if let Some(base_offset) = base_offset {
            let last_offset = base_offset + (i64::from(records) - 1);
            entry.first_offset =
                Some(entry.first_offset.map_or(base_offset, |o| o.min(base_offset)));
            entry.last_offset = Some(entry.last_offset.map_or(last_offset, |o| o.max(last_offset)));
        }
    }
}
