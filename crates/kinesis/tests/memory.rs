//! What is read for clients is charged until it is sent.

mod common;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::*;
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_waits_for_memory_keeps_what_it_was_built_with() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Arc::new(Door::open(dir.path()).await);
    let made = door.json("CreateStream", r#"{"StreamName":"s","ShardCount":1}"#).await;
    assert_eq!(made.0, 200, "{made:?}");
    let data = STANDARD.encode(vec![7; 100_000]);
    let put = format!(r#"{{"StreamName":"s","Data":"{data}","PartitionKey":"k"}}"#);
    assert_eq!(door.json("PutRecord", &put).await.0, 200);
    let wish = r#"{"StreamName":"s","ShardId":"0","ShardIteratorType":"TRIM_HORIZON"}"#;
    let (_, iterator) = door.json("GetShardIterator", wish).await;

    let memory = &door.node.memory;
    let all = memory.replies.take(memory.replies.limit_bytes()).await;
    let reader = Arc::clone(&door);
    let reading = tokio::spawn(async move { reader.json("GetRecords", &iterator).await });
    let begun = Instant::now();
    while !memory.replies.is_contended() {
        assert!(begun.elapsed() < PATIENCE, "the response waits for memory");
        sleep(Duration::from_millis(1)).await;
    }
    assert!(memory.building.used_bytes() > 0, "until then it is counted nowhere else");
    drop(all);
    let (status, records) = reading.await.expect("no panic");
    assert_eq!(status, 200);
    assert!(records.contains(&data));
    while memory.building.used_bytes() + memory.replies.used_bytes() > 0 {
        assert!(begun.elapsed() < PATIENCE, "all of it goes back");
        sleep(Duration::from_millis(1)).await;
    }
    Arc::into_inner(door).expect("nobody else has it").close().await;
}
