//! Quotas: set, described, and enforced on those that they bind.

mod common;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::*;
use logway_client::{Connection, ConnectionOptions};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use logway_wire::messages::create_partitions_request::CreatePartitionsTopic;
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::describe_client_quotas_request::ComponentData;
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::{
    AlterClientQuotasRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeClientQuotasRequest, ListGroupsRequest, MetadataRequest,
};
use tokio::net::TcpStream;

const CLIENT_ID: &str = "client-id";
const USER: &str = "user";
const IP: &str = "ip";

/// Not durable, so that the disk of the test is not what slows clients down.
const FAST: &[(&str, &str)] = &[("flush.messages", "9223372036854775807")];

async fn connect_as(broker: &TestBroker, client_id: &str) -> Connection {
    let options = ConnectionOptions {
        client_id: WireString::copy_of(client_id),
        ..ConnectionOptions::default()
    };
    Connection::open(&broker.broker_address(), &options).await.expect("connects")
}

async fn alter(
    connection: &Connection,
    entity: &[(&'static str, Option<&'static str>)],
    key: &'static str,
    value: Option<f64>,
) -> ErrorCode {
    let part = |&(entity_type, name): &(&'static str, Option<&'static str>)| EntityData {
        entity_type: entity_type.into(),
        entity_name: name.map(Into::into),
        ..Default::default()
    };
    let op = OpData {
        key: key.into(),
        value: value.unwrap_or_default(),
        remove: value.is_none(),
        ..Default::default()
    };
    let entity = entity.iter().map(part).collect();
    let entry = EntryData { entity, ops: vec![op], ..Default::default() };
    let request = AlterClientQuotasRequest { entries: vec![entry], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    ErrorCode::from_code(response.entries[0].error_code).expect("is known")
}

/// The quotas of client ids, as `name key value`.
async fn described(connection: &Connection) -> Vec<String> {
    described_as(connection, CLIENT_ID, None).await
}

/// The quotas of a type of entity, with that name if one is given.
async fn described_as(
    connection: &Connection,
    entity_type: &'static str,
    name: Option<&'static str>,
) -> Vec<String> {
    let any = ComponentData {
        entity_type: entity_type.into(),
        match_type: if name.is_some() { 0 } else { 2 },
        match_: name.map(Into::into),
        ..Default::default()
    };
    let request = DescribeClientQuotasRequest { components: vec![any], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.error_code, 0);
    let entries = response.entries.unwrap_or_default().into_iter().flat_map(|entry| {
        let name = entry.entity[0].entity_name.as_deref().unwrap_or("<default>").to_owned();
        entry.values.into_iter().map(move |value| format!("{name} {} {}", value.key, value.value))
    });
    entries.collect()
}

#[tokio::test]
async fn quotas_are_kept_over_a_restart_until_they_are_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let app = [(CLIENT_ID, Some("app"))];
    assert_eq!(alter(&connection, &app, "producer_byte_rate", Some(1e6)).await, ErrorCode::None);
    assert_eq!(alter(&connection, &app, "request_percentage", Some(0.1)).await, ErrorCode::None);
    let default = [(CLIENT_ID, None)];
    assert_eq!(
        alter(&connection, &default, "consumer_byte_rate", Some(5.0)).await,
        ErrorCode::None
    );
    let refused = alter(&connection, &app, "connection_creation_rate", Some(1.0)).await;
    assert_eq!(refused, ErrorCode::InvalidRequest);
    let all = [
        "app producer_byte_rate 1000000",
        "app request_percentage 0.1",
        "<default> consumer_byte_rate 5",
    ];
    assert_eq!(described(&connection).await, all);
    broker.node().quorum.snapshot().await.expect("is written");
    drop(connection);
    broker.stop().await;

    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    assert_eq!(described(&connection).await, all);
    assert_eq!(alter(&connection, &app, "producer_byte_rate", None).await, ErrorCode::None);
    assert_eq!(described(&connection).await, all[1..]);
    broker.stop().await;
}

fn record_batch(bytes: usize) -> Bytes {
    batch(&["x".repeat(bytes).as_str()])
}

const BATCH_BYTES: usize = 256 << 10;

