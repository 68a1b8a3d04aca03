//! Which brokers hold a new partition, and in which of their log directories.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, DirectoryId, ErrorCode, LeaderEpoch, PartitionId, TopicId};

use super::ControllerError;
use crate::image::MetadataImage;
use crate::record::PartitionRecord;

/// Replicas for partitions `first..first + count` of a topic.
///
/// Leaders go round the brokers, followers are the brokers after the leader; where the round
/// begins depends on the topic's id, so that topics of one partition spread too.
pub(super) fn place_replicas(
    image: &MetadataImage,
    topic_id: TopicId,
    partitions: std::ops::Range<usize>,
    replication_factor: usize,
) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
    let brokers: Vec<BrokerId> = image.brokers().map(|broker| broker.id).collect();
    if replication_factor > brokers.len() {
        return Err(too_few_brokers(replication_factor, brokers.len()));
    }
    let start = usize::from(topic_id.0.0[15]);
    let replicas_of = |partition: usize| {
        let ring = brokers.iter().cycle().skip((start + partition) % brokers.len());
        ring.take(replication_factor).copied().collect()
    };
    Ok(partitions.map(replicas_of).collect())
}

fn too_few_brokers(replication_factor: usize, brokers: usize) -> ControllerError {
    let message = format!(
        "Replication factor {replication_factor} is larger than the number of brokers, {brokers}."
    );
    ControllerError::new(ErrorCode::InvalidReplicationFactor, message)
}

/// Checks the replicas that somebody chose for one partition.
pub(super) fn check_replicas(
    image: &MetadataImage,
    partition: usize,
    replicas: &[BrokerId],
) -> Result<(), ControllerError> {
    let refused = |reason: String| {
        let message = format!("Replicas of partition {partition}: {reason}.");
        Err(ControllerError::new(ErrorCode::InvalidReplicaAssignment, message))
    };
    if replicas.is_empty() {
        return refused("there must be at least one".to_owned());
    }
    let mut seen = BTreeSet::new();
    for &broker in replicas {
        if !seen.insert(broker) {
            return refused(format!("broker {broker} is listed twice"));
        }
        if image.broker(broker).is_none() {
            return refused(format!("no broker {broker} is registered"));
        }
    }
    Ok(())
}

/// Makes the records of new partitions, each replica in the log directory of its broker that holds
/// the fewest, the first in the broker's order of several.
///
/// In Apache Kafka each broker chooses and then tells the controller (KIP-858). That the controller
/// chooses spares a second commit for each topic, and no log is ever made in a directory that the
/// metadata does not know of.
pub(super) struct NewPartitions<'a> {
    image: &'a MetadataImage,
    /// The replicas placed so far, which the image does not have yet.
    placed: BTreeMap<DirectoryId, usize>,
}

impl<'a> NewPartitions<'a> {
    /// None yet, of a command that is judged against this image.
    pub(super) fn new(image: &'a MetadataImage) -> NewPartitions<'a> {
        NewPartitions { image, placed: BTreeMap::new() }
    }

    /// The first state of a partition: all replicas in sync, the first one leads.
    pub(super) fn record(
        &mut self,
        topic_id: TopicId,
        partition: PartitionId,
        replicas: Vec<BrokerId>,
    ) -> PartitionRecord {
        PartitionRecord {
            topic_id,
            partition,
            directories: replicas.iter().map(|broker| self.place(*broker)).collect(),
            isr: replicas.clone(),
            leader: replicas.first().copied(),
            replicas,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        }
    }

    fn place(&mut self, broker: BrokerId) -> DirectoryId {
        let log_dirs = self.image.broker(broker).map_or(&[][..], |broker| &broker.log_dirs);
        let placed = |dir: &DirectoryId| self.placed.get(dir).copied().unwrap_or(0);
        let fewest = log_dirs.iter().min_by_key(|dir| self.image.replicas_in(**dir) + placed(dir));
        let Some(&directory) = fewest else { return DirectoryId::UNASSIGNED };
        *self.placed.entry(directory).or_default() += 1;
        directory
    }
}
