//! Requests whose answers take far more memory than they do themselves share a budget for it.

mod common;

use std::time::Duration;

use common::*;
use logway_client::Connection;
use logway_model::ErrorCode;
use logway_wire::messages::alter_configs_request::AlterConfigsResource;
use logway_wire::messages::create_partitions_request::CreatePartitionsTopic;
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::create_topics_response::CreatableTopicResult;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_log_dirs_request::DescribableLogDirTopic;
use logway_wire::messages::describe_topic_partitions_request::TopicRequest;
use logway_wire::messages::incremental_alter_configs_request::AlterConfigsResource as Resource;
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, ListOffsetsRequest,
    MetadataRequest, OffsetForLeaderEpochRequest, ProduceRequest,
};
use logway_wire::{Request, WireString};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// Enough of anything for an answer that takes much.
const MANY: i32 = 1_000;

fn name(number: i32) -> WireString {
    format!("no-such-topic-{number}").into()
}

fn many<T>(make: impl Fn(i32) -> T) -> Vec<T> {
    (0..MANY).map(make).collect()
}

const TOPIC: i8 = 2;

fn topic(number: i32) -> CreatableTopic {
    CreatableTopic {
        name: name(number),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    }
}

/// Creates so many, and returns what is told of them.
async fn create_topics(connection: &Connection, count: i32) -> Vec<CreatableTopicResult> {
    let topics = (0..count).map(topic).collect();
    let create = CreateTopicsRequest { topics, timeout_ms: 60_000, ..Default::default() };
    let created = connection.call(&create).await.expect("is answered").topics;
    assert!(created.iter().all(|topic| topic.error_code == 0), "{created:?}");
    created
}

/// What asks for the settings of a resource.
fn resource(resource_type: i8, resource_name: WireString) -> DescribeConfigsResource {
    DescribeConfigsResource { resource_type, resource_name, ..Default::default() }
}

/// So many that a fetch of them takes most of the least memory there can be for answers.
const FETCHED: i32 = 600;

/// Sends a request while all memory for building answers is taken; it is answered when that comes
/// back, and small requests of others are answered all the time.
async fn waits_for_memory<R: Request>(broker: &TestBroker, request: R, version: i16) {
    let api = R::API_KEY.name();
    let building = &broker.node().memory.building;
    let (large, small) = (broker.connect().await, broker.connect().await);
    let all = building.try_take(building.limit_bytes()).expect("nothing is being built");
    let waiting = large.send(&request, version).await.expect("is sent");
    until(|| building.is_contended()).await;
    timeout(PATIENCE, small_request(&small)).await.expect("in time");
    drop(all);
    let answer = timeout(PATIENCE, waiting.response()).await;
    answer.unwrap_or_else(|_| panic!("{api} is answered")).expect("and its connection lives");
    until(|| building.used_bytes() == 0).await;
}

async fn small_request(connection: &Connection) {
    let answer = produce(connection, "t", 0, batch(&["small"])).await;
    assert_eq!(answer.error_code, 0);
}

#[tokio::test]
async fn every_request_with_a_large_answer_waits_until_there_is_memory_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    create_topic(&broker.connect().await, "t", MANY).await;

    let metadata = MetadataRequest {
        topics: Some(many(|number| MetadataRequestTopic {
            name: Some(name(number)),
            ..Default::default()
        })),
        ..Default::default()
    };
    waits_for_memory(&broker, metadata, 12).await;
    waits_for_memory(&broker, metadata_request(), 12).await;

    let create = CreateTopicsRequest {
        topics: many(topic),
        timeout_ms: 60_000,
        validate_only: true,
        ..Default::default()
    };
    waits_for_memory(&broker, create, 7).await;

    let topics = many(|number| DeleteTopicState { name: Some(name(number)), ..Default::default() });
    let delete = DeleteTopicsRequest { topics, timeout_ms: 60_000, ..Default::default() };
    waits_for_memory(&broker, delete, 6).await;

    let topics =
        many(|number| CreatePartitionsTopic { name: name(number), count: 2, ..Default::default() });
    let grow = CreatePartitionsRequest { topics, timeout_ms: 60_000, ..Default::default() };
    waits_for_memory(&broker, grow, 3).await;

    let resources = many(|number| resource(TOPIC, name(number)));
    let describe = DescribeConfigsRequest { resources, ..Default::default() };
    waits_for_memory(&broker, describe, 4).await;

    let resources = many(|number| AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: name(number),
        ..Default::default()
    });
    waits_for_memory(&broker, AlterConfigsRequest { resources, ..Default::default() }, 2).await;

    let resources = many(|number| Resource {
        resource_type: TOPIC,
        resource_name: name(number),
        ..Default::default()
    });
    let alter = IncrementalAlterConfigsRequest { resources, ..Default::default() };
    waits_for_memory(&broker, alter, 1).await;

    let topics = many(|number| TopicRequest { name: name(number), ..Default::default() });
    let describe = DescribeTopicPartitionsRequest { topics, ..Default::default() };
    waits_for_memory(&broker, describe, 0).await;
    broker.stop().await;
}

