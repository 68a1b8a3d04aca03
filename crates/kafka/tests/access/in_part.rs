//! Somebody who may do a part: each topic, group or resource is judged by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use logway_model::{ErrorCode, Uuid};
use logway_node::access::{Operation, Resource};
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use logway_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use logway_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeGroupsRequest,
    DescribeTopicPartitionsRequest, InitProducerIdRequest, ListGroupsRequest, MetadataRequest,
    OffsetDeleteRequest, OffsetFetchRequest,
};

use super::common::probe::Probe;
use super::common::*;
use super::{TOPIC, commit, have_committed};

/// A broker with topics `mine` and `theirs`, of which group `g` has committed offsets, and a requester with a policy.
async fn requester(
    broker: &TestBroker,
    allows: impl Fn(Operation, Resource<'_>) -> bool + Send + Sync + 'static,
) -> Probe {
    let connection = broker.connect().await;
    for topic in ["mine", "theirs"] {
        create_topic(&connection, topic, 1).await;
        have_committed(&connection, "g", topic).await;
    }
    Probe::start(broker, allows).await
}

/// Everything, but for other topics than `mine`.
fn only_mine(_operation: Operation, resource: Resource<'_>) -> bool {
    match resource {
        Resource::Topic(name) => name == "mine",
        Resource::Cluster => false,
        _ => true,
    }
}

#[tokio::test]
async fn a_producer_and_a_consumer_get_their_topics_beside_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let mut probe = requester(&broker, only_mine).await;

    let mut request = produce_request("mine", 0, batch(&["a"]));
    request.topic_data.extend(produce_request("theirs", 0, batch(&["b"])).topic_data);
    let (response, _) = probe.ask(&request, 12).await;
    let codes = |index: usize| response.responses[index].partition_responses[0].error_code;
    assert_eq!((codes(0), codes(1)), (0, TOPIC.code()));

    let mut request = fetch_request("mine", &[(0, 0)]);
    request.topics.extend(fetch_request("theirs", &[(0, 0)]).topics);
    let (response, _) = probe.ask(&request, 12).await;
    let told: Vec<_> = response.responses.iter().map(|topic| &topic.partitions[0]).collect();
    assert_eq!(values(told[0]).len(), 1);
    assert_eq!(told[1].error_code, TOPIC.code());
    // As for a topic that does not exist, the refusal is told with the answer that is due anyway: else who asks again
    // and again would do so as fast as the network allows.
    request.topics[0].partitions[0].fetch_offset = 1;
    request.max_wait_ms = 200;
    let begun = Instant::now();
    let (response, _) = probe.ask(&request, 12).await;
    assert_eq!(response.responses[1].partitions[0].error_code, TOPIC.code());
    assert!(begun.elapsed() >= Duration::from_millis(200));

    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let (response, _) = probe.ask(&request, 4).await;
    assert_eq!(response.error_code, 0, "who may write to any topic may be an idempotent producer");
    broker.stop().await;
}

#[tokio::test]
async fn who_loses_a_permission_while_a_fetch_waits_gets_no_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (reads, is_lost) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (count, lost) = (Arc::clone(&reads), Arc::clone(&is_lost));
    let probe = requester(&broker, move |operation, resource| {
        let is_read = (operation, resource) == (Operation::Read, Resource::Topic("mine"));
        count.fetch_add(usize::from(is_read), Ordering::SeqCst);
        !(is_read && lost.load(Ordering::SeqCst))
    })
    .await;
    let mut request = fetch_request("mine", &[(0, 0)]);
    request.max_wait_ms = 500;
    let waiting = probe.connection.send(&request, 12).await.expect("is sent");
    until(|| reads.load(Ordering::SeqCst) > 0).await;
    is_lost.store(true, Ordering::SeqCst);
    let producer = broker.connect().await;
    assert_eq!(produce(&producer, "mine", 0, batch(&["a"])).await.error_code, 0);
    let response = waiting.response().await.expect("is answered");
    let told = &response.responses[0].partitions[0];
    assert_eq!(told.error_code, TOPIC.code());
    assert!(reads.load(Ordering::SeqCst) > 1, "asked again when it was woken");
    broker.stop().await;
}

