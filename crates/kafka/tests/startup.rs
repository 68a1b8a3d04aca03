//! What a broker makes of a data directory that somebody has damaged.

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::*;
use logway_kafka::Listeners;
use logway_log::fs::RealFs;
use logway_metadata::settings::BrokerSettings;
use logway_model::ErrorCode;
use logway_node::listener::ListenError;

/// A data directory with one record in the topic `t`, after a clean stop.
async fn stopped_broker(dir: &Path) {
    let broker = TestBroker::start(dir).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    assert_eq!(produce(&connection, "t", 0, batch(&["precious"])).await.error_code, 0);
    broker.stop().await;
}

fn directories(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("is a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("can be read").file_name();
    entries.map(|entry| name(entry).into_string().expect("is text")).collect()
}

#[tokio::test]
async fn logs_that_no_topic_knows_are_set_aside_and_not_deleted() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped_broker(dir.path()).await;
    let stranger = dir.path().join("gone-0");
    fs::rename(dir.path().join("t-0"), &stranger).expect("is there");
    let whose = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n";
    fs::write(stranger.join("partition.metadata"), whose).expect("is written");
    for _ in 0..2 {
        TestBroker::start(dir.path()).await.stop().await;
    }
    let stray = directories(dir.path()).into_iter().find(|name| name.ends_with("-stray"));
    let stray = dir.path().join(stray.expect("the log is set aside"));
    let segment = fs::read(stray.join("00000000000000000000.log")).expect("is there");
    assert!(segment.windows(8).any(|bytes| bytes == b"precious"));
}

#[tokio::test]
async fn a_log_that_does_not_say_whose_it_is_stays_and_its_partition_is_offline() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped_broker(dir.path()).await;
    fs::remove_file(dir.path().join("t-0/partition.metadata")).expect("is there");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let answer = produce(&connection, "t", 0, batch(&["lost"])).await;
    assert_eq!(answer.error_code, ErrorCode::KafkaStorageError.code());
    assert!(answer.error_message.expect("says why").contains("offline"));
    broker.stop().await;
    assert!(directories(dir.path()).contains(&"t-0".to_owned()));
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_is_tried_again_until_it_can() {
    let dir = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    stopped_broker(dir.path()).await;
    // The topic's log has vanished, and where it was stands what keeps a new one from being made.
    let (log, saved) = (dir.path().join("t-0"), elsewhere.path().join("t-0"));
    fs::rename(&log, &saved).expect("is there");
    fs::write(&log, "in the way").expect("is written");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let code = async || produce(&connection, "t", 0, batch(&["value"])).await.error_code;
    assert_eq!(code().await, ErrorCode::KafkaStorageError.code());
    fs::remove_file(&log).expect("is there");
    fs::rename(&saved, &log).expect("is there");
    let is_online = async { while code().await != ErrorCode::None.code() {} };
    tokio::time::timeout(Duration::from_secs(20), is_online).await.expect("in time");
    let all = values(&fetch(&connection, "t", 0, 0).await);
    assert_eq!(all[0].1, "precious");
    broker.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_clients_that_ask_for_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    connection.call(&metadata_request()).await.expect("is answered");
    let stopping = std::time::Instant::now();
    broker.stop().await;
    assert!(stopping.elapsed() < std::time::Duration::from_secs(4), "{:?}", stopping.elapsed());
}

/// Why a broker does not start.
async fn refusal(dir: &Path) -> String {
    let settings = [("log.dirs", dir.to_str().expect("is text")), ("listeners", "127.0.0.1:0")];
    let refused = TestBroker::try_start(std::sync::Arc::new(RealFs), &settings).await.err();
    refused.expect("refuses").to_string()
}

async fn assert_all_is_there(dir: &Path) {
    let broker = TestBroker::start(dir).await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 0, 0).await)[0].1, "precious");
    broker.stop().await;
}

#[tokio::test]
async fn metadata_that_was_lost_is_not_begun_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    stopped_broker(dir.path()).await;
    let log = dir.path().join("metadata/log.redb");
    let saved = dir.path().join("saved");
    fs::rename(&log, &saved).expect("is there");
    for _ in 0..2 {
        let refusal = refusal(dir.path()).await;
        assert!(refusal.contains("metadata/log.redb is gone"), "{refusal}");
        assert!(directories(dir.path()).contains(&"t-0".to_owned()));
    }
    // What else tells that there was some: only one of them is left.
    for gone in ["known-log-dirs", "t-0"] {
        fs::rename(dir.path().join(gone), dir.path().join("gone")).expect("is there");
        let refusal = refusal(dir.path()).await;
        assert!(refusal.contains("metadata/log.redb is gone"), "without {gone}: {refusal}");
        fs::rename(dir.path().join("gone"), dir.path().join(gone)).expect("is there");
    }
    fs::rename(&saved, &log).expect("is there");
    assert_all_is_there(dir.path()).await;
}

#[tokio::test]
async fn a_directory_that_lost_its_identity_is_given_no_other() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().join("before");
    stopped_broker(&dir).await;
    fs::rename(dir.join("meta.properties"), root.path().join("saved")).expect("is there");
    // Under its own path, and as a copy elsewhere.
    let moved = root.path().join("after");
    let text = refusal(&dir).await;
    assert!(text.contains("meta.properties") && text.contains("accept-loss"), "{text}");
    fs::rename(&dir, &moved).expect("is there");
    for gone in [None, Some("known-log-dirs"), Some("metadata")] {
        if let Some(gone) = gone {
            fs::rename(moved.join(gone), root.path().join(gone)).expect("is there");
        }
        let text = refusal(&moved).await;
        assert!(text.contains("after/meta.properties is gone"), "without {gone:?}: {text}");
        assert!(!moved.join("meta.properties").exists());
    }
    for back in ["known-log-dirs", "metadata"] {
        fs::rename(root.path().join(back), moved.join(back)).expect("is there");
    }
    fs::rename(root.path().join("saved"), moved.join("meta.properties")).expect("is there");
    assert_all_is_there(&moved).await;
}

#[tokio::test]
async fn a_first_start_that_ended_early_does_not_keep_the_next_from_starting() {
    let dir = tempfile::tempdir().expect("a directory");
    TestBroker::start(dir.path()).await.stop().await;
    // As it is before the metadata is made.
    for made_later in ["metadata/log.redb", "known-log-dirs"] {
        fs::remove_file(dir.path().join(made_later)).expect("is there");
    }
    stopped_broker(dir.path()).await;
    assert_all_is_there(dir.path()).await;
}

#[tokio::test]
async fn an_open_listener_is_no_place_for_other_machines() {
    let listeners = ("listeners", "IN://127.0.0.1:0,OUT://0.0.0.0:0");
    let protocols = ("listener.security.protocol.map", "IN:PLAINTEXT,OUT:PLAINTEXT");
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let settings = BrokerSettings::new([listeners, protocols].map(owned)).expect("are valid");
    let error = Listeners::bind(&settings).await.expect_err("is refused before it is bound");
    assert!(
        matches!(&error, ListenError::Exposed { listener, .. } if listener == "OUT"),
        "{error}"
    );
    assert!(error.to_string().contains("PLAINTEXT"), "{error}");
}