#[tokio::test]
async fn every_request_about_very_many_partitions_waits_until_there_is_memory_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    create_topic(&broker.connect().await, "t", MANY).await;

    let partitions = many(|partition_index| ListOffsetsPartition {
        partition_index,
        timestamp: -1,
        ..Default::default()
    });
    let topic = ListOffsetsTopic { name: "t".into(), partitions, ..Default::default() };
    let list = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
    waits_for_memory(&broker, list, 7).await;

    let partitions = many(|partition_index| DeleteRecordsPartition {
        partition_index,
        offset: 0,
        ..Default::default()
    });
    let topic = DeleteRecordsTopic { name: "t".into(), partitions, ..Default::default() };
    let delete =
        DeleteRecordsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
    waits_for_memory(&broker, delete, 2).await;

    let partitions = many(|partition| OffsetForLeaderPartition { partition, ..Default::default() });
    let topic = OffsetForLeaderTopic { topic: "t".into(), partitions, ..Default::default() };
    let epochs = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
    waits_for_memory(&broker, epochs, 4).await;

    let all = DescribeLogDirsRequest { topics: None, ..Default::default() };
    waits_for_memory(&broker, all, 4).await;
    let topic = DescribableLogDirTopic {
        topic: "t".into(),
        partitions: many(|number| number),
        ..Default::default()
    };
    let dirs = DescribeLogDirsRequest { topics: Some(vec![topic]), ..Default::default() };
    waits_for_memory(&broker, dirs, 4).await;

    let partition_data = many(|index| PartitionProduceData { index, ..Default::default() });
    let topic = TopicProduceData { name: "t".into(), partition_data, ..Default::default() };
    let empty = ProduceRequest { acks: -1, topic_data: vec![topic], ..Default::default() };
    waits_for_memory(&broker, empty, 12).await;

    let places: Vec<(i32, i64)> = (0..MANY).map(|partition| (partition, 0)).collect();
    let mut fetch = fetch_request("t", &places);
    waits_for_memory(&broker, fetch.clone(), 12).await;

    // A session makes large fetches of small requests.
    fetch.session_epoch = 0;
    let session_id = fetch_with(&broker.connect().await, &fetch).await.session_id;
    assert_ne!(session_id, 0);
    let next = logway_wire::messages::FetchRequest {
        session_id,
        session_epoch: 1,
        topics: Vec::new(),
        ..fetch
    };
    waits_for_memory(&broker, next, 12).await;
    broker.stop().await;
}

#[tokio::test]
async fn a_fetch_that_waits_for_records_gives_its_memory_to_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("queued.max.request.bytes", "1048576")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let (consumer, other) = (broker.connect().await, broker.connect().await);
    create_topic(&other, "t", FETCHED).await;
    let places: Vec<(i32, i64)> = (0..FETCHED).map(|partition| (partition, 0)).collect();
    let mut fetch = fetch_request("t", &places);
    fetch.max_wait_ms = i32::MAX;
    let waiting = consumer.send(&fetch, 12).await.expect("is sent");
    until(|| broker.node().memory.building.used_bytes() > 0).await;
    let metadata = timeout(PATIENCE, other.call(&metadata_request())).await.expect("in time");
    assert_eq!(metadata.expect("is answered").topics.len(), 1);
    timeout(PATIENCE, waiting.response()).await.expect("in time").expect("is answered early");
    broker.stop().await;
}

#[tokio::test]
async fn a_connection_that_waits_for_memory_lets_go_of_what_it_holds_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("queued.max.request.bytes", "1048576")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", FETCHED).await;
    let places: Vec<(i32, i64)> = (0..FETCHED).map(|partition| (partition, 0)).collect();
    let mut fetch = fetch_request("t", &places);
    fetch.max_wait_ms = i32::MAX;
    let waiting = connection.send(&fetch, 12).await.expect("is sent");
    let behind = connection.send(&metadata_request(), 12).await.expect("is sent");
    timeout(PATIENCE, waiting.response()).await.expect("in time").expect("is answered early");
    timeout(PATIENCE, behind.response()).await.expect("in time").expect("is answered");
    broker.stop().await;
}

#[tokio::test]
async fn who_waits_for_the_memory_for_an_answer_keeps_that_of_requests_from_nobody_for_long() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("queued.max.request.bytes", "1048576")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let (building, memory) = (&broker.node().memory.building, &broker.node().memory.requests);
    let all = building.try_take(building.limit_bytes()).expect("nothing is being built");
    // A request that is large itself.
    let topics = many(|number| MetadataRequestTopic {
        name: Some(name(number)),
        ..MetadataRequestTopic::default()
    });
    let request = MetadataRequest { topics: Some(topics[..300].to_vec()), ..Default::default() };
    let waiting = broker.connect().await.send(&request, 9).await.expect("is sent");
    until(|| building.is_contended()).await;
    let rest = timeout(PATIENCE, memory.take_large(memory.limit_bytes())).await;
    drop(rest.expect("the request that waits gives up"));
    assert!(waiting.response().await.is_err(), "its connection has ended");
    drop(all);
    broker.stop().await;
}

