//! The broker at `$BOOTSTRAP`: topics, producers and consumers of partitions.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use crate::record::Record;
use crate::report::{DEADLINE, wait_until};

/// A client's settings: at least where the broker is.
pub fn config(settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap());
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

pub fn bootstrap() -> String {
    std::env::var("BOOTSTRAP").expect("BOOTSTRAP says where the broker is")
}

pub fn admin() -> AdminClient<DefaultClientContext> {
    config(&[]).create().expect("the settings are valid")
}

pub fn admin_options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(DEADLINE)).operation_timeout(Some(DEADLINE))
}

/// How many Fetch requests the broker has answered; 0 of one that does not say where its metrics are.
pub fn answered_fetches() -> u64 {
    let Ok(address) = std::env::var("METRICS") else { return 0 };
    let (host, path) = address
        .strip_prefix("http://")
        .and_then(|address| address.split_once('/'))
        .expect("METRICS is an address of HTTP");
    let mut page = String::new();
    let mut stream = TcpStream::connect(host).expect("the metrics are served");
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("can be asked for");
    stream.read_to_string(&mut page).expect("are text");
    let name = "logway_request_seconds_count{api=\"Fetch\"} ";
    let count = page.lines().find_map(|line| line.strip_prefix(name));
    count.expect("fetches are counted").trim().parse().expect("is a number")
}

/// A name that nothing had before, so that the suite can run again on the same broker.
pub fn fresh(purpose: &str) -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    format!("{purpose}-{:x}", since_1970.as_nanos())
}

/// Creates a topic and returns the broker's refusal, if any.
pub fn try_create_topic(
    topic: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> Result<(), RDKafkaErrorCode> {
    let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    for (name, value) in configs {
        new = new.set(name, value);
    }
    let created =
        block_on(admin().create_topics([&new], &admin_options())).expect("the request is answered");
    created.into_iter().next().expect("one topic was asked for").map(drop).map_err(|(_, code)| code)
}

/// A new topic that can be used at once.
pub fn create_topic(purpose: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
    let topic = fresh(purpose);
    try_create_topic(&topic, partitions, configs).expect("a fresh topic can be created");
    wait_until(
        DEADLINE,
        || led_partitions(&topic).len() == partitions as usize,
        || format!("all of {topic} to have a leader"),
    );
    topic
}

/// Those with a leader.
pub fn led_partitions(topic: &str) -> Vec<i32> {
    let asker = unjoined("unused", &[("allow.auto.create.topics", "false")]);
    let metadata = asker.fetch_metadata(Some(topic), DEADLINE).expect("metadata can be had");
    let partitions = metadata.topics()[0].partitions();
    let mut led: Vec<_> =
        partitions.iter().filter(|found| found.leader() >= 0).map(|found| found.id()).collect();
    led.sort_unstable();
    led
}

/// The first and the next offset.
pub fn list_offsets(topic: &str, partition: i32) -> KafkaResult<(i64, i64)> {
    unjoined("unused", &[]).fetch_watermarks(topic, partition, DEADLINE)
}

/// Keeps the offsets of what was delivered, and the first error.
#[derive(Default)]
pub struct Deliveries(Mutex<(Vec<i64>, Option<KafkaError>)>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let mut kept = self.0.lock().expect("nobody panics while holding it");
        match result {
            Ok(message) => kept.0.push(message.offset()),
            Err((error, _)) => kept.1 = kept.1.take().or(Some(error.clone())),
        }
    }
}

pub fn producer(settings: &[(&str, &str)]) -> BaseProducer<Deliveries> {
    let idempotent = settings.contains(&("enable.idempotence", "true"));
    let mut config = config(&[("linger.ms", "5"), ("batch.num.messages", "1000")]);
    if !idempotent {
        // Only an idempotent producer keeps its order if a request is repeated while others are under way.
        config.set("max.in.flight.requests.per.connection", "1");
    }
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create_with_context(Deliveries::default()).expect("the settings are valid")
}

/// Hands a record over, waiting for room if need be.
pub fn enqueue(
    producer: &BaseProducer<Deliveries>,
    topic: &str,
    partition: i32,
    record: &Record,
) -> KafkaResult<()> {
    let mut headers = OwnedHeaders::new();
    for (key, value) in &record.headers {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    let mut next = BaseRecord::<Vec<u8>, Vec<u8>>::to(topic).partition(partition).headers(headers);
    next.key = record.key.as_ref();
    next.payload = record.value.as_ref();
    next.timestamp = record.timestamp_ms;
    while let Err((error, unsent)) = producer.send(next) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
            return Err(error);
        }
        producer.poll(Duration::from_millis(100));
        next = unsent;
    }
    producer.poll(Duration::ZERO);
    Ok(())
}

/// Waits until everything is acknowledged, and returns the offsets in that order.
pub fn flush(producer: &BaseProducer<Deliveries>) -> KafkaResult<Vec<i64>> {
    producer.flush(DEADLINE)?;
    let mut kept = producer.context().0.lock().expect("nobody panics while holding it");
    match kept.1.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut kept.0)),
    }
}

/// Sends records to one partition in order, waits until they are acknowledged, and returns their offsets.
pub fn send(
    producer: &BaseProducer<Deliveries>,
    topic: &str,
    partition: i32,
    records: &[Record],
) -> KafkaResult<Vec<i64>> {
    // The first goes ahead: Kafka refuses requests to a topic that is very new, and a producer that is not idempotent
    // loses its order by repeating some of many.
    let (first, others) = records.split_at(1);
    let mut offsets = Vec::new();
    for part in [first, others] {
        for record in part {
            enqueue(producer, topic, partition, record)?;
        }
        offsets.extend(flush(producer)?);
    }
    Ok(offsets)
}

/// Sends with a producer of its own.
pub fn produce(topic: &str, partition: i32, records: &[Record]) {
    let sent = send(&producer(&[]), topic, partition, records);
    assert_eq!(sent.map(|offsets| offsets.len()), Ok(records.len()));
}

/// A consumer that belongs to a group by name only: it never joins.
pub fn unjoined(group: &str, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(&[
        ("group.id", group),
        ("enable.auto.commit", "false"),
        ("auto.offset.reset", "error"),
    ]);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create().expect("the settings are valid")
}

/// One that has been assigned partitions, each from an offset on.
pub fn assigned(topic: &str, offsets: &[(i32, i64)], settings: &[(&str, &str)]) -> BaseConsumer {
    let consumer = unjoined("unused", settings);
    let mut places = TopicPartitionList::new();
    for (partition, offset) in offsets {
        let added = places.add_partition_offset(topic, *partition, Offset::Offset(*offset));
        added.expect("the offset is not negative");
    }
    consumer.assign(&places).expect("partitions can be assigned");
    consumer
}

/// Exactly `count` records, or the error that comes first.
pub fn read(consumer: &BaseConsumer, count: usize) -> KafkaResult<Vec<Record>> {
    let (began, mut records) = (Instant::now(), Vec::new());
    while records.len() < count {
        assert!(
            began.elapsed() < DEADLINE,
            "{} of {count} records within {DEADLINE:?}",
            records.len()
        );
        if let Some(message) = consumer.poll(Duration::from_millis(500)) {
            records.push(Record::from(&message?));
        }
    }
    Ok(records)
}

/// The first records of partition 0.
pub fn consume(topic: &str, count: usize) -> KafkaResult<Vec<Record>> {
    read(&assigned(topic, &[(0, 0)], &[]), count)
}
