//! CreateTopics.

use std::collections::BTreeMap;

use logway_model::{BrokerId, ErrorCode, PartitionId, TopicId, TopicName};
use serde::{Deserialize, Serialize};

use super::config_change::check_topic_overrides;
use super::placement::{NewPartitions, check_new_replicas, place_replicas};
use super::{
    COMMAND_RECORDS_MAX, Command, ControllerError, Decision, duplicates, too_many_partitions,
    too_many_records, topic_asked_twice,
};
use crate::image::{MetadataImage, Overrides};
use crate::record::{ConfigRecord, ConfigResource, MetadataRecord, TopicRecord};
use crate::settings::BrokerSettings;

/// Creates topics, each by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// A topic to be created, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTopic {
    /// The name, not checked yet.
    pub name: String,
    /// A random id that no topic has had.
    pub id: TopicId,
    /// How many partitions; -1 is the default, and what a manual assignment requires.
    pub num_partitions: i32,
    /// How many replicas each; -1 is the default, and what a manual assignment requires.
    pub replication_factor: i16,
    /// The replicas by partition number, where they are assigned by hand; else empty.
    pub assignments: Vec<(i32, Vec<BrokerId>)>,
    /// Settings with their values, not checked yet.
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that now exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub id: TopicId,
    /// How many partitions it has.
    pub num_partitions: i32,
    /// How many replicas each.
    pub replication_factor: i16,
    /// The settings that it overrides; [`describe_topic`](crate::settings::describe_topic) makes
    /// all its settings of them.
    pub overrides: Overrides,
}

impl Command for CreateTopics {
    type Reply = Vec<Result<CreatedTopic, ControllerError>>;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let names_asked_twice = duplicates(self.topics.iter().map(|topic| &topic.name));
        let mut planned = image.clone();
        let mut records = Vec::new();
        let mut reply = Vec::with_capacity(self.topics.len());
        for topic in self.topics {
            if names_asked_twice.contains(&topic.name) {
                reply.push(Err(topic_asked_twice(&topic.name)));
                continue;
            }
            let records_left = COMMAND_RECORDS_MAX - records.len();
            reply.push(plan(topic, &planned, broker, records_left).and_then(|(made, created)| {
                planned = planned.apply(&made)?;
                records.extend(made);
                Ok(created)
            }));
        }
        if self.validate_only {
            records.clear();
        }
        Ok(Decision { records, reply })
    }
}

/// The records of one topic, and what to say of it.
pub(super) fn plan(
    topic: NewTopic,
    image: &MetadataImage,
    broker: &BrokerSettings,
    records_max: usize,
) -> Result<(Vec<MetadataRecord>, CreatedTopic), ControllerError> {
    let name = free_name(&topic.name, image)?;
    plan_named(topic, name.clone(), image, broker, records_max)
        .map_err(|error| error.of_topic(&name))
}

/// The records of a topic whose name can be had.
fn plan_named(
    topic: NewTopic,
    name: TopicName,
    image: &MetadataImage,
    broker: &BrokerSettings,
    records_max: usize,
) -> Result<(Vec<MetadataRecord>, CreatedTopic), ControllerError> {
    let overrides = check_topic_overrides(&topic.configs, image, broker)?;
    let replicas = match topic.assignments.is_empty() {
        true => placed(&topic, image, broker, records_max)?,
        false => assigned(&topic, image)?,
    };
    let overrides = with_safe_in_sync(overrides, replicas[0].len(), image, broker);
    if 1 + replicas.len() + overrides.len() > records_max {
        return Err(too_many_records(records_max));
    }
    let created = CreatedTopic {
        name: name.clone(),
        id: topic.id,
        num_partitions: i32::try_from(replicas.len()).expect("bounded by the records' number"),
        replication_factor: i16::try_from(replicas[0].len()).unwrap_or(i16::MAX),
        overrides: overrides.clone(),
    };
    Ok((topic_records(image, name, topic.id, replicas, overrides), created))
}

fn topic_records(
    image: &MetadataImage,
    name: TopicName,
    id: TopicId,
    replicas: Vec<Vec<BrokerId>>,
    overrides: Overrides,
) -> Vec<MetadataRecord> {
    let mut records = vec![MetadataRecord::Topic(TopicRecord { name: name.clone(), id })];
    let mut partitions = NewPartitions::new(image);
    records.extend((0..).zip(replicas).map(|(partition, replicas)| {
        MetadataRecord::Partition(partitions.record(id, PartitionId(partition), replicas))
    }));
    records.extend(overrides.into_iter().map(|(setting, value)| {
        MetadataRecord::Config(ConfigRecord {
            resource: ConfigResource::Topic(name.clone()),
            name: setting,
            value: Some(value),
        })
    }));
    records
}

/// Where Kafka keeps what is in the image here. It is a topic to no one, and nobody may make it one.
const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Whether nobody may create a topic of this name.
pub fn is_reserved(name: &str) -> bool {
    name == CLUSTER_METADATA_TOPIC
}

