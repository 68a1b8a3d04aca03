//! What an admin client asks of a cluster of one broker.

mod common;

use common::*;
use logway_client::Connection;
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use logway_wire::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use logway_wire::messages::create_acls_request::AclCreation;
use logway_wire::messages::delete_acls_request::DeleteAclsFilter;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_producers_request::TopicRequest;
use logway_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use logway_wire::messages::describe_user_scram_credentials_request::UserName;
use logway_wire::messages::elect_leaders_request::TopicPartitions;
use logway_wire::messages::update_features_request::FeatureUpdateKey;
use logway_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterReplicaLogDirsRequest, DescribeConfigsRequest,
    DescribeLogDirsRequest, DescribeProducersRequest, DescribeQuorumRequest, ElectLeadersRequest,
    ListConfigResourcesRequest, ListPartitionReassignmentsRequest, UpdateFeaturesRequest,
};
use logway_wire::messages::{
    CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest, DescribeDelegationTokenRequest,
    DescribeUserScramCredentialsRequest,
};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

async fn elect(
    connection: &Connection,
    election_type: i8,
    topics: Option<&[(&'static str, &[i32])]>,
) -> Vec<(String, i32, i16)> {
    let topic = |&(topic, partitions): &(&'static str, &[i32])| TopicPartitions {
        topic: topic.into(),
        partitions: partitions.to_vec(),
        ..Default::default()
    };
    let topic_partitions = topics.map(|topics| topics.iter().map(topic).collect());
    let request = ElectLeadersRequest { election_type, topic_partitions, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.error_code, 0);
    let results = response.replica_election_results.into_iter().flat_map(|topic| {
        let name = topic.topic.to_string();
        let partitions = topic.partition_result.into_iter();
        partitions.map(move |result| (name.clone(), result.partition_id, result.error_code))
    });
    results.collect()
}

#[tokio::test]
async fn an_election_is_never_needed() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    let not_needed = ErrorCode::ElectionNotNeeded.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    for election in [PREFERRED, UNCLEAN] {
        let asked: &[(&str, &[i32])] = &[("t", &[1, 2, -1]), ("none", &[0])];
        let results = elect(&connection, election, Some(asked)).await;
        let expected = [
            ("t".to_owned(), 1, not_needed),
            ("t".to_owned(), 2, unknown),
            ("t".to_owned(), -1, unknown),
            ("none".to_owned(), 0, unknown),
        ];
        assert_eq!(results, expected);
        assert_eq!(elect(&connection, election, None).await, []);
    }
    broker.stop().await;
}

#[tokio::test]
async fn each_partition_is_told_of_an_unknown_type_of_election() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let elect = async |topic_partitions| {
        let request =
            ElectLeadersRequest { election_type: 2, topic_partitions, ..Default::default() };
        connection.call(&request).await.expect("is answered")
    };
    let invalid = ErrorCode::InvalidRequest.code();
    let topic = TopicPartitions { topic: "t".into(), partitions: vec![0, 7], ..Default::default() };
    let response = elect(Some(vec![topic])).await;
    assert_eq!(response.error_code, invalid);
    let [result] = response.replica_election_results.as_slice() else { panic!("one topic") };
    let told: Vec<_> =
        result.partition_result.iter().map(|told| (told.partition_id, told.error_code)).collect();
    assert_eq!(told, [(0, invalid), (7, invalid)]);
    assert_eq!(elect(None).await.error_code, invalid);
    // Nothing is asked for.
    assert_eq!(elect(Some(Vec::new())).await.error_code, 0);
    broker.stop().await;
}

