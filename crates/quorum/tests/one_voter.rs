//! A quorum of one on a real disk: what was committed is there after any kind of end, and what is
//! wrong with its directory is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logway_metadata::MetadataLevel;
use logway_metadata::controller::{
    AllocateProducerIds, CreateTopics, DeleteTopics, FinalizeMetadataLevel, NewTopic,
    RegisterBroker, SetBrokerState, StartBroker, TopicReference,
};
use logway_metadata::record::BrokerState;
use logway_metadata::settings::BrokerSettings;
use logway_model::{BrokerId, ErrorCode, TopicId, Uuid};
use logway_quorum::{MetadataQuorum, QuorumError, QuorumOptions};
use redb::{ReadableDatabase, ReadableTable};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runs")
}

/// A directory that does not exist yet, in one that goes with the test.
fn directory() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().expect("is made");
    let path = parent.path().join("metadata");
    (parent, path)
}

fn options(dir: &Path) -> QuorumOptions {
    QuorumOptions::new(dir, Arc::default())
}

async fn open(dir: &Path) -> MetadataQuorum {
    let quorum = MetadataQuorum::open(options(dir)).await.expect("opens");
    let broker =
        RegisterBroker { id: BrokerId(1), endpoint: None, rack: None, log_dirs: Vec::new() };
    quorum.submit(broker).await.expect("is registered");
    quorum
}

