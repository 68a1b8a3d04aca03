//! Several log directories: where partitions go, and what becomes of those in one that fails.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::disks::{Disks, copy_all};
use common::failing_disk::FailingDisk;
use common::*;
use logway_client::Connection;
use logway_log::checkpoint::known_dirs::{self, KNOWN_DIRS_FILE};
use logway_log::fs::{Fs, RealFs};
use logway_model::ErrorCode;
use logway_node::NodeError;
use logway_node::log_dirs::DirState;
use logway_wire::WireString;
use logway_wire::messages::describe_log_dirs_response::DescribeLogDirsResult;
use logway_wire::messages::metadata_response::MetadataResponsePartition;
use logway_wire::messages::{DescribeLogDirsRequest, FindCoordinatorRequest};

const NOT_LEADER: i16 = ErrorCode::NotLeaderOrFollower as i16;
const OFFLINE: i16 = 56;

impl Disks {
    /// A broker with partition 0 of `t` in the first directory and partition 1 in the second, and
    /// a record in each.
    async fn with_records(&self, fs: Arc<dyn Fs>) -> (TestBroker, Connection) {
        let broker = self.try_start(fs).await.expect("starts");
        let connection = broker.connect().await;
        create_topic(&connection, "t", 2).await;
        for partition in [0, 1] {
            let answer = produce(&connection, "t", partition, batch(&["precious"])).await;
            assert_eq!(answer.error_code, 0);
        }
        assert_eq!(logs_in(&self.a), ["t-0"]);
        assert_eq!(logs_in(&self.b), ["t-1"]);
        (broker, connection)
    }

    /// The same, after a clean stop.
    async fn with_stopped_broker(&self) {
        let (broker, _) = self.with_records(Arc::new(RealFs)).await;
        broker.stop().await;
    }
}

/// The directories of partitions in a log directory.
fn logs_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("is a directory");
    let names = entries.map(|entry| entry.expect("can be read").file_name());
    let names = names.map(|name| name.into_string().expect("is text"));
    let is_log = |name: &String| {
        name.rsplit_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok())
    };
    let mut logs: Vec<String> = names.filter(is_log).collect();
    logs.sort();
    logs
}

async fn describe(connection: &Connection) -> Vec<DescribeLogDirsResult> {
    let request = DescribeLogDirsRequest { topics: None, ..Default::default() };
    connection.call(&request).await.expect("is answered").results
}

async fn partitions_of_t(connection: &Connection) -> Vec<MetadataResponsePartition> {
    let metadata = connection.call(&metadata_request()).await.expect("is answered");
    let is_t = |name: &Option<WireString>| name.as_deref() == Some("t");
    let topic = metadata.topics.into_iter().find(|topic| is_t(&topic.name));
    topic.expect("exists").partitions
}

/// Partition 0 of `t` is served as ever, and partition 1 is not, for a reason that says `why`.
async fn assert_half_offline(broker: &TestBroker, connection: &Connection, disks: &Disks) {
    let path = disks.b.display().to_string();
    assert_eq!(produce(connection, "t", 0, batch(&["more"])).await.error_code, 0);
    assert_eq!(values(&fetch(connection, "t", 0, 0).await)[0].1, "precious");
    let answer = produce(connection, "t", 1, batch(&["more"])).await;
    assert_eq!(answer.error_code, OFFLINE);
    let message = answer.error_message.expect("says why");
    assert!(message.contains(&path) && message.contains("offline"), "{message}");
    assert_eq!(fetch(connection, "t", 1, 0).await.error_code, OFFLINE);

    let partitions = partitions_of_t(connection).await;
    assert_eq!((partitions[0].leader_id, &partitions[0].offline_replicas[..]), (1, &[][..]));
    assert_eq!((partitions[1].leader_id, &partitions[1].offline_replicas[..]), (-1, &[1][..]));

    let dirs = describe(connection).await;
    assert_eq!([&*dirs[0].log_dir, &*dirs[1].log_dir], [disks.a.to_str().unwrap(), &*path]);
    assert_eq!([dirs[0].error_code, dirs[1].error_code], [0, OFFLINE]);
    assert!(dirs[0].total_bytes > 0 && dirs[0].usable_bytes > 0);
    assert_eq!((dirs[1].total_bytes, dirs[1].usable_bytes), (-1, -1));
    assert!(dirs[1].topics.is_empty());

    let metrics = broker.metrics();
    assert!(metrics.contains("\nlogway_log_dirs_offline 1\n"), "{metrics}");
    assert!(metrics.contains("\nlogway_partitions_offline 1\n"), "{metrics}");
    assert!(broker.node().log_dirs.is_running());

    // What is new goes where it can be served.
    create_topic(connection, "new", 3).await;
    for partition in 0..3 {
        assert_eq!(produce(connection, "new", partition, batch(&["new"])).await.error_code, 0);
    }
}

