//! Replicas that move from one log directory to another, while they are written and read, and
//! through crashes.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use common::disks::{Disks, copy_all};
use common::failing_disk::FailingDisk;
use common::*;
use logway_client::Connection;
use logway_log::fs::{Fs, RealFs};
use logway_model::{
    BrokerId, DirectoryId, ErrorCode, ProducerEpoch, ProducerId, Sequence, TimestampMs,
};
use logway_record::{BatchBuilder, Compression};
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::{DeleteRecordsRequest, DescribeLogDirsRequest};

impl Disks {
    /// A broker with partition 0 of `t` in the first directory.
    async fn with_topic(&self, fs: Arc<dyn Fs>) -> (TestBroker, Connection) {
        let broker = self.try_start(fs).await.expect("starts");
        let connection = broker.connect().await;
        create_topic(&connection, "t", 1).await;
        assert!(self.a.join("t-0").exists());
        (broker, connection)
    }

    /// What a crash would leave at this moment, when nothing is being written.
    fn image(&self) -> Disks {
        let image = Disks::new();
        copy_all(&self.a, &image.a);
        copy_all(&self.b, &image.b);
        image
    }
}

async fn move_to(connection: &Connection, dir: &Path) -> ErrorCode {
    move_replica(connection, "t", dir).await
}

/// Where DescribeLogDirs sees partition 0 of `t`: for each log the directory's last name, whether it
/// is the future one, and its lag.
async fn described(connection: &Connection) -> Vec<(String, bool, i64)> {
    let request = DescribeLogDirsRequest { topics: None, ..Default::default() };
    let mut logs = Vec::new();
    for dir in connection.call(&request).await.expect("is answered").results {
        let name = dir.log_dir.rsplit('/').next().expect("has a name").to_owned();
        for topic in dir.topics.iter().filter(|topic| topic.name == "t") {
            let partition = &topic.partitions[0];
            logs.push((name.clone(), partition.is_future_key, partition.offset_lag));
        }
    }
    logs
}

fn directory(broker: &TestBroker) -> DirectoryId {
    let image = broker.node().image();
    image.topic("t").expect("exists").partitions[0].directory_of(BrokerId(1))
}

/// The replica is in `here` and nothing of it in `there`; nothing speaks of a move any more.
fn assert_only_in(here: &Path, there: &Path) {
    assert!(here.join("t-0").exists() && !there.join("t-0").exists());
    assert!(!here.join("t-0/replica-move").exists());
}

async fn all_values(connection: &Connection, from: i64) -> Vec<String> {
    let mut all = Vec::new();
    let mut next = from;
    loop {
        let page = values(&fetch(connection, "t", 0, next).await);
        let Some((last, _)) = page.last() else { return all };
        next = last.0 + 1;
        all.extend(page.into_iter().filter(|(offset, _)| offset.0 >= from).map(|(_, value)| value));
    }
}

async fn produce_value(connection: &Connection, value: &str) -> i16 {
    produce(connection, "t", 0, batch(&[value])).await.error_code
}

