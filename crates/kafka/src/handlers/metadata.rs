//! Metadata: brokers, topics and partitions; creates topics that are asked for and do not exist.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use logway_metadata::TopicImage;
use logway_metadata::controller::{CreateTopics, NewTopic, is_reserved};
use logway_model::{ErrorCode, TopicId, TopicName, Uuid};
use logway_wire::WireString;
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use logway_wire::messages::{MetadataRequest, MetadataResponse};

use super::authorized_operations::NOT_ASKED;
use super::building::{ENTRY_WITH_MESSAGE_BYTES, PARTITION_BYTES, all_topics_bytes, with_all};
use super::cluster_view::{
    BrokerView, ClusterView, PartitionView, absence, is_internal, leader_number, numbers,
};
use super::mutation_quota::submit_within_quota;
use crate::request::{OverQuota, RequestContext};
use logway_log::random_uuid;
use logway_node::access::{Operation, Resource};
use logway_node::coordinator_topics::{new_offsets_topic, new_transactions_topic};
use logway_node::failure::Failure;
use logway_node::groups::OFFSETS_TOPIC;
use logway_node::transactions::TRANSACTIONS_TOPIC;

/// The ids that versions 10 and 11 have room for must not be used before this version.
const BY_TOPIC_ID_FROM: i16 = 12;

/// Every topic asked for, or all; one that does not exist may be created. However often a topic is
/// named, it is answered once, so there are no more partitions than there are in all.
pub(crate) fn built_bytes(context: &RequestContext, request: &MetadataRequest) -> usize {
    let sizes = context.sizes();
    let partitions = |asked: &MetadataRequestTopic| {
        sizes.partitions_of(asked.name.as_deref(), asked.topic_id).unwrap_or(0)
    };
    match &request.topics {
        Some(topics) if context.version > 0 || !topics.is_empty() => {
            let named_bytes = topics.len() * ENTRY_WITH_MESSAGE_BYTES;
            let partitions: usize = topics.iter().map(partitions).sum();
            with_all(context, named_bytes, partitions * PARTITION_BYTES)
        }
        _ => with_all(context, 0, all_topics_bytes(&sizes)),
    }
}

pub(crate) async fn handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse {
    let may_create = request.allow_auto_topic_creation && context.settings().auto_create_topics;
    let asked = match asked_topics(request.topics, context.version) {
        Ok(asked) => asked,
        Err(topics) => return MetadataResponse { topics, ..Default::default() },
    };
    let not_created = match &asked {
        Some(asked) if may_create => create_missing(&context, asked).await,
        _ => HashMap::new(),
    };

    let view = ClusterView::of(&context);
    let mut topics: Vec<MetadataResponseTopic> = match &asked {
        None => {
            let topics = view.topics_from(&context, "", Operation::Describe);
            let served = topics.filter_map(|topic| view.served(topic));
            served.map(|topic| existing_topic(&view, topic)).collect()
        }
        Some(asked) => {
            let told = asked.iter().map(|topic| asked_topic(&context, &view, topic, &not_created));
            told.collect()
        }
    };
    if request.include_topic_authorized_operations {
        // The operations on an unknown topic are known if its name is, as in Kafka.
        let refused = ErrorCode::TopicAuthorizationFailed.code();
        for topic in topics.iter_mut().filter(|topic| topic.error_code != refused) {
            let Some(name) = &topic.name else { continue };
            let operations = context.authorized_operations(Resource::Topic(name));
            topic.topic_authorized_operations = operations;
        }
    }
    MetadataResponse {
        brokers: view.brokers().map(broker).collect(),
        cluster_id: Some(context.cluster_id().to_string().into()),
        controller_id: leader_number(view.controller_id()),
        topics,
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => context.authorized_cluster_operations(),
            false => NOT_ASKED,
        },
        ..Default::default()
    }
}

/// The topics that are asked for, each once; `None` stands for all. The error is the answer to
/// a request that its version does not allow.
fn asked_topics(
    topics: Option<Vec<MetadataRequestTopic>>,
    version: i16,
) -> Result<Option<Vec<MetadataRequestTopic>>, Vec<MetadataResponseTopic>> {
    let Some(mut topics) = topics else { return Ok(None) };
    if version == 0 && topics.is_empty() {
        return Ok(None);
    }
    let needs_ids =
        |topic: &MetadataRequestTopic| topic.name.is_none() || !topic.topic_id.is_zero();
    if version < BY_TOPIC_ID_FROM && topics.iter().any(needs_ids) {
        return Err(topics.into_iter().map(refused_topic).collect());
    }
    let mut seen = HashSet::new();
    topics.retain(|topic| seen.insert((topic.name.clone(), topic.topic_id)));
    Ok(Some(topics))
}

