//! Brokers, leaders, the quorum, elections and settings.

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use logway_wire::messages::elect_leaders_request::TopicPartitions;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::*;

use super::*;

const BROKER_RESOURCE: i8 = 4;
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// The partitions of a topic: error, leader, replicas that are offline.
fn told_of(metadata: &MetadataResponse, topic: &str) -> Vec<(ErrorCode, i32, Vec<i32>)> {
    let named = metadata.topics.iter().find(|it| it.name.as_deref() == Some(topic));
    let partitions = named.expect("is told of").partitions.iter();
    let told = partitions.map(|it| {
        let code = ErrorCode::from_code(it.error_code).expect("is known");
        (code, it.leader_id, it.offline_replicas.clone())
    });
    told.collect()
}

#[tokio::test]
async fn metadata_has_the_brokers_that_serve_and_leaders_wherever_they_are() {
    let (cluster, connection) = Cluster::start().await;
    let metadata = call(&connection, &metadata_request(), 12).await;
    let brokers = metadata.brokers.iter().map(|it| (it.node_id, it.host.to_string(), it.port));
    let own = cluster.broker.address;
    let expected = [(1, own.ip().to_string(), i32::from(own.port())), (2, host_of(OTHER), 9_092)];
    assert_eq!(brokers.collect::<Vec<_>>(), expected);
    assert_eq!(metadata.controller_id, OWN.0);

    let none = ErrorCode::None;
    let expected =
        [(none, 1, vec![]), (none, 2, vec![]), (ErrorCode::LeaderNotAvailable, -1, vec![3])];
    assert_eq!(told_of(&metadata, SINGLE), expected);
    assert_eq!(told_of(&metadata, PAIR), [(none, 2, vec![]), (none, 1, vec![])]);

    let all = call(&connection, &DescribeTopicPartitionsRequest::default(), 0).await;
    let all = all.topics.iter().flat_map(|topic| &topic.partitions);
    let leaders: Vec<_> = all.map(|it| (it.leader_id, it.offline_replicas.clone())).collect();
    assert_eq!(leaders, [(2, vec![]), (1, vec![]), (1, vec![]), (2, vec![]), (-1, vec![3])]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_broker_that_is_fenced_is_shown_no_more_and_leads_nothing() {
    let (cluster, connection) = Cluster::start().await;
    cluster.create("of-nobody-here", TopicId(Uuid([9; 16])), &[&[OTHER]]).await;
    let metadata = call(&connection, &metadata_request(), 12).await;
    assert_eq!(told_of(&metadata, "of-nobody-here"), [(ErrorCode::None, 2, vec![])]);

    cluster.set_state(OTHER, BrokerState::Fenced).await;
    let metadata = call(&connection, &metadata_request(), 12).await;
    assert_eq!(metadata.brokers.iter().map(|it| it.node_id).collect::<Vec<_>>(), [1]);
    let leaderless = (ErrorCode::LeaderNotAvailable, -1, vec![2]);
    assert_eq!(told_of(&metadata, "of-nobody-here"), std::slice::from_ref(&leaderless));
    // This broker has taken over what it has followed.
    let here = (ErrorCode::None, 1, vec![2]);
    assert_eq!(told_of(&metadata, PAIR), [here.clone(), here]);

    let shown = async |include_fenced_brokers| {
        let request = DescribeClusterRequest { include_fenced_brokers, ..Default::default() };
        let brokers = call(&connection, &request, 2).await.brokers.into_iter();
        brokers.map(|it| (it.broker_id, it.is_fenced)).collect::<Vec<_>>()
    };
    assert_eq!(shown(false).await, [(1, false)]);
    assert_eq!(shown(true).await, [(1, false), (2, true), (3, true)]);
    cluster.stop().await;
}

#[tokio::test]
async fn the_quorum_of_one_is_described_by_the_address_for_clients() {
    let (cluster, connection) = Cluster::start().await;
    let topic = TopicData {
        topic_name: "__cluster_metadata".into(),
        partitions: vec![PartitionData::default()],
        ..Default::default()
    };
    let request = DescribeQuorumRequest { topics: vec![topic], ..Default::default() };
    let described = call(&connection, &request, 2).await;
    let partition = &described.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.leader_id), (0, OWN.0));
    let [voter] = partition.current_voters.as_slice() else { panic!("one voter") };
    assert_eq!(voter.replica_id, OWN.0);
    assert!(voter.log_end_offset > 0 && voter.last_fetch_timestamp > 0);
    assert_eq!(voter.last_fetch_timestamp, voter.last_caught_up_timestamp);
    assert!(partition.observers.is_empty());
    let [node] = described.nodes.as_slice() else { panic!("one node") };
    let listener = &node.listeners[0];
    assert_eq!((node.node_id, listener.name.as_str()), (OWN.0, "PLAINTEXT"));
    assert_eq!(listener.port, cluster.broker.address.port());
    cluster.stop().await;
}