#[tokio::test]
async fn what_may_not_be_described_is_left_out_of_what_there_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let mut probe = requester(&broker, only_mine).await;

    let (response, _) = probe.ask(&metadata_request(), 12).await;
    let names: Vec<_> = response.topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
    assert_eq!(names, ["mine"]);
    let named =
        |name: &'static str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![named("mine"), named("theirs")]),
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 12).await;
    let told: Vec<_> = response
        .topics
        .iter()
        .map(|topic| {
            (topic.error_code, topic.topic_id != Uuid::ZERO, topic.topic_authorized_operations)
        })
        .collect();
    assert_eq!(told, [(0, true, 3_576), (TOPIC.code(), false, i32::MIN)]);

    let all = DescribeTopicPartitionsRequest { response_partition_limit: 9, ..Default::default() };
    let (response, _) = probe.ask(&all, 0).await;
    let names: Vec<_> = response.topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
    assert_eq!(names, ["mine"]);
    assert_eq!(response.topics[0].topic_authorized_operations, 3_576);
    broker.stop().await;
}

#[tokio::test]
async fn topics_are_made_by_those_who_may() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let mut probe = requester(&broker, |operation, resource| match resource {
        // Theirs may be seen, and mine may be made, but its settings are not shown.
        Resource::Topic("theirs") => operation == Operation::Describe,
        Resource::Topic(name) => name == "new-mine" && operation != Operation::DescribeConfigs,
        _ => false,
    })
    .await;
    let new = |name: &'static str| CreatableTopic {
        name: name.into(),
        num_partitions: 2,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![new("new-theirs"), new("new-mine")],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 7).await;
    assert_eq!(response.topics[0].error_code, TOPIC.code());
    let mine = &response.topics[1];
    assert_eq!((mine.error_code, mine.topic_config_error_code), (0, TOPIC.code()));
    assert_eq!((mine.num_partitions, mine.configs.as_deref()), (-1, Some(&[][..])));

    // Metadata makes what is missing, for those who may.
    let named =
        |name: &'static str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    broker.node().access.restrict(|_, operation, resource| {
        operation == Operation::Describe
            || matches!((operation, resource), (Operation::Create, Resource::Topic("made")))
    });
    let request = MetadataRequest {
        topics: Some(vec![named("made"), named("not-made"), named("not a name")]),
        allow_auto_topic_creation: true,
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 12).await;
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [0, TOPIC.code(), TOPIC.code()]);
    assert!(broker.node().image().topic("not-made").is_none());
    broker.stop().await;
}

#[tokio::test]
async fn who_may_describe_a_topic_learns_which_one_it_may_not_delete() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let mut probe = requester(&broker, |operation, resource| match resource {
        Resource::Topic("theirs") => operation == Operation::Describe,
        Resource::Topic(_) => true,
        _ => false,
    })
    .await;
    let id_of = |name: &str| broker.node().image().topic(name).expect("is there").id.0;
    let (mine, theirs) = (id_of("mine"), id_of("theirs"));
    let by_id = |topic_id| DeleteTopicState { name: None, topic_id, ..Default::default() };
    let by_name =
        |name: &'static str| DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let request = DeleteTopicsRequest {
        // Of what may not be deleted nothing is said that its two names would tell.
        topics: vec![by_id(theirs), by_name("theirs"), by_id(mine), by_name("absent")],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 6).await;
    let told: Vec<_> =
        response.responses.iter().map(|topic| (topic.name.as_deref(), topic.error_code)).collect();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(
        told,
        [
            (Some("theirs"), TOPIC.code()),
            (Some("theirs"), TOPIC.code()),
            (Some("mine"), 0),
            (Some("absent"), unknown),
        ]
    );
    broker.stop().await;
}

