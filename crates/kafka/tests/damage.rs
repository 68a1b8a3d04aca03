//! Records that are damaged at rest, and consumers that do not check them.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use common::*;
use logway_model::ErrorCode;

/// Flips a bit in the last byte of the file's records.
fn flip_last(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("is there");
    let last = file.metadata().expect("is known").len() - 1;
    let mut byte = [0];
    file.read_exact_at(&mut byte, last).expect("is read");
    file.write_all_at(&[byte[0] ^ 1], last).expect("is written");
}

async fn assert_found(broker: &TestBroker, sound: i64) {
    let connection = broker.connect().await;
    // What is sound before it is sent, and what is damaged is not, however often somebody asks.
    let before = values(&fetch(&connection, "t", 0, 0).await);
    let offsets: Vec<i64> = before.iter().map(|(offset, _)| offset.0).collect();
    assert_eq!(offsets, (0..sound).collect::<Vec<_>>());
    for _ in 0..3 {
        let damaged = fetch(&connection, "t", 0, sound).await;
        assert_eq!(damaged.error_code, ErrorCode::CorruptMessage.code());
    }
    assert_eq!(broker.node().metrics.damaged_batches.get(), 1, "it is said once");
    assert_eq!(produce(&connection, "t", 0, batch(&["more"])).await.error_code, 0);
}

#[tokio::test]
async fn what_was_damaged_before_a_start_reaches_no_consumer() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for value in ["one", "two", "three"] {
        assert_eq!(produce(&connection, "t", 0, batch(&[value])).await.error_code, 0);
    }
    broker.stop().await;
    flip_last(&dir.path().join("t-0/00000000000000000000.log"));
    let broker = TestBroker::start(dir.path()).await;
    assert_found(&broker, 2).await;
    broker.stop().await;
}

#[tokio::test]
async fn what_somebody_else_has_changed_under_a_running_broker_reaches_no_consumer() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for value in ["one", "two", "three"] {
        assert_eq!(produce(&connection, "t", 0, batch(&[value])).await.error_code, 0);
    }
    assert_eq!(values(&fetch(&connection, "t", 0, 0).await).len(), 3);
    // File times are no finer than a tick of the system's clock, and a round may take some of it.
    tokio::time::sleep(Duration::from_millis(50)).await;
    flip_last(&dir.path().join("t-0/00000000000000000000.log"));
    assert_found(&broker, 2).await;
    broker.stop().await;
}
