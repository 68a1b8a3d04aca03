//! What ends the wait of a fetch, and what a client is told of topics that are gone.

mod common;

use std::time::{Duration, Instant};

use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, Uuid};
use logway_wire::WireString;
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::{FetchRequest, FetchResponse, MetadataRequest};

const WAIT: Duration = Duration::from_millis(300);
const BY_ID: i16 = 17;

fn waiting_for(topics: Vec<FetchTopic>) -> FetchRequest {
    FetchRequest {
        max_wait_ms: i32::try_from(WAIT.as_millis()).expect("is short"),
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics,
        ..Default::default()
    }
}

fn wish(topic: &str, topic_id: Uuid, partition: i32, fetch_offset: i64) -> FetchTopic {
    let wanted = FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let (topic, partitions) = (WireString::copy_of(topic), vec![wanted]);
    FetchTopic { topic, topic_id, partitions, ..Default::default() }
}

async fn fetch_at(
    connection: &Connection,
    version: i16,
    request: &FetchRequest,
) -> (Duration, FetchResponse) {
    let started = Instant::now();
    let pending = connection.send(request, version).await.expect("is sent");
    let response = pending.response().await.expect("is answered");
    (started.elapsed(), response)
}

fn codes(response: &FetchResponse) -> Vec<ErrorCode> {
    assert_eq!(response.error_code, 0);
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let codes = partitions.map(|data| ErrorCode::from_code(data.error_code).expect("is known"));
    codes.collect()
}

async fn id_of(connection: &Connection, topic: &str) -> Uuid {
    let name = Some(WireString::copy_of(topic));
    let topics = Some(vec![MetadataRequestTopic { name, ..Default::default() }]);
    let request = MetadataRequest { topics, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    response.topics[0].topic_id
}

#[tokio::test]
async fn a_topic_that_does_not_exist_ends_no_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "idle", 1).await;
    let idle = id_of(&connection, "idle").await;
    let (unknown, zero) = (Uuid([9; 16]), Uuid::ZERO);
    for (version, other, code) in [
        (11, wish("absent", zero, 0, 0), ErrorCode::UnknownTopicOrPartition),
        (11, wish("idle", zero, 7, 0), ErrorCode::UnknownTopicOrPartition),
        (13, wish("", unknown, 0, 0), ErrorCode::UnknownTopicId),
        (17, wish("", zero, 0, 0), ErrorCode::UnknownTopicId),
        (17, wish("", idle, 7, 0), ErrorCode::UnknownTopicOrPartition),
    ] {
        let there = match version < 13 {
            true => wish("idle", zero, 0, 0),
            false => wish("", idle, 0, 0),
        };
        let both = waiting_for(vec![there, other.clone()]);
        let (elapsed, response) = fetch_at(&connection, version, &both).await;
        assert_eq!(codes(&response), [ErrorCode::None, code], "version {version}");
        assert!(elapsed >= WAIT, "version {version}, {code:?}: {elapsed:?}");

        // There is nothing to wait for.
        let mut alone = waiting_for(vec![other]);
        alone.max_wait_ms = 60_000;
        let (elapsed, response) = fetch_at(&connection, version, &alone).await;
        assert_eq!(codes(&response), [code], "version {version}");
        assert!(elapsed < Duration::from_secs(30), "{elapsed:?}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn an_error_of_reading_ends_a_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    let mut wrong_epoch = wish("t", Uuid::ZERO, 1, 0);
    wrong_epoch.partitions[0].current_leader_epoch = 7;
    for (other, code) in [
        (wish("t", Uuid::ZERO, 1, 5), ErrorCode::OffsetOutOfRange),
        (wrong_epoch, ErrorCode::UnknownLeaderEpoch),
    ] {
        let mut request = waiting_for(vec![wish("t", Uuid::ZERO, 0, 0), other]);
        request.max_wait_ms = 60_000;
        let (elapsed, response) = fetch_at(&connection, 12, &request).await;
        assert_eq!(codes(&response), [ErrorCode::None, code]);
        assert!(elapsed < Duration::from_secs(30), "{code:?}: {elapsed:?}");
    }
    broker.stop().await;
}

/// A session that reads an idle topic and one that is deleted and made anew: what it is told, and
/// whether at once.
#[tokio::test]
async fn a_session_learns_once_that_a_topic_is_gone_and_knows_another_one_by_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    for version in [12, BY_ID] {
        let (connection, other) = (broker.connect().await, broker.connect().await);
        let (idle, gone) = (format!("idle-{version}"), format!("gone-{version}"));
        let mut wishes = Vec::new();
        for topic in [&idle, &gone] {
            create_topic(&connection, topic, 1).await;
            wishes.push(match version {
                BY_ID => wish("", id_of(&connection, topic).await, 0, 0),
                _ => wish(topic, Uuid::ZERO, 0, 0),
            });
        }
        let mut request = waiting_for(wishes);
        request.session_epoch = 0;
        let (elapsed, response) = fetch_at(&connection, version, &request).await;
        assert_eq!(codes(&response), [ErrorCode::None; 2]);
        assert!(elapsed >= WAIT, "{elapsed:?}");
        (request.session_id, request.topics) = (response.session_id, Vec::new());
        let mut next = async |max_wait_ms: i32| {
            request.session_epoch += 1;
            request.max_wait_ms = max_wait_ms;
            let (elapsed, response) = fetch_at(&connection, version, &request).await;
            (elapsed, codes(&response))
        };

        // The wait is under way, or it is not yet: either is told at once, or with the next one.
        let deleted = async { delete_topic(&other, &gone).await };
        let ((elapsed, told), ()) = tokio::join!(next(60_000), deleted);
        assert_eq!(told, [ErrorCode::UnknownTopicOrPartition], "version {version}");
        assert!(elapsed < Duration::from_secs(30), "version {version}: {elapsed:?}");
        let wait_ms = i32::try_from(WAIT.as_millis()).expect("is short");
        for _ in 0..2 {
            let (elapsed, told) = next(wait_ms).await;
            assert_eq!(told, [ErrorCode::UnknownTopicOrPartition], "version {version}");
            assert!(elapsed >= WAIT, "version {version}: {elapsed:?}");
        }

        create_topic(&other, &gone, 1).await;
        let (elapsed, told) = next(wait_ms).await;
        match version {
            BY_ID => assert_eq!(told, [ErrorCode::InconsistentTopicId]),
            _ => {
                assert_eq!(told, [ErrorCode::None]);
                assert!(elapsed >= WAIT, "{elapsed:?}");
            }
        }
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_session_that_forgets_its_last_partition_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let mut request = waiting_for(vec![wish("t", Uuid::ZERO, 0, 0)]);
    request.session_epoch = 0;
    let (_, response) = fetch_at(&connection, 12, &request).await;
    (request.session_id, request.session_epoch) = (response.session_id, 1);
    assert_ne!(request.session_id, 0);
    request.topics.clear();
    request.forgotten_topics_data = vec![logway_wire::messages::fetch_request::ForgottenTopic {
        topic: "t".into(),
        partitions: vec![0],
        ..Default::default()
    }];
    request.max_wait_ms = 60_000;
    let (elapsed, response) = fetch_at(&connection, 12, &request).await;
    assert_eq!((response.session_id, codes(&response)), (0, vec![]));
    assert!(elapsed < Duration::from_secs(30), "{elapsed:?}");
    broker.stop().await;
}