fn free_name(name: &str, image: &MetadataImage) -> Result<TopicName, ControllerError> {
    if is_reserved(name) {
        let message = format!("Topic '{name}' is reserved; nobody can create it.");
        return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
    }
    let name = TopicName::new(name).map_err(|error| {
        ControllerError::new(ErrorCode::InvalidTopicException, error.to_string())
    })?;
    if image.topic(name.as_str()).is_some() {
        let message = format!("Topic '{name}' already exists.");
        return Err(ControllerError::new(ErrorCode::TopicAlreadyExists, message));
    }
    if let Some(other) = image.colliding_topic(&name) {
        let message = format!(
            "Topic '{name}' collides with existing topic '{other}': '.' and '_' count as the same."
        );
        return Err(ControllerError::new(ErrorCode::InvalidTopicException, message));
    }
    Ok(name)
}

/// Replicas that the controller chooses.
fn placed(
    topic: &NewTopic,
    image: &MetadataImage,
    broker: &BrokerSettings,
    records_max: usize,
) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
    let partitions = match topic.num_partitions {
        -1 => broker.num_partitions,
        number if number > 0 => number,
        number => {
            let message = format!(
                "Number of partitions must be larger than 0, or -1 for the default; not {number}."
            );
            return Err(ControllerError::new(ErrorCode::InvalidPartitions, message));
        }
    };
    let replication_factor = match topic.replication_factor {
        -1 => default_replication_factor(image, broker),
        number if number > 0 => number,
        number => {
            let message = format!(
                "Replication factor must be larger than 0, or -1 for the default; not {number}."
            );
            return Err(ControllerError::new(ErrorCode::InvalidReplicationFactor, message));
        }
    };
    let partitions = usize::try_from(partitions).expect("it is positive");
    // One record is the topic's own.
    if partitions >= COMMAND_RECORDS_MAX {
        return Err(too_many_partitions(COMMAND_RECORDS_MAX - 1));
    }
    if partitions > records_max {
        return Err(too_many_records(records_max));
    }
    let replication_factor = usize::try_from(replication_factor).expect("it is positive");
    place_replicas(image, topic.id, 0..partitions, replication_factor)
}

/// How many replicas a topic gets by default: three, if there are so many brokers, because a topic with fewer loses what
/// was acknowledged with one disk or stops with one broker.
fn default_replication_factor(image: &MetadataImage, broker: &BrokerSettings) -> i16 {
    if broker.given(REPLICATION_FACTOR_SETTING).is_some() {
        return broker.default_replication_factor;
    }
    let serving = image.brokers().filter(|broker| image.is_active(broker.id)).count();
    if serving >= usize::from(SAFE_REPLICAS.unsigned_abs()) { SAFE_REPLICAS } else { 1 }
}

/// So many replicas keep what was acknowledged, and go on, when one is lost.
const SAFE_REPLICAS: i16 = 3;

/// `min.insync.replicas` of a topic with so many replicas, where nobody says otherwise.
const SAFE_IN_SYNC: &str = "2";

/// A topic that can lose a replica acknowledges nothing that only one replica has.
fn with_safe_in_sync(
    mut overrides: Overrides,
    replicas: usize,
    image: &MetadataImage,
    broker: &BrokerSettings,
) -> Overrides {
    let of_brokers = image.overrides(&ConfigResource::BrokerDefault);
    let is_said = broker.given(IN_SYNC_SETTING).is_some()
        || of_brokers.is_some_and(|set| set.contains_key(IN_SYNC_SETTING));
    if replicas >= usize::from(SAFE_REPLICAS.unsigned_abs()) && !is_said {
        overrides.entry(IN_SYNC_SETTING.to_owned()).or_insert_with(|| SAFE_IN_SYNC.to_owned());
    }
    overrides
}

const REPLICATION_FACTOR_SETTING: &str = "default.replication.factor";

const IN_SYNC_SETTING: &str = "min.insync.replicas";

/// Replicas that the request assigns.
fn assigned(
    topic: &NewTopic,
    image: &MetadataImage,
) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
    let refused = |code, message: String| Err(ControllerError::new(code, message));
    if topic.num_partitions != -1 {
        let message = "With replicas assigned by hand the number of partitions must be -1.";
        return refused(ErrorCode::InvalidRequest, message.to_owned());
    }
    if topic.replication_factor != -1 {
        let message = "With replicas assigned by hand the replication factor must be -1.";
        return refused(ErrorCode::InvalidRequest, message.to_owned());
    }
    let by_partition: BTreeMap<i32, &Vec<BrokerId>> =
        topic.assignments.iter().map(|(partition, replicas)| (*partition, replicas)).collect();
    let is_sequence = by_partition.keys().copied().eq((0..).take(topic.assignments.len()));
    if !is_sequence {
        let message = "Partitions assigned by hand must be numbered from 0 without gaps.";
        return refused(ErrorCode::InvalidReplicaAssignment, message.to_owned());
    }
    let replicas: Vec<Vec<BrokerId>> = by_partition.into_values().cloned().collect();
    for (partition, chosen) in replicas.iter().enumerate() {
        check_new_replicas(image, partition, chosen)?;
        check_replica_count(partition, chosen.len(), replicas[0].len())?;
    }
    Ok(replicas)
}

/// All partitions of a topic have the same number of replicas.
pub(super) fn check_replica_count(
    partition: usize,
    count: usize,
    expected: usize,
) -> Result<(), ControllerError> {
    if count == expected {
        return Ok(());
    }
    let message =
        format!("Partition {partition} has {count} replicas, others of the topic have {expected}.");
    Err(ControllerError::new(ErrorCode::InvalidReplicaAssignment, message))
}
