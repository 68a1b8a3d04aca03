//! What an administrator changes while the broker runs: its own settings, and the levels of its log.

mod common;

use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, TimestampMs};
use logway_record::{BatchBuilder, Compression};
use logway_wire::WireString;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_configs_response::DescribeConfigsResult;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::{
    DescribeConfigsRequest, IncrementalAlterConfigsRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest,
};
use tracing::level_filters::LevelFilter;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

/// One operation: the setting, the kind, the value.
type Operation<'a> = (&'a str, i8, Option<&'a str>);

fn resource(resource_type: i8, name: &str, operations: &[Operation<'_>]) -> AlterConfigsResource {
    let config = |(name, config_operation, value): &Operation<'_>| AlterableConfig {
        name: WireString::copy_of(name),
        config_operation: *config_operation,
        value: value.map(WireString::copy_of),
        ..Default::default()
    };
    AlterConfigsResource {
        resource_type,
        resource_name: WireString::copy_of(name),
        configs: operations.iter().map(config).collect(),
        ..Default::default()
    }
}

async fn alter_all(
    connection: &Connection,
    resources: Vec<AlterConfigsResource>,
) -> Vec<ErrorCode> {
    let request = IncrementalAlterConfigsRequest { resources, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    let codes = response.responses.iter().map(|response| response.error_code);
    codes.map(|code| ErrorCode::from_code(code).expect("is known")).collect()
}

async fn alter(
    connection: &Connection,
    resource_type: i8,
    name: &str,
    operations: &[Operation<'_>],
) -> ErrorCode {
    alter_all(connection, vec![resource(resource_type, name, operations)]).await[0]
}

async fn describe(
    connection: &Connection,
    resource_type: i8,
    name: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource {
        resource_type,
        resource_name: WireString::copy_of(name),
        configuration_keys: keys
            .map(|keys| keys.iter().map(|key| WireString::copy_of(key)).collect()),
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    connection.call(&request).await.expect("is answered").results.remove(0)
}

/// The value of a setting, and where it comes from.
async fn value_of(
    connection: &Connection,
    resource_type: i8,
    name: &str,
    key: &str,
) -> (String, i8) {
    let described = describe(connection, resource_type, name, Some(&[key])).await;
    assert_eq!(described.error_code, 0, "{:?}", described.error_message);
    let [config] = &described.configs[..] else { panic!("{described:?}") };
    assert!(!config.read_only, "{key}");
    (config.value.as_deref().expect("has a value").to_owned(), config.config_source)
}

/// So large that no two of them fit into a segment.
fn large(value: &str) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = format!("{value} {}", "x".repeat(700_000));
    builder.append(TimestampMs(now_ms()), Some(b"k"), Some(value.as_bytes()), &[]).expect("fits");
    builder.finish().expect("fits")
}

async fn until_records_are(connection: &Connection, count: usize) {
    let is_so = async {
        loop {
            let (mut next, mut found) = (0, 0);
            loop {
                let page = records(&fetch(connection, "t", 0, next).await);
                let Some(last) = page.last() else { break };
                (next, found) = (last.offset.0 + 1, found + page.len());
            }
            if found == count {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_so).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cleaner_works_as_it_is_told_while_it_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("log.cleaner.threads", "0"), ("log.cleaner.backoff.ms", "3600000")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    let configs = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0"),
        ("segment.bytes", "1048576"),
    ];
    create_topic_with(&connection, "t", 1, &configs).await;
    let put = async |value: &str| {
        assert_eq!(produce(&connection, "t", 0, large(value)).await.error_code, 0);
    };
    for value in ["1", "2", "3"] {
        put(value).await;
    }
    let (threads, backoff) = ("log.cleaner.threads", "log.cleaner.backoff.ms");
    assert_eq!(value_of(&connection, BROKER, "1", threads).await, ("0".to_owned(), 4));
    let operations = [(threads, SET, Some("2")), (backoff, SET, Some("10"))];
    assert_eq!(alter(&connection, BROKER, "1", &operations).await, ErrorCode::None);
    assert_eq!(value_of(&connection, BROKER, "1", threads).await, ("2".to_owned(), 2));
    // What the last segment holds is not looked at.
    until_records_are(&connection, 2).await;

    // They sleep for an hour now, unless they are told otherwise.
    let code = alter(&connection, BROKER, "1", &[(backoff, SET, Some("3600000"))]).await;
    assert_eq!(code, ErrorCode::None);
    put("4").await;
    put("5").await;
    let memory = "log.cleaner.dedupe.buffer.size";
    assert_eq!(
        alter(&connection, BROKER, "", &[(memory, SET, Some("2097152"))]).await,
        ErrorCode::None
    );
    assert_eq!(value_of(&connection, BROKER, "1", memory).await, ("2097152".to_owned(), 3));
    let code = alter(&connection, BROKER, "1", &[(backoff, SET, Some("10"))]).await;
    assert_eq!(code, ErrorCode::None);
    until_records_are(&connection, 2).await;

    // Fewer, and more again.
    for (count, value) in [("1", "6"), ("2", "7")] {
        let operations = [(threads, SET, Some(count))];
        assert_eq!(alter(&connection, BROKER, "1", &operations).await, ErrorCode::None);
        put(value).await;
    }
    until_records_are(&connection, 2).await;
    // As in Kafka, to double or half at a time.
    for count in ["0", "5", "100", "257"] {
        let code = alter(&connection, BROKER, "1", &[(threads, SET, Some(count))]).await;
        assert_eq!(code, ErrorCode::InvalidRequest, "{count}");
    }
    assert_eq!(alter(&connection, BROKER, "1", &[(threads, DELETE, None)]).await, ErrorCode::None);
    assert_eq!(value_of(&connection, BROKER, "1", threads).await, ("0".to_owned(), 4));
    broker.stop().await;
}

#[tokio::test]
async fn how_many_may_connect_can_be_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[("max.connections", "1")]).await;
    let first = broker.connect().await;
    let refused = || broker.node().metrics.connections.refused.get();
    let _second = TcpStream::connect(broker.address).expect("is accepted, and closed");
    until(|| refused() == 1).await;
    for setting in ["max.connections", "max.connection.creation.rate", "producer.id.expiration.ms"]
    {
        let code = alter(&first, BROKER, "1", &[(setting, SET, Some("3"))]).await;
        assert_eq!(code, ErrorCode::None, "{setting}");
        assert_eq!(value_of(&first, BROKER, "1", setting).await, ("3".to_owned(), 2));
    }
    let others = [broker.connect().await, broker.connect().await];
    for other in &others {
        other.call(&metadata_request()).await.expect("is served");
    }
    let _fourth = TcpStream::connect(broker.address).expect("is accepted, and closed");
    until(|| refused() == 2).await;
    broker.stop().await;
}

#[tokio::test]
async fn how_many_may_connect_from_one_address_can_be_changed() {
    let (max, overrides) = ("max.connections.per.ip", "max.connections.per.ip.overrides");
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let first = broker.connect().await;
    assert_eq!(alter(&first, BROKER, "", &[(max, SET, Some("2"))]).await, ErrorCode::None);
    let second = broker.connect().await;
    let refused = || broker.node().metrics.connections.refused.get();
    let _third = TcpStream::connect(broker.address).expect("is accepted, and closed");
    until(|| refused() == 1).await;

    // Its own number counts instead; none for all others.
    let of_other = [(overrides, SET, Some("10.0.0.7:1")), (max, SET, Some("0"))];
    assert_eq!(alter(&first, BROKER, "", &of_other).await, ErrorCode::None);
    let _third = TcpStream::connect(broker.address).expect("is accepted, and closed");
    until(|| refused() == 2).await;
    let own = [(overrides, SET, Some("10.0.0.7:1, 127.0.0.1:3"))];
    assert_eq!(alter(&first, BROKER, "1", &own).await, ErrorCode::None);
    let third = broker.connect().await;
    third.call(&metadata_request()).await.expect("is served");
    let _fourth = TcpStream::connect(broker.address).expect("is accepted, and closed");
    until(|| refused() == 3).await;

    // Who goes makes room.
    drop(second);
    until(|| broker.node().metrics.connections.open.get() == 2).await;
    broker.connect().await.call(&metadata_request()).await.expect("is served");
    for value in ["host:1", "127.0.0.1", "127.0.0.1:-1", "1"] {
        let code = alter(&first, BROKER, "1", &[(overrides, SET, Some(value))]).await;
        assert_eq!(code, ErrorCode::InvalidRequest, "{value}");
    }
    let none = [(overrides, SET, Some(""))];
    assert_eq!(alter(&first, BROKER, "1", &none).await, ErrorCode::InvalidRequest, "with 0");
    broker.stop().await;
}

/// Of what does not exist here, where tools set it; and what Kafka refuses.
#[tokio::test]
async fn settings_of_kafkas_brokers_are_taken_and_refused_as_by_kafka() {
    use ErrorCode::{InvalidConfig, InvalidRequest, None as Taken};
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    for (broker, name, kind, value, expected) in [
        ("1", "num.io.threads", SET, Some("4"), Taken),
        ("1", "num.io.threads", SET, Some("0"), InvalidRequest),
        ("1", "num.io.threads", SET, Some("1"), InvalidRequest),
        ("1", "num.io.threads", SET, Some("17"), InvalidRequest),
        ("1", "num.io.threads", DELETE, None, Taken),
        ("", "num.network.threads", SET, Some("6"), Taken),
        ("", "num.network.threads", SET, Some("13"), InvalidRequest),
        ("", "background.threads", SET, Some("20"), Taken),
        ("", "num.replica.fetchers", SET, Some("3"), InvalidRequest),
        ("1", "num.recovery.threads.per.data.dir", SET, Some("4"), Taken),
        ("1", "log.cleaner.io.buffer.size", SET, Some("0"), Taken),
        ("1", "log.cleaner.io.buffer.size", SET, Some("-1"), InvalidRequest),
        ("1", "log.cleaner.io.buffer.load.factor", SET, Some("1.5"), Taken),
        ("1", "metric.reporters", SET, Some(""), Taken),
        ("1", "metric.reporters", SET, Some("x.Y"), InvalidRequest),
        ("1", "transaction.partition.verification.enable", SET, Some("false"), Taken),
        ("1", "remote.fetch.max.wait.ms", SET, Some("100"), Taken),
        ("1", "log.local.retention.ms", SET, Some("1000"), Taken),
        ("1", "log.local.retention.bytes", SET, Some("1000"), Taken),
        ("1", "min.insync.replicas", SET, Some("1"), InvalidConfig),
        ("", "min.insync.replicas", SET, Some("1"), Taken),
        ("1", "no.such", APPEND, Some("1"), InvalidConfig),
        ("1", "no.such", SET, Some("1"), InvalidRequest),
        // Who sets it must hear that there is no security.
        ("1", "sasl.enabled.mechanisms", SET, Some("PLAIN"), InvalidRequest),
    ] {
        let code = alter(&connection, BROKER, broker, &[(name, kind, value)]).await;
        assert_eq!(code, expected, "'{broker}' {name} {value:?}");
        if code == Taken && kind == SET {
            let source = if broker.is_empty() { 3 } else { 2 };
            let (shown, of) = value_of(&connection, BROKER, "1", name).await;
            assert_eq!((Some(&*shown), of), (value, source), "{name}");
        }
    }
    broker.stop().await;
}

#[tokio::test]
async fn what_is_not_there_can_be_deleted() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let operations = [
        ("of.another.broker", DELETE, None),
        ("retention.ms", SET, Some("1000")),
        ("segment.ms", DELETE, Some("ignored")),
    ];
    assert_eq!(alter(&connection, TOPIC, "t", &operations).await, ErrorCode::None);
    assert_eq!(value_of(&connection, TOPIC, "t", "retention.ms").await, ("1000".to_owned(), 1));
    for (resource_type, name) in [(BROKER, "1"), (BROKER, ""), (16, "m"), (32, "g")] {
        for setting in ["of.another.broker", "log.dirs"] {
            let code = alter(&connection, resource_type, name, &[(setting, DELETE, None)]).await;
            assert_eq!(code, ErrorCode::None, "{resource_type} '{name}' {setting}");
        }
    }
    let code = alter(&connection, TOPIC, "absent", &operations).await;
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
    broker.stop().await;
}