/// What an election says of each partition that it names.
async fn elect(
    connection: &Connection,
    election_type: i8,
    topics: Option<Vec<(&'static str, Vec<i32>)>>,
) -> Vec<(String, i32, ErrorCode)> {
    let topic = |(topic, partitions): (&'static str, Vec<i32>)| TopicPartitions {
        topic: topic.into(),
        partitions,
        ..Default::default()
    };
    let topic_partitions = topics.map(|topics| topics.into_iter().map(topic).collect());
    let request = ElectLeadersRequest { election_type, topic_partitions, ..Default::default() };
    let response = call(connection, &request, 2).await;
    assert_eq!(response.error_code, 0);
    let told = response.replica_election_results.into_iter().flat_map(|topic| {
        let name = topic.topic.to_string();
        topic.partition_result.into_iter().map(move |it| {
            assert_eq!(it.error_message.is_none(), it.error_code == 0);
            let code = ErrorCode::from_code(it.error_code).expect("is known");
            (name.clone(), it.partition_id, code)
        })
    });
    told.collect()
}

#[tokio::test]
async fn leaders_are_elected() {
    let (cluster, connection) = Cluster::start().await;
    let leader = |topic: &str, partition: i32| {
        let image = cluster.broker.node().image();
        image.topic(topic).expect("exists").partitions[partition as usize].leader
    };
    // This broker hands over what it leads, and comes back: the other one has all of it.
    cluster.set_state(OWN, BrokerState::ShuttingDown).await;
    cluster.set_state(OWN, BrokerState::Active).await;
    assert_eq!(leader(PAIR, LED), Some(OTHER));
    let not_in_sync = ErrorCode::PreferredLeaderNotAvailable;
    let expected =
        [(PAIR.to_owned(), LED, not_in_sync), (SINGLE.to_owned(), LEADERLESS, not_in_sync)];
    assert_eq!(elect(&connection, PREFERRED, None).await, expected);
    let asked = vec![(PAIR, vec![FOLLOWED, 7, FOLLOWED]), ("no-such", vec![0])];
    let expected = [
        (PAIR.to_owned(), FOLLOWED, ErrorCode::ElectionNotNeeded),
        (PAIR.to_owned(), 7, ErrorCode::UnknownTopicOrPartition),
        (PAIR.to_owned(), FOLLOWED, ErrorCode::ElectionNotNeeded),
        ("no-such".to_owned(), 0, ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(elect(&connection, PREFERRED, Some(asked)).await, expected);

    // The other one was the last in sync, so nobody leads without it unless somebody asks for that.
    cluster.set_state(OTHER, BrokerState::Fenced).await;
    assert_eq!(leader(PAIR, LED), None);
    let asked = || Some(vec![(PAIR, vec![LED]), (SINGLE, vec![HERE, LEADERLESS])]);
    let expected = [
        (PAIR.to_owned(), LED, ErrorCode::None),
        (SINGLE.to_owned(), HERE, ErrorCode::ElectionNotNeeded),
        (SINGLE.to_owned(), LEADERLESS, ErrorCode::EligibleLeadersNotAvailable),
    ];
    assert_eq!(elect(&connection, UNCLEAN, asked()).await, expected);
    assert_eq!(leader(PAIR, LED), Some(OWN));
    let response = produce(&connection, PAIR, LED, batch(&["x"])).await;
    assert_eq!(response.error_code, 0, "it leads when the answer says so");
    cluster.stop().await;
}

#[tokio::test]
async fn what_is_about_another_broker_has_to_be_sent_to_it() {
    let (cluster, connection) = Cluster::start().await;
    let both = |message: Option<WireString>| {
        let message = message.unwrap_or_default();
        assert!(message.contains('1') && message.contains('2'), "{message:?}");
    };
    let resource = DescribeConfigsResource {
        resource_type: BROKER_RESOURCE,
        resource_name: "2".into(),
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let described = call(&connection, &request, 4).await.results.remove(0);
    assert_eq!(described.error_code, ErrorCode::InvalidRequest.code());
    both(described.error_message);

    let resource = AlterConfigsResource {
        resource_type: BROKER_RESOURCE,
        resource_name: "2".into(),
        configs: vec![AlterableConfig {
            name: "max.connections".into(),
            value: Some("10".into()),
            ..Default::default()
        }],
        ..Default::default()
    };
    let resources = vec![resource];
    let request = IncrementalAlterConfigsRequest { resources, ..Default::default() };
    let altered = call(&connection, &request, 1).await.responses.remove(0);
    assert_eq!(altered.error_code, ErrorCode::InvalidRequest.code());
    both(altered.error_message);
    cluster.stop().await;
}

#[tokio::test]
async fn a_replica_that_is_not_here_is_not_moved_here() {
    let (cluster, connection) = Cluster::start().await;
    let topic = AlterReplicaLogDirTopic {
        name: SINGLE.into(),
        partitions: vec![HERE, ELSEWHERE, 9],
        ..Default::default()
    };
    let path = cluster.dir.path().to_str().expect("is text");
    let dir = AlterReplicaLogDir {
        path: WireString::copy_of(path),
        topics: vec![topic],
        ..Default::default()
    };
    let request = AlterReplicaLogDirsRequest { dirs: vec![dir], ..Default::default() };
    let told = call(&connection, &request, 2).await.results.remove(0).partitions;
    let told: Vec<_> = told.iter().map(|it| (it.partition_index, it.error_code)).collect();
    let absent = ErrorCode::ReplicaNotAvailable.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(told, [(HERE, 0), (ELSEWHERE, absent), (9, unknown)]);

    let described =
        call(&connection, &DescribeLogDirsRequest { topics: None, ..Default::default() }, 4).await;
    let described = described.results.iter().flat_map(|dir| &dir.topics);
    let logs = described.flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.iter().map(move |it| (name.clone(), it.partition_index, it.offset_lag))
    });
    let logs: Vec<_> = logs.collect();
    let expected = [(PAIR.to_owned(), 0, 0), (PAIR.to_owned(), 1, 0), (SINGLE.to_owned(), HERE, 0)];
    assert_eq!(logs, expected, "a follower is not behind what it knows to be committed");
    cluster.stop().await;
}