/// So large that one is more than half of what is copied at a time.
fn large_batch(number: usize) -> Bytes {
    batch(&[&format!("{number} {}", "x".repeat(700_000))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_moves_while_it_is_written_and_read() {
    const MOVES: usize = 6;
    let disks = Disks::new();
    let (broker, connection) = disks.with_topic(Arc::new(RealFs)).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let (writer, reader) = (broker.connect().await, broker.connect().await);
    let writing = tokio::spawn({
        let is_done = Arc::clone(&is_done);
        async move {
            let mut written: i64 = 0;
            while !is_done.load(Ordering::SeqCst) {
                // Two at a time, as producers do.
                let requests = [0, 1]
                    .map(|more| produce_request("t", 0, batch(&[&(written + more).to_string()])));
                let first = writer.send(&requests[0], 12).await.expect("is sent");
                let second = writer.send(&requests[1], 12).await.expect("is sent");
                for pending in [first, second] {
                    let answer = pending.response().await.expect("is answered");
                    let answer = &answer.responses[0].partition_responses[0];
                    assert_eq!((answer.error_code, answer.base_offset), (0, written));
                    written += 1;
                }
            }
            written
        }
    });
    let reading = tokio::spawn({
        let is_done = Arc::clone(&is_done);
        async move {
            let mut next = 0;
            while !is_done.load(Ordering::SeqCst) {
                let mut request = fetch_request("t", &[(0, next)]);
                (request.max_wait_ms, request.min_bytes) = (100, 1);
                let answer = fetch_with(&reader, &request).await;
                for (offset, value) in values(&answer.responses[0].partitions[0]) {
                    assert_eq!((offset.0, value), (next, next.to_string()));
                    next += 1;
                }
            }
        }
    });
    for round in 0..MOVES {
        let (from, to) = match round % 2 {
            0 => (&disks.a, &disks.b),
            _ => (&disks.b, &disks.a),
        };
        assert_eq!(move_to(&connection, to).await, ErrorCode::None);
        until_moved(&broker).await;
        assert_only_in(to, from);
        let dir = broker.node().log_dirs.all().iter().find(|dir| dir.path() == to);
        let online = dir.and_then(|dir| dir.online()).expect("is online");
        assert_eq!(directory(&broker), online.directory_id());
    }
    is_done.store(true, Ordering::SeqCst);
    let written = writing.await.expect("no panic");
    reading.await.expect("no panic");
    let expected: Vec<String> = (0..written).map(|number| number.to_string()).collect();
    assert_eq!(all_values(&connection, 0).await, expected);
    assert_eq!(described(&connection).await, [("a".to_owned(), false, 0)]);
    broker.stop().await;

    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(all_values(&connection, 0).await, expected);
    broker.stop().await;
}

/// A broker that has been stopped from copying when a part was copied; and the values so far.
async fn half_copied(disks: &Disks, disk: &FailingDisk) -> (TestBroker, Connection, usize) {
    const BATCHES: usize = 8;
    let (broker, connection) = disks.with_topic(Arc::new(disk.clone())).await;
    for number in 0..BATCHES {
        assert_eq!(produce(&connection, "t", 0, large_batch(number)).await.error_code, 0);
    }
    disk.hold_writes_after(".log", 3);
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    until(|| disk.holds()).await;
    (broker, connection, BATCHES)
}

fn number_of(value: &str) -> usize {
    value.split(' ').next().expect("has a number").parse().expect("is a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_shows_how_far_it_is_and_goes_on_after_a_crash() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection, batches) = half_copied(&disks, &disk).await;
    let logs = described(&connection).await;
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[0], ("a".to_owned(), false, 0));
    let (dir, is_future, lag) = &logs[1];
    assert_eq!((&**dir, *is_future), ("b", true));
    assert!((1..8).contains(lag), "{lag}");
    assert!(broker.metrics().contains("\nlogway_replica_moves 1\n"));
    // Meanwhile it is written and read where it is.
    assert_eq!(produce(&connection, "t", 0, large_batch(batches)).await.error_code, 0);
    let image = disks.image();
    disk.release();
    until_moved(&broker).await;
    assert_only_in(&disks.b, &disks.a);
    assert_eq!(all_values(&connection, 0).await.len(), batches + 1);
    broker.stop().await;

    let broker = image.start().await;
    let connection = broker.connect().await;
    assert_eq!(produce(&connection, "t", 0, large_batch(batches + 1)).await.error_code, 0);
    until_moved(&broker).await;
    assert_only_in(&image.b, &image.a);
    let numbers: Vec<usize> =
        all_values(&connection, 0).await.iter().map(|value| number_of(value)).collect();
    assert_eq!(numbers, (0..batches + 2).collect::<Vec<_>>());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_goes_on_after_a_clean_stop() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, _, batches) = half_copied(&disks, &disk).await;
    let stopping = tokio::spawn(broker.stop());
    disk.release();
    stopping.await.expect("no panic");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    until_moved(&broker).await;
    assert_only_in(&disks.b, &disks.a);
    assert_eq!(all_values(&connection, 0).await.len(), batches);
    broker.stop().await;
}

/// The metadata says already that the replica is in the target, but the copy is not complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_while_appends_are_held_back_loses_none() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection) = disks.with_topic(Arc::new(disk.clone())).await;
    assert_eq!(produce_value(&connection, "first").await, 0);
    disk.hold_writes_after("log-start-offset-checkpoint", 0);
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    until(|| disk.holds()).await;
    let target = broker.node().log_dirs.all()[1].online().expect("is online").directory_id();
    assert_eq!(directory(&broker), target);
    // It waits, and is not refused.
    let request = produce_request("t", 0, batch(&["held"]));
    let held = connection.send(&request, 12).await.expect("is sent");
    let other = broker.connect().await;
    assert_eq!(all_values(&other, 0).await, ["first"]);
    let image = disks.image();
    disk.release();
    let answer = held.response().await.expect("is answered");
    assert_eq!(answer.responses[0].partition_responses[0].base_offset, 1);
    until_moved(&broker).await;
    assert_eq!(all_values(&connection, 0).await, ["first", "held"]);
    broker.stop().await;

    let broker = image.start().await;
    let connection = broker.connect().await;
    assert_eq!(produce_value(&connection, "second").await, 0);
    until_moved(&broker).await;
    assert_only_in(&image.b, &image.a);
    assert_eq!(all_values(&connection, 0).await, ["first", "second"]);
    broker.stop().await;
}

/// The one write that decides fails, and says what it was to say all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_crash_after_a_switch_in_doubt_loses_records() {
    let disks = Disks::new();
    let disk = FailingDisk::new(disks.root.path());
    let (broker, connection) = disks.with_topic(Arc::new(disk.clone())).await;
    let home = broker.node().log_dirs.metadata_directory_id();
    assert_eq!(produce_value(&connection, "first").await, 0);
    disk.doubt_renaming_of("state: moved");
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    until(|| !disk.is_in_doubt() && directory(&broker) == home).await;
    assert_eq!(produce_value(&connection, "second").await, 0);
    let taken_back = disks.image();

    // The next attempt gets as far as to tell the metadata, and then has to wait.
    disk.hold_writes_after("/a/u-", 0);
    let other = broker.connect().await;
    let creating = tokio::spawn(async move { create_topic(&other, "u", 2).await });
    until(|| disk.holds()).await;
    until(|| directory(&broker) != home).await;
    assert_eq!(produce_value(&connection, "third").await, 0);
    let again = disks.image();
    disk.release();
    creating.await.expect("no panic");
    until_moved(&broker).await;
    assert_only_in(&disks.b, &disks.a);
    assert_eq!(all_values(&connection, 0).await, ["first", "second", "third"]);
    broker.stop().await;

    for (image, values) in
        [(taken_back, &["first", "second"][..]), (again, &["first", "second", "third"])]
    {
        let broker = image.start().await;
        let connection = broker.connect().await;
        assert_eq!(all_values(&connection, 0).await, values);
        until_moved(&broker).await;
        assert_only_in(&image.b, &image.a);
        assert_eq!(all_values(&connection, 0).await, values);
        broker.stop().await;
    }
}