/// What a client got that took all that it could.
#[derive(Default)]
struct Pushed {
    taken_bytes: usize,
    longest_wait_ms: i32,
}

/// Pushes batches as fast as they are taken, with a few in flight, whatever the answers say, until
/// `time` is over.
async fn push(connection: &Connection, time: Duration) -> Pushed {
    const IN_FLIGHT: usize = 4;
    let records = record_batch(BATCH_BYTES);
    let end = Instant::now() + time;
    let (mut in_flight, mut pushed) = (VecDeque::new(), Pushed::default());
    while Instant::now() < end {
        let request = produce_request("t", 0, records.clone());
        in_flight.push_back(connection.send(&request, 12).await.expect("is sent"));
        if in_flight.len() == IN_FLIGHT {
            let oldest = in_flight.pop_front().expect("there are some");
            let response = oldest.response().await.expect("is answered");
            assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
            pushed.taken_bytes += records.len();
            pushed.longest_wait_ms = pushed.longest_wait_ms.max(response.throttle_time_ms);
        }
    }
    pushed
}

/// A busy machine may take less than the quota allows, but then nobody is told to wait for more than
/// that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_gets_its_quota_and_no_more() {
    const RATE: f64 = 5e6;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let admin = broker.connect().await;
    create_topic_with(&admin, "t", 1, FAST).await;
    let pushy = connect_as(&broker, "pushy").await;
    let set = alter(&admin, &[(CLIENT_ID, Some("pushy"))], "producer_byte_rate", Some(RATE)).await;
    assert_eq!(set, ErrorCode::None);

    let began = Instant::now();
    let pushed = push(&pushy, Duration::from_secs(4)).await;
    // A second's worth is free, and one batch may overdraw.
    let most_bytes = RATE * (began.elapsed().as_secs_f64() + 1.0) + BATCH_BYTES as f64;
    assert!(pushed.taken_bytes as f64 <= most_bytes, "{} {most_bytes}", pushed.taken_bytes);
    // It is read again when its debt is paid, so that it never owes more than one batch.
    let batch_ms = BATCH_BYTES as f64 / RATE * 1_000.0;
    assert!(f64::from(pushed.longest_wait_ms) < 1.1 * batch_ms, "{} ms", pushed.longest_wait_ms);
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_is_held_up_holds_no_memory_and_nobody_else_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let admin = broker.connect().await;
    create_topic_with(&admin, "t", 1, FAST).await;
    let slow = connect_as(&broker, "slow").await;
    let set = alter(&admin, &[(CLIENT_ID, Some("slow"))], "producer_byte_rate", Some(1.0)).await;
    assert_eq!(set, ErrorCode::None);
    until(|| broker.node().memory.requests.used_bytes() == 0).await;

    let asked = Instant::now();
    let request = produce_request("t", 0, record_batch(BATCH_BYTES));
    let first = slow.send(&request, 12).await.expect("is sent");
    let second = slow.send(&request, 12).await.expect("is sent");
    let wait_ms = first.response().await.expect("is answered").throttle_time_ms;
    assert_eq!(wait_ms, 11_000, "as long as anybody waits");
    assert_eq!(broker.node().memory.requests.used_bytes(), 0, "the next request is not read");
    let other = connect_as(&broker, "other").await;
    let pending = other.send(&produce_request("t", 0, record_batch(100)), 12).await;
    let response = pending.expect("is sent").response().await.expect("is answered");
    assert_eq!(response.throttle_time_ms, 0);
    assert!(asked.elapsed() < Duration::from_secs(11), "it waited along: {:?}", asked.elapsed());
    drop((second, slow));
    broker.stop().await;
}