#[tokio::test]
async fn partitions_are_spread_over_the_directories_and_stay_there() {
    let disks = Disks::new();
    let broker = disks.start().await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 3).await;
    create_topic(&connection, "u", 3).await;
    for partition in 0..3 {
        let value = format!("of {partition}");
        produce(&connection, "t", partition, batch(&[&value])).await;
    }
    let (in_a, in_b) = (logs_in(&disks.a), logs_in(&disks.b));
    assert_eq!(in_a, ["t-0", "t-2", "u-1"]);
    assert_eq!(in_b, ["t-1", "u-0", "u-2"]);
    let described = describe(&connection).await;
    let in_dir = |dir: &DescribeLogDirsResult| {
        let topics = dir.topics.iter();
        let partitions = topics.flat_map(|topic| {
            topic.partitions.iter().map(|part| format!("{}-{}", topic.name, part.partition_index))
        });
        partitions.collect::<Vec<_>>()
    };
    assert_eq!((in_dir(&described[0]), in_dir(&described[1])), (in_a.clone(), in_b.clone()));
    broker.stop().await;

    let broker = disks.start().await;
    let connection = broker.connect().await;
    for partition in 0..3 {
        let value = values(&fetch(&connection, "t", partition, 0).await)[0].1.clone();
        assert_eq!(value, format!("of {partition}"));
    }
    delete_topic(&connection, "u").await;
    assert_eq!(logs_in(&disks.a), ["t-0", "t-2"]);
    assert_eq!(logs_in(&disks.b), ["t-1"]);
    assert_eq!(partitions_of_t(&connection).await.len(), 3);
    broker.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_at_the_start_takes_only_its_partitions_offline() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let meta = disks.b.join("meta.properties");
    let right = fs::read_to_string(&meta).expect("is there");
    let foreign = right.lines().map(|line| match line.split_once('=') {
        Some(("cluster.id", _)) => "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n".to_owned(),
        _ => format!("{line}\n"),
    });
    for wrong in [foreign.collect(), "no properties".to_owned()] {
        fs::write(&meta, wrong).expect("is written");
        let broker = disks.start().await;
        let connection = broker.connect().await;
        assert_half_offline(&broker, &connection, &disks).await;
        delete_topic(&connection, "new").await;
        broker.stop().await;
    }
    fs::write(&meta, right).expect("is written");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
    broker.stop().await;
}

/// A disk that is not mounted.
#[tokio::test]
async fn a_directory_that_is_empty_is_not_taken_for_a_new_one() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let elsewhere = disks.b.with_extension("elsewhere");
    fs::rename(&disks.b, &elsewhere).expect("is there");
    for is_there in [false, true] {
        if is_there {
            fs::create_dir_all(&disks.b).expect("is made");
        }
        let broker = disks.start().await;
        let connection = broker.connect().await;
        assert_half_offline(&broker, &connection, &disks).await;
        delete_topic(&connection, "new").await;
        broker.stop().await;
    }
    fs::remove_dir_all(&disks.b).expect("is there");
    fs::rename(&elsewhere, &disks.b).expect("is there");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
    broker.stop().await;

    // The disk is broken, and another takes its place.
    fs::remove_dir_all(&disks.b).expect("is there");
    fs::create_dir_all(&disks.b).expect("is made");
    fs::write(disks.b.join("accept-loss"), "").expect("is written");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await), []);
    assert_eq!(produce(&connection, "t", 1, batch(&["anew"])).await.error_code, 0);
    assert_eq!(logs_in(&disks.b), ["t-1"]);
    broker.stop().await;
    assert!(!disks.b.join("accept-loss").exists());
}

