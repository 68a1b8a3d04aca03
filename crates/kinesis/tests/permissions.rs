//! What each operation asks permission for. Nothing is done where it is not given.

mod common;

use std::sync::{Arc, Mutex};

use common::*;

/// A request that every operation understands: each one knows its members and passes over the others.
const REQUEST: &str = r#"{
    "StreamName": "s",
    "StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/s",
    "ResourceARN": "arn:aws:kinesis:us-east-1:000000000000:stream/s",
    "ConsumerARN": "arn:aws:kinesis:us-east-1:000000000000:stream/s/consumer/c:1",
    "ConsumerName": "c",
    "ShardCount": 1, "TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING",
    "Data": "", "PartitionKey": "k", "Records": [{"Data": "", "PartitionKey": "k"}],
    "ShardId": "0", "ShardIteratorType": "LATEST", "StartingPosition": {"Type": "LATEST"},
    "ShardToSplit": "0", "NewStartingHashKey": "10",
    "ShardToMerge": "0", "AdjacentShardToMerge": "1",
    "RetentionPeriodHours": 48, "MaxRecordSizeInKiB": 1024, "WarmThroughputMiBps": 10,
    "StreamModeDetails": {"StreamMode": "PROVISIONED"}, "ShardLevelMetrics": ["ALL"],
    "EncryptionType": "KMS", "KeyId": "key",
    "Tags": {"a": "b"}, "TagKeys": ["a"], "Policy": "{}",
    "MinimumThroughputBillingCommitment": {"Status": "DISABLED"},
    "ShardIterator": "#;

const STREAM: &str = r#"Topic("s")"#;

const ASKED: &[(&str, &str, &str)] = &[
    ("PutRecord", "Write", STREAM),
    ("PutRecords", "Write", STREAM),
    ("GetShardIterator", "Read", STREAM),
    ("GetRecords", "Read", STREAM),
    ("SubscribeToShard", "Read", STREAM),
    ("CreateStream", "Create", STREAM),
    ("DeleteStream", "Delete", STREAM),
    ("DescribeStream", "Describe", STREAM),
    ("DescribeStreamSummary", "Describe", STREAM),
    ("IncreaseStreamRetentionPeriod", "AlterConfigs", STREAM),
    ("DecreaseStreamRetentionPeriod", "AlterConfigs", STREAM),
    ("UpdateStreamMode", "AlterConfigs", STREAM),
    ("UpdateMaxRecordSize", "AlterConfigs", STREAM),
    ("UpdateStreamWarmThroughput", "AlterConfigs", STREAM),
    ("StartStreamEncryption", "AlterConfigs", STREAM),
    ("StopStreamEncryption", "AlterConfigs", STREAM),
    ("EnableEnhancedMonitoring", "AlterConfigs", STREAM),
    ("DisableEnhancedMonitoring", "AlterConfigs", STREAM),
    ("ListShards", "Describe", STREAM),
    ("SplitShard", "Alter", STREAM),
    ("MergeShards", "Alter", STREAM),
    ("UpdateShardCount", "Alter", STREAM),
    ("RegisterStreamConsumer", "Read", STREAM),
    ("DeregisterStreamConsumer", "Alter", STREAM),
    ("DescribeStreamConsumer", "Describe", STREAM),
    ("ListStreamConsumers", "Describe", STREAM),
    ("AddTagsToStream", "Alter", STREAM),
    ("RemoveTagsFromStream", "Alter", STREAM),
    ("ListTagsForStream", "Describe", STREAM),
    ("TagResource", "Alter", STREAM),
    ("UntagResource", "Alter", STREAM),
    ("ListTagsForResource", "Describe", STREAM),
    ("PutResourcePolicy", "Alter", STREAM),
    ("GetResourcePolicy", "Describe", STREAM),
    ("DeleteResourcePolicy", "Alter", STREAM),
    ("DescribeLimits", "Describe", "Cluster"),
    ("DescribeAccountSettings", "Describe", "Cluster"),
    ("UpdateAccountSettings", "AlterConfigs", "Cluster"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_asks_for_its_permission_and_does_nothing_without_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let made = door.json("CreateStream", r#"{"StreamName":"s","ShardCount":2}"#).await;
    assert_eq!(made.0, 200, "{made:?}");
    let wish = r#"{"StreamName":"s","ShardId":"0","ShardIteratorType":"LATEST"}"#;
    let (_, iterator) = door.json("GetShardIterator", wish).await;
    let (_, iterator) = iterator.split_once(':').expect("has one member");
    let request = [REQUEST, iterator].concat();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = Arc::clone(&asked);
    door.node.access.restrict(move |_, permission, resource| {
        let question = (format!("{permission:?}"), format!("{resource:?}"));
        questions.lock().expect("nobody panicked").push(question);
        false
    });
    for (operation, permission, resource) in ASKED {
        let (status, answer) = door.json(operation, &request).await;
        let asked = std::mem::take(&mut *asked.lock().expect("nobody panicked"));
        let expected = ((*permission).to_owned(), (*resource).to_owned());
        assert_eq!(asked, [expected], "{operation}: {answer}");
        assert_eq!(status, 400, "{operation}: {answer}");
        assert!(answer.contains("AccessDeniedException"), "{operation}: {answer}");
    }
    // It shows what may be described, and refuses nobody.
    let (status, answer) = door.json("ListStreams", "{}").await;
    assert!(status == 200 && answer.contains(r#""StreamNames":[]"#), "{answer}");
    let listed = std::mem::take(&mut *asked.lock().expect("nobody panicked"));
    assert_eq!(listed, [("Describe".to_owned(), STREAM.to_owned())]);
    // What is put into the metrics is shown beside the server's own.
    let headers = format!("content-type: application/x-www-form-urlencoded\r\n{SIGNED}");
    let form = b"Action=PutMetricData&Namespace=a&MetricData.member.1.MetricName=b&MetricData.member.1.Value=1";
    let (status, answer) = door.ask("POST", &headers, form).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(status == 403 && answer.contains("<Code>AccessDenied</Code>"), "{status}: {answer}");
    let put = std::mem::take(&mut *asked.lock().expect("nobody panicked"));
    assert_eq!(put, [("Describe".to_owned(), "Cluster".to_owned())]);
    door.close().await;
}
