//! A broker that can tell a part of what it is asked.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use logway_client::{MissingTopic, OffsetAt};
use logway_model::{BrokerId, ErrorCode, Offset, PartitionId, TopicPartition};
use logway_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use logway_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use logway_wire::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition};
use logway_wire::messages::{
    DescribeLogDirsResponse, ListOffsetsResponse, ListPartitionReassignmentsResponse,
};
use logway_wire::{ApiKey, WireString};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC, metadata, topic, topic_metadata};

fn partition(id: i32) -> TopicPartition {
    TopicPartition::new(topic(), PartitionId(id))
}

/// A broker of a topic with two partitions, which knows nothing of the second.
async fn start() -> FakeBroker {
    let port = Arc::new(OnceLock::new());
    let known_port = Arc::clone(&port);
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

/// A cluster of brokers 1 and 2. Broker 2 is the controller. Broker 1 has not heard yet that the topic was moved to 2.
async fn with_one_that_is_behind() -> (FakeBroker, FakeBroker) {
    let ports = Arc::new(OnceLock::<[u16; 2]>::new());
    let start = |id: i32, replicas: Vec<i32>| {
        let ports = Arc::clone(&ports);
        FakeBroker::start(move |asked| match asked.api_key {
            ApiKey::Metadata => {
                let mut topic = topic_metadata();
                topic.partitions[0].replica_nodes.clone_from(&replicas);
                let [first, second] = *ports.get().expect("both are bound");
                let mut metadata = metadata(first, topic);
                let port = i32::from(second);
                let other =
                    MetadataResponseBroker { node_id: 2, port, ..metadata.brokers[0].clone() };
                metadata.brokers.push(other);
                metadata.controller_id = 2;
                asked.answer(&metadata)
            }
            ApiKey::ListPartitionReassignments => {
                assert_eq!(id, 2, "the controller is asked");
                asked.answer(&ListPartitionReassignmentsResponse::default())
            }
            _ => Action::Usual,
        })
    };
    let (behind, controller) = (start(1, vec![1]).await, start(2, vec![2]).await);
    ports.set([behind.address.port, controller.address.port]).expect("set once");
    (behind, controller)
}

#[tokio::test]
async fn who_tells_what_is_on_its_way_tells_where_everything_is() {
    let (behind, _controller) = with_one_that_is_behind().await;
    let placement = behind.client().placement().await.expect("an answer");
    assert_eq!(placement.ongoing, []);
    let known = placement.metadata.partition(&partition(0)).expect("there is one");
    assert_eq!(known.replicas, [BrokerId(2)]);
}