fn topic(number: u32) -> NewTopic {
    let mut id = [1; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    NewTopic {
        name: format!("topic-{number}"),
        id: TopicId(Uuid(id)),
        num_partitions: 2,
        replication_factor: 1,
        assignments: Vec::new(),
        configs: vec![("retention.ms".to_owned(), Some("1000".to_owned()))],
    }
}

#[test]
fn the_status_tells_of_the_only_voter() {
    runtime().block_on(async {
        let (_parent, dir) = directory();
        let quorum = open(&dir).await;
        let before = quorum.status();
        assert_eq!(before.leader, Some(BrokerId(1)));
        create(&quorum, 1).await;
        // The status follows the commit.
        until(|| {
            let after = quorum.status();
            let [voter] = &after.voters[..] else { panic!("{after:?}") };
            assert_eq!(voter.id, BrokerId(1));
            voter.log_end == after.high_watermark && after.high_watermark > before.high_watermark
        })
        .await;
        quorum.shutdown().await.expect("stops");
    });
}

/// Waits for what comes by itself, as long as a busy disk may take.
async fn until(is_reached: impl Fn() -> bool) {
    let waiting = async {
        while !is_reached() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("in time");
}

async fn create(quorum: &MetadataQuorum, number: u32) {
    let command = CreateTopics { topics: vec![topic(number)], validate_only: false };
    let committed = quorum.submit(command).await.expect("is judged");
    assert!(quorum.indexed_image().index >= committed.index, "who asked sees what it asked for");
    committed.reply[0].as_ref().expect("is created");
    let name = format!("topic-{number}");
    assert!(quorum.image().topic(&name).is_some(), "who asked sees what it asked for");
}

/// Runs a part of a test as a process of its own would: at its end everything stops at once.
fn until_killed<T>(part: impl Future<Output = T>) -> T {
    let runtime = runtime();
    let result = runtime.block_on(part);
    // What a killed process was writing is written or not; here it is written.
    runtime.shutdown_timeout(Duration::from_secs(60));
    result
}

#[test]
fn a_restart_keeps_the_image() {
    let (_parent, dir) = directory();
    let before = until_killed(async {
        let quorum = open(&dir).await;
        create(&quorum, 1).await;
        let image = quorum.image();
        quorum.shutdown().await.expect("stops");
        image
    });
    until_killed(async {
        let quorum = open(&dir).await;
        assert_eq!(quorum.image(), before);
        create(&quorum, 2).await;
        quorum.shutdown().await.expect("stops");
        let quorum = open(&dir).await;
        assert_eq!(quorum.image().topic_count(), 2, "and it can be opened again at once");
    });
}

#[test]
fn a_kill_keeps_the_image() {
    let (_parent, dir) = directory();
    for number in 0..5 {
        until_killed(async {
            let quorum = open(&dir).await;
            assert_eq!(quorum.image().topic_count(), number as usize);
            create(&quorum, number).await;
        });
    }
}

#[test]
fn snapshots_take_the_place_of_the_log() {
    let (_parent, dir) = directory();
    let often = || QuorumOptions { snapshot_interval_entries: 50, ..options(&dir) };
    let before = until_killed(async {
        let quorum = MetadataQuorum::open(often()).await.expect("opens");
        let broker =
            RegisterBroker { id: BrokerId(1), endpoint: None, rack: None, log_dirs: Vec::new() };
        quorum.submit(broker).await.expect("is registered");
        for number in 0..120 {
            create(&quorum, number).await;
        }
        let name = TopicReference::Name("topic-7".to_owned());
        quorum.submit(DeleteTopics { topics: vec![name] }).await.expect("is deleted");
        quorum.submit(AllocateProducerIds).await.expect("are given");
        // One was due twice; it is written beside the commits.
        until(|| dir.join("snapshot.json").exists()).await;
        quorum.snapshot().await.expect("is written");
        quorum.image()
    });
    until_killed(async {
        let quorum = MetadataQuorum::open(often()).await.expect("opens");
        assert_eq!(quorum.image(), before);
        let next = quorum.submit(AllocateProducerIds).await.expect("are given").reply;
        assert_eq!(next.first.0, 1_000, "no producer id is given out twice");
    });
}

#[test]
fn the_log_before_a_snapshot_is_dropped() {
    const COMMITS: u64 = 1_300;
    let (_parent, dir) = directory();
    until_killed(async {
        let quorum = open(&dir).await;
        for _ in 0..COMMITS {
            quorum.submit(AllocateProducerIds).await.expect("are given");
        }
        quorum.snapshot().await.expect("is written");
        // The log is cut after the snapshot is done, but before the next commit.
        quorum.submit(AllocateProducerIds).await.expect("are given");
        quorum.shutdown().await.expect("stops");
    });
    let entries = entries(&dir);
    assert!(entries[0].0 > 200, "the first entry is {}", entries[0].0);
    assert!(entries.len() > 1_000, "some are kept for followers that are a little behind");
    until_killed(async {
        let next = open(&dir).await.image().next_producer_id();
        assert_eq!(next.0, (COMMITS as i64 + 1) * 1_000);
    });
}

#[test]
fn an_entry_that_is_not_understood_stops_the_start() {
    let (_parent, dir) = directory();
    until_killed(async {
        let quorum = open(&dir).await;
        create(&quorum, 1).await;
        quorum.shutdown().await.expect("stops");
    });
    let (index, entry) = entries(&dir).pop().expect("there is one");
    let newer = entry.replace("config/0", "config/9");
    assert_ne!(newer, entry);
    let database = redb::Database::open(dir.join("log.redb")).expect("opens");
    let transaction = database.begin_write().expect("begins");
    let mut table = transaction.open_table(ENTRIES).expect("exists");
    table.insert(index, newer.as_bytes()).expect("is written");
    drop(table);
    transaction.commit().expect("is committed");
    drop(database);

    let error = until_killed(refusal(options(&dir))).to_string();
    for part in ["log.redb", &format!("entry {index}"), "unknown variant `config/9`"] {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

/// Until the cluster says that it may be otherwise, an older version could read the log (KIP-584).
#[test]
fn what_older_nodes_cannot_read_is_written_when_the_level_for_it_is_finalised() {
    let (_parent, dir) = directory();
    let start = || StartBroker {
        id: BrokerId(1),
        incarnation: Uuid([1; 16]),
        endpoint: None,
        listeners: Vec::new(),
        rack: None,
        log_dirs: Vec::new(),
        serves_already: false,
        was_clean: true,
    };
    until_killed(async {
        let quorum = open(&dir).await;
        create(&quorum, 1).await;
        let error = quorum.submit(start()).await.expect_err("needs another level");
        let QuorumError::Refused(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.code, ErrorCode::UnsupportedVersion);
        quorum.shutdown().await.expect("stops");
    });
    let payloads = |dir: &Path| -> Vec<String> {
        let payload = |(_, entry): (u64, String)| {
            let entry: serde_json::Value = serde_json::from_str(&entry).expect("is JSON");
            entry["payload"]["Normal"].to_string()
        };
        entries(dir).into_iter().map(payload).filter(|payload| payload != "null").collect()
    };
    assert!(payloads(&dir).iter().all(|payload| payload.starts_with('[')), "{:?}", payloads(&dir));
    let before = until_killed(async {
        let quorum = open(&dir).await;
        let level = FinalizeMetadataLevel { level: MetadataLevel::CLUSTER };
        quorum.submit(level).await.expect("is finalised");
        let epoch = quorum.submit(start()).await.expect("starts").into_reply();
        let serves = SetBrokerState { id: BrokerId(1), epoch, state: BrokerState::Active };
        quorum.submit(serves).await.expect("serves");
        quorum.snapshot().await.expect("is written");
        create(&quorum, 2).await;
        quorum.shutdown().await.expect("stops");
        quorum.image()
    });
    let last = payloads(&dir).pop().expect("there is one");
    assert!(last.starts_with(r#"{"base":"#), "{last}");
    until_killed(async {
        assert_eq!(open(&dir).await.image(), before, "both forms are read");
    });
}

const ENTRIES: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("entries");

/// The entries in the log of a quorum that is closed.
fn entries(dir: &Path) -> Vec<(u64, String)> {
    let database = redb::Database::open(dir.join("log.redb")).expect("opens");
    let table = database.begin_read().expect("begins").open_table(ENTRIES).expect("exists");
    let text = |(index, entry): (redb::AccessGuard<u64>, redb::AccessGuard<&[u8]>)| {
        (index.value(), String::from_utf8(entry.value().to_vec()).expect("is text"))
    };
    table.iter().expect("can be read").map(|entry| text(entry.expect("can be read"))).collect()
}

#[test]
fn many_topics_at_once() {
    const TOPICS: u32 = 5_000;
    let (_parent, dir) = directory();
    let before = until_killed(async {
        let quorum = Arc::new(open(&dir).await);
        let mut versions = quorum.watch();
        let create = |number| {
            let quorum = quorum.clone();
            tokio::spawn(async move { create(&quorum, number).await })
        };
        for created in (0..TOPICS).map(create).collect::<Vec<_>>() {
            created.await.expect("does not panic");
        }
        assert!(versions.has_changed().expect("is open"));
        let commits = *versions.borrow_and_update();
        assert!(
            commits.0 < u64::from(TOPICS),
            "those that waited were committed together: {commits}"
        );
        quorum.image()
    });
    assert_eq!(before.topic_count(), TOPICS as usize);
    until_killed(async {
        assert_eq!(open(&dir).await.image(), before);
    });
}

#[test]
fn one_of_two_that_ask_for_the_same_name_gets_it() {
    let (_parent, dir) = directory();
    until_killed(async {
        let quorum = open(&dir).await;
        let mut other = topic(1);
        other.id = TopicId(Uuid([2; 16]));
        let command = |topic| CreateTopics { topics: vec![topic], validate_only: false };
        let (first, second) =
            tokio::join!(quorum.submit(command(topic(1))), quorum.submit(command(other)));
        first.expect("is judged").reply[0].as_ref().expect("is created");
        let refusal = second.expect("is judged").reply.remove(0).expect_err("the name is taken");
        assert_eq!(refusal.code, ErrorCode::TopicAlreadyExists);
    });
}

async fn refusal(options: QuorumOptions) -> QuorumError {
    MetadataQuorum::open(options).await.expect_err("does not open")
}

#[test]
fn a_directory_is_opened_once_and_by_its_owner() {
    let (_parent, dir) = directory();
    until_killed(async {
        let quorum = open(&dir).await;
        let error = refusal(options(&dir)).await;
        assert!(matches!(&error, QuorumError::InUse { path } if *path == dir), "{error}");
        quorum.shutdown().await.expect("stops");

        let settings = BrokerSettings::new([("node.id".to_owned(), "2".to_owned())]);
        let settings = Arc::new(settings.expect("is valid"));
        let error = refusal(QuorumOptions::new(&dir, settings)).await;
        assert!(error.to_string().contains("belongs to node 1, but node.id is 2"), "{error}");
    });
}

/// Opens a directory with a snapshot and a log after one of its files was changed.
fn open_damaged(file: &str, damage: impl FnOnce(&mut Vec<u8>)) -> (PathBuf, QuorumError) {
    let (_parent, dir) = directory();
    until_killed(async {
        let quorum = open(&dir).await;
        create(&quorum, 1).await;
        quorum.snapshot().await.expect("is written");
        create(&quorum, 2).await;
    });
    let path = dir.join(file);
    let mut bytes = fs::read(&path).expect("can be read");
    damage(&mut bytes);
    fs::write(&path, bytes).expect("can be written");
    let error = until_killed(refusal(options(&dir)));
    (path, error)
}

#[test]
fn a_damaged_snapshot_is_reported_with_its_path() {
    let flip = |bytes: &mut Vec<u8>| bytes[100] ^= 1;
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let empty = |bytes: &mut Vec<u8>| bytes.clear();
    let garbage = |bytes: &mut Vec<u8>| bytes.fill(0xff);
    let damages: [fn(&mut Vec<u8>); 4] = [flip, cut, empty, garbage];
    for damage in damages {
        let (damaged, error) = open_damaged("snapshot.json", damage);
        assert!(
            matches!(&error, QuorumError::Snapshot { path, .. } if *path == damaged),
            "{error}"
        );
    }
}

#[test]
fn a_damaged_log_is_reported_with_its_path() {
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    let garbage = |bytes: &mut Vec<u8>| bytes.fill(0xff);
    let damages: [fn(&mut Vec<u8>); 2] = [cut, garbage];
    for damage in damages {
        let (damaged, error) = open_damaged("log.redb", damage);
        assert!(error.to_string().contains(&damaged.display().to_string()), "{error}");
    }
}

#[test]
fn a_log_and_a_snapshot_that_do_not_belong_together_are_refused() {
    let (_parent, dir) = directory();
    let (log, snapshot) = (dir.join("log.redb"), dir.join("snapshot.json"));
    let saved = |path: &Path| path.with_extension("saved");
    let runtime = runtime();
    let stop = async |quorum: MetadataQuorum| quorum.shutdown().await.expect("stops");
    let refusal = || runtime.block_on(MetadataQuorum::open(options(&dir))).expect_err("refuses");
    runtime.block_on(async {
        stop(open(&dir).await).await;
        fs::copy(&log, saved(&log)).expect("is there");
        let settings = QuorumOptions { snapshot_interval_entries: u64::MAX, ..options(&dir) };
        let quorum = MetadataQuorum::open(settings).await.expect("opens");
        for number in 0..1200 {
            let command = AllocateProducerIds;
            quorum.submit(command).await.unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        quorum.snapshot().await.expect("is written");
        stop(quorum).await;
    });

    let older = fs::read(saved(&log)).expect("is there");
    let newer = fs::read(&log).expect("is there");
    fs::remove_file(&log).expect("is there");
    for _ in 0..2 {
        let refusal = refusal().to_string();
        assert!(refusal.contains("log.redb: it is gone"), "{refusal}");
        assert!(!log.exists());
    }
    fs::write(&log, older).expect("is written");
    let error = refusal();
    assert!(matches!(&error, QuorumError::Log { path, .. } if *path == log), "{error}");
    assert!(error.to_string().contains("older copy"), "{error}");

    fs::write(&log, newer).expect("is written");
    fs::rename(&snapshot, saved(&snapshot)).expect("is there");
    let error = refusal();
    assert!(matches!(&error, QuorumError::Snapshot { path, .. } if *path == snapshot), "{error}");
    fs::rename(saved(&snapshot), &snapshot).expect("is there");
    runtime.block_on(async { stop(open(&dir).await).await });
}
