//! Groups, over the network and over restarts.

mod common;

use std::time::Duration;

use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, Offset, PartitionId, TopicName, TopicPartition};
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{
    FindCoordinatorRequest, HeartbeatRequest, IncrementalAlterConfigsRequest, JoinGroupRequest,
    JoinGroupResponse, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use logway_wire::{Request, UnreadAge, WireString};
use tokio::time::{self, Instant};

/// A group's first rebalance need not wait for members that do not come.
const AT_ONCE: &[(&str, &str)] = &[("group.initial.rebalance.delay.ms", "0")];

const GROUP: &str = "readers";

const SESSION: Duration = Duration::from_secs(30);

async fn call<R: Request>(connection: &Connection, request: &R, version: i16) -> R::Response {
    let pending = connection.send(request, version).await.expect("is sent");
    pending.response().await.expect("is answered")
}

async fn find_coordinator(connection: &Connection) {
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![WireString::copy_of(GROUP)],
        ..Default::default()
    };
    let found = call(connection, &request, 4).await.coordinators.remove(0);
    assert_eq!(found.error_code, 0, "{:?}", found.error_message);
}

fn join_request(member_id: WireString) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol {
        name: WireString::copy_of("range"),
        metadata: "subscription".into(),
        ..Default::default()
    };
    JoinGroupRequest {
        group_id: WireString::copy_of(GROUP),
        session_timeout_ms: i32::try_from(SESSION.as_millis()).expect("fits"),
        rebalance_timeout_ms: 30_000,
        member_id,
        protocol_type: WireString::copy_of("consumer"),
        protocols: vec![protocol],
        ..Default::default()
    }
}

/// Joins as the only member, which is asked to come back with the id that it is given (KIP-394).
async fn join(connection: &Connection) -> JoinGroupResponse {
    let refused = call(connection, &join_request(WireString::new()), 9).await;
    assert_eq!(refused.error_code, ErrorCode::MemberIdRequired.code());
    let joined = call(connection, &join_request(refused.member_id), 9).await;
    assert_eq!(joined.error_code, 0);
    assert_eq!(joined.leader, joined.member_id);
    joined
}

async fn sync(connection: &Connection, joined: &JoinGroupResponse) {
    let assignment = SyncGroupRequestAssignment {
        member_id: joined.member_id.clone(),
        assignment: "everything".into(),
        ..Default::default()
    };
    let request = SyncGroupRequest {
        group_id: WireString::copy_of(GROUP),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some(WireString::copy_of("consumer")),
        protocol_name: Some(WireString::copy_of("range")),
        assignments: vec![assignment],
        ..Default::default()
    };
    let synced = call(connection, &request, 5).await;
    assert_eq!((synced.error_code, &*synced.assignment), (0, b"everything".as_slice()));
}

async fn heartbeat(connection: &Connection, joined: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest {
        group_id: WireString::copy_of(GROUP),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    call(connection, &request, 4).await.error_code
}

async fn commit(
    connection: &Connection,
    joined: &JoinGroupResponse,
    partition: i32,
    offset: i64,
) -> i16 {
    let partition = OffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: offset,
        committed_metadata: Some(WireString::copy_of("nöte")),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: WireString::copy_of("t"),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: WireString::copy_of(GROUP),
        generation_id_or_member_epoch: joined.generation_id,
        member_id: joined.member_id.clone(),
        topics: vec![topic],
        ..Default::default()
    };
    call(connection, &request, 9).await.topics[0].partitions[0].error_code
}

/// The committed offset of partition 0 with its text, and the age of what comes after it.
async fn committed(connection: &Connection) -> (i64, String, Option<UnreadAge>) {
    let group = OffsetFetchRequestGroup {
        group_id: WireString::copy_of(GROUP),
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![group],
        unknown_tagged_fields: vec![UnreadAge::question()],
        ..Default::default()
    };
    loop {
        let group = call(connection, &request, 9).await.groups.remove(0);
        // Until the shard has read its log.
        if group.error_code == ErrorCode::CoordinatorLoadInProgress.code() {
            continue;
        }
        assert_eq!(group.error_code, 0);
        let partition = &group.topics[0].partitions[0];
        let metadata = partition.metadata.as_ref().expect("was committed with a text");
        let age = UnreadAge::find_in(&partition.unknown_tagged_fields);
        return (partition.committed_offset, metadata.to_string(), age);
    }
}

#[tokio::test]
async fn a_group_goes_on_after_a_restart_where_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), AT_ONCE).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    produce(&connection, "t", 0, batch(&["a", "b", "c"])).await;
    find_coordinator(&connection).await;
    let joined = join(&connection).await;
    sync(&connection, &joined).await;
    assert_eq!(commit(&connection, &joined, 0, 2).await, 0);
    broker.stop().await;

    let broker = TestBroker::start_with(dir.path(), AT_ONCE).await;
    let connection = broker.connect().await;
    let (offset, text, _) = committed(&connection).await;
    assert_eq!((offset, &*text), (2, "nöte"));
    assert_eq!(heartbeat(&connection, &joined).await, 0, "the member is still one");
    let stale = JoinGroupResponse { generation_id: joined.generation_id - 1, ..joined.clone() };
    let illegal = ErrorCode::IllegalGeneration.code();
    assert_eq!(commit(&connection, &stale, 0, 1).await, illegal);
    assert_eq!(committed(&connection).await.0, 2);
    broker.stop().await;
}

