//! Which brokers hold a new partition.

use std::collections::BTreeSet;

use logway_model::{BrokerId, ErrorCode, LeaderEpoch, PartitionId, TopicId};

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

/// The first state of a partition: all replicas in sync, the first one leads.
pub(super) fn new_partition(
    topic_id: TopicId,
    partition: PartitionId,
    replicas: Vec<BrokerId>,
) -> PartitionRecord {
    PartitionRecord {
        topic_id,
        partition,
        isr: replicas.clone(),
        leader: replicas.first().copied(),
        replicas,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
    }
}
