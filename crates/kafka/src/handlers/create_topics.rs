//! CreateTopics.

use std::time::Duration;

use logway_coordinator::InternalTopic;
use logway_metadata::controller::{
    CreateTopics, CreatedTopic, NewTopic, is_reserved, topic_asked_twice,
};
use logway_metadata::settings::topic::TOPIC_SETTINGS;
use logway_metadata::settings::{ConfigEntry, describe_topic};
use logway_model::{BrokerId, ErrorCode, TopicId, Uuid};
use logway_wire::WireString;
use logway_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use logway_wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use logway_wire::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::batched_command::time_max;
use super::building::{ENTRY_WITH_MESSAGE_BYTES, SETTING_BYTES, with_all};
use super::mutation_quota::{Mutation, made_count, partition_count, submit_within_quota};
use super::repeats::{keep_first, repeated};
use crate::connection::UNCOUNTED_BYTES_MAX;
use crate::request::{OverQuota, RequestContext, Sizes, refusal};
use logway_log::random_uuid;
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;

/// Clients of older versions do not know `THROTTLING_QUOTA_EXCEEDED`.
const QUOTA_EXCEEDED_FROM: i16 = 6;

/// From this version on a topic is answered with all its settings (KIP-525).
const SETTINGS_FROM: i16 = 5;

/// What is told of a topic beside its settings.
const TOPIC_BYTES: usize = ENTRY_WITH_MESSAGE_BYTES;

/// Each topic is answered with its settings, as long as there is room.
pub(crate) fn built_bytes(context: &RequestContext, request: &CreateTopicsRequest) -> usize {
    let count = request.topics.len();
    let settings_bytes = if context.version < SETTINGS_FROM { 0 } else { settings_bytes() };
    with_all(context, count * TOPIC_BYTES, count * settings_bytes)
}

/// What the settings of one topic take.
fn settings_bytes() -> usize {
    TOPIC_SETTINGS.len() * SETTING_BYTES
}

/// Of how many topics the settings can be told, of so many that are answered.
fn described_max(context: &RequestContext, count: usize) -> usize {
    if context.version < SETTINGS_FROM {
        return 0;
    }
    let room_bytes = context.building.as_ref().map_or(UNCOUNTED_BYTES_MAX, |share| share.bytes());
    room_bytes.saturating_sub(count * TOPIC_BYTES) / settings_bytes()
}

/// A topic is ready when the answer says that it was created.
pub(crate) async fn handle(
    context: RequestContext,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let time_max = time_max(request.timeout_ms);
    let validate_only = request.validate_only;
    let new_topics = judge(&context, &request.topics);
    let create = |topics| CreateTopics { topics, validate_only };
    let over = OverQuota::at_version(context.version, QUOTA_EXCEEDED_FROM);
    let results = submit_within_quota(&context, over, time_max, new_topics, create).await;

    let mut described_left = described_max(&context, request.topics.len());
    let named = request.topics.into_iter().map(|topic| topic.name).zip(results);
    let mut topics: Vec<CreatableTopicResult> = Vec::with_capacity(named.len());
    for (name, result) in named {
        // A request about very many topics takes turns with others.
        tokio::task::coop::consume_budget().await;
        topics.push(match result {
            Ok(topic) => {
                let described = describe(&context, &topic, described_left > 0);
                described_left -= usize::from(described.is_ok());
                created(name, &topic, described)
            }
            Err(failure) => refused(name, failure),
        });
    }
    keep_first(&mut topics, |topic| topic.name.clone());
    CreateTopicsResponse { topics, ..Default::default() }
}

/// How long a member of a streams group waits for the topics that it misses. They are made all the same when it is over.
const INTERNAL_TIME_MAX: Duration = Duration::from_secs(1);

/// Makes topics that an application needs for itself, as if its member had asked for them. Those that could not be made come
/// back, but for those that are there by now.
pub(super) async fn create_internal(
    context: &RequestContext,
    topics: Vec<InternalTopic>,
) -> Vec<(WireString, Failure)> {
    let asked: Vec<CreatableTopic> = topics.into_iter().map(creatable).collect();
    let new_topics = judge(context, &asked);
    let create = |topics| CreateTopics { topics, validate_only: false };
    let time_max = Some(INTERNAL_TIME_MAX);
    // The status tells the member. Its connection goes on: others of its sessions may live by it.
    let over = OverQuota::Refused;
    let results = submit_within_quota(context, over, time_max, new_topics, create).await;
    let is_told = |failure: &Failure| {
        !matches!(failure.code, ErrorCode::TopicAlreadyExists | ErrorCode::RequestTimedOut)
    };
    let failures = asked.into_iter().zip(results);
    let failures = failures.filter_map(|(topic, result)| Some((topic.name, result.err()?)));
    failures.filter(|(_, failure)| is_told(failure)).collect()
}