/// A disk that was cloned; or one that is mounted elsewhere, and an empty one in its place.
#[tokio::test]
async fn of_two_directories_of_one_id_neither_is_used() {
    for is_clone in [true, false] {
        let disks = Disks::new();
        disks.with_stopped_broker().await;
        let c = disks.b.with_extension("elsewhere");
        if is_clone {
            copy_all(&disks.b, &c);
        } else {
            fs::rename(&disks.b, &c).expect("is there");
            fs::create_dir_all(&disks.b).expect("is made");
            fs::write(disks.b.join("accept-loss"), "").expect("is written");
        }
        let log_dirs = format!("{},{}", disks.log_dirs(), c.display());
        let settings =
            |log_dirs: String| [("log.dirs", log_dirs), ("listeners", "127.0.0.1:0".to_owned())];
        let start = async |log_dirs: String| {
            let settings = settings(log_dirs);
            let settings = [0, 1].map(|index: usize| (settings[index].0, &*settings[index].1));
            TestBroker::try_start(Arc::new(RealFs), &settings).await.expect("starts")
        };
        let broker = start(log_dirs).await;
        for (dir, other) in [(1, &c), (2, &disks.b)] {
            let DirState::Offline { error, .. } = broker.node().log_dirs.all()[dir].state() else {
                panic!("{dir} is used");
            };
            let (error, other) = (error.to_string(), other.display().to_string());
            assert!(error.contains(&other) && error.contains("out of log.dirs"), "{error}");
        }
        let connection = broker.connect().await;
        assert_eq!(produce(&connection, "t", 1, batch(&["more"])).await.error_code, OFFLINE);
        broker.stop().await;
        if !is_clone {
            assert_eq!(logs_in(&disks.b), [""; 0]);
        }

        let broker = start(format!("{},{}", disks.a.display(), c.display())).await;
        let connection = broker.connect().await;
        assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
        broker.stop().await;
    }
}

#[tokio::test]
async fn a_disk_that_fails_takes_only_its_partitions_offline() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection) = disks.with_records(Arc::new(disk.clone())).await;
    // One that waits for records is told, too.
    let waiter = broker.connect().await;
    let mut request = fetch_request("t", &[(1, 1)]);
    (request.max_wait_ms, request.min_bytes) = (60_000, 1);
    let waiting = tokio::spawn(async move { fetch_with(&waiter, &request).await });
    let groups = ["a", "b", "c", "d", "e", "f"];
    for group in groups {
        assert_eq!(coordinator_error(&connection, group).await, 0, "{group}");
    }

    disk.fail();
    let refused = produce(&connection, "t", 1, batch(&["lost"])).await;
    assert_eq!(refused.error_code, OFFLINE, "{:?}", refused.error_message);
    let told = tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("in time");
    let told = told.expect("no panic").responses[0].partitions[0].error_code;
    assert_eq!(told, OFFLINE);
    until(|| broker.metrics().contains("\nlogway_partitions_offline 2\n")).await;
    // Clients of older versions may not know of a log that is offline, and would give up.
    for (version, expected) in [(4, NOT_LEADER), (5, NOT_LEADER), (6, OFFLINE), (12, OFFLINE)] {
        let pending = connection.send(&fetch_request("t", &[(1, 0)]), version).await;
        let response = pending.expect("is sent").response().await.expect("is answered");
        assert_eq!(response.responses[0].partitions[0].error_code, expected, "version {version}");
    }
    // The groups of the partition of `__consumer_offsets` that was on that disk have to wait.
    let mut errors = Vec::new();
    for group in groups {
        errors.push(coordinator_error(&connection, group).await);
    }
    errors.sort_unstable();
    errors.dedup();
    assert_eq!(errors, [0, ErrorCode::CoordinatorNotAvailable.code()]);
    broker.stop().await;

    // Another start, on a disk that works again, finds what was acknowledged.
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
    broker.stop().await;
}

async fn coordinator_error(connection: &Connection, group: &str) -> i16 {
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![WireString::copy_of(group)],
        ..Default::default()
    };
    let pending = connection.send(&request, 4).await.expect("is sent");
    pending.response().await.expect("is answered").coordinators[0].error_code
}