#[tokio::test]
async fn a_partition_can_be_assigned_to_where_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let reassign = async |topic: &'static str, replicas: Option<&[i32]>| {
        let replicas = replicas.map(<[i32]>::to_vec);
        let partition =
            ReassignablePartition { partition_index: 0, replicas, ..Default::default() };
        let topic = ReassignableTopic {
            name: topic.into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request =
            AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() };
        let response = connection.call(&request).await.expect("is answered");
        assert_eq!(response.error_code, 0);
        let code = response.responses[0].partitions[0].error_code;
        ErrorCode::from_code(code).expect("is known")
    };
    assert_eq!(reassign("t", Some(&[1])).await, ErrorCode::None);
    assert_eq!(reassign("t", Some(&[101])).await, ErrorCode::InvalidReplicaAssignment);
    assert_eq!(reassign("t", Some(&[1, 1])).await, ErrorCode::InvalidReplicaAssignment);
    assert_eq!(reassign("t", None).await, ErrorCode::NoReassignmentInProgress);
    assert_eq!(reassign("none", Some(&[1])).await, ErrorCode::UnknownTopicOrPartition);

    // A request about nothing is told the default.
    for (is_named, is_told) in [(true, false), (false, true)] {
        let topic = ReassignableTopic { name: "t".into(), ..Default::default() };
        let request = AlterPartitionReassignmentsRequest {
            allow_replication_factor_change: false,
            topics: is_named.then_some(topic).into_iter().collect(),
            ..Default::default()
        };
        let response = connection.call(&request).await.expect("is answered");
        assert_eq!(response.allow_replication_factor_change, is_told);
    }

    let request = ListPartitionReassignmentsRequest { topics: None, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!((response.error_code, response.topics), (0, Vec::new()));
    broker.stop().await;
}

#[tokio::test]
async fn idempotent_producers_are_described() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    for base_sequence in [0, 5] {
        let answer = produce(&connection, "t", 1, idempotent_batch(77, base_sequence, 5)).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }
    let topic = |name: &'static str, partitions: &[i32]| TopicRequest {
        name: name.into(),
        partition_indexes: partitions.to_vec(),
        ..Default::default()
    };
    let topics = vec![topic("t", &[0, 1, 2]), topic("none", &[0]), topic("", &[0])];
    let request = DescribeProducersRequest { topics, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    let codes = response.topics.iter().flat_map(|topic| &topic.partitions);
    let codes: Vec<_> = codes.map(|partition| ErrorCode::from_code(partition.error_code)).collect();
    let expected = [
        ErrorCode::None,
        ErrorCode::None,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::InvalidTopicException,
    ];
    assert_eq!(codes, expected.map(Some));
    assert_eq!(response.topics[0].partitions[0].active_producers, []);
    let [producer] = &response.topics[0].partitions[1].active_producers[..] else {
        panic!("there is one producer: {response:?}")
    };
    assert_eq!((producer.producer_id, producer.producer_epoch), (77, 4));
    assert_eq!((producer.last_sequence, producer.last_timestamp), (9, 1_700_000_000_004));
    assert_eq!((producer.coordinator_epoch, producer.current_txn_start_offset), (-1, -1));

    let request =
        DescribeProducersRequest { topics: vec![topic("t", &[1, 1])], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    let refused = ErrorCode::InvalidRequest.code();
    assert!(response.topics[0].partitions.iter().all(|answer| answer.error_code == refused));
    broker.stop().await;
}

async fn describe_quorum(
    connection: &Connection,
    topic: &'static str,
) -> logway_wire::messages::DescribeQuorumResponse {
    let partitions = vec![PartitionData { partition_index: 0, ..Default::default() }];
    let topics = vec![TopicData { topic_name: topic.into(), partitions, ..Default::default() }];
    let request = DescribeQuorumRequest { topics, ..Default::default() };
    connection.call(&request).await.expect("is answered")
}

#[tokio::test]
async fn the_quorum_is_this_broker() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let response = describe_quorum(&connection, "__cluster_metadata").await;
    let before = response.topics[0].partitions[0].clone();
    assert_eq!((response.error_code, before.error_code, before.leader_id), (0, 0, 1));
    let [voter] = &before.current_voters[..] else { panic!("{before:?}") };
    assert_eq!((voter.replica_id, voter.log_end_offset), (1, before.high_watermark));
    assert_eq!(voter.replica_directory_id, broker.node().log_dirs.metadata_directory_id().0);
    assert!((now_ms() - voter.last_caught_up_timestamp).abs() < 60_000);
    assert_eq!(before.observers, []);
    let [node] = &response.nodes[..] else { panic!("{response:?}") };
    assert_eq!((node.node_id, node.listeners[0].port), (1, broker.address.port()));

    // Older versions have no room for addresses and directories.
    for version in 0..2 {
        let partitions = vec![PartitionData::default()];
        let topic_name = "__cluster_metadata".into();
        let topics = vec![TopicData { topic_name, partitions, ..Default::default() }];
        let request = DescribeQuorumRequest { topics, ..Default::default() };
        let pending = connection.send(&request, version).await.expect("is sent");
        let response = pending.response().await.expect("is answered");
        assert_eq!(response.topics[0].partitions[0].leader_id, 1);
    }

    create_topic(&connection, "t", 1).await;
    let response = describe_quorum(&connection, "__cluster_metadata").await;
    assert!(response.topics[0].partitions[0].high_watermark > before.high_watermark);

    let response = describe_quorum(&connection, "t").await;
    let code = response.topics[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition.code());
    broker.stop().await;
}