#[tokio::test]
async fn a_request_whose_answer_could_take_more_than_all_memory_for_answers_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("queued.max.request.bytes", "1048576")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2_000).await;
    let named = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
    let request = MetadataRequest { topics: Some(many(|n| named(name(n)))), ..Default::default() };
    let answer = broker.connect().await.send(&request, 9).await.expect("is sent").response();
    let answer = timeout(PATIENCE, answer).await.expect("in time");
    assert!(answer.is_err(), "its connection has ended");
    // What there is of everything can be had, however much it is, also by name.
    let by_name = MetadataRequest { topics: Some(vec![named("t".into())]), ..Default::default() };
    for request in [metadata_request(), by_name] {
        let topics = timeout(PATIENCE, connection.call(&request)).await.expect("in time");
        assert_eq!(topics.expect("is answered").topics[0].partitions.len(), 2_000);
    }
    broker.stop().await;
}

/// The least memory for answers that there can be is a 128th of the default.
const MANY_TOPICS: i32 = 6_000 / 128 + 1;

#[tokio::test]
async fn the_settings_of_thousands_of_topics_are_one_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("queued.max.request.bytes", "1048576")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topics(&connection, MANY_TOPICS).await;

    for (include_synonyms, include_documentation) in [(false, false), (true, false), (true, true)] {
        let request = DescribeConfigsRequest {
            resources: (0..MANY_TOPICS).map(|number| resource(TOPIC, name(number))).collect(),
            include_synonyms,
            include_documentation,
            ..Default::default()
        };
        for version in [3, 4] {
            let pending = connection.send(&request, version).await.expect("is sent");
            let results = pending.response().await.expect("is answered").results;
            assert_eq!(results.len(), MANY_TOPICS as usize);
            for (number, result) in (0..).zip(results) {
                assert_eq!(result.error_code, 0, "{:?}", result.error_message);
                assert_eq!(result.resource_name, name(number));
                let retention = result.configs.iter().find(|config| config.name == "retention.ms");
                let retention = retention.expect("is told");
                assert_eq!(retention.value.as_deref(), Some("604800000"));
                assert_eq!(retention.synonyms.is_empty(), !include_synonyms);
            }
        }
    }
    until(|| broker.node().memory.building.used_bytes() == 0).await;
    broker.stop().await;
}

#[tokio::test]
async fn a_large_answer_for_which_replies_leave_no_room_keeps_what_it_was_made_with() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    // Groups have settings whether there are such groups or not.
    const GROUP: i8 = 32;
    let resources = many(|number| resource(GROUP, name(number)));
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let (building, replies) = (&broker.node().memory.building, &broker.node().memory.replies);
    let _all = replies.try_take(replies.limit_bytes()).expect("there are no large replies");
    let answer = timeout(PATIENCE, connection.call(&request)).await.expect("in time");
    assert_eq!(answer.expect("is answered").results.len(), MANY as usize);
    until(|| building.used_bytes() == 0).await;
    broker.stop().await;
}

#[tokio::test]
async fn settings_for_which_there_is_no_room_are_refused_by_themselves() {
    const TOPICS: i32 = 200;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("queued.max.request.bytes", "1048576")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    let policy_violation = ErrorCode::PolicyViolation.code();
    let created = create_topics(&connection, TOPICS).await;
    let (told, untold): (Vec<_>, Vec<_>) =
        created.iter().partition(|topic| topic.topic_config_error_code == 0);
    assert!(told.iter().all(|topic| topic.configs.as_ref().is_some_and(|all| all.len() > 30)));
    let is_untold = |code| code == policy_violation;
    assert!(untold.iter().all(|topic| is_untold(topic.topic_config_error_code)));
    assert!(!told.is_empty() && !untold.is_empty(), "{} {}", told.len(), untold.len());

    let resources = (0..TOPICS).map(|number| resource(TOPIC, name(number)));
    let request = DescribeConfigsRequest {
        resources: resources.collect(),
        include_synonyms: true,
        include_documentation: true,
        ..Default::default()
    };
    let results = connection.call(&request).await.expect("is answered").results;
    assert_eq!(results.len(), TOPICS as usize);
    let (told, refused): (Vec<_>, Vec<_>) =
        results.iter().partition(|result| result.error_code == 0);
    assert!(
        told.len() > 20 && told.iter().all(|result| result.configs.len() > 30),
        "{}",
        told.len()
    );
    for result in &refused {
        assert_eq!((result.error_code, result.configs.len()), (policy_violation, 0));
        let message = result.error_message.as_deref().expect("says why");
        assert!(message.contains("524288 bytes (half of queued.max.request.bytes)"), "{message}");
    }
    // A part of them can be had.
    let again = refused.iter().take(told.len());
    let again = again.map(|result| resource(TOPIC, result.resource_name.clone()));
    let request = DescribeConfigsRequest { resources: again.collect(), ..request };
    let results = connection.call(&request).await.expect("is answered").results;
    assert!(results.iter().all(|result| result.error_code == 0));
    broker.stop().await;
}
