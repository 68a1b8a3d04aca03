//! Shards that are split while Kafka clients change what they stand on.

mod common;

use common::*;
use logway_metadata::ConfigResource;
use logway_metadata::controller::{
    ConfigOperation, IncrementalAlterConfigs, OperationKind, ResourceOperations,
};
use logway_model::TopicName;

const SPLIT: &str = r#"{"StreamName":"s","ShardToSplit":"0","NewStartingHashKey":"9"}"#;

impl Door {
    async fn of_stream() -> (tempfile::TempDir, Door) {
        let dir = tempfile::tempdir().expect("a directory");
        let door = Door::open(dir.path()).await;
        let made = door.json("CreateStream", r#"{"StreamName":"s","ShardCount":1}"#).await;
        assert_eq!(made, (200, String::new()));
        (dir, door)
    }

    /// Sets a setting of the topic, as a Kafka client does.
    async fn set(&self, name: &str, kind: OperationKind, value: Option<&str>) {
        let (name, value) = (name.to_owned(), value.map(str::to_owned));
        let resource = ConfigResource::Topic(TopicName::new("s").expect("is a name"));
        let operations = vec![ConfigOperation { name, kind, value }];
        let resources = vec![ResourceOperations { resource, operations }];
        let change = IncrementalAlterConfigs { resources, validate_only: false };
        let changed = self.node.submit(change, None, None).await.expect("is heard");
        changed.into_iter().for_each(|changed| changed.expect("is allowed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_shard_is_seen_as_long_as_its_records_are_kept() {
    let (_dir, door) = Door::of_stream().await;
    let longest = i64::MAX.to_string();
    door.set("retention.ms", OperationKind::Set, Some(&longest)).await;
    let (_, told) = door.json("DescribeStreamSummary", r#"{"StreamName":"s"}"#).await;
    assert!(told.contains(r#""RetentionPeriodHours":8760"#), "{told}");
    assert_eq!(door.json("SplitShard", SPLIT).await.0, 200);
    for (kind, value) in
        [(OperationKind::Set, Some(longest.as_str())), (OperationKind::Delete, None)]
    {
        door.set("retention.ms", kind, value).await;
        let (status, shards) = door.json("ListShards", r#"{"StreamName":"s"}"#).await;
        assert_eq!((status, shards.matches("\"ShardId\"").count()), (200, 3), "{shards}");
    }
    let (_, told) = door.json("DescribeStreamSummary", r#"{"StreamName":"s"}"#).await;
    assert!(told.contains(r#""RetentionPeriodHours":168"#), "the broker's default: {told}");
    let too_long = r#"{"StreamName":"s","RetentionPeriodHours":8761}"#;
    let (status, refused) = door.json("IncreaseStreamRetentionPeriod", too_long).await;
    assert_eq!(status, 400);
    assert!(refused.contains("InvalidArgumentException"), "{refused}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_record_behind_a_split_is_known_at_once() {
    let (_dir, door) = Door::of_stream().await;
    assert_eq!(door.json("SplitShard", SPLIT).await.0, 200);
    let put =
        |more: &str| format!(r#"{{"StreamName":"s","Data":"AA==","PartitionKey":"k"{more}}}"#);
    let (status, first) = door.json("PutRecord", &put("")).await;
    assert_eq!(status, 200, "{first}");
    let (_, number) = first.split_once(r#""SequenceNumber":""#).expect("has one");
    let ordering = format!(r#","SequenceNumberForOrdering":"{}""#, &number[..56]);
    let (status, second) = door.json("PutRecord", &put(&ordering)).await;
    assert_eq!(status, 200, "{second}");
    door.close().await;
}
