//! Creating, growing and deleting topics.

use logway_model::{TopicId, TopicName};
use logway_wire::WireString;
use logway_wire::messages::create_partitions_request::CreatePartitionsTopic;
use logway_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use logway_wire::messages::create_topics_response::CreatableTopicResult;
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::{CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest};

use super::{CHANGE_TIMEOUT_MS, TopicOutcomes};
use crate::error::check;
use crate::{Client, ClientError};

/// A topic to be created.
#[derive(Debug, Clone)]
pub struct NewTopic {
    /// The name.
    pub name: TopicName,
    /// How many partitions; `None` leaves it to the broker.
    pub partitions: Option<i32>,
    /// How many replicas of each; `None` leaves it to the broker.
    pub replication_factor: Option<i16>,
    /// Settings that differ from the broker's defaults.
    pub configs: Vec<(String, String)>,
}

/// A topic that has been created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Zero from brokers that know no topic ids.
    pub id: TopicId,
    /// How many partitions, if the broker tells.
    pub partitions: Option<i32>,
    /// How many replicas of each, if the broker tells.
    pub replication_factor: Option<i16>,
}

impl Client {
    /// Creates topics, or with `validate_only` says whether they could be created.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<TopicOutcomes<CreatedTopic>, ClientError> {
        let request = CreateTopicsRequest {
            topics: topics.iter().map(creatable).collect(),
            timeout_ms: CHANGE_TIMEOUT_MS,
            validate_only,
            ..CreateTopicsRequest::default()
        };
        let response = self
            .change(&request, |response| response.topics.iter().map(|t| t.error_code).collect())
            .await?;
        let results = response.topics.iter();
        Ok(outcomes(results.map(|topic| (Some(&topic.name), created(topic)))))
    }

    /// Deletes topics with all that they hold.
    pub async fn delete_topics(
        &self,
        names: &[TopicName],
    ) -> Result<TopicOutcomes<()>, ClientError> {
        // Version 6 replaced the list of names; the other field is left out at each version.
        let version = self.controller().await?.version_for::<DeleteTopicsRequest>(i16::MAX)?;
        let wire_names = names.iter().map(|name| WireString::copy_of(name.as_str()));
        let mut request =
            DeleteTopicsRequest { timeout_ms: CHANGE_TIMEOUT_MS, ..Default::default() };
        match version >= 6 {
            true => request.topics = wire_names.map(deletable).collect(),
            false => request.topic_names = wire_names.collect(),
        }
        let response = self
            .change(&request, |response| response.responses.iter().map(|t| t.error_code).collect())
            .await?;
        Ok(outcomes(response.responses.iter().map(|topic| {
            let name = topic.name.as_ref();
            let what = || format!("delete topic '{}'", name.map_or("", |name| name));
            (name, check(what, topic.error_code, topic.error_message.as_ref()))
        })))
    }

    /// Adds partitions until a topic has `partitions`.
    pub async fn create_partitions(
        &self,
        topic: &TopicName,
        partitions: i32,
    ) -> Result<(), ClientError> {
        let growing = CreatePartitionsTopic {
            name: WireString::copy_of(topic.as_str()),
            count: partitions,
            assignments: None,
            ..CreatePartitionsTopic::default()
        };
        let request = CreatePartitionsRequest {
            topics: vec![growing],
            timeout_ms: CHANGE_TIMEOUT_MS,
            ..CreatePartitionsRequest::default()
        };
        let response = self
            .change(&request, |response| response.results.iter().map(|t| t.error_code).collect())
            .await?;
        let what = || format!("give topic '{topic}' {partitions} partitions");
        response
            .results
            .iter()
            .try_for_each(|topic| check(what, topic.error_code, topic.error_message.as_ref()))
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let config = |(name, value): &(String, String)| CreatableTopicConfig {
        name: WireString::copy_of(name),
        value: Some(WireString::copy_of(value)),
        ..CreatableTopicConfig::default()
    };
    CreatableTopic {
        name: WireString::copy_of(topic.name.as_str()),
        num_partitions: topic.partitions.unwrap_or(-1),
        replication_factor: topic.replication_factor.unwrap_or(-1),
        configs: topic.configs.iter().map(config).collect(),
        ..CreatableTopic::default()
    }
}

fn created(topic: &CreatableTopicResult) -> Result<CreatedTopic, ClientError> {
    let what = || format!("create topic '{}'", topic.name);
    check(what, topic.error_code, topic.error_message.as_ref())?;
    Ok(CreatedTopic {
        id: TopicId(topic.topic_id),
        partitions: (topic.num_partitions >= 0).then_some(topic.num_partitions),
        replication_factor: (topic.replication_factor >= 0).then_some(topic.replication_factor),
    })
}

fn deletable(name: WireString) -> DeleteTopicState {
    DeleteTopicState { name: Some(name), ..DeleteTopicState::default() }
}

/// Pairs names with results; names that we cannot have asked for are left out.
fn outcomes<'a, T>(
    results: impl Iterator<Item = (Option<&'a WireString>, Result<T, ClientError>)>,
) -> TopicOutcomes<T> {
    results
        .filter_map(|(name, result)| Some((TopicName::new(name?.as_str()).ok()?, result)))
        .collect()
}