/// The offsets that a group is told to have, by topic, with the codes.
fn offsets(group: &OffsetFetchResponseGroup) -> Vec<(&str, i64, i16)> {
    let partition =
        |topic: &logway_wire::messages::offset_fetch_response::OffsetFetchResponseTopics| {
            (topic.partitions[0].committed_offset, topic.partitions[0].error_code)
        };
    let told = group.topics.iter().map(|topic| {
        let (offset, code) = partition(topic);
        (topic.name.as_str(), offset, code)
    });
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    told
}

#[tokio::test]
async fn offsets_are_those_of_topics_that_may_be_described() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let mut probe = requester(&broker, only_mine).await;
    let named = |name: &'static str| OffsetFetchRequestTopics {
        name: name.into(),
        partition_indexes: vec![0],
        ..Default::default()
    };
    let fetch = |topics| OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: "g".into(),
            topics,
            ..Default::default()
        }],
        ..Default::default()
    };
    let (response, _) = probe.ask(&fetch(Some(vec![named("mine"), named("theirs")])), 9).await;
    assert_eq!(offsets(&response.groups[0]), [("mine", 1, 0), ("theirs", -1, TOPIC.code())]);
    let (response, _) = probe.ask(&fetch(None), 9).await;
    assert_eq!(offsets(&response.groups[0]), [("mine", 1, 0)]);

    let mut request = commit("g", "mine");
    request.topics[0].partitions[0].committed_offset = 2;
    let theirs = OffsetCommitRequestTopic { name: "theirs".into(), ..request.topics[0].clone() };
    request.topics.push(theirs);
    let (response, _) = probe.ask(&request, 9).await;
    let codes: Vec<i16> = response.topics.iter().map(|t| t.partitions[0].error_code).collect();
    assert_eq!(codes, [0, TOPIC.code()]);

    let topic = |name: &'static str| OffsetDeleteRequestTopic {
        name: name.into(),
        partitions: vec![OffsetDeleteRequestPartition::default()],
        ..Default::default()
    };
    let request = OffsetDeleteRequest {
        group_id: "g".into(),
        topics: vec![topic("mine"), topic("theirs")],
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 0).await;
    let codes: Vec<i16> = response.topics.iter().map(|t| t.partitions[0].error_code).collect();
    assert_eq!((response.error_code, codes), (0, vec![0, TOPIC.code()]));

    broker.node().access.restrict(|_, _, _| true);
    let (response, _) = probe.ask(&fetch(None), 9).await;
    assert_eq!(offsets(&response.groups[0]), [("theirs", 1, 0)]);
    broker.stop().await;
}

#[tokio::test]
async fn fields_of_operations_come_from_the_policy() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let reads =
        |operation, _: Resource<'_>| matches!(operation, Operation::Read | Operation::Describe);
    let mut probe = requester(&broker, reads).await;
    let bits = Operation::Read.bit() | Operation::Describe.bit();
    let request = DescribeGroupsRequest {
        groups: vec!["g".into()],
        include_authorized_operations: true,
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 5).await;
    assert_eq!(response.groups[0].authorized_operations, bits);
    let request = DescribeClusterRequest {
        include_cluster_authorized_operations: true,
        endpoint_type: 1,
        ..Default::default()
    };
    let (response, _) = probe.ask(&request, 1).await;
    assert_eq!(response.cluster_authorized_operations, Operation::Describe.bit());
    // Who may describe the cluster sees every group, whether it may describe that or not.
    broker.node().access.restrict(|_, _, resource| resource == Resource::Cluster);
    let (response, _) = probe.ask(&ListGroupsRequest::default(), 4).await;
    assert_eq!(response.groups.len(), 1);
    broker.stop().await;
}
