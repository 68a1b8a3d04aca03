//! The topics that coordinators keep their state in.

use std::sync::Arc;
use std::time::Duration;

use logway_coordinator::OFFSETS_TOPIC;
use logway_coordinator::transactions::TRANSACTIONS_TOPIC;
use logway_log::random_uuid;
use logway_metadata::controller::{CreateTopics, NewTopic};
use logway_metadata::settings::BrokerSettings;
use logway_model::{ErrorCode, TopicId};

use crate::Node;
use crate::failure::Failure;

/// Who asks for a coordinator is told to ask again if the topic is not made in this time.
const CREATION_TIME_MAX: Duration = Duration::from_secs(10);

/// The topic of groups and their offsets, as it is made when it is first needed.
pub fn new_offsets_topic(settings: &BrokerSettings) -> NewTopic {
    let groups = &settings.groups;
    let partitions = groups.offsets_topic_partitions;
    let segment_bytes = groups.offsets_topic_segment_bytes;
    new_topic(OFFSETS_TOPIC, partitions, groups.offsets_topic_replicas, segment_bytes)
}

/// The topic of transactional ids, as it is made when it is first needed.
pub fn new_transactions_topic(settings: &BrokerSettings) -> NewTopic {
    let transactions = &settings.transactions;
    let (partitions, replicas) = (transactions.topic_partitions, transactions.topic_replicas);
    let segment_bytes = transactions.topic_segment_bytes;
    let mut topic = new_topic(TRANSACTIONS_TOPIC, partitions, replicas, segment_bytes);
    let in_sync_min = transactions.topic_in_sync_min;
    topic.configs.extend(in_sync_min.map(|min| config("min.insync.replicas", min.to_string())));
    topic
}

/// With the settings that Kafka gives it.
fn new_topic(
    name: &str,
    num_partitions: i32,
    replicas: Option<i16>,
    segment_bytes: i32,
) -> NewTopic {
    const DEFAULT_REPLICATION_FACTOR: i16 = -1;
    NewTopic {
        name: name.to_owned(),
        id: TopicId(random_uuid()),
        num_partitions,
        replication_factor: replicas.unwrap_or(DEFAULT_REPLICATION_FACTOR),
        assignments: Vec::new(),
        configs: vec![
            config("cleanup.policy", "compact".to_owned()),
            config("compression.type", "producer".to_owned()),
            config("segment.bytes", segment_bytes.to_string()),
            // What a coordinator has told is on disk, whatever the broker's default for topics is.
            config("flush.messages", "1".to_owned()),
        ],
    }
}

fn config(name: &str, value: String) -> (String, Option<String>) {
    (name.to_owned(), Some(value))
}

/// Makes the topic of groups if it is not there.
pub async fn ensure_offsets_topic(node: &Arc<Node>) -> Result<(), Failure> {
    ensure(node, OFFSETS_TOPIC, new_offsets_topic).await
}

/// Makes the topic of transactional ids if it is not there.
pub async fn ensure_transactions_topic(node: &Arc<Node>) -> Result<(), Failure> {
    ensure(node, TRANSACTIONS_TOPIC, new_transactions_topic).await
}

async fn ensure(
    node: &Arc<Node>,
    name: &str,
    new: impl FnOnce(&BrokerSettings) -> NewTopic,
) -> Result<(), Failure> {
    if node.image().topic(name).is_some() {
        return Ok(());
    }
    let topics = vec![new(&node.settings)];
    let create = CreateTopics { topics, validate_only: false };
    let results = node.submit(create, Some(CREATION_TIME_MAX), None).await?;
    for result in results {
        match result {
            Ok(_) => {}
            // Somebody else was faster.
            Err(refusal) if refusal.code == ErrorCode::TopicAlreadyExists => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[(&str, &str)]) -> BrokerSettings {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        BrokerSettings::new(given).expect("are settings")
    }

    #[test]
    fn replicas_are_those_that_are_said_for_the_topic() {
        let said = settings(&[
            ("offsets.topic.replication.factor", "2"),
            ("transaction.state.log.replication.factor", "4"),
            ("transaction.state.log.min.isr", "3"),
        ]);
        assert_eq!(new_offsets_topic(&said).replication_factor, 2);
        let transactions = new_transactions_topic(&said);
        assert_eq!(transactions.replication_factor, 4);
        assert!(transactions.configs.contains(&config("min.insync.replicas", "3".to_owned())));
    }

    #[test]
    fn replicas_are_those_of_any_topic_where_nobody_says() {
        for topic in [new_offsets_topic, new_transactions_topic] {
            let topic = topic(&settings(&[]));
            assert_eq!(topic.replication_factor, -1);
            assert!(topic.configs.iter().all(|(name, _)| name != "min.insync.replicas"));
        }
    }
}
