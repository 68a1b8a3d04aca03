//! What becomes of a partition when a broker goes or comes: who leads it, and who is in sync.

use logway_model::{BrokerId, DirectoryId, LeaderEpoch, PartitionId, TopicId};

use crate::image::{MetadataImage, PartitionImage};
use crate::record::{MetadataRecord, PartitionRecord};

/// A partition on its way to its next state.
pub(super) struct PartitionChange<'a> {
    image: &'a MetadataImage,
    before: &'a PartitionImage,
    record: PartitionRecord,
}

impl<'a> PartitionChange<'a> {
    /// The partition as it is.
    pub(super) fn new(
        image: &'a MetadataImage,
        topic_id: TopicId,
        partition: PartitionId,
        before: &'a PartitionImage,
    ) -> PartitionChange<'a> {
        let record = PartitionRecord {
            topic_id,
            partition,
            replicas: before.replicas.clone(),
            directories: before.directories.clone(),
            isr: before.isr.clone(),
            leader: before.leader,
            leader_epoch: before.leader_epoch,
            partition_epoch: before.partition_epoch,
        };
        PartitionChange { image, before, record }
    }

    /// A broker leads nothing any more, and leaves the ISR unless it is the last one in it. The last one
    /// has all that was committed, so nobody may lead without it.
    pub(super) fn leave(mut self, broker: BrokerId) -> PartitionChange<'a> {
        if self.record.isr.iter().any(|id| *id != broker) {
            self.record.isr.retain(|id| *id != broker);
        }
        if self.record.leader == Some(broker) {
            self.record.leader = self.candidate(&[broker]);
        }
        self
    }

    /// Whether others hold the partition, and a broker's replica is in none of the directories that the broker can use.
    pub(super) fn is_without(&self, broker: BrokerId, log_dirs: &[DirectoryId]) -> bool {
        let directory = self.before.directory_of(broker);
        self.before.replicas.len() > 1
            && directory != DirectoryId::UNASSIGNED
            && !log_dirs.contains(&directory)
    }

    /// A broker is back: what has no leader gets it, if it is in sync and its directory is there.
    pub(super) fn come_back(mut self, broker: BrokerId) -> PartitionChange<'a> {
        let log_dirs = self.image.broker(broker).map_or(&[][..], |known| &known.log_dirs);
        if self.is_without(broker, log_dirs) {
            return self;
        }
        if self.record.leader.is_none() && self.record.isr.contains(&broker) {
            self.record.leader = Some(broker);
        }
        self
    }

    /// A new ISR, by the leader's word.
    pub(super) fn with_isr(mut self, isr: Vec<BrokerId>) -> PartitionChange<'a> {
        self.record.isr = isr;
        self
    }

    /// A certain leader. With an unclean one the ISR is that one alone: what the others have beyond it
    /// is lost.
    pub(super) fn led_by(mut self, leader: BrokerId) -> PartitionChange<'a> {
        if !self.record.isr.contains(&leader) {
            self.record.isr = vec![leader];
        }
        self.record.leader = Some(leader);
        self
    }

    /// The first replica that is in sync, lives, and is none of `but`.
    pub(super) fn candidate(&self, but: &[BrokerId]) -> Option<BrokerId> {
        let replicas = self.record.replicas.iter().copied();
        let mut in_sync = replicas.filter(|id| self.record.isr.contains(id));
        in_sync.find(|id| !but.contains(id) && self.image.is_active(*id))
    }

    /// The record, if anything has changed. A new leader, or none, begins a new epoch, in which nobody
    /// takes what an earlier leader still sends.
    pub(super) fn record(self) -> Option<PartitionRecord> {
        let PartitionChange { before, mut record, .. } = self;
        if record.leader == before.leader && record.isr == before.isr {
            return None;
        }
        if record.leader != before.leader {
            record.leader_epoch = LeaderEpoch(before.leader_epoch.0 + 1);
        }
        record.partition_epoch = before.partition_epoch + 1;
        Some(record)
    }
}

/// What a change of all partitions makes of those that a broker holds.
pub(super) fn of_all_held_by<'a>(
    image: &'a MetadataImage,
    broker: BrokerId,
    change: impl Fn(PartitionChange<'a>) -> PartitionChange<'a>,
) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    for topic in image.topics() {
        for (number, partition) in topic.numbered_partitions() {
            if partition.replicas.contains(&broker) || partition.leader == Some(broker) {
                let changed = change(PartitionChange::new(image, topic.id, number, partition));
                records.extend(changed.record().map(MetadataRecord::Partition));
            }
        }
    }
    records
}
