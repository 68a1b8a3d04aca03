//! AssignReplicasToDirs: a broker says where its replicas are (KIP-858).

use logway_model::{BrokerId, DirectoryId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::partition_change::PartitionChange;
use super::{Command, ControllerError, Decision};
use crate::image::MetadataImage;
use crate::record::{MetadataRecord, PartitionRecord};
use crate::settings::BrokerSettings;

/// Notes the log directories of a broker's replicas: of those that were found elsewhere than they
/// were assigned, and of those that are moved.
///
/// A partition without a leader gets the broker, if that has all that was committed. What is so already makes no record.
///
/// A partition that does not exist, or that the broker does not hold, is passed over: it may have been deleted meanwhile. So is
/// a directory that the broker does not have: an earlier broker under its number may have said that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignReplicasToDirs {
    /// Whose replicas.
    pub broker: BrokerId,
    /// Where they are.
    pub replicas: Vec<ReplicaDirectory>,
}

/// The log directory of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaDirectory {
    /// The partition's topic.
    pub topic_id: TopicId,
    /// Its number.
    pub partition: PartitionId,
    /// Where the replica is.
    pub directory: DirectoryId,
}

impl Command for AssignReplicasToDirs {
    type Reply = ();

    /// A replica that moves makes room where it was.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let records = self.replicas.iter().filter_map(|replica| {
            let record = assigned(image, settings, self.broker, replica)?;
            Some(MetadataRecord::partition(record))
        });
        Ok(Decision { records: records.collect(), reply: () })
    }
}

/// The partition with its replica in the directory; `None` if that is nothing new.
fn assigned(
    image: &MetadataImage,
    settings: &BrokerSettings,
    broker: BrokerId,
    replica: &ReplicaDirectory,
) -> Option<PartitionRecord> {
    let ReplicaDirectory { topic_id, partition, directory } = *replica;
    let topic = image.topic_by_id(topic_id)?;
    let known = topic.partition(partition)?;
    let has_directory = image.broker(broker)?.log_dirs.contains(&directory);
    if !has_directory || !known.replicas.contains(&broker) {
        return None;
    }
    let change = PartitionChange::new(image, settings, topic, partition, known);
    change.in_directory(broker, directory).record()
}