/// The log is back where a move had once brought it from, with the note of that move.
#[tokio::test]
async fn a_moved_log_that_is_put_back_by_hand_is_no_leftover_of_itself() {
    let disks = Disks::new();
    let (broker, connection) = disks.with_topic(Arc::new(RealFs)).await;
    let home = broker.node().log_dirs.metadata_directory_id();
    assert_eq!(produce_value(&connection, "first").await, 0);
    broker.stop().await;
    for state in ["moved", "copying"] {
        let file = format!("version: 0\nstate: {state}\nfrom: {home}\n");
        fs::write(disks.a.join("t-0/replica-move"), file).expect("is written");
        let broker = disks.start().await;
        let connection = broker.connect().await;
        if state == "moved" {
            assert_eq!(all_values(&connection, 0).await, ["first"]);
            assert_only_in(&disks.a, &disks.b);
        } else {
            // It need not be whole.
            let refused = fetch(&connection, "t", 0, 0).await.error_code;
            assert_eq!(refused, ErrorCode::KafkaStorageError.code());
        }
        broker.stop().await;
    }
}

/// The copy is complete and has taken appends, but the log that was left is still there.
#[tokio::test]
async fn a_start_removes_what_a_move_left_and_keeps_what_it_cannot_explain() {
    let disks = Disks::new();
    let (broker, connection) = disks.with_topic(Arc::new(RealFs)).await;
    assert_eq!(produce_value(&connection, "first").await, 0);
    let left = disks.a.with_extension("left");
    copy_all(&disks.a.join("t-0"), &left);
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    until_moved(&broker).await;
    assert_eq!(produce_value(&connection, "second").await, 0);
    let from = broker.node().log_dirs.metadata_directory_id();
    broker.stop().await;

    let is_stray = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("can be read").file_name().to_string_lossy().ends_with("-stray")
    };
    for is_known in [true, false] {
        copy_all(&left, &disks.a.join("t-0"));
        if is_known {
            let file = format!("version: 0\nstate: moved\nfrom: {from}\n");
            fs::write(disks.b.join("t-0/replica-move"), file).expect("is written");
        }
        let broker = disks.start().await;
        let connection = broker.connect().await;
        assert_eq!(all_values(&connection, 0).await, ["first", "second"]);
        assert_only_in(&disks.b, &disks.a);
        let strays = fs::read_dir(&disks.a).expect("is there").map(is_stray);
        assert_eq!(strays.filter(|is_stray| *is_stray).count(), usize::from(!is_known));
        broker.stop().await;
    }
}