#[tokio::test]
async fn a_disk_that_nobody_writes_to_is_found_to_have_failed() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, _) = disks.with_records(Arc::new(disk.clone())).await;
    disk.fail();
    until(|| broker.node().log_dirs.offline_count() == 1).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_leaves_memory_for_appends_to_others() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let log_dirs = disks.log_dirs();
    let settings = [
        ("log.dirs", &*log_dirs),
        ("listeners", "127.0.0.1:0"),
        ("queued.max.request.bytes", "8388608"),
    ];
    let broker = TestBroker::try_start(Arc::new(disk.clone()), &settings).await.expect("starts");
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    disk.hold_writes_after("/b/t-1/", 0);
    let large = batch(&[&"x".repeat(700_000)]);
    let mut waiting = Vec::new();
    // Twice as much as there is.
    for _ in 0..24 {
        let (producer, large) = (broker.connect().await, large.clone());
        waiting
            .push(tokio::spawn(async move { produce(&producer, "t", 1, large).await.error_code }));
    }
    until(|| waiting.iter().any(|waiting| waiting.is_finished())).await;
    for _ in 0..3 {
        let appended = produce(&connection, "t", 0, large.clone());
        let appended = tokio::time::timeout(Duration::from_secs(20), appended).await;
        assert_eq!(appended.expect("in time").error_code, 0);
    }
    disk.release();
    let mut errors = Vec::new();
    for waiting in waiting {
        errors.push(waiting.await.expect("no panic"));
    }
    // Those that waited are written, and the others are told to try again.
    errors.sort_unstable();
    errors.dedup();
    assert_eq!(errors, [0, OFFLINE]);
    broker.stop().await;
}

/// What follows from a failure waits for another disk, and the next failure does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_offline_at_once_whatever_waits_for_another() {
    let disks = Disks::new();
    let disk = FailingDisk::new(disks.b.parent().expect("is in another"));
    let c = disks.b.with_file_name("c");
    let log_dirs = format!("{},{}", disks.log_dirs(), c.display());
    let settings = [("log.dirs", &*log_dirs), ("listeners", "127.0.0.1:0")];
    let broker = TestBroker::try_start(Arc::new(disk.clone()), &settings).await.expect("starts");
    let connection = broker.connect().await;
    // The topics cannot be brought in line while this one is being made.
    disk.hold_writes_after("/a/u-", 0);
    let creating = tokio::spawn(async move { create_topic(&connection, "u", 3).await });
    until(|| disk.holds()).await;
    let dirs = broker.node().log_dirs.all();
    let [b, c] = [1, 2].map(|index: usize| dirs[index].online().expect("is online"));
    for dir in [&disks.b, &disks.b.with_file_name("c")] {
        fs::rename(dir, dir.with_extension("unmounted")).expect("is there");
    }
    until(|| broker.node().log_dirs.offline_count() == 2).await;
    until(|| !b.is_running() && !c.is_running()).await;
    disk.release();
    creating.await.expect("no panic");
    broker.stop().await;
}

#[tokio::test]
async fn a_disk_on_which_no_log_can_be_made_is_offline_and_others_are_used() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.b);
    let (broker, connection) = disks.with_records(Arc::new(disk.clone())).await;
    disk.fail();
    // Partitions are put there until somebody notices.
    create_topic(&connection, "early", 2).await;
    until(|| broker.node().log_dirs.offline_count() == 1).await;
    until(|| broker.metrics().contains("\nlogway_partitions_offline 2\n")).await;
    delete_topic(&connection, "early").await;
    assert_half_offline(&broker, &connection, &disks).await;
    broker.stop().await;
}

#[tokio::test]
async fn a_directory_that_is_removed_under_the_broker_is_offline() {
    let disks = Disks::new();
    let (broker, connection) = disks.with_records(Arc::new(RealFs)).await;
    fs::rename(&disks.b, disks.b.with_extension("unmounted")).expect("is there");
    until(|| broker.metrics().contains("\nlogway_partitions_offline 1\n")).await;
    assert_half_offline(&broker, &connection, &disks).await;
    broker.stop().await;
}