#[tokio::test]
async fn features_of_kafka_cannot_be_updated() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let update = async |updates| {
        let request = UpdateFeaturesRequest { feature_updates: updates, ..Default::default() };
        connection.call(&request).await.expect("is answered").error_code
    };
    let update_to = |level| FeatureUpdateKey {
        feature: "metadata.version".into(),
        max_version_level: level,
        ..Default::default()
    };
    let refused = ErrorCode::InvalidUpdateVersion.code();
    assert_eq!(update(vec![update_to(25)]).await, refused);
    assert_eq!(update(vec![update_to(0)]).await, refused);
    assert_eq!(update(Vec::new()).await, 0);
    broker.stop().await;
}

#[tokio::test]
async fn a_log_can_be_moved_to_the_directory_that_it_is_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let request = DescribeLogDirsRequest { topics: None, ..Default::default() };
    let described = connection.call(&request).await.expect("is answered");
    let path = described.results[0].log_dir.clone();

    let move_to = async |path: WireString, topic: &'static str| {
        let topic = AlterReplicaLogDirTopic {
            name: topic.into(),
            partitions: vec![0],
            ..Default::default()
        };
        let dir = AlterReplicaLogDir { path, topics: vec![topic], ..Default::default() };
        let request = AlterReplicaLogDirsRequest { dirs: vec![dir], ..Default::default() };
        let response = connection.call(&request).await.expect("is answered");
        let code = response.results[0].partitions[0].error_code;
        ErrorCode::from_code(code).expect("is known")
    };
    assert_eq!(move_to(path.clone(), "t").await, ErrorCode::None);
    assert_eq!(move_to(path, "none").await, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(move_to("/nowhere".into(), "t").await, ErrorCode::LogDirNotFound);
    broker.stop().await;
}