#[tokio::test]
async fn a_log_that_was_moved_by_hand_can_move_back() {
    let disks = Disks::new();
    let (broker, connection) = disks.with_topic(Arc::new(RealFs)).await;
    assert_eq!(produce_value(&connection, "first").await, 0);
    broker.stop().await;
    fs::rename(disks.a.join("t-0"), disks.b.join("t-0")).expect("is there");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(move_to(&connection, &disks.a).await, ErrorCode::None);
    until_moved(&broker).await;
    assert_only_in(&disks.a, &disks.b);
    assert_eq!(all_values(&connection, 0).await, ["first"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_can_be_taken_back() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection, batches) = half_copied(&disks, &disk).await;
    let home = broker.node().log_dirs.metadata_directory_id();
    let other = broker.connect().await;
    let a = disks.a.clone();
    let back = tokio::spawn(async move { move_to(&other, &a).await });
    disk.release();
    assert_eq!(back.await.expect("no panic"), ErrorCode::None);
    // It may have been done before it could be taken back; then it has moved back.
    until_moved(&broker).await;
    assert_only_in(&disks.a, &disks.b);
    assert_eq!(directory(&broker), home);
    assert_eq!(all_values(&connection, 0).await.len(), batches);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_fails_costs_nothing() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection, batches) = half_copied(&disks, &disk).await;
    let home = broker.node().log_dirs.metadata_directory_id();
    disk.fail();
    disk.release();
    until(|| broker.node().log_dirs.offline_count() == 1).await;
    until_moved(&broker).await;
    assert_eq!(directory(&broker), home);
    assert_eq!(produce(&connection, "t", 0, large_batch(batches)).await.error_code, 0);
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::KafkaStorageError);
    broker.stop().await;
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(all_values(&connection, 0).await.len(), batches + 1);
    until_moved(&broker).await;
    assert_only_in(&disks.b, &disks.a);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_can_be_deleted_while_it_moves() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection, _) = half_copied(&disks, &disk).await;
    disk.release();
    delete_topic(&connection, "t").await;
    until_moved(&broker).await;
    assert!(!disks.a.join("t-0").exists() && !disks.b.join("t-0").exists());
    create_topic(&connection, "t", 1).await;
    assert_eq!(produce_value(&connection, "new").await, 0);
    assert_eq!(all_values(&connection, 0).await, ["new"]);
    broker.stop().await;
}