#[tokio::test]
async fn a_broker_that_loses_the_directory_of_the_metadata_cannot_go_on() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.a);
    let (broker, connection) = disks.with_records(Arc::new(disk.clone())).await;
    disk.fail();
    let refused = produce(&connection, "t", 0, batch(&["lost"])).await;
    assert_eq!(refused.error_code, OFFLINE);
    let error = broker.failed().await.to_string();
    assert!(error.contains(disks.a.to_str().unwrap()) && error.contains("metadata"), "{error}");
    assert!(!broker.node().log_dirs.is_running());
    broker.stop().await;
}

#[tokio::test]
async fn the_directory_of_the_metadata_must_stay_the_first() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let swapped = format!("{},{}", disks.b.display(), disks.a.display());
    let settings = [("log.dirs", &*swapped), ("listeners", "127.0.0.1:0")];
    let error = TestBroker::try_start(Arc::new(RealFs), &settings).await.err().expect("refuses");
    assert!(matches!(error, NodeError::MetadataElsewhere { .. }), "{error}");
    // It is not mounted, or new.
    let elsewhere = disks.a.with_extension("elsewhere");
    fs::rename(&disks.a, &elsewhere).expect("is there");
    let error = disks.try_start(Arc::new(RealFs)).await.err().expect("refuses");
    assert!(matches!(error, NodeError::MetadataElsewhere { .. }), "{error}");
    assert!(!disks.a.exists());
    fs::rename(&elsewhere, &disks.a).expect("is there");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 0, 0).await)[0].1, "precious");
    broker.stop().await;
}

#[tokio::test]
async fn logs_without_the_metadata_are_not_taken_for_strays() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    // The directory with the metadata was forgotten in the setting, or its disk is not mounted.
    let elsewhere = disks.a.with_extension("elsewhere");
    fs::rename(&disks.a, &elsewhere).expect("is there");
    let (a, b) = (disks.a.display(), disks.b.display());
    for dirs in [b.to_string(), format!("{b},{a}")] {
        let settings = [("log.dirs", &*dirs), ("listeners", "127.0.0.1:0")];
        let error = TestBroker::try_start(Arc::new(RealFs), &settings).await.err();
        let error = error.expect("refuses");
        assert!(matches!(error, NodeError::MetadataMissing(_)), "{error}");
    }
    fs::rename(&elsewhere, &disks.a).expect("is there");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
    broker.stop().await;
}

#[tokio::test]
async fn a_directory_in_use_by_another_process_keeps_the_broker_from_starting() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let _lock = RealFs.lock(&disks.b.join(".lock")).expect("is free");
    let error = disks.try_start(Arc::new(RealFs)).await.err().expect("refuses");
    assert!(error.to_string().contains("in use by another process"), "{error}");
}

#[tokio::test]
async fn a_log_that_was_moved_by_hand_is_served_from_where_it_is() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    fs::rename(disks.b.join("t-1"), disks.a.join("t-1")).expect("is there");
    for _ in 0..2 {
        let broker = disks.start().await;
        let connection = broker.connect().await;
        assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
        assert_eq!(produce(&connection, "t", 1, batch(&["more"])).await.error_code, 0);
        assert_eq!((logs_in(&disks.a).len(), logs_in(&disks.b).len()), (2, 0));
        broker.stop().await;
    }
    // Where it was nobody remembers it.
    let broker = disks.start().await;
    let dir = broker.node().log_dirs.all()[1].online().expect("is online");
    assert!(dir.recovery_report().failed.is_empty(), "{:?}", dir.recovery_report());
    drop(dir);
    broker.stop().await;
}

/// Why partition 1 of `t` cannot be written to.
async fn refusal(connection: &Connection) -> String {
    let answer = produce(connection, "t", 1, batch(&["more"])).await;
    assert_eq!(answer.error_code, OFFLINE);
    answer.error_message.expect("says why").to_string()
}