#[tokio::test]
async fn levels_of_the_log_are_described_and_changed() {
    const INFO: &str = "INFO";
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let described = describe(&connection, BROKER_LOGGER, "1", None).await;
    assert_eq!(described.error_code, 0);
    let all_info = described.configs.iter().all(|config| {
        (config.value.as_deref(), config.config_source, config.read_only) == (Some(INFO), 6, false)
    });
    assert!(all_info && described.configs.len() > 10, "{described:?}");
    for name in ["", "2", "one"] {
        let refused = describe(&connection, BROKER_LOGGER, name, None).await;
        assert_eq!(refused.error_code, ErrorCode::InvalidRequest.code(), "'{name}'");
        let code = alter(&connection, BROKER_LOGGER, name, &[("root", SET, Some(INFO))]).await;
        assert_eq!(code, ErrorCode::InvalidRequest, "'{name}'");
    }

    let (log, debug) = ("logway_log", Some("DEBUG"));
    for (operations, code) in [
        (vec![(log, SET, debug)], ErrorCode::None),
        (vec![(log, SET, Some("debug"))], ErrorCode::InvalidConfig),
        (vec![("kafka.server", SET, debug)], ErrorCode::InvalidConfig),
        (vec![("kafka.server", DELETE, None)], ErrorCode::InvalidConfig),
        (vec![("openraft", SET, debug), ("kafka.server", SET, debug)], ErrorCode::InvalidConfig),
        (vec![("root", DELETE, None)], ErrorCode::InvalidRequest),
        (vec![(log, SET, None)], ErrorCode::InvalidRequest),
        (vec![(log, APPEND, debug)], ErrorCode::InvalidRequest),
        (vec![(log, 9, debug)], ErrorCode::InvalidRequest),
        (vec![(log, SET, debug), (log, DELETE, None)], ErrorCode::InvalidRequest),
    ] {
        let told = alter(&connection, BROKER_LOGGER, "1", &operations).await;
        assert_eq!(told, code, "{operations:?}");
    }
    let writer = value_of(&connection, BROKER_LOGGER, "1", "logway_log.writer").await;
    assert_eq!(writer, ("DEBUG".to_owned(), 6));
    let in_force = broker.node().log_levels.now();
    assert_eq!(in_force.of("logway_log::writer"), LevelFilter::DEBUG);
    assert_eq!(in_force.root, LevelFilter::INFO);

    // Beside others, each by itself, in their order.
    let level = || resource(BROKER_LOGGER, "1", &[(log, DELETE, None)]);
    let others = [
        resource(BROKER, "1", &[("log.cleaner.threads", SET, Some("2"))]),
        resource(TOPIC, "absent", &[]),
    ];
    let codes = alter_all(&connection, [vec![level()], others.to_vec()].concat()).await;
    let absent = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(codes, [ErrorCode::None, ErrorCode::None, absent]);
    let codes = alter_all(&connection, vec![level(), level()]).await;
    assert_eq!(codes, [ErrorCode::InvalidRequest; 2]);
    assert_eq!(value_of(&connection, BROKER_LOGGER, "1", log).await.0, INFO);
    broker.stop().await;
}

#[tokio::test]
async fn who_wants_to_say_who_he_is_is_told_that_nobody_asks() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let illegal = ErrorCode::IllegalSaslState.code();
    for version in 0..=1 {
        let request = SaslHandshakeRequest { mechanism: "PLAIN".into(), ..Default::default() };
        let pending = connection.send(&request, version).await.expect("is sent");
        let response = pending.response().await.expect("is answered");
        assert_eq!((response.error_code, response.mechanisms), (illegal, vec![]));
    }
    let response = connection.call(&SaslAuthenticateRequest::default()).await.expect("is answered");
    assert_eq!(response.error_code, illegal);
    assert!(response.error_message.is_some_and(|message| message.contains("PLAINTEXT")));
    connection.call(&metadata_request()).await.expect("goes on");
    broker.stop().await;
}
