//! Writing and reading.

use std::time::{Duration, Instant};

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::describe_producers_request::TopicRequest;
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::fetch_response::PartitionData;
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use logway_wire::messages::*;

use super::*;

const NOT_LEADER: i16 = ErrorCode::NotLeaderOrFollower as i16;
const UNKNOWN: i16 = ErrorCode::UnknownTopicOrPartition as i16;

/// A wait that no test lasts.
const LONG: Duration = Duration::from_secs(60);

fn host_and_rack(host: &str, port: i32, rack: &Option<WireString>) -> (String, i32, String) {
    (host.to_owned(), port, rack.as_deref().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_producer_is_told_who_leads() {
    let (cluster, connection) = Cluster::start().await;
    let other = (OTHER.0, (host_of(OTHER), 9_092, format!("rack-{OTHER}")));
    for (topic, id, partition, leader) in [
        (SINGLE, SINGLE_ID, ELSEWHERE, Some(OTHER)),
        (PAIR, PAIR_ID, FOLLOWED, Some(OTHER)),
        (SINGLE, SINGLE_ID, LEADERLESS, None),
    ] {
        for version in [9, 10, 12, 13] {
            let mut request = produce_request(topic, partition, batch(&["x"]));
            if version >= 13 {
                let data = &mut request.topic_data[0];
                (data.name, data.topic_id) = (WireString::new(), id.0);
            }
            let mut response = call(&connection, &request, version).await;
            let endpoints: Vec<_> = response.node_endpoints.iter().collect();
            let endpoints: Vec<_> = endpoints
                .iter()
                .map(|it| (it.node_id, host_and_rack(&it.host, it.port, &it.rack)))
                .collect();
            let told = response.responses.remove(0).partition_responses.remove(0);
            assert_eq!(told.error_code, NOT_LEADER, "{topic}-{partition} in {version}");
            let named = (told.current_leader.leader_id, told.current_leader.leader_epoch);
            match leader.filter(|_| version >= 10) {
                Some(leader) => {
                    assert_eq!((named, endpoints), ((leader.0, 0), vec![other.clone()]))
                }
                None => assert_eq!((named, endpoints), ((-1, -1), vec![])),
            }
        }
    }
    let unknown = produce(&connection, SINGLE, 9, batch(&["x"])).await;
    assert_eq!(unknown.error_code, UNKNOWN);
    let here = produce(&connection, SINGLE, HERE, batch(&["x"])).await;
    assert_eq!((here.error_code, here.current_leader.leader_id), (0, -1));
    cluster.stop().await;
}

/// A fetch that waits for long, of partitions from offsets in leader epochs.
fn waiting_fetch(version: i16, topic: &str, id: TopicId, wishes: &[(i32, i32)]) -> FetchRequest {
    let partitions = wishes.iter().map(|&(partition, current_leader_epoch)| FetchPartition {
        partition,
        current_leader_epoch,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    });
    let (by_name, by_id) = (WireString::copy_of(topic), id.0);
    let is_by_id = version >= 13;
    let topic = FetchTopic {
        topic: if is_by_id { WireString::new() } else { by_name },
        topic_id: if is_by_id { by_id } else { Uuid::ZERO },
        partitions: partitions.collect(),
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms: i32::try_from(LONG.as_millis()).expect("fits"),
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

fn partitions(response: &FetchResponse) -> Vec<&PartitionData> {
    assert_eq!(response.error_code, 0);
    response.responses.iter().flat_map(|topic| &topic.partitions).collect()
}

/// For each partition its error, and the leader and epoch that are named.
fn told(response: &FetchResponse) -> Vec<(i32, i16, i32, i32)> {
    let tell = |it: &&PartitionData| {
        let leader = &it.current_leader;
        (it.partition_index, it.error_code, leader.leader_id, leader.leader_epoch)
    };
    partitions(response).iter().map(tell).collect()
}

#[tokio::test]
async fn a_consumer_is_told_at_once_who_leads() {
    let (cluster, connection) = Cluster::start().await;
    let started = Instant::now();
    for version in [4, 12, 15, 16, 17] {
        let wishes = [(HERE, -1), (ELSEWHERE, -1), (LEADERLESS, -1)];
        let request = waiting_fetch(version, SINGLE, SINGLE_ID, &wishes);
        let response = call(&connection, &request, version).await;
        let (id, epoch) = if version >= 16 { (OTHER.0, 0) } else { (-1, -1) };
        let expected = [
            (HERE, 0, -1, -1),
            (ELSEWHERE, NOT_LEADER, id, epoch),
            (LEADERLESS, NOT_LEADER, -1, -1),
        ];
        assert_eq!(told(&response), expected, "{version}");
        let endpoints = response.node_endpoints.iter();
        let endpoints =
            endpoints.map(|it| (it.node_id, host_and_rack(&it.host, it.port, &it.rack)));
        let other = (OTHER.0, (host_of(OTHER), 9_092, format!("rack-{OTHER}")));
        let expected = if version >= 16 { vec![other] } else { Vec::new() };
        assert_eq!(endpoints.collect::<Vec<_>>(), expected);
    }
    assert!(started.elapsed() < LONG);
    cluster.stop().await;
}

#[tokio::test]
async fn a_consumer_of_another_epoch_is_told_which_one_it_is() {
    let (cluster, connection) = Cluster::start().await;
    // Away and back again: two epochs.
    cluster.set_state(OWN, BrokerState::ShuttingDown).await;
    cluster.set_state(OWN, BrokerState::Active).await;
    let fetch = async |epoch| {
        let request = waiting_fetch(17, SINGLE, SINGLE_ID, &[(HERE, epoch)]);
        let response = call(&connection, &request, 17).await;
        (told(&response).remove(0), response.node_endpoints.len())
    };
    let fenced = ErrorCode::FencedLeaderEpoch.code();
    assert_eq!(fetch(1).await, ((HERE, fenced, OWN.0, 2), 1));
    // As in Kafka: who is ahead of us knows better.
    let ahead = ErrorCode::UnknownLeaderEpoch.code();
    assert_eq!(fetch(3).await, ((HERE, ahead, -1, -1), 0));
    cluster.stop().await;
}

#[tokio::test]
async fn who_waits_is_told_when_the_leader_goes() {
    let (cluster, connection) = Cluster::start().await;
    let mut request = waiting_fetch(17, PAIR, PAIR_ID, &[(LED, 0)]);
    (request.session_epoch, request.max_wait_ms) = (0, 0);
    let opened = call(&connection, &request, 17).await;
    assert_eq!(told(&opened), [(LED, 0, -1, -1)]);

    let mut next = FetchRequest { session_id: opened.session_id, topics: Vec::new(), ..request };
    (next.session_epoch, next.max_wait_ms) = (1, i32::try_from(LONG.as_millis()).expect("fits"));
    let waiting = connection.send(&next, 17).await.expect("is sent");
    let started = Instant::now();
    cluster.set_state(OWN, BrokerState::ShuttingDown).await;
    let response = waiting.response().await.expect("is answered");
    // As in Kafka: a follower would serve the consumer, but for its old epoch.
    let moved = [(LED, ErrorCode::FencedLeaderEpoch.code(), OTHER.0, 1)];
    assert_eq!(told(&response), moved);
    assert!(started.elapsed() < LONG);
    // And again, as long as it asks.
    for epoch in 2..4 {
        next.session_epoch = epoch;
        assert_eq!(told(&call(&connection, &next, 17).await), moved);
    }
    cluster.stop().await;
}

#[tokio::test]
async fn offsets_are_told_by_the_leader_alone() {
    let (cluster, connection) = Cluster::start().await;
    let indexes = [HERE, ELSEWHERE, LEADERLESS, 9];
    let expected = [0, NOT_LEADER, NOT_LEADER, UNKNOWN];

    let asked = indexes.map(|partition_index| ListOffsetsPartition {
        partition_index,
        timestamp: -1,
        ..Default::default()
    });
    let topic =
        ListOffsetsTopic { name: SINGLE.into(), partitions: asked.to_vec(), ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let listed = call(&connection, &request, 8).await.topics.remove(0).partitions;
    assert_eq!(listed.iter().map(|it| it.error_code).collect::<Vec<_>>(), expected);

    let asked = indexes.map(|partition| OffsetForLeaderPartition {
        partition,
        current_leader_epoch: -1,
        ..Default::default()
    });
    let topic = OffsetForLeaderTopic {
        topic: SINGLE.into(),
        partitions: asked.to_vec(),
        ..Default::default()
    };
    let topics = vec![topic];
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics, ..Default::default() };
    let ends = call(&connection, &request, 4).await.topics.remove(0).partitions;
    assert_eq!(ends.iter().map(|it| it.error_code).collect::<Vec<_>>(), expected);

    let asked = indexes.map(|partition_index| DeleteRecordsPartition {
        partition_index,
        offset: -1,
        ..Default::default()
    });
    let topic = DeleteRecordsTopic {
        name: SINGLE.into(),
        partitions: asked.to_vec(),
        ..Default::default()
    };
    let topics = vec![topic];
    let request = DeleteRecordsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    let deleted = call(&connection, &request, 2).await.topics.remove(0).partitions;
    assert_eq!(deleted.iter().map(|it| it.error_code).collect::<Vec<_>>(), expected);
    cluster.stop().await;
}

#[tokio::test]
async fn producers_are_known_to_each_replica() {
    let (cluster, connection) = Cluster::start().await;
    let of = |name: &'static str, partition_indexes| TopicRequest {
        name: name.into(),
        partition_indexes,
        ..Default::default()
    };
    let topics = vec![of(SINGLE, vec![HERE, ELSEWHERE, 9]), of(PAIR, vec![FOLLOWED])];
    let request = DescribeProducersRequest { topics, ..Default::default() };
    let described = call(&connection, &request, 0).await.topics.into_iter();
    let codes = described.flat_map(|topic| topic.partitions).map(|it| it.error_code);
    assert_eq!(codes.collect::<Vec<_>>(), [0, NOT_LEADER, UNKNOWN, 0]);
    cluster.stop().await;
}
