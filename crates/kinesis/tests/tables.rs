//! What tables take from clients that mean no good.

mod common;

use common::*;

async fn ask(door: &Door, operation: &str, body: &str) -> (u16, String) {
    let headers = format!(
        "content-type: application/x-amz-json-1.0\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n{SIGNED}"
    );
    let (status, body) = door.ask("POST", &headers, body.as_bytes()).await;
    (status, String::from_utf8(body).expect("is text"))
}

async fn with_table(dir: &std::path::Path) -> Door {
    let door = Door::open(dir).await;
    let table = r#"{"TableName":"leases","BillingMode":"PAY_PER_REQUEST",
        "KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],
        "AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}]}"#;
    let (status, answer) = ask(&door, "CreateTable", table).await;
    assert_eq!(status, 200, "{answer}");
    door
}

/// A document of so many levels.
fn nested(levels: usize) -> String {
    format!("{}{}{}", r#"{"M":{"a":"#.repeat(levels), r#"{"N":"1"}"#, "}}".repeat(levels))
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_bounded_in_depth_width_and_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = with_table(dir.path()).await;
    let put = async |value: &str| {
        let item = format!(r#"{{"TableName":"leases","Item":{{"k":{{"S":"x"}},"v":{value}}}}}"#);
        ask(&door, "PutItem", &item).await
    };
    assert_eq!(put(&nested(31)).await.0, 200);
    for levels in [32, 60] {
        let (status, answer) = put(&nested(levels)).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("Nesting Levels have exceeded supported limits"), "{answer}");
    }
    let (status, answer) = put(&nested(10_000)).await;
    assert_eq!((status, answer.contains("SerializationException")), (400, true), "{answer}");
    let wide = |count: usize| {
        let entries: Vec<String> = (0..count).map(|it| format!(r#""{it}":{{"N":"1"}}"#)).collect();
        format!(r#"{{"M":{{{}}}}}"#, entries.join(","))
    };
    assert_eq!(put(&wide(999)).await.0, 200);
    for (count, told) in [(1_000, "at most 999 entries"), (5_000, "at most 1000 entries")] {
        let (status, answer) = put(&wide(count)).await;
        assert_eq!((status, answer.contains(told)), (400, true), "{answer}");
    }
    let (status, answer) = put(&format!(r#"{{"S":"{}"}}"#, "x".repeat(410_000))).await;
    assert_eq!((status, answer.contains("maximum allowed size")), (400, true), "{answer}");
    assert_eq!(put(&format!(r#"{{"S":"{}"}}"#, "x".repeat(2 << 20))).await.0, 413);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_cannot_nest_deeper_than_requests() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = with_table(dir.path()).await;
    let item = format!(r#"{{"TableName":"leases","Item":{{"k":{{"S":"x"}},"v":{}}}}}"#, nested(31));
    assert_eq!(ask(&door, "PutItem", &item).await.0, 200);
    let path = format!("v{}", ".a".repeat(31));
    let update = format!(
        r#"{{"TableName":"leases","Key":{{"k":{{"S":"x"}}}},"UpdateExpression":"SET {path} = :v",
            "ExpressionAttributeValues":{{":v":{}}}}}"#,
        nested(20)
    );
    let (status, answer) = ask(&door, "UpdateItem", &update).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("Nesting Levels have exceeded supported limits"), "{answer}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_no_table_is_not_written_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = with_table(dir.path()).await;
    for (operation, body) in [("GetItem", r#""Key":{"k":{"S":"x"}}"#), ("Scan", r#""Limit":1"#)] {
        let body = format!(r#"{{"TableName":"another",{body}}}"#);
        let (status, answer) = ask(&door, operation, &body).await;
        assert_eq!((status, answer.contains("ResourceNotFoundException")), (400, true), "{answer}");
    }
    let (status, answer) = ask(&door, "BatchGetItem", "{}").await;
    assert_eq!((status, answer.contains("UnknownOperationException")), (400, true), "{answer}");
    door.close().await;
}