/// The answer for each topic of a request that cannot be understood.
fn refused_topic(topic: MetadataRequestTopic) -> MetadataResponseTopic {
    // Before version 12 the answer must have a name.
    let name = topic.name.or_else(|| Some(WireString::new()));
    MetadataResponseTopic {
        topic_id: topic.topic_id,
        ..absent_topic(ErrorCode::InvalidRequest, name)
    }
}

/// How long the answer waits for topics that it creates; then the client is told to ask again.
const CREATION_TIME_MAX: Duration = Duration::from_secs(5);

/// Creates the topics that are asked for by name and do not exist, as far as the requester may. Returns why those that
/// still do not exist were not created.
async fn create_missing(
    context: &RequestContext,
    asked: &[MetadataRequestTopic],
) -> HashMap<WireString, ErrorCode> {
    let known = context.known_topics();
    let names = asked.iter().filter(|topic| topic.topic_id.is_zero());
    let names = names.filter_map(|topic| topic.name.clone());
    let missing = names.filter(|name| {
        let found = known.by_name(context, name, Operation::Describe);
        found.err() == Some(ErrorCode::UnknownTopicOrPartition)
    });
    let missing: Vec<WireString> = missing.collect();
    let first = missing.first();
    let grant = first.map(|_| context.topics_by_cluster(Operation::Create, Operation::Create));
    let may_create =
        |name: &WireString| grant.is_some_and(|grant| grant.check(context, name).is_ok());
    let (missing, refused): (Vec<_>, Vec<_>) = missing.into_iter().partition(may_create);
    let can_be = |name: &WireString| TopicName::new(name).is_ok() && !is_reserved(name);
    let missing: Vec<WireString> = missing.into_iter().filter(can_be).collect();
    drop(known);

    let partitions = u32::try_from(context.settings().num_partitions).unwrap_or(0);
    let topics = missing.iter().map(|name| match name.as_str() {
        // It is made once, and not for one client.
        OFFSETS_TOPIC => (Ok(new_offsets_topic(context.settings())), 0),
        TRANSACTIONS_TOPIC => (Ok(new_transactions_topic(context.settings())), 0),
        _ => (Ok(topic_of_defaults(name)), partitions),
    });
    let topics = topics.collect();
    let create = |topics| CreateTopics { topics, validate_only: false };
    let time_max = Some(CREATION_TIME_MAX);
    // A topic that the client's quota does not allow is as one that cannot be created yet.
    let over = OverQuota::RefusedAndWaits;
    let results = submit_within_quota(context, over, time_max, topics, create).await;
    let reasons = results.into_iter().map(|result| result.err().map(|failure| reason(&failure)));
    let failed = missing.into_iter().zip(reasons);
    let failed = failed.filter_map(|(name, reason)| Some((name, reason?)));
    let refused = refused.into_iter().map(|name| (name, ErrorCode::TopicAuthorizationFailed));
    failed.chain(refused).collect()
}

