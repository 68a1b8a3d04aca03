//! The topic that groups and their offsets are kept in.

use std::sync::Arc;
use std::time::Duration;

use logway_coordinator::OFFSETS_TOPIC;
use logway_log::random_uuid;
use logway_metadata::controller::{CreateTopics, NewTopic};
use logway_metadata::settings::BrokerSettings;
use logway_model::{ErrorCode, TopicId};

use crate::Node;
use crate::failure::Failure;

/// Who asks for a coordinator is told to ask again if the topic is not made in this time.
const CREATION_TIME_MAX: Duration = Duration::from_secs(10);

/// The topic as it is made when it is first needed, with the settings that Kafka gives it.
pub fn new_offsets_topic(settings: &BrokerSettings) -> NewTopic {
    const DEFAULT_REPLICATION_FACTOR: i16 = -1;
    let config = |name: &str, value: String| (name.to_owned(), Some(value));
    NewTopic {
        name: OFFSETS_TOPIC.to_owned(),
        id: TopicId(random_uuid()),
        num_partitions: settings.groups.offsets_topic_partitions,
        replication_factor: DEFAULT_REPLICATION_FACTOR,
        assignments: Vec::new(),
        configs: vec![
            config("cleanup.policy", "compact".to_owned()),
            config("compression.type", "producer".to_owned()),
            config("segment.bytes", settings.groups.offsets_topic_segment_bytes.to_string()),
            // An acknowledged commit is on disk, whatever the broker's default for topics is.
            config("flush.messages", "1".to_owned()),
        ],
    }
}

/// Makes the topic if it is not there.
pub async fn ensure_offsets_topic(node: &Arc<Node>) -> Result<(), Failure> {
    if node.image().topic(OFFSETS_TOPIC).is_some() {
        return Ok(());
    }
    let topics = vec![new_offsets_topic(&node.settings)];
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
