//! Coordinators.

use logway_coordinator::{OFFSETS_TOPIC, partition_of_group};
use logway_model::ErrorCode;
use logway_wire::messages::delete_groups_response::DeletableGroupResult;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::messages::*;
use logway_wire::{UnreadAge, WireString};

use super::*;

const NOT_COORDINATOR: i16 = ErrorCode::NotCoordinator as i16;

/// A group of each partition of the topic of all groups, which are as those of [`SINGLE`].
async fn groups(cluster: &Cluster) -> [WireString; 3] {
    let id = TopicId(Uuid([10; 16]));
    cluster.create(OFFSETS_TOPIC, id, &[&[OWN], &[OTHER], &[FENCED]]).await;
    [HERE, ELSEWHERE, LEADERLESS].map(|partition| {
        let mut names = (0..).map(|number| format!("group-{number}"));
        let is_there = |name: &String| partition_of_group(name, 3) == partition.unsigned_abs();
        WireString::from(names.find(is_there).expect("there are many names"))
    })
}

#[tokio::test]
async fn the_coordinator_is_the_leader_of_the_groups_partition() {
    let (cluster, connection) = Cluster::start().await;
    let groups = groups(&cluster).await;
    let request =
        FindCoordinatorRequest { coordinator_keys: groups.to_vec(), ..Default::default() };
    let found = call(&connection, &request, 6).await.coordinators;
    let found: Vec<_> =
        found.iter().map(|it| (it.error_code, it.node_id, it.host.to_string(), it.port)).collect();
    let own = cluster.broker.address;
    let unavailable = ErrorCode::CoordinatorNotAvailable.code();
    let expected = [
        (0, OWN.0, own.ip().to_string(), i32::from(own.port())),
        (0, OTHER.0, host_of(OTHER), 9_092),
        (unavailable, -1, String::new(), -1),
    ];
    assert_eq!(found, expected);

    let request = FindCoordinatorRequest { key: groups[1].clone(), ..Default::default() };
    let found = call(&connection, &request, 3).await;
    assert_eq!((found.error_code, found.node_id, found.port), (0, OTHER.0, 9_092));

    // Nobody leads its partition any more.
    cluster.set_state(OTHER, BrokerState::Fenced).await;
    let found = call(&connection, &request, 3).await;
    assert_eq!((found.error_code, found.node_id), (unavailable, -1));
    cluster.stop().await;
}

/// Commits offsets of partitions that are led here and elsewhere; returns the error of each.
async fn commit(connection: &Connection, group_id: &WireString) -> Vec<i16> {
    let partitions = [HERE, ELSEWHERE].map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 0,
        committed_metadata: Some(WireString::new()),
        ..Default::default()
    });
    let topic = OffsetCommitRequestTopic {
        name: SINGLE.into(),
        partitions: partitions.to_vec(),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group_id.clone(),
        topics: vec![topic],
        ..Default::default()
    };
    loop {
        let committed = call(connection, &request, 8).await.topics.remove(0).partitions;
        let codes: Vec<i16> = committed.iter().map(|it| it.error_code).collect();
        // Until the shard has read its log.
        if codes[0] != ErrorCode::CoordinatorLoadInProgress.code() {
            return codes;
        }
    }
}

fn offset_fetch(group_id: &WireString) -> OffsetFetchRequest {
    let group_id = group_id.clone();
    let group = OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
    let unknown_tagged_fields = vec![UnreadAge::question()];
    OffsetFetchRequest { groups: vec![group], unknown_tagged_fields, ..Default::default() }
}

#[tokio::test]
async fn the_age_of_records_is_left_to_the_broker_that_has_them() {
    let (cluster, connection) = Cluster::start().await;
    let [group, ..] = groups(&cluster).await;
    assert_eq!(commit(&connection, &group).await, [0, 0]);
    let mut fetched = call(&connection, &offset_fetch(&group), 8).await.groups.remove(0);
    let partitions = fetched.topics.remove(0).partitions.into_iter();
    let ages = partitions.map(|it| {
        (it.partition_index, it.error_code, UnreadAge::find_in(&it.unknown_tagged_fields))
    });
    let expected = [(HERE, 0, Some(UnreadAge::Ms(0))), (ELSEWHERE, 0, None)];
    assert_eq!(ages.collect::<Vec<_>>(), expected);
    cluster.stop().await;
}

#[tokio::test]
async fn groups_of_other_coordinators_are_sent_to_them() {
    let (cluster, connection) = Cluster::start().await;
    let [here, elsewhere, leaderless] = groups(&cluster).await;
    assert_eq!(commit(&connection, &here).await, [0, 0]);

    for group in [elsewhere, leaderless] {
        let group_id = || group.clone();
        let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
        let request = JoinGroupRequest {
            group_id: group_id(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        assert_eq!(call(&connection, &request, 9).await.error_code, NOT_COORDINATOR);
        let request = SyncGroupRequest { group_id: group_id(), ..Default::default() };
        assert_eq!(call(&connection, &request, 3).await.error_code, NOT_COORDINATOR);
        let request = HeartbeatRequest { group_id: group_id(), ..Default::default() };
        assert_eq!(call(&connection, &request, 4).await.error_code, NOT_COORDINATOR);
        let members = vec![MemberIdentity { member_id: "m".into(), ..Default::default() }];
        let request = LeaveGroupRequest { group_id: group_id(), members, ..Default::default() };
        assert_eq!(call(&connection, &request, 5).await.error_code, NOT_COORDINATOR);

        assert_eq!(commit(&connection, &group).await, [NOT_COORDINATOR; 2]);
        let fetched = call(&connection, &offset_fetch(&group), 8).await;
        assert_eq!(fetched.groups[0].error_code, NOT_COORDINATOR);
        let topic = OffsetDeleteRequestTopic {
            name: SINGLE.into(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
            ..Default::default()
        };
        let request =
            OffsetDeleteRequest { group_id: group_id(), topics: vec![topic], ..Default::default() };
        assert_eq!(call(&connection, &request, 0).await.error_code, NOT_COORDINATOR);

        let asked = vec![here.clone(), group_id()];
        let request = DescribeGroupsRequest { groups: asked.clone(), ..Default::default() };
        let described = call(&connection, &request, 5).await.groups;
        assert_eq!(
            described.iter().map(|it| it.error_code).collect::<Vec<_>>(),
            [0, NOT_COORDINATOR]
        );
        let request = DeleteGroupsRequest { groups_names: vec![group_id()], ..Default::default() };
        let deleted: Vec<DeletableGroupResult> = call(&connection, &request, 2).await.results;
        assert_eq!(deleted[0].error_code, NOT_COORDINATOR);
    }
    let listed = call(&connection, &ListGroupsRequest::default(), 5).await;
    assert_eq!(listed.error_code, 0);
    assert_eq!(listed.groups.iter().map(|it| &it.group_id).collect::<Vec<_>>(), [&here]);
    cluster.stop().await;
}