fn topic_of_defaults(name: &WireString) -> NewTopic {
    const DEFAULT: i16 = -1;
    NewTopic {
        name: name.to_string(),
        id: TopicId(random_uuid()),
        num_partitions: DEFAULT.into(),
        replication_factor: DEFAULT,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

/// What to tell a client whose topic was not created. Where another attempt may succeed, that is
/// the code by which clients have always been told that a topic is being created.
fn reason(failure: &Failure) -> ErrorCode {
    match failure.code {
        ErrorCode::TopicAlreadyExists => ErrorCode::LeaderNotAvailable,
        code if code.is_retriable() => ErrorCode::LeaderNotAvailable,
        code => code,
    }
}

fn asked_topic(
    context: &RequestContext,
    view: &ClusterView,
    asked: &MetadataRequestTopic,
    not_created: &HashMap<WireString, ErrorCode>,
) -> MetadataResponseTopic {
    let MetadataRequestTopic { name, topic_id, .. } = asked;
    let grant = Operation::Describe;
    match name {
        _ if !topic_id.is_zero() => {
            let known = view.by_id(context, TopicId(*topic_id), grant);
            let served =
                known.and_then(|topic| view.served(topic).ok_or(ErrorCode::UnknownTopicId));
            match served {
                Ok(topic) => existing_topic(view, topic),
                Err(code) => {
                    MetadataResponseTopic { topic_id: *topic_id, ..absent_topic(code, None) }
                }
            }
        }
        Some(name) => match view.by_name(context, name, grant).map(|topic| view.served(topic)) {
            Ok(Some(topic)) => existing_topic(view, topic),
            Err(code @ ErrorCode::TopicAuthorizationFailed) => MetadataResponseTopic {
                // Nothing is said of what is there.
                is_internal: false,
                ..absent_topic(code, Some(name.clone()))
            },
            Ok(None) | Err(_) => {
                let code = not_created.get(name).copied();
                absent_topic(code.unwrap_or_else(|| absence(name)), Some(name.clone()))
            }
        },
        None => absent_topic(ErrorCode::InvalidRequest, Some(WireString::new())),
    }
}

fn absent_topic(code: ErrorCode, name: Option<WireString>) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: code.code(),
        is_internal: name.as_deref().is_some_and(is_internal),
        name,
        topic_id: Uuid::ZERO,
        ..Default::default()
    }
}

fn existing_topic(view: &ClusterView, topic: &TopicImage) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(WireString::copy_of(topic.name.as_str())),
        topic_id: topic.id.0,
        is_internal: is_internal(topic.name.as_str()),
        partitions: view.partitions_from(topic, 0).map(partition).collect(),
        ..Default::default()
    }
}

fn partition(view: PartitionView<'_>) -> MetadataResponsePartition {
    let error = match view.leader {
        Some(_) => ErrorCode::None,
        None => ErrorCode::LeaderNotAvailable,
    };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index: view.id.0,
        leader_id: leader_number(view.leader),
        leader_epoch: view.image.leader_epoch.0,
        replica_nodes: numbers(&view.image.replicas),
        isr_nodes: numbers(&view.image.isr),
        offline_replicas: numbers(&view.offline_replicas),
        ..Default::default()
    }
}

fn broker(view: BrokerView<'_>) -> MetadataResponseBroker {
    MetadataResponseBroker {
        node_id: view.id.0,
        host: WireString::copy_of(&view.address.host),
        port: view.address.port.into(),
        rack: view.rack.map(WireString::copy_of),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_name(name: &'static str) -> MetadataRequestTopic {
        MetadataRequestTopic { name: Some(name.into()), ..Default::default() }
    }

    fn by_id(id: u8) -> MetadataRequestTopic {
        MetadataRequestTopic { name: None, topic_id: Uuid([id; 16]), ..Default::default() }
    }

    #[test]
    fn no_list_stands_for_all_topics_and_in_version_0_an_empty_one_too() {
        assert_eq!(asked_topics(None, 1), Ok(None));
        assert_eq!(asked_topics(Some(Vec::new()), 0), Ok(None));
        assert_eq!(asked_topics(Some(Vec::new()), 1), Ok(Some(Vec::new())));
    }

    #[test]
    fn a_topic_is_answered_once() {
        let asked = vec![by_name("a"), by_name("b"), by_name("a"), by_id(1), by_id(1)];
        let expected = vec![by_name("a"), by_name("b"), by_id(1)];
        assert_eq!(asked_topics(Some(asked), 12), Ok(Some(expected)));
    }

    #[test]
    fn ids_are_refused_by_the_versions_that_only_have_room_for_them() {
        let refused = asked_topics(Some(vec![by_name("a"), by_id(1)]), 11).expect_err("an id");
        let codes: Vec<i16> = refused.iter().map(|topic| topic.error_code).collect();
        assert_eq!(codes, [ErrorCode::InvalidRequest.code(); 2]);
        assert_eq!(refused[1].name, Some(WireString::new()));
    }

    #[test]
    fn a_failed_creation_that_may_succeed_later_is_asked_for_again() {
        let told = |code| reason(&Failure::new(code, ""));
        assert_eq!(told(ErrorCode::KafkaStorageError), ErrorCode::LeaderNotAvailable);
        assert_eq!(told(ErrorCode::TopicAlreadyExists), ErrorCode::LeaderNotAvailable);
        assert_eq!(told(ErrorCode::InvalidTopicException), ErrorCode::InvalidTopicException);
    }
}
