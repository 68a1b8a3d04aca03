//! CreatePartitions.

use logway_model::{BrokerId, ErrorCode, PartitionId};
use serde::{Deserialize, Serialize};

use super::create_topics::check_replica_count;
use super::delete_topics::unknown_topic;
use super::placement::{NewPartitions, check_new_replicas, place_replicas};
use super::{
    COMMAND_RECORDS_MAX, Command, ControllerError, Decision, duplicates, too_many_partitions,
    too_many_records, topic_asked_twice,
};
use crate::image::{MetadataImage, TopicImage};
use crate::record::MetadataRecord;
use crate::settings::BrokerSettings;

/// Gives topics more partitions, each topic by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatePartitions {
    /// The topics.
    pub topics: Vec<PartitionsIncrease>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// A topic that is to have more partitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionsIncrease {
    /// The topic's name, not checked.
    pub name: String,
    /// How many partitions it is to have, those that it has included.
    pub count: i32,
    /// The replicas of each new partition, where they are assigned by hand.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

impl Command for CreatePartitions {
    /// For each topic, how many partitions it now has.
    type Reply = Vec<Result<i32, ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let names_asked_twice = duplicates(self.topics.iter().map(|topic| &topic.name));
        let mut records = Vec::new();
        let mut partitions = NewPartitions::new(image);
        let mut reply = Vec::with_capacity(self.topics.len());
        for topic in self.topics {
            if names_asked_twice.contains(&topic.name) {
                reply.push(Err(topic_asked_twice(&topic.name)));
                continue;
            }
            let count = topic.count;
            let records_left = COMMAND_RECORDS_MAX - records.len();
            reply.push(plan(topic, image, &mut partitions, records_left).map(|made| {
                records.extend(made);
                count
            }));
        }
        if self.validate_only {
            records.clear();
        }
        Ok(Decision { records, reply })
    }
}

fn plan(
    increase: PartitionsIncrease,
    image: &MetadataImage,
    partitions: &mut NewPartitions<'_>,
    records_max: usize,
) -> Result<Vec<MetadataRecord>, ControllerError> {
    let topic = image.topic(&increase.name).ok_or_else(|| unknown_topic(&increase.name))?;
    if topic.stream.is_some() {
        let message = format!(
            "Topic '{}' is a stream: it gets partitions by splitting and merging shards alone.",
            topic.name
        );
        return Err(ControllerError::new(ErrorCode::PolicyViolation, message));
    }
    let present = topic.partitions.len();
    let added = added_partitions(topic, increase.count)?;
    if added > COMMAND_RECORDS_MAX {
        return Err(too_many_partitions(COMMAND_RECORDS_MAX));
    }
    if added > records_max {
        return Err(too_many_records(records_max));
    }
    let replication_factor = topic.partitions.first().map_or(1, |first| first.target().len());
    let replicas = match increase.assignments {
        Some(assignments) => {
            check_assignments(image, topic, added, &assignments)?;
            assignments
        }
        None => place_replicas(image, topic.id, present..present + added, replication_factor)?,
    };
    let numbered = (topic.partition_count()..).map(PartitionId).zip(replicas);
    let record = |(partition, replicas)| {
        MetadataRecord::Partition(partitions.record(topic.id, partition, replicas))
    };
    Ok(numbered.map(record).collect())
}

fn added_partitions(topic: &TopicImage, count: i32) -> Result<usize, ControllerError> {
    let present = topic.partition_count();
    match usize::try_from(i64::from(count) - i64::from(present)) {
        Ok(added) if added > 0 => Ok(added),
        _ => {
            let message = format!(
                "Topic '{}' has {present} partitions already; it can only be given more, not {count}.",
                topic.name
            );
            Err(ControllerError::new(ErrorCode::InvalidPartitions, message))
        }
    }
}

fn check_assignments(
    image: &MetadataImage,
    topic: &TopicImage,
    added: usize,
    assignments: &[Vec<BrokerId>],
) -> Result<(), ControllerError> {
    if assignments.len() != added {
        let message = format!(
            "Topic '{}' is to get {added} more partitions, but replicas are assigned for {}.",
            topic.name,
            assignments.len()
        );
        return Err(ControllerError::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    let numbered = (topic.partitions.len()..).zip(assignments);
    for (partition, replicas) in numbered {
        check_new_replicas(image, partition, replicas)?;
        let expected = topic.partitions.first().map_or(replicas.len(), |p| p.target().len());
        check_replica_count(partition, replicas.len(), expected)?;
    }
    Ok(())
}