#[tokio::test]
async fn the_topic_of_groups_is_shortened_as_its_own_settings_say() {
    let dir = tempfile::tempdir().expect("a directory");
    let one_partition = ("offsets.topic.num.partitions", "1");
    // Of any other topic nothing would be left.
    let settings = [AT_ONCE[0], one_partition, ("log.retention.bytes", "0")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    find_coordinator(&connection).await;
    let joined = join(&connection).await;
    sync(&connection, &joined).await;
    assert_eq!(commit(&connection, &joined, 0, 2).await, 0);
    let log_dir = broker.node().log_dirs.online().next().expect("there is one");
    let topic = TopicName::new("__consumer_offsets").expect("a good name");
    let log = log_dir.log(&TopicPartition::new(topic, PartitionId(0))).expect("it has commits");
    let shorten = || log_dir.enforce_retention().wait().expect("the disk works");
    shorten();
    assert_eq!(log.log_start_offset(), Offset(0), "it is compacted, and nothing is deleted");

    let config = AlterableConfig {
        name: "cleanup.policy".into(),
        value: Some("compact,delete".into()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: 2,
        resource_name: "__consumer_offsets".into(),
        configs: vec![config],
        ..Default::default()
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_eq!(call(&connection, &request, 1).await.responses[0].error_code, 0);
    shorten();
    assert_eq!(log.log_start_offset(), log.log_end_offset());
    assert_eq!(committed(&connection).await.0, 2, "who has it goes on");
    broker.stop().await;
}

#[tokio::test]
async fn offsets_of_a_topic_go_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), AT_ONCE).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    find_coordinator(&connection).await;
    let joined = join(&connection).await;
    sync(&connection, &joined).await;
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(commit(&connection, &joined, 1, 2).await, unknown, "there is one partition");
    assert_eq!(commit(&connection, &joined, 0, 2).await, 0);
    delete_topic(&connection, "t").await;
    create_topic(&connection, "t", 1).await;
    let group = OffsetFetchRequestGroup {
        group_id: WireString::copy_of(GROUP),
        topics: None,
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let has_offsets = async || !call(&connection, &request, 9).await.groups[0].topics.is_empty();
    let are_gone = async { while has_offsets().await {} };
    tokio::time::timeout(std::time::Duration::from_secs(20), are_gone).await.expect("in time");
    broker.stop().await;
}

#[tokio::test]
async fn the_age_of_unread_records_is_told_to_who_asks() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), AT_ONCE).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let before = now_ms();
    produce(&connection, "t", 0, batch(&["a", "b", "c"])).await;
    find_coordinator(&connection).await;
    let joined = join(&connection).await;
    sync(&connection, &joined).await;
    commit(&connection, &joined, 0, 2).await;
    let Some(UnreadAge::Ms(age_ms)) = committed(&connection).await.2 else {
        panic!("one record is unread")
    };
    let age_max_ms = u64::try_from(now_ms() - before).expect("time goes on");
    assert!(age_ms <= age_max_ms, "{age_ms} > {age_max_ms}");
    commit(&connection, &joined, 0, 3).await;
    assert_eq!(committed(&connection).await.2, Some(UnreadAge::Ms(0)));
    broker.stop().await;
}

#[tokio::test]
async fn clients_cannot_write_what_the_coordinator_keeps() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), AT_ONCE).await;
    let connection = broker.connect().await;
    find_coordinator(&connection).await;
    let answer = produce(&connection, "__consumer_offsets", 0, batch(&["forged"])).await;
    assert_eq!(answer.error_code, ErrorCode::InvalidTopicException.code());
    broker.stop().await;
}

#[tokio::test]
async fn a_broker_that_was_stopped_throws_out_nobody_but_who_is_silent_when_it_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), AT_ONCE).await;
    let connection = broker.connect().await;
    find_coordinator(&connection).await;
    let joined = join(&connection).await;
    sync(&connection, &joined).await;
    for _ in 0..3 {
        assert_eq!(heartbeat(&connection, &joined).await, 0);
        // The clock is all that a process sees of having been stopped.
        time::pause();
        time::advance(3 * SESSION).await;
        time::resume();
    }
    assert_eq!(heartbeat(&connection, &joined).await, 0);

    time::pause();
    let began = Instant::now();
    while began.elapsed() <= SESSION + Duration::from_secs(1) {
        time::advance(Duration::from_millis(100)).await;
        // The broker's tasks have their turns.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    time::resume();
    let code = heartbeat(&connection, &joined).await;
    assert_eq!(code, ErrorCode::UnknownMemberId.code());
    broker.stop().await;
}

#[tokio::test]
async fn a_join_that_waits_for_others_ends_with_the_broker() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("group.initial.rebalance.delay.ms", "600000")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    find_coordinator(&connection).await;
    let refused = call(&connection, &join_request(WireString::new()), 9).await;
    let waiting = connection.send(&join_request(refused.member_id), 9).await.expect("is sent");
    // One that comes after it on the same connection is answered after it.
    let other = broker.connect().await;
    call(&other, &metadata_request(), 12).await;
    broker.stop().await;
    let answer = waiting.response().await.expect("is answered");
    assert_eq!(answer.error_code, ErrorCode::NotCoordinator.code());
}