const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// The settings of a resource that are not the defaults, as `name=value (source)`.
async fn own_settings(connection: &Connection, resource: (i8, &'static str)) -> Vec<String> {
    let resource = DescribeConfigsResource {
        resource_type: resource.0,
        resource_name: resource.1.into(),
        configuration_keys: None,
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.results[0].error_code, 0);
    let own = response.results[0].configs.iter().filter(|config| config.config_source != 5);
    let text = own.map(|config| {
        let value = config.value.as_deref().unwrap_or_default();
        format!("{}={value} ({})", config.name, config.config_source)
    });
    text.collect()
}

async fn listed(connection: &Connection, types: &[i8]) -> Vec<(i8, String)> {
    let request =
        ListConfigResourcesRequest { resource_types: types.to_vec(), ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.error_code, 0);
    let resources = response.config_resources.into_iter();
    resources.map(|resource| (resource.resource_type, resource.resource_name.to_string())).collect()
}

#[tokio::test]
async fn groups_and_subscriptions_have_settings_and_are_listed() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let (group, subscription) = ((GROUP, "g"), (CLIENT_METRICS, "s"));
    assert_eq!(own_settings(&connection, group).await, [] as [&str; 0]);
    let timeout = "consumer.session.timeout.ms";
    assert_eq!(set_config(&connection, group, timeout, Some("50000")).await, ErrorCode::None);
    assert_eq!(set_config(&connection, group, timeout, Some("0")).await, ErrorCode::InvalidConfig);
    assert_eq!(
        set_config(&connection, group, "retention.ms", Some("1")).await,
        ErrorCode::InvalidConfig
    );
    assert_eq!(own_settings(&connection, group).await, ["consumer.session.timeout.ms=50000 (8)"]);

    assert_eq!(
        set_config(&connection, subscription, "metrics", Some("org.a,org.b")).await,
        ErrorCode::None
    );
    let refused = set_config(&connection, subscription, "match", Some("client_id=(")).await;
    assert_eq!(refused, ErrorCode::InvalidRequest);
    assert_eq!(own_settings(&connection, subscription).await, ["metrics=org.a,org.b (7)"]);

    let all = [(2, "t"), (4, "1"), (8, "1"), (CLIENT_METRICS, "s"), (GROUP, "g")];
    let all = all.map(|(resource_type, name)| (resource_type, name.to_owned()));
    assert_eq!(listed(&connection, &[]).await, all);
    assert_eq!(listed(&connection, &[GROUP]).await, all[4..]);

    assert_eq!(set_config(&connection, group, timeout, None).await, ErrorCode::None);
    assert_eq!(listed(&connection, &[GROUP]).await, []);
    broker.stop().await;
}

#[tokio::test]
async fn what_needs_authentication_is_answered_as_by_kafka_without_any() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let disabled = ErrorCode::SecurityDisabled.code();
    let response = connection.call(&DescribeAclsRequest::default()).await.expect("is answered");
    assert_eq!(response.error_code, disabled);
    assert_eq!(response.error_message.as_deref(), Some("No Authorizer is configured."));
    let create = CreateAclsRequest {
        creations: vec![AclCreation::default(), AclCreation::default()],
        ..Default::default()
    };
    let response = connection.call(&create).await.expect("is answered");
    let codes: Vec<i16> = response.results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [disabled, disabled]);
    let delete =
        DeleteAclsRequest { filters: vec![DeleteAclsFilter::default()], ..Default::default() };
    let response = connection.call(&delete).await.expect("is answered");
    assert_eq!(response.filter_results[0].error_code, disabled);

    let tokens = DescribeDelegationTokenRequest::default();
    let response = connection.call(&tokens).await.expect("is answered");
    assert_eq!(response.error_code, ErrorCode::DelegationTokenRequestNotAllowed.code());

    let everybody = DescribeUserScramCredentialsRequest { users: None, ..Default::default() };
    let response = connection.call(&everybody).await.expect("is answered");
    assert_eq!((response.error_code, response.results), (0, Vec::new()));
    let user = |name: &'static str| UserName { name: name.into(), ..Default::default() };
    let users = vec![user("a"), user("b"), user("a")];
    let named = DescribeUserScramCredentialsRequest { users: Some(users), ..Default::default() };
    let response = connection.call(&named).await.expect("is answered");
    let codes: Vec<i16> = response.results.iter().map(|result| result.error_code).collect();
    let (twice, missing) = (ErrorCode::DuplicateResource, ErrorCode::ResourceNotFound);
    assert_eq!(codes, [twice.code(), missing.code()]);
    broker.stop().await;
}
