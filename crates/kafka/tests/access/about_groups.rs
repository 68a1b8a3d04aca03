//! Groups, their members and their offsets.

use logway_model::{ErrorCode, Uuid};
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic,
};
use logway_wire::messages::streams_group_heartbeat_request::Topology;
use logway_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, DeleteGroupsRequest, DeleteGroupsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, ListGroupsRequest, OffsetCommitResponse, OffsetDeleteRequest,
    OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse, StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    SyncGroupRequest, SyncGroupResponse,
};

use super::common::probe::Probe;
use super::{GROUP, TRANSACTIONAL_ID, by_id, commit};

pub(crate) async fn refused(probe: &mut Probe, id: Uuid) {
    coordinators(probe).await;
    members(probe).await;
    offsets(probe, id).await;

    let describe = |_| DescribeGroupsRequest {
        groups: vec!["named-group".into(), "absent".into()],
        ..Default::default()
    };
    let described = |_, response: DescribeGroupsResponse| {
        assert!(response.groups.iter().all(|group| group.group_state.is_empty()));
        response.groups.iter().map(|group| group.error_code).collect()
    };
    let asked = "Describe Group(named-group), Describe Group(absent)";
    probe.told(describe, described, GROUP, asked).await;

    let describe = |_| ConsumerGroupDescribeRequest {
        group_ids: vec!["named-group".into(), "absent".into()],
        ..Default::default()
    };
    let described = |_, response: ConsumerGroupDescribeResponse| {
        response.groups.iter().map(|group| group.error_code).collect()
    };
    let asked = "Describe Group(named-group), Describe Group(absent)";
    probe.told(describe, described, GROUP, asked).await;

    let describe = |_| StreamsGroupDescribeRequest {
        group_ids: vec!["named-group".into(), "absent".into()],
        ..Default::default()
    };
    let described = |_, response: StreamsGroupDescribeResponse| {
        response.groups.iter().map(|group| group.error_code).collect()
    };
    probe.told(describe, described, GROUP, asked).await;

    for version in 0..=5 {
        let (response, asked) = probe.ask(&ListGroupsRequest::default(), version).await;
        assert_eq!((response.error_code, response.groups.len()), (0, 0));
        assert!(asked.starts_with("Describe Cluster, Describe Group("), "{asked}");
        assert!(asked.contains("Describe Group(hidden-group)"), "{asked}");
    }

    let delete =
        |_| DeleteGroupsRequest { groups_names: vec!["named-group".into()], ..Default::default() };
    let deleted = |_, response: DeleteGroupsResponse| {
        response.results.iter().map(|group| group.error_code).collect()
    };
    probe.told(delete, deleted, GROUP, "Delete Group(named-group)").await;
}

async fn coordinators(probe: &mut Probe) {
    let find = |key_type| {
        move |version| match version {
            4.. => FindCoordinatorRequest {
                key_type,
                coordinator_keys: vec!["named".into()],
                ..Default::default()
            },
            _ => FindCoordinatorRequest { key_type, key: "named".into(), ..Default::default() },
        }
    };
    let found = |version, response: FindCoordinatorResponse| match version {
        4.. => response.coordinators.iter().map(|found| found.error_code).collect(),
        _ => {
            assert_eq!((response.node_id, response.port), (-1, -1));
            vec![response.error_code]
        }
    };
    probe.told(find(0), found, GROUP, "Describe Group(named)").await;
    let asked = "Describe TransactionalId(named)";
    probe.told_from(1, find(1), found, TRANSACTIONAL_ID, asked).await;
}

async fn members(probe: &mut Probe) {
    const ASKED: &str = "Read Group(named-group)";
    let join = |_| JoinGroupRequest {
        group_id: "named-group".into(),
        session_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        ..Default::default()
    };
    let joined = |_, response: JoinGroupResponse| {
        assert_eq!((response.generation_id, &*response.member_id), (-1, ""));
        vec![response.error_code]
    };
    probe.told(join, joined, GROUP, ASKED).await;

    let sync = |version| SyncGroupRequest {
        group_id: "named-group".into(),
        protocol_type: (version >= 5).then(|| "consumer".into()),
        protocol_name: (version >= 5).then(|| "range".into()),
        ..Default::default()
    };
    let synced = |_, response: SyncGroupResponse| vec![response.error_code];
    probe.told(sync, synced, GROUP, ASKED).await;
    // What cannot be understood is said first.
    let wrong = |_| SyncGroupRequest { group_id: "named-group".into(), ..Default::default() };
    let code = ErrorCode::InconsistentGroupProtocol;
    probe.told_from(5, wrong, synced, code, "").await;

    let beat = |_| HeartbeatRequest { group_id: "named-group".into(), ..Default::default() };
    let beaten = |_, response: HeartbeatResponse| vec![response.error_code];
    probe.told(beat, beaten, GROUP, ASKED).await;

    let beat = |_| ConsumerGroupHeartbeatRequest {
        group_id: "named-group".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_names: Some(vec!["named".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let beaten = |_, response: ConsumerGroupHeartbeatResponse| vec![response.error_code];
    probe.told(beat, beaten, GROUP, ASKED).await;

    let beat = |_| StreamsGroupHeartbeatRequest {
        group_id: "named-group".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 1_000,
        topology: Some(Topology::default()),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..Default::default()
    };
    let beaten = |_, response: StreamsGroupHeartbeatResponse| vec![response.error_code];
    probe.told(beat, beaten, GROUP, ASKED).await;

    let leave = |version| LeaveGroupRequest {
        group_id: "named-group".into(),
        members: match version {
            3.. => vec![MemberIdentity { member_id: "m".into(), ..Default::default() }],
            _ => Vec::new(),
        },
        ..Default::default()
    };
    let left = |_, response: LeaveGroupResponse| {
        assert!(response.members.is_empty());
        vec![response.error_code]
    };
    probe.told(leave, left, GROUP, ASKED).await;
}

async fn offsets(probe: &mut Probe, id: Uuid) {
    let commit = |version| {
        let mut request = commit("named-group", "named");
        request.topics[0].topic_id = by_id(version, 10, id);
        request.topics[0].partitions[0].committed_offset = 7;
        request
    };
    let committed = |_, response: OffsetCommitResponse| {
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    };
    probe.told(commit, committed, GROUP, "Read Group(named-group)").await;

    let fetch = |version| match version {
        8.. => OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: "named-group".into(),
                topics: None,
                ..Default::default()
            }],
            ..Default::default()
        },
        _ => OffsetFetchRequest {
            group_id: "named-group".into(),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: "named".into(),
                partition_indexes: vec![0],
                ..Default::default()
            }]),
            ..Default::default()
        },
    };
    let fetched = |version, response: OffsetFetchResponse| match version {
        8.. => response.groups.iter().map(|group| group.error_code).collect(),
        2.. => vec![response.error_code],
        _ => vec![response.topics[0].partitions[0].error_code],
    };
    probe.told(fetch, fetched, GROUP, "Describe Group(named-group)").await;

    let delete = |_| OffsetDeleteRequest {
        group_id: "named-group".into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "named".into(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let deleted = |_, response: OffsetDeleteResponse| {
        assert!(response.topics.is_empty());
        vec![response.error_code]
    };
    probe.told(delete, deleted, GROUP, "Delete Group(named-group)").await;
}
