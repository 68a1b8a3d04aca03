//! Which brokers hold a new partition, and in which of their log directories.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, DirectoryId, ErrorCode, LeaderEpoch, PartitionId, TopicId};

use super::ControllerError;
use crate::image::{Duty, MetadataImage};
use crate::record::PartitionRecord;

/// Replicas for some partitions of a topic, on brokers that serve.
///
/// Leaders go round the brokers, followers are the brokers after the leader; where the round
/// begins depends on the topic's id, so that topics of one partition spread too. Of the brokers after the
/// leader those come first whose rack has the fewest replicas of the partition yet (KIP-36).
pub(super) fn place_replicas(
    image: &MetadataImage,
    topic_id: TopicId,
    partitions: std::ops::Range<usize>,
    replication_factor: usize,
) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
    let ring = ring(image);
    if replication_factor > ring.len() {
        return Err(too_few_brokers(replication_factor, ring.len()));
    }
    let start = usize::from(topic_id.0.0[15]);
    let replicas_of = |partition: usize| {
        let mut order = ring.clone();
        order.rotate_left((start + partition) % ring.len());
        spread_over_racks(&order, replication_factor)
    };
    Ok(partitions.map(replicas_of).collect())
}

/// The brokers that serve and are to stay, with their racks, one of each rack in turn.
fn ring(image: &MetadataImage) -> Vec<(BrokerId, Option<&str>)> {
    let mut racks: BTreeMap<Option<&str>, Vec<BrokerId>> = BTreeMap::new();
    let is_meant = |id| image.is_active(id) && image.duty(id) != Duty::Leave;
    for broker in image.brokers().filter(|broker| is_meant(broker.id)) {
        racks.entry(broker.rack.as_deref()).or_default().push(broker.id);
    }
    let longest = racks.values().map(Vec::len).max().unwrap_or(0);
    let mut ring = Vec::new();
    for turn in 0..longest {
        for (rack, brokers) in &racks {
            ring.extend(brokers.get(turn).map(|id| (*id, *rack)));
        }
    }
    ring
}

/// The first broker, and then always the next one in a rack with the fewest so far.
fn spread_over_racks(order: &[(BrokerId, Option<&str>)], count: usize) -> Vec<BrokerId> {
    let mut chosen: Vec<(BrokerId, Option<&str>)> = Vec::with_capacity(count);
    while chosen.len() < count {
        let in_rack = |rack| chosen.iter().filter(|(_, other)| *other == rack).count();
        let free = order.iter().filter(|broker| !chosen.contains(broker));
        let Some(next) = free.min_by_key(|(_, rack)| in_rack(*rack)).copied() else { break };
        chosen.push(next);
    }
    chosen.into_iter().map(|(id, _)| id).collect()
}

fn too_few_brokers(replication_factor: usize, brokers: usize) -> ControllerError {
    let message = format!(
        "Replication factor {replication_factor} is larger than the number of brokers, {brokers}, that \
         serve and are to stay."
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

/// Checks the replicas that somebody chose for one new partition. As in Kafka, one of their brokers must serve: who is in sync
/// from the beginning is nobody else.
pub(super) fn check_new_replicas(
    image: &MetadataImage,
    partition: usize,
    replicas: &[BrokerId],
) -> Result<(), ControllerError> {
    check_replicas(image, partition, replicas)?;
    if replicas.iter().any(|broker| image.is_active(*broker)) {
        return Ok(());
    }
    let message = format!("Replicas of partition {partition}: none of their brokers serves now.");
    Err(ControllerError::new(ErrorCode::InvalidReplicaAssignment, message))
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

    /// The first state of a partition: all replicas on brokers that serve are in sync, and the first of
    /// them leads.
    pub(super) fn record(
        &mut self,
        topic_id: TopicId,
        partition: PartitionId,
        replicas: Vec<BrokerId>,
    ) -> PartitionRecord {
        let serving = replicas.iter().copied().filter(|id| self.image.is_active(*id));
        let serving: Vec<BrokerId> = serving.collect();
        let leader = serving.iter().find(|id| self.image.should_lead(**id));
        PartitionRecord {
            topic_id,
            partition,
            directories: replicas.iter().map(|broker| self.place(*broker)).collect(),
            leader: leader.or(serving.first()).copied(),
            isr: serving,
            eligible: Vec::new(),
            reassignment: None,
            replicas,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        }
    }

    pub(super) fn place(&mut self, broker: BrokerId) -> DirectoryId {
        let log_dirs = self.image.broker(broker).map_or(&[][..], |broker| &broker.log_dirs);
        let placed = |dir: &DirectoryId| self.placed.get(dir).copied().unwrap_or(0);
        let fewest = log_dirs.iter().min_by_key(|dir| self.image.replicas_in(**dir) + placed(dir));
        let Some(&directory) = fewest else { return DirectoryId::UNASSIGNED };
        *self.placed.entry(directory).or_default() += 1;
        directory
    }
}
