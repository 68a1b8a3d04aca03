//! Coordinators.

use logway_coordinator::{OFFSETS_TOPIC, partition_of_group};
use logway_model::ErrorCode;
use logway_wire::WireString;
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

fn offset_commit(group_id: WireString) -> OffsetCommitRequest {
    let partitions = vec![OffsetCommitRequestPartition {
        partition_index: HERE,
        committed_offset: 1,
        committed_metadata: Some(WireString::new()),
        ..Default::default()
    }];
    let topic = OffsetCommitRequestTopic { name: SINGLE.into(), partitions, ..Default::default() };
    OffsetCommitRequest { group_id, topics: vec![topic], ..Default::default() }
}

#[tokio::test]
async fn groups_of_other_coordinators_are_sent_to_them() {
    let (cluster, connection) = Cluster::start().await;
    let [here, elsewhere, leaderless] = groups(&cluster).await;
    let committed = call(&connection, &offset_commit(here.clone()), 8).await;
    assert_eq!(committed.topics[0].partitions[0].error_code, 0);

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

        let committed = call(&connection, &offset_commit(group_id()), 8).await;
        assert_eq!(committed.topics[0].partitions[0].error_code, NOT_COORDINATOR);
        let groups = vec![OffsetFetchRequestGroup {
            group_id: group_id(),
            topics: None,
            ..Default::default()
        }];
        let request = OffsetFetchRequest { groups, ..Default::default() };
        assert_eq!(call(&connection, &request, 8).await.groups[0].error_code, NOT_COORDINATOR);
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
