//! How far one GetRecords reads.

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::*;

/// More than is read at first, and more than is read in the next pieces.
const RECORDS: usize = 30;
const RECORD_BYTES: usize = 200_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_read_goes_on_until_it_has_all_that_is_wanted() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let made = door.json("CreateStream", r#"{"StreamName":"s","ShardCount":1}"#).await;
    assert_eq!(made.0, 200, "{made:?}");
    let data = STANDARD.encode(vec![7; RECORD_BYTES]);
    for number in 0..RECORDS {
        let put = format!(r#"{{"StreamName":"s","Data":"{data}","PartitionKey":"key {number}"}}"#);
        assert_eq!(door.json("PutRecord", &put).await.0, 200);
    }
    let wish = r#"{"StreamName":"s","ShardId":"0","ShardIteratorType":"TRIM_HORIZON"}"#;
    let (_, iterator) = door.json("GetShardIterator", wish).await;
    for (limit, expected) in [(1, 1), (3, 3), (29, 29), (10_000, RECORDS)] {
        let wish = iterator.replace('}', &format!(r#","Limit":{limit}}}"#));
        let (status, records) = door.json("GetRecords", &wish).await;
        assert_eq!(status, 200, "{records}");
        assert_eq!(records.matches("\"SequenceNumber\"").count(), expected);
        let last = format!("\"key {}\"", expected - 1);
        assert!(records.contains(&last), "{last} is the last one of {limit}");
    }
    door.close().await;
}
