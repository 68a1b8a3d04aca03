//! Admin requests answer in the time that they give, and what they began goes on.

mod common;

use std::time::Duration;

use common::*;
use logway_client::Connection;
use logway_model::ErrorCode;
use logway_wire::messages::create_partitions_request::CreatePartitionsTopic;
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::{CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

fn create(names: &[String], timeout_ms: i32) -> CreateTopicsRequest {
    let topic = |name: &String| CreatableTopic {
        name: name.clone().into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = names.iter().map(topic).collect();
    CreateTopicsRequest { topics, timeout_ms, ..Default::default() }
}

fn delete(name: &str, timeout_ms: i32) -> DeleteTopicsRequest {
    let name = Some(name.to_owned().into());
    let topics = vec![DeleteTopicState { name, ..Default::default() }];
    DeleteTopicsRequest { topics, timeout_ms, ..Default::default() }
}

async fn code_of_create(connection: &Connection, name: &str, timeout_ms: i32) -> i16 {
    let request = create(&[name.to_owned()], timeout_ms);
    connection.call(&request).await.expect("is answered").topics[0].error_code
}

/// Waits until a topic takes records, or does not.
async fn until_produced(connection: &Connection, topic: &str, partition: i32, code: ErrorCode) {
    let reached = async {
        while produce(connection, topic, partition, batch(&["x"])).await.error_code != code.code() {
        }
    };
    timeout(PATIENCE, reached).await.expect("in time");
}

#[tokio::test]
async fn work_without_time_is_begun_and_answered_as_not_done() {
    const TIMED_OUT: i16 = ErrorCode::RequestTimedOut as i16;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    for timeout_ms in [0, -1, i32::MIN] {
        assert_eq!(code_of_create(&connection, "t", timeout_ms).await, TIMED_OUT);
        until_produced(&connection, "t", 0, ErrorCode::None).await;

        let name = "t".into();
        let topic =
            CreatePartitionsTopic { name, count: 2, assignments: None, ..Default::default() };
        let topics = vec![topic];
        let grow = CreatePartitionsRequest { topics, timeout_ms, ..Default::default() };
        let response = connection.call(&grow).await.expect("is answered");
        assert_eq!(response.results[0].error_code, TIMED_OUT);
        until_produced(&connection, "t", 1, ErrorCode::None).await;

        let response = connection.call(&delete("t", timeout_ms)).await.expect("is answered");
        assert_eq!(response.responses[0].error_code, TIMED_OUT);
        until_produced(&connection, "t", 0, ErrorCode::UnknownTopicOrPartition).await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_about_very_many_topics_gives_others_their_turn() {
    const MANY: usize = 2_000;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (patient, other) = (broker.connect().await, broker.connect().await);
    let names: Vec<String> = (0..MANY).map(|number| format!("many-{number}")).collect();
    let waiting = patient.send(&create(&names, 600_000), 7).await.expect("is sent");
    // Its logs are being made as soon as the first one is there.
    until_produced(&other, "many-0", 0, ErrorCode::None).await;
    assert_eq!(code_of_create(&other, "one", 60_000).await, 0);
    let ready = async |name: &String| {
        produce(&other, name, 0, batch(&["x"])).await.error_code == ErrorCode::None.code()
    };
    assert!(ready(&"one".to_owned()).await, "a topic is ready when it is answered");
    assert!(!ready(names.last().expect("there are many")).await, "the others have come first");
    let response = waiting.response().await.expect("is answered");
    assert!(response.topics.iter().all(|topic| topic.error_code == 0));
    for name in [&names[0], &names[MANY - 1]] {
        assert!(ready(name).await, "{name}");
    }
    broker.stop().await;
}
