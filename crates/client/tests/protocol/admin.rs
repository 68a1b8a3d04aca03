//! A broker that can tell a part of what it is asked.

use std::collections::BTreeSet;

use logway_client::{MissingTopic, OffsetAt};
use logway_model::{BrokerId, ErrorCode, Offset, PartitionId, TopicPartition};
use logway_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use logway_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use logway_wire::messages::metadata_response::MetadataResponsePartition;
use logway_wire::messages::{DescribeLogDirsResponse, ListOffsetsResponse};
use logway_wire::{ApiKey, WireString};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC, metadata, topic, topic_metadata};

fn partition(id: i32) -> TopicPartition {
    TopicPartition::new(topic(), PartitionId(id))
}

/// A broker of a topic with two partitions, which knows nothing of the second.
async fn start() -> FakeBroker {
    let port = std::sync::Arc::new(std::sync::OnceLock::new());
    let known_port = std::sync::Arc::clone(&port);
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::Metadata => {
            let mut topic = topic_metadata();
            let second =
                MetadataResponsePartition { partition_index: 1, ..topic.partitions[0].clone() };
            topic.partitions.push(second);
            asked.answer(&metadata(*known_port.get().expect("it is bound"), topic))
        }
        ApiKey::ListOffsets => offsets(asked),
        ApiKey::DescribeLogDirs => log_dirs(asked),
        _ => Action::Usual,
    })
    .await;
    port.set(broker.address.port).expect("set once");
    broker
}

fn offsets(asked: &Asked) -> Action {
    let listed = |index, code: ErrorCode, offset| ListOffsetsPartitionResponse {
        partition_index: index,
        error_code: code.code(),
        offset,
        ..ListOffsetsPartitionResponse::default()
    };
    let topic = ListOffsetsTopicResponse {
        name: WireString::from_static(TOPIC),
        partitions: vec![
            listed(1, ErrorCode::TopicAuthorizationFailed, -1),
            listed(0, ErrorCode::None, 42),
        ],
        ..ListOffsetsTopicResponse::default()
    };
    asked.answer(&ListOffsetsResponse { topics: vec![topic], ..Default::default() })
}

fn log_dirs(asked: &Asked) -> Action {
    let offline = DescribeLogDirsResult {
        error_code: ErrorCode::KafkaStorageError.code(),
        log_dir: WireString::from_static("/offline"),
        ..DescribeLogDirsResult::default()
    };
    let size = DescribeLogDirsPartition { partition_size: 7, ..Default::default() };
    let topic = DescribeLogDirsTopic {
        name: WireString::from_static(TOPIC),
        partitions: vec![size],
        ..DescribeLogDirsTopic::default()
    };
    let online = DescribeLogDirsResult {
        log_dir: WireString::from_static("/online"),
        topics: vec![topic],
        ..DescribeLogDirsResult::default()
    };
    let results = vec![offline, online];
    asked.answer(&DescribeLogDirsResponse { results, ..Default::default() })
}

#[tokio::test]
async fn what_is_known_of_some_partitions_is_not_lost_with_the_others() {
    let broker = start().await;
    let client = broker.client();
    let names = BTreeSet::from([topic()]);
    client.find_topics(&names, MissingTopic::Refuse).await.expect("there is one");
    let both = BTreeSet::from([partition(0), partition(1)]);

    let listed = client.list_known_offsets(&both, OffsetAt::End).await;
    assert_eq!(listed.found[&partition(0)].offset, Some(Offset(42)));
    let error = &listed.failed[&partition(1)];
    assert_eq!(error.code(), Some(ErrorCode::TopicAuthorizationFailed));
    let all = client.list_offsets(&both, OffsetAt::End).await;
    assert_eq!(all.expect_err("one failed").to_string(), error.to_string());

    let dirs = client.describe_log_dirs(BrokerId(1), &both).await.expect("an answer");
    let [Err(offline), Ok(online)] = &dirs[..] else { panic!("{dirs:?}") };
    assert!(offline.to_string().contains("'/offline' of broker 1"), "{offline}");
    assert_eq!(online.partitions[&partition(0)], 7);
}