/// Sets how fast replicas are copied, in bytes per second.
async fn set_rate(connection: &Connection, rate: &str) {
    const BROKER: i8 = 4;
    let name = "replica.alter.log.dirs.io.max.bytes.per.second";
    let set = set_config(connection, (BROKER, "1"), name, Some(rate)).await;
    assert_eq!(set, ErrorCode::None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_is_no_faster_than_it_may_be() {
    let disks = Disks::new();
    let (broker, connection) = disks.with_topic(Arc::new(RealFs)).await;
    for number in 0..8 {
        assert_eq!(produce(&connection, "t", 0, large_batch(number)).await.error_code, 0);
    }
    // Minutes, if nobody changed it.
    set_rate(&connection, "10000").await;
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    let target = broker.node().log_dirs.all()[1].online().expect("is online");
    let copy = target.logs().pop().expect("is there");
    until(|| copy.log_end_offset().0 > 0).await;
    assert!(copy.log_end_offset().0 < 3, "{:?}", copy.log_end_offset());
    assert_eq!(broker.node().replica_moves.count(), 1);
    set_rate(&connection, "1000000000").await;
    until_moved(&broker).await;
    assert_only_in(&disks.b, &disks.a);
    broker.stop().await;
}

/// A batch of one record, the first of its producer.
fn idempotent_batch(value: &str) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(
        ProducerId(77),
        ProducerEpoch(0),
        Sequence(0),
    );
    builder.append(TimestampMs(now_ms()), None, Some(value.as_bytes()), &[]).expect("fits");
    builder.finish().expect("fits")
}

#[tokio::test]
async fn deleted_records_and_sequences_move_along() {
    let disks = Disks::new();
    let (broker, connection) = disks.with_topic(Arc::new(RealFs)).await;
    // One batch, within which the log start will be.
    assert_eq!(produce(&connection, "t", 0, batch(&["0", "1", "2", "3"])).await.error_code, 0);
    let idempotent = idempotent_batch("once");
    let first = produce(&connection, "t", 0, idempotent.clone()).await;
    assert_eq!((first.error_code, first.base_offset), (0, 4));
    let partition = DeleteRecordsPartition { partition_index: 0, offset: 3, ..Default::default() };
    let topic =
        DeleteRecordsTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let request =
        DeleteRecordsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.topics[0].partitions[0].error_code, 0);

    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    until_moved(&broker).await;
    for _ in 0..2 {
        assert_eq!(fetch(&connection, "t", 0, 2).await.error_code, 1, "out of range");
        assert_eq!(all_values(&connection, 3).await, ["3", "once"]);
        let again = produce(&connection, "t", 0, idempotent.clone()).await;
        assert_eq!((again.error_code, again.base_offset), (0, 4));
    }
    broker.stop().await;
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(fetch(&connection, "t", 0, 2).await.error_code, 1, "out of range");
    assert_eq!(all_values(&connection, 3).await, ["3", "once"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_has_to_wait_holds_up_no_other() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection) = disks.with_topic(Arc::new(disk.clone())).await;
    create_topic(&connection, "w", 1).await;
    create_topic(&connection, "u", 1).await;
    assert!(disks.a.join("u-0").exists());
    for topic in ["t", "u"] {
        assert_eq!(produce(&connection, topic, 0, batch(&["first"])).await.error_code, 0);
    }
    disk.refuse_writes_to("/b/t-0/0000");
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    assert_eq!(move_replica(&connection, "u", &disks.b).await, ErrorCode::None);
    until(|| !disks.a.join("u-0").exists()).await;
    until(|| broker.node().replica_moves.count() == 1).await;
    assert!(disks.a.join("t-0").exists());
    broker.stop().await;
}

/// The metadata says already that the replica is in the target, and then its copy is of no use any
/// more: a crash must not leave the replica where there is nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_begun_anew_is_not_where_the_replica_is() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.a);
    let (broker, connection) = disks.with_topic(Arc::new(disk.clone())).await;
    assert_eq!(move_to(&connection, &disks.b).await, ErrorCode::None);
    until_moved(&broker).await;
    let source = directory(&broker);
    assert_eq!(produce_value(&connection, "first").await, 0);
    // The switch cannot be completed in time.
    disk.hold_writes_after("/a/log-start-offset-checkpoint", 0);
    assert_eq!(move_to(&connection, &disks.a).await, ErrorCode::None);
    until(|| disk.holds()).await;
    assert_ne!(directory(&broker), source);
    // Both wait until the partition goes on.
    let request = produce_request("t", 0, batch(&["second"]));
    let held = connection.send(&request, 12).await.expect("is sent");
    let answer = held.response().await.expect("is answered");
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    let partition = DeleteRecordsPartition { partition_index: 0, offset: 2, ..Default::default() };
    let topic =
        DeleteRecordsTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let request =
        DeleteRecordsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    // The copy is removed, and another one is about to be made.
    disk.hold_writes_after("/a/t-0/replica-move", 0);
    until(|| disk.holds()).await;
    assert_eq!(directory(&broker), source);
    disk.release();
    until_moved(&broker).await;
    assert_only_in(&disks.a, &disks.b);
    assert_eq!(produce_value(&connection, "third").await, 0);
    assert_eq!(all_values(&connection, 2).await, ["third"]);
    broker.stop().await;
}