#[tokio::test]
async fn an_answer_comes_at_once_and_the_next_when_the_time_is_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let admin = broker.connect().await;
    create_topic_with(&admin, "t", 1, FAST).await;
    let limited = connect_as(&broker, "limited").await;
    let user = [(USER, Some("ANONYMOUS")), (CLIENT_ID, Some("limited"))];
    assert_eq!(alter(&admin, &user, "producer_byte_rate", Some(1e5)).await, ErrorCode::None);

    let asked = Instant::now();
    let request = produce_request("t", 0, record_batch(300_000));
    let pending = limited.send(&request, 12).await.expect("is sent");
    let response = pending.response().await.expect("is answered");
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    // A second's worth is free, the rest takes two.
    let wait_ms = u64::try_from(response.throttle_time_ms).expect("is positive");
    assert!((1_900..=2_100).contains(&wait_ms), "{wait_ms}");
    let wait = Duration::from_millis(wait_ms);
    assert!(asked.elapsed() < wait, "the answer waited: {:?}", asked.elapsed());
    // Whatever the connection is asked, it is not read before.
    limited.call(&metadata_request()).await.expect("is answered");
    assert!(asked.elapsed() >= wait, "{:?}", asked.elapsed());
    // Its other connections are not muted, as long as they ask for something else.
    let second = connect_as(&broker, "limited").await;
    second.call(&metadata_request()).await.expect("is answered");
    broker.stop().await;
}

#[tokio::test]
async fn a_consumer_gets_what_its_quota_allows_at_once_and_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("quota.window.num", "3")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let admin = broker.connect().await;
    create_topic_with(&admin, "t", 1, FAST).await;
    for _ in 0..40 {
        assert_eq!(produce(&admin, "t", 0, record_batch(10_000)).await.error_code, 0);
    }
    let limited = connect_as(&broker, "limited").await;
    assert_eq!(
        alter(&admin, &[(CLIENT_ID, None)], "consumer_byte_rate", Some(1e5)).await,
        ErrorCode::None
    );
    let exempt = [(CLIENT_ID, Some("exempt"))];
    assert_eq!(alter(&admin, &exempt, "consumer_byte_rate", Some(1e12)).await, ErrorCode::None);

    let response = fetch_with(&limited, &fetch_request("t", &[(0, 0)])).await;
    let data = &response.responses[0].partitions[0];
    let bytes: usize = records(data).iter().filter_map(|r| r.value.as_ref().map(Bytes::len)).sum();
    // Two windows' worth at most, of which one is free.
    assert!((180_000..=200_000).contains(&bytes), "{bytes}");
    assert!((800..=1_100).contains(&response.throttle_time_ms), "{}", response.throttle_time_ms);

    let other = connect_as(&broker, "exempt").await;
    let response = fetch_with(&other, &fetch_request("t", &[(0, 0)])).await;
    assert_eq!(response.throttle_time_ms, 0);
    assert_eq!(records(&response.responses[0].partitions[0]).len(), 40);
    broker.stop().await;
}

#[tokio::test]
async fn the_time_of_any_request_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let admin = broker.connect().await;
    let limited = connect_as(&broker, "limited").await;
    let request = ListGroupsRequest::default();
    assert_eq!(limited.call(&request).await.expect("is answered").throttle_time_ms, 0);
    // A hundred-millionth of a thread: a nanosecond for ten requests.
    let limit = Some(1e-6);
    let set =
        alter(&admin, &[(USER, None), (CLIENT_ID, Some("limited"))], "request_percentage", limit);
    assert_eq!(set.await, ErrorCode::None);
    let response = limited.call(&request).await.expect("is answered");
    assert_eq!(response.throttle_time_ms, 1_000);
    assert_eq!(admin.call(&request).await.expect("is answered").throttle_time_ms, 0);
    broker.stop().await;
}

async fn create(
    connection: &Connection,
    version: i16,
    name: &'static str,
    partitions: i32,
) -> (ErrorCode, i32) {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let pending = connection.send(&request, version).await.expect("is sent");
    let response = pending.response().await.expect("is answered");
    let code = ErrorCode::from_code(response.topics[0].error_code).expect("is known");
    (code, response.throttle_time_ms)
}

