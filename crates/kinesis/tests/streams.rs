//! Streams that are listed, and those that their owner does not reshard.

mod common;

use common::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_next_page_goes_on_although_the_last_stream_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    for name in ["a", "b", "c"] {
        let made = format!(r#"{{"StreamName":"{name}","ShardCount":1}}"#);
        assert_eq!(door.json("CreateStream", &made).await.0, 200);
    }
    let (_, page) = door.json("ListStreams", r#"{"Limit":2}"#).await;
    assert!(page.contains(r#""StreamNames":["a","b"]"#), "{page}");
    let (_, token) = page.split_once(r#""NextToken":"#).expect("there is more");
    assert_eq!(door.json("DeleteStream", r#"{"StreamName":"b"}"#).await.0, 200);
    let (_, page) = door.json("ListStreams", &format!(r#"{{"NextToken":{token}"#)).await;
    assert!(page.contains(r#""StreamNames":["c"]"#), "{page}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_scales_is_not_split_or_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let made = r#"{"StreamName":"s","StreamModeDetails":{"StreamMode":"ON_DEMAND"}}"#;
    assert_eq!(door.json("CreateStream", made).await.0, 200);
    for (operation, more) in [
        ("SplitShard", r#""ShardToSplit":"0","NewStartingHashKey":"9""#),
        ("MergeShards", r#""ShardToMerge":"0","AdjacentShardToMerge":"1""#),
        ("UpdateShardCount", r#""TargetShardCount":5,"ScalingType":"UNIFORM_SCALING""#),
    ] {
        let (status, refused) =
            door.json(operation, &format!(r#"{{"StreamName":"s",{more}}}"#)).await;
        assert_eq!(status, 400, "{operation}: {refused}");
        assert!(refused.contains("ValidationException"), "{operation}: {refused}");
        assert!(refused.contains("On-Demand mode"), "{operation}: {refused}");
    }
    door.close().await;
}
