//! One topic within the image.

use logway_model::{BrokerId, DirectoryId, LeaderEpoch, PartitionId, TopicId, TopicName};

use super::{Overrides, StreamImage};
use crate::error::MetadataError;
use crate::record::{MetadataRecord, PartitionRecord, Reassignment, TopicRecord, directory_of};

/// The topics that Kafka keeps its own state in; clients must not write to them.
const INTERNAL_TOPICS: [&str; 3] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// Whether a topic of this name is one of Kafka's own.
pub fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

/// A topic, its partitions and its own settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicImage {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// Its partitions; the index is the partition's number.
    pub partitions: Vec<PartitionImage>,
    /// The settings it overrides, by name, as text.
    pub overrides: Overrides,
    /// What it is as a stream, if it is one.
    pub stream: Option<StreamImage>,
}

/// One partition's place in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionImage {
    /// The brokers that hold it, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each of them, in the same order; empty where none is assigned to one.
    pub directories: Vec<DirectoryId>,
    /// Those of them that are in sync.
    pub isr: Vec<BrokerId>,
    /// Those of the others that may lead, too (KIP-966). While there are any, nothing is committed.
    pub eligible: Vec<BrokerId>,
    /// Where it is on its way to, if it is.
    pub reassignment: Option<Reassignment>,
    /// The broker that leads it, if any can.
    pub leader: Option<BrokerId>,
    /// Grows with each new leader.
    pub leader_epoch: LeaderEpoch,
    /// Grows with each change of the partition.
    pub partition_epoch: i32,
}

impl PartitionImage {
    /// The log directory of a broker's replica; [`DirectoryId::UNASSIGNED`] where nobody has said,
    /// or there is no such replica.
    pub fn directory_of(&self, broker: BrokerId) -> DirectoryId {
        directory_of(&self.replicas, &self.directories, broker)
    }

    /// The replicas that it is to have: those that it has, unless it is on its way to others.
    pub fn target(&self) -> &[BrokerId] {
        self.reassignment.as_ref().map_or(&self.replicas, |it| &it.target)
    }

    /// The record that makes this of a partition.
    pub(crate) fn to_record(&self, topic_id: TopicId, partition: PartitionId) -> PartitionRecord {
        PartitionRecord {
            topic_id,
            partition,
            replicas: self.replicas.clone(),
            directories: self.directories.clone(),
            isr: self.isr.clone(),
            eligible: self.eligible.clone(),
            reassignment: self.reassignment.clone(),
            leader: self.leader,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
        }
    }
}

impl TopicImage {
    /// The partition of a number.
    pub fn partition(&self, partition: PartitionId) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(partition.0).ok()?)
    }

    /// The partitions with their numbers, in order.
    pub fn numbered_partitions(&self) -> impl Iterator<Item = (PartitionId, &PartitionImage)> {
        (0..).map(PartitionId).zip(&self.partitions)
    }

    /// The number of partitions, as the protocol counts them.
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).expect("partitions are numbered by i32")
    }

    pub(super) fn new(name: TopicName, id: TopicId) -> TopicImage {
        TopicImage { name, id, partitions: Vec::new(), overrides: Overrides::new(), stream: None }
    }

    pub(super) fn set_partition(&mut self, record: &PartitionRecord) -> Result<(), MetadataError> {
        let count = self.partitions.len();
        let gap = || MetadataError::PartitionGap {
            name: self.name.clone(),
            partition: record.partition,
            count,
        };
        let index = usize::try_from(record.partition.0).map_err(|_| gap())?;
        if index > count {
            return Err(gap());
        }
        let image = PartitionImage {
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            eligible: record.eligible.clone(),
            reassignment: record.reassignment.clone(),
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        };
        match self.partitions.get_mut(index) {
            Some(partition) => *partition = image,
            None => self.partitions.push(image),
        }
        Ok(())
    }

    pub(super) fn push_records(&self, records: &mut Vec<MetadataRecord>) {
        let (name, topic_id) = (self.name.clone(), self.id);
        records.push(MetadataRecord::Topic(TopicRecord { name, id: topic_id }));
        records.extend(self.numbered_partitions().map(|(partition, image)| {
            MetadataRecord::partition(image.to_record(topic_id, partition))
        }));
        self.push_stream(records);
    }
}