#[tokio::test]
async fn what_makes_and_deletes_partitions_is_refused_while_the_quota_is_overdrawn() {
    const KNOWS_REFUSAL: i16 = 7;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("controller.quota.window.num", "10"), ("num.partitions", "2")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let admin = broker.connect().await;
    let limited = [(CLIENT_ID, Some("limited"))];
    // Ten at once, and then one in a hundred seconds.
    let set = alter(&admin, &limited, "controller_mutation_rate", Some(1.0)).await;
    assert_eq!(set, ErrorCode::None);
    let (first, second) =
        (connect_as(&broker, "limited").await, connect_as(&broker, "limited").await);

    // What comes to nothing costs nothing, however much it would have been.
    let (code, wait_ms) = create(&first, KNOWS_REFUSAL, "not a name", 1_000).await;
    assert_eq!((code, wait_ms), (ErrorCode::InvalidTopicException, 0));
    let (code, wait_ms) = create(&first, KNOWS_REFUSAL, "large", 30).await;
    assert_eq!((code, wait_ms), (ErrorCode::None, 0), "something was left");
    let (code, wait_ms) = create(&first, KNOWS_REFUSAL, "refused", 1).await;
    assert_eq!(code, ErrorCode::ThrottlingQuotaExceeded);
    assert!((15_000..=20_000).contains(&wait_ms), "{wait_ms}");

    // The connection is not read any more, the client's others are.
    let delete = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: Some("large".into()), ..Default::default() }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let response = second.call(&delete).await.expect("is answered");
    assert_eq!(response.responses[0].error_code, ErrorCode::ThrottlingQuotaExceeded.code());
    let third = connect_as(&broker, "limited").await;
    let grow = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "large".into(),
            count: 31,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let response = third.call(&grow).await.expect("is answered");
    assert_eq!(response.results[0].error_code, ErrorCode::ThrottlingQuotaExceeded.code());
    // Nor is a topic created by asking for it.
    let fourth = connect_as(&broker, "limited").await;
    let ask = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name: Some("new".into()), ..Default::default() }]),
        allow_auto_topic_creation: true,
        ..Default::default()
    };
    let response = fourth.call(&ask).await.expect("is answered");
    assert_eq!(response.topics[0].error_code, ErrorCode::LeaderNotAvailable.code());
    assert!(broker.node().image().topic("new").is_none());
    // Others may.
    assert_eq!(create(&admin, KNOWS_REFUSAL, "others", 20).await, (ErrorCode::None, 0));
    broker.stop().await;
}

#[tokio::test]
async fn old_clients_are_not_refused_but_held_up() {
    const KNOWS_NO_REFUSAL: i16 = 5;
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("controller.quota.window.num", "2")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let admin = broker.connect().await;
    let everybody = [(USER, None)];
    let set = alter(&admin, &everybody, "controller_mutation_rate", Some(1.0)).await;
    assert_eq!(set, ErrorCode::None);
    let old = connect_as(&broker, "old").await;
    let failed = create(&old, KNOWS_NO_REFUSAL, "not a name", 1_000).await;
    assert_eq!(failed, (ErrorCode::InvalidTopicException, 0));
    let began = Instant::now();
    let (code, wait_ms) = create(&old, KNOWS_NO_REFUSAL, "t", 3).await;
    assert_eq!(code, ErrorCode::None);
    assert!((500..=1_000).contains(&wait_ms), "{wait_ms}");
    assert_eq!(create(&old, KNOWS_NO_REFUSAL, "next", 1).await.0, ErrorCode::None);
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_closes_while_it_is_held_up_gives_its_place_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let admin = broker.connect().await;
    create_topic(&admin, "t", 1).await;
    let limited = [(CLIENT_ID, Some("limited"))];
    assert_eq!(alter(&admin, &limited, "producer_byte_rate", Some(1.0)).await, ErrorCode::None);
    let client = connect_as(&broker, "limited").await;
    let answer = produce(&client, "t", 0, record_batch(100_000)).await;
    assert_eq!(answer.error_code, 0);
    let connections = &broker.node().metrics.connections;
    assert_eq!(connections.open.get(), 2);
    let began = Instant::now();
    drop(client);
    until(|| connections.open.get() == 1).await;
    // It would be read again after ten windows of a second.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    broker.stop().await;
}

