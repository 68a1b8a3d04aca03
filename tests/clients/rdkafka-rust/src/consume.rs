//! The consume cases.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::admin::delete_topic;
use crate::broker::{answered_fetches, assigned, create_topic, produce, read, unjoined};
use crate::record::{Record, numbered};
use crate::report::{DEADLINE, Outcome, Report, wait_until};

/// How long a consumer with nothing to read is looked at.
const IDLE: Duration = Duration::from_secs(3);
/// How often it may ask meanwhile: with its wait some times, without any wait it is thousands of times.
const IDLE_FETCHES_MAX: u64 = 150;

const BASE_MS: i64 = 1_700_000_000_000;
/// Where the records of `positions` are.
const PARTITION: i32 = 1;

pub fn cases(report: &mut Report) {
    let topic = positions();
    report.case("consume-assigned", by_assignment);
    report.case("consume-mid-batch", || mid_batch(&topic));
    report.case("consume-seek", || seek(&topic));
    report.case("consume-by-time", || by_time(&topic));
    report.case("consume-following", following);
    report.case("consume-deleted", beside_a_deleted_one);
    report.case("consume-compacted", compacted);
    report.case("consume-read-committed", || read_committed(&topic));
}

/// A topic of 1,000 records, a second apart by their own timestamps, which are so old that it must keep them for ever.
fn positions() -> String {
    let topic = create_topic("positions", 2, &[("retention.ms", "-1")]);
    let mut records = numbered(0..1_000);
    for (number, record) in (0..).zip(&mut records) {
        record.timestamp_ms = Some(BASE_MS + 1_000 * number);
    }
    produce(&topic, PARTITION, &records);
    topic
}

fn by_assignment() -> Outcome {
    let topic = create_topic("assigned", 5, &[]);
    for partition in 0..5 {
        produce(
            &topic,
            partition as i32,
            &numbered(10_000 * partition..10_000 * partition + 2_000),
        );
    }
    let received =
        read(&assigned(&topic, &[0, 1, 2, 3, 4].map(|partition| (partition, 0)), &[]), 10_000)?;
    for partition in 0..5 {
        let mine = received.iter().filter(|record| record.partition as usize == partition);
        assert!(
            mine.map(Record::number).eq(10_000 * partition..10_000 * partition + 2_000),
            "partition {partition}"
        );
    }
    Ok(())
}

fn mid_batch(topic: &str) -> Outcome {
    for offset in [1, 500, 777, 998, 999] {
        let first = &read(&assigned(topic, &[(PARTITION, offset)], &[]), 1)?[0];
        assert_eq!((first.offset, first.number()), (offset, offset as usize));
    }
    Ok(())
}

fn seek(topic: &str) -> Outcome {
    let consumer = assigned(topic, &[(PARTITION, 0)], &[]);
    assert_eq!(read(&consumer, 10)?[9].offset, 9);
    for offset in [500, 3, 999] {
        consumer.seek(topic, PARTITION, Offset::Offset(offset), DEADLINE)?;
        assert_eq!(read(&consumer, 1)?[0].offset, offset);
    }
    consumer.seek(topic, PARTITION, Offset::Beginning, DEADLINE)?;
    assert_eq!(read(&consumer, 1)?[0].offset, 0);
    consumer.seek(topic, PARTITION, Offset::End, DEADLINE)?;
    assert!(consumer.poll(Duration::from_millis(300)).is_none());
    Ok(())
}

fn by_time(topic: &str) -> Outcome {
    let consumer = assigned(topic, &[(PARTITION, 0)], &[]);
    for (time_ms, offset) in [
        (0, Offset::Offset(0)),
        (BASE_MS + 250_000, Offset::Offset(250)),
        (BASE_MS + 250_001, Offset::Offset(251)),
        (BASE_MS + 999_000, Offset::Offset(999)),
        (BASE_MS + 999_001, Offset::End),
    ] {
        assert_eq!(offset_at(&consumer, topic, time_ms)?, offset, "at {time_ms}");
    }
    let found = offset_at(&consumer, topic, BASE_MS + 700_500)?;
    consumer.seek(topic, PARTITION, found, DEADLINE)?;
    assert_eq!(read(&consumer, 1)?[0].timestamp_ms, Some(BASE_MS + 701_000));
    Ok(())
}

fn offset_at(consumer: &BaseConsumer, topic: &str, time_ms: i64) -> KafkaResult<Offset> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition_offset(topic, PARTITION, Offset::Offset(time_ms))?;
    Ok(consumer.offsets_for_times(asked, DEADLINE)?.elements()[0].offset())
}

fn following() -> Outcome {
    let topic = create_topic("following", 1, &[]);
    produce(&topic, 0, &numbered(0..1));
    let consumer = assigned(&topic, &[(0, 0)], &[("fetch.wait.max.ms", "15000")]);
    read(&consumer, 1)?;
    produce(&topic, 0, &numbered(1..2));
    let began = Instant::now();
    assert_eq!(read(&consumer, 1)?[0].number(), 1);
    assert!(began.elapsed() < Duration::from_secs(5), "it came only after {:?}", began.elapsed());
    Ok(())
}

fn beside_a_deleted_one() -> Outcome {
    let (idle, gone) = (create_topic("idle", 1, &[]), create_topic("gone", 1, &[]));
    let consumer = unjoined("unused", &[("fetch.wait.max.ms", "500")]);
    let mut places = TopicPartitionList::new();
    for topic in [&idle, &gone] {
        produce(topic, 0, &numbered(0..1));
        places.add_partition_offset(topic, 0, Offset::Beginning)?;
    }
    consumer.assign(&places)?;
    read(&consumer, 2)?;
    assert_eq!(delete_topic(&gone)?, Ok(()));
    let (before, began) = (answered_fetches(), Instant::now());
    while began.elapsed() < IDLE {
        // It may tell of the topic that is gone.
        let _told = consumer.poll(Duration::from_millis(100));
    }
    let asked = answered_fetches() - before;
    assert!(asked < IDLE_FETCHES_MAX, "{asked} fetches in {IDLE:?} with nothing to read");
    produce(&idle, 0, &numbered(1..2));
    let late = || matches!(consumer.poll(Duration::from_millis(100)), Some(Ok(_)));
    wait_until(DEADLINE, late, || "the late record".to_owned());
    Ok(())
}

fn read_committed(topic: &str) -> Outcome {
    let consumer = assigned(topic, &[(PARTITION, 0)], &[("isolation.level", "read_committed")]);
    assert!(read(&consumer, 1_000)?.iter().map(Record::number).eq(0..1_000));
    Ok(())
}

/// A topic of which nothing is left but its last record, a tombstone.
fn compacted() -> Outcome {
    let topic = std::env::var("COMPACTED_TOPIC").expect("run.sh has made it");
    let consumer = assigned(&topic, &[(0, 0)], &[]);
    let mut last = read(&consumer, 1)?.remove(0);
    while last.offset < 5 {
        last = read(&consumer, 1)?.remove(0);
    }
    assert_eq!((last.offset, last.key, last.value), (5, Some(b"k2".to_vec()), None));
    let next = Record { key: Some(b"k3".to_vec()), ..Record::of_value(b"value".to_vec()) };
    produce(&topic, 0, &[next]);
    let next = read(&consumer, 1)?.remove(0);
    assert_eq!((next.offset, next.key), (6, Some(b"k3".to_vec())));
    Ok(())
}