fn creatable(topic: InternalTopic) -> CreatableTopic {
    let configs = topic.configs.into_iter().map(|(name, value)| CreatableTopicConfig {
        name,
        value: Some(value),
        ..Default::default()
    });
    CreatableTopic {
        name: topic.name,
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: configs.collect(),
        ..Default::default()
    }
}

/// The topics that the requester may create, with the partitions that they would get. As in Kafka, nobody
/// has to be judged for a topic that is there twice, and the controller refuses a name that cannot be used.
fn judge(context: &RequestContext, asked: &[CreatableTopic]) -> Vec<Mutation<NewTopic>> {
    let grant = context.topics_by_cluster(Operation::Create, Operation::Create);
    let asked_twice = repeated(asked.iter().map(|topic| topic.name.as_str()));
    let sizes = context.sizes();
    let judge = |topic: &CreatableTopic| {
        let name = topic.name.as_str();
        match grant.check(context, name) {
            _ if asked_twice.contains(name) => (Err(topic_asked_twice(name).into()), 0),
            Err(code) if !is_reserved(name) => (Err(refusal(code)), 0),
            _ => (Ok(new_topic(topic)), partitions(context, &sizes, topic)),
        }
    };
    asked.iter().map(judge).collect()
}

/// The settings of a new topic, if the requester may see them and there is room.
fn describe(
    context: &RequestContext,
    topic: &CreatedTopic,
    has_room: bool,
) -> Result<Vec<ConfigEntry>, ErrorCode> {
    let resource = Resource::Topic(topic.name.as_str());
    let image = context.metadata(Operation::DescribeConfigs, resource)?;
    match has_room {
        true => Ok(describe_topic(&topic.overrides, &image, context.settings())),
        false => Err(ErrorCode::PolicyViolation),
    }
}

fn new_topic(asked: &CreatableTopic) -> NewTopic {
    let assignments = asked.assignments.iter().map(|assignment| {
        let replicas = assignment.broker_ids.iter().copied().map(BrokerId);
        (assignment.partition_index, replicas.collect())
    });
    let configs = asked
        .configs
        .iter()
        .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)));
    NewTopic {
        name: asked.name.to_string(),
        id: TopicId(random_uuid()),
        num_partitions: asked.num_partitions,
        replication_factor: asked.replication_factor,
        assignments: assignments.collect(),
        configs: configs.collect(),
    }
}

/// How many partitions a topic would get.
fn partitions(context: &RequestContext, sizes: &Sizes, asked: &CreatableTopic) -> u32 {
    if sizes.partitions_of(Some(&asked.name), Uuid::ZERO).is_some() {
        return 0;
    }
    match (asked.assignments.len(), asked.num_partitions) {
        (0, -1) => made_count(context.settings().num_partitions.into()),
        (0, count) => made_count(count.into()),
        (assigned, _) => partition_count(assigned),
    }
}

/// Without `settings`, for which there is no room, or which are not for the requester, the answer says so; the topic is
/// made all the same.
fn created(
    name: WireString,
    topic: &CreatedTopic,
    settings: Result<Vec<ConfigEntry>, ErrorCode>,
) -> CreatableTopicResult {
    let told = CreatableTopicResult {
        name,
        topic_id: topic.id.0,
        error_message: None,
        topic_config_error_code: settings.as_ref().err().map_or(0, |code| code.code()),
        ..Default::default()
    };
    if matches!(settings, Err(ErrorCode::TopicAuthorizationFailed)) {
        return told;
    }
    CreatableTopicResult {
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        configs: settings.ok().map(|settings| settings.into_iter().map(config).collect()),
        ..told
    }
}

fn config(entry: ConfigEntry) -> CreatableTopicConfigs {
    CreatableTopicConfigs {
        name: entry.name.into(),
        value: entry.value.filter(|_| !entry.sensitive).map(WireString::from),
        read_only: entry.read_only,
        config_source: entry.source as i8,
        is_sensitive: entry.sensitive,
        ..Default::default()
    }
}

fn refused(name: WireString, failure: Failure) -> CreatableTopicResult {
    CreatableTopicResult {
        name,
        error_code: failure.code.code(),
        error_message: Some(failure.message.into()),
        ..Default::default()
    }
}