#[tokio::test]
async fn partitions_that_cannot_be_made_are_not_owed_for_years() {
    // Before and after THROTTLING_QUOTA_EXCEEDED was known.
    for version in [5, 7] {
        let dir = tempfile::tempdir().expect("a directory");
        let broker = TestBroker::start(dir.path()).await;
        let admin = broker.connect().await;
        let set = alter(&admin, &[(USER, None)], "controller_mutation_rate", Some(1.0)).await;
        assert_eq!(set, ErrorCode::None);
        let topic = |number| CreatableTopic {
            name: format!("t-{number}").into(),
            num_partitions: 2_000_000_000,
            replication_factor: 1,
            ..Default::default()
        };
        // With no time: what became of it nobody learns, so nothing is given back. So many topics
        // are not judged at once; should they be, once more.
        let topics = (0..4_000).map(topic).collect();
        let request = CreateTopicsRequest { topics, timeout_ms: 0, ..Default::default() };
        loop {
            let greedy = connect_as(&broker, "greedy").await;
            let pending = greedy.send(&request, version).await.expect("is sent");
            let response = pending.response().await.expect("is answered");
            assert_eq!(response.throttle_time_ms, 0, "version {version}");
            if response.topics[0].error_code == ErrorCode::RequestTimedOut.code() {
                break;
            }
        }
        let greedy = connect_as(&broker, "greedy").await;
        assert_eq!(create(&greedy, version, "small", 1).await, (ErrorCode::None, 0));
        broker.stop().await;
    }
}

#[tokio::test]
async fn an_address_opens_connections_at_its_rate_and_no_more_than_may_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("quota.window.num", "2")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let admin = broker.connect().await;
    let set = alter(&admin, &[(IP, None)], "connection_creation_rate", Some(1e6)).await;
    assert_eq!(set, ErrorCode::None);
    let local = [(IP, Some("127.0.0.1"))];
    assert_eq!(alter(&admin, &local, "connection_creation_rate", Some(1.0)).await, ErrorCode::None);
    let refused = alter(&admin, &local, "producer_byte_rate", Some(1.0)).await;
    assert_eq!(refused, ErrorCode::InvalidRequest);
    let own = "127.0.0.1 connection_creation_rate 1";
    let all = [own, "<default> connection_creation_rate 1000000"];
    assert_eq!(described_as(&admin, IP, None).await, all);
    assert_eq!(described_as(&admin, IP, Some("::ffff:127.0.0.1")).await, [own]);

    // One at once, one in each second, no further ahead than two seconds.
    const OPENED: u64 = 8;
    let began = Instant::now();
    let mut sockets = Vec::new();
    for _ in 0..OPENED {
        sockets.push(TcpStream::connect(broker.address).await.expect("is accepted"));
    }
    let connections = &broker.node().metrics.connections;
    until(|| connections.over_rate.get() > 0).await;
    // Whoever is connected does not notice.
    admin.call(&metadata_request()).await.expect("is answered");
    let served = || connections.accepted.get() - 1;
    until(|| served() + connections.over_rate.get() == OPENED).await;
    let least = Duration::from_secs(served() - 1).saturating_sub(Duration::from_millis(50));
    assert!(began.elapsed() >= least && served() >= 3, "{} {:?}", served(), began.elapsed());
    let metrics = broker.metrics();
    let throttled = "logway_throttled_requests_total{quota=\"connection_creation_rate\"} ";
    assert!(metrics.contains(throttled), "{metrics}");
    // A connection that waits does not keep the broker from stopping.
    let waiting = TcpStream::connect(broker.address).await.expect("is accepted");
    broker.stop().await;
    drop((sockets, waiting));
}

#[tokio::test]
async fn the_broker_accepts_connections_at_its_rate() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("max.connection.creation.rate", "5")];
    let began = Instant::now();
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    // Five at once, and five in each second, of which some are saved up when the start takes long.
    let saved_seconds = began.elapsed().as_secs_f64();
    let at_once = 5 + (5.0 * saved_seconds).ceil() as usize;
    let mut connections = Vec::new();
    for _ in 0..at_once + 6 {
        connections.push(broker.connect().await);
    }
    for connection in &connections {
        connection.call(&metadata_request()).await.expect("is answered");
    }
    let took_seconds = began.elapsed().as_secs_f64() - saved_seconds;
    assert!(took_seconds >= 0.9, "{took_seconds} after {saved_seconds}");
    broker.stop().await;
}