#[tokio::test]
async fn an_older_log_elsewhere_is_not_taken_for_one_that_was_moved_by_hand() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let (place, elsewhere) = (disks.b.join("t-1"), disks.a.join("t-1"));
    copy_all(&place, &elsewhere.with_extension("older"));
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(produce(&connection, "t", 1, batch(&["newer"])).await.error_code, 0);
    broker.stop().await;
    fs::remove_dir_all(&place).expect("is there");
    fs::rename(elsewhere.with_extension("older"), &elsewhere).expect("is there");

    let broker = disks.start().await;
    let why = refusal(&broker.connect().await).await;
    assert!([&place, &elsewhere].iter().all(|path| why.contains(path.to_str().unwrap())), "{why}");
    broker.stop().await;

    fs::create_dir_all(&place).expect("is made");
    fs::write(place.join("accept-loss"), "").expect("is written");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    let answer = produce(&connection, "t", 1, batch(&["anew"])).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 2));
    assert_eq!(logs_in(&disks.a), ["t-0"]);
    broker.stop().await;
}

#[tokio::test]
async fn a_log_that_was_moved_from_a_directory_that_is_gone_is_served_when_that_is_confirmed() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let place = disks.a.join("t-1");
    fs::rename(disks.b.join("t-1"), &place).expect("is there");
    for is_confirmed in [false, true] {
        if is_confirmed {
            fs::write(place.join("accept-loss"), "").expect("is written");
        }
        let broker = TestBroker::start(&disks.a).await;
        let connection = broker.connect().await;
        if is_confirmed {
            assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
        } else {
            let why = refusal(&connection).await;
            assert!(why.contains(place.to_str().unwrap()) && why.contains("accept-loss"), "{why}");
        }
        broker.stop().await;
    }
    assert!(!place.join("accept-loss").exists());
    let broker = TestBroker::start(&disks.a).await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
    broker.stop().await;
}

/// A disk that is left out is remembered, so that an empty one in its place does not pass for it.
#[tokio::test]
async fn a_directory_that_is_left_out_is_remembered_until_it_is_given_up() {
    let disks = Disks::new();
    disks.with_stopped_broker().await;
    let lost = disks.b.with_extension("lost");
    fs::rename(&disks.b, &lost).expect("is there");
    for _ in 0..2 {
        let broker = TestBroker::start(&disks.a).await;
        let connection = broker.connect().await;
        let why = refusal(&connection).await;
        assert!(why.contains(&format!("{}, which is missing", disks.b.display())), "{why}");
        assert_eq!(broker.node().log_dirs.offline_count(), 1);
        let described = describe(&connection).await;
        let missing = described.iter().find(|dir| *dir.log_dir == *disks.b.to_string_lossy());
        assert_eq!(missing.map(|dir| dir.error_code), Some(OFFLINE));
        broker.stop().await;
    }
    // The same setting as before, with an empty directory where the disk was.
    fs::create_dir(&disks.b).expect("is made");
    let broker = disks.start().await;
    refusal(&broker.connect().await).await;
    assert!(logs_in(&disks.b).is_empty());
    broker.stop().await;

    let known = known_dirs::read(&RealFs, &disks.a.join(KNOWN_DIRS_FILE)).expect("is read");
    let id = known[&disks.b];
    known_dirs::give_up(&RealFs, &disks.a, &disks.b, id).expect("is given up");
    let broker = disks.start().await;
    let connection = broker.connect().await;
    assert_eq!(broker.node().log_dirs.offline_count(), 0);
    let answer = produce(&connection, "t", 1, batch(&["anew"])).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    assert_eq!(values(&fetch(&connection, "t", 0, 0).await)[0].1, "precious");
    broker.stop().await;

    // The disk that was lost comes back elsewhere: what is on it is nobody's any more.
    let with_lost = format!("{},{},{}", disks.a.display(), disks.b.display(), lost.display());
    let settings = [("log.dirs", &*with_lost), ("listeners", "127.0.0.1:0")];
    let broker = TestBroker::try_start(Arc::new(RealFs), &settings).await.expect("starts");
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "anew");
    assert!(logs_in(&lost).is_empty());
    broker.stop().await;
}

#[tokio::test]
async fn a_disk_can_be_added() {
    let disks = Disks::new();
    let broker = TestBroker::start(&disks.a).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    assert_eq!(produce(&connection, "t", 1, batch(&["precious"])).await.error_code, 0);
    broker.stop().await;
    let broker = disks.start().await;
    let connection = broker.connect().await;
    create_topic(&connection, "u", 2).await;
    assert_eq!(logs_in(&disks.b), ["u-0", "u-1"]);
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await)[0].1, "precious");
    broker.stop().await;
}
