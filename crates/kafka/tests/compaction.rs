//! Topics that are deleted, and replicas that move, while they are compacted.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::disks::Disks;
use common::failing_disk::FailingDisk;
use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, TimestampMs};
use logway_record::{BatchBuilder, Compression};
use tokio::task::spawn_blocking;

/// A broker with two log directories; partition 0 of `t`, which is compacted, is in the first.
async fn start(disks: &Disks, disk: &FailingDisk, settings: &[(&str, &str)]) -> TestBroker {
    disks.try_start_with(Arc::new(disk.clone()), settings).await.expect("starts")
}

/// Looks for work again and again.
const EAGER: [(&str, &str); 1] = [("log.cleaner.backoff.ms", "10")];

/// Works when it is told to.
const TOLD: [(&str, &str); 1] = [("log.cleaner.threads", "0")];

async fn create_compacted(connection: &Connection) {
    let configs = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0"),
        ("segment.bytes", "1048576"),
        ("delete.retention.ms", "0"),
        ("file.delete.delay.ms", "0"),
    ];
    create_topic_with(connection, "t", 1, &configs).await;
}

/// So large that no two of them fit into a segment.
fn large(key: &str, value: &str) -> Bytes {
    keyed(key, Some(&format!("{value} {}", "x".repeat(700_000))))
}

fn keyed(key: &str, value: Option<&str>) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = value.map(str::as_bytes);
    builder.append(TimestampMs(now_ms()), Some(key.as_bytes()), value, &[]).expect("fits");
    builder.finish().expect("fits")
}

async fn put(connection: &Connection, batch: Bytes) {
    assert_eq!(produce(connection, "t", 0, batch).await.error_code, 0);
}

/// The first word of the last value of each key, and how many records there are.
async fn latest(connection: &Connection) -> (BTreeMap<String, String>, usize) {
    let (mut latest, mut next, mut count) = (BTreeMap::new(), 0, 0);
    loop {
        let page = records(&fetch(connection, "t", 0, next).await);
        let Some(last) = page.last() else { return (latest, count) };
        next = last.offset.0 + 1;
        count += page.len();
        for record in page {
            let key = text(&record.key.expect("has a key"));
            match record.value {
                Some(value) => _ = latest.insert(key, text(&value)),
                None => _ = latest.remove(&key),
            }
        }
    }
}

/// Waits until there are so many records.
async fn until_left(connection: &Connection, count: usize) {
    let is_left = async { while latest(connection).await.1 != count {} };
    tokio::time::timeout(Duration::from_secs(20), is_left).await.expect("in time");
}

fn text(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).expect("is text");
    text.split(' ').next().expect("has a word").to_owned()
}

fn only(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

/// What is in a log directory of the topic, whatever became of its names.
fn leftovers(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("is there");
    let names = entries.map(|entry| entry.expect("is read").file_name().into_string());
    names.map(|name| name.expect("is text")).filter(|name| name.starts_with("t-")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_is_deleted_while_it_is_compacted() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.a);
    let broker = start(&disks, &disk, &EAGER).await;
    let connection = broker.connect().await;
    create_compacted(&connection).await;
    disk.hold_writes_after(".cleaned", 0);
    for value in ["1", "2", "3"] {
        put(&connection, large("a", value)).await;
    }
    until(|| disk.holds()).await;
    let other = broker.connect().await;
    let deletion = tokio::spawn(async move { delete_topic(&other, "t").await });
    disk.release();
    deletion.await.expect("no panic");
    until(|| leftovers(&disks.a).is_empty()).await;

    // The next of its name has nothing to do with it.
    create_compacted(&connection).await;
    for value in ["4", "5", "6"] {
        put(&connection, large("b", value)).await;
    }
    until_left(&connection, 2).await;
    assert_eq!(latest(&connection).await.0, only("b", "6"));
    broker.stop().await;
    let broker = start(&disks, &disk, &EAGER).await;
    assert_eq!(latest(&broker.connect().await).await.0, only("b", "6"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_moves_while_it_is_compacted() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.a);
    let broker = start(&disks, &disk, &EAGER).await;
    let connection = broker.connect().await;
    create_compacted(&connection).await;
    disk.hold_writes_after(".cleaned", 0);
    for value in ["1", "2", "3"] {
        put(&connection, large("a", value)).await;
    }
    until(|| disk.holds()).await;
    assert_eq!(move_replica(&connection, "t", &disks.b).await, ErrorCode::None);
    disk.release();
    put(&connection, large("a", "4")).await;
    until_moved(&broker).await;
    assert_eq!(leftovers(&disks.b), ["t-0"]);
    until(|| leftovers(&disks.a).is_empty()).await;
    assert_eq!(latest(&connection).await.0, only("a", "4"));
    // It is compacted where it is now; and the log begins where it began, although nothing is left
    // there: a consumer that is there reads on.
    until_left(&connection, 2).await;
    assert_eq!(move_replica(&connection, "t", &disks.a).await, ErrorCode::None);
    until_moved(&broker).await;
    assert_eq!(latest(&connection).await, (only("a", "4"), 2));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_key_does_not_come_back_with_a_replica_that_moves() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let broker = Arc::new(start(&disks, &disk, &TOLD).await);
    let connection = broker.connect().await;
    create_compacted(&connection).await;
    for (key, value) in [("a", "1"), ("b", "1"), ("c", "1")] {
        put(&connection, large(key, value)).await;
    }
    put(&connection, keyed("a", None)).await;
    for (key, value) in [("d", "1"), ("d", "2")] {
        put(&connection, large(key, value)).await;
    }
    let (sealed, told) = (Arc::clone(&broker), Arc::clone(&broker));
    let seal = move || {
        for dir in sealed.node().log_dirs.online() {
            // One sealing may be under way, and one more may wait for it: the third knows of both.
            (0..3).for_each(|_| dir.enforce_retention().wait().expect("the disk works"));
        }
    };
    spawn_blocking(seal).await.expect("no panic");
    disk.hold_writes_after(".log", 1);
    assert_eq!(move_replica(&connection, "t", &disks.b).await, ErrorCode::None);
    until(|| disk.holds()).await;
    // The value is copied, and the tombstone is not.
    let clean = move || (0..3).for_each(|_| told.node().log_cleaner.clean_due());
    spawn_blocking(clean).await.expect("no panic");
    disk.release();
    until_moved(&broker).await;
    let (latest, _) = latest(&connection).await;
    assert_eq!(latest.keys().collect::<Vec<_>>(), ["b", "c", "d"]);
    let broker = Arc::into_inner(broker).expect("nobody else has it");
    broker.stop().await;
}
