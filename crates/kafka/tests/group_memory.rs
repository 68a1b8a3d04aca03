//! What answers about groups take is found before they are made, and counted until they have left.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, TimestampMs};
use logway_record::{BatchBuilder, Compression};
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use logway_wire::messages::{
    DescribeGroupsRequest, FindCoordinatorRequest, JoinGroupRequest, JoinGroupResponse,
    ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use logway_wire::{Request, UnreadAge, WireString};
use tokio::time::timeout;

const AT_ONCE: (&str, &str) = ("group.initial.rebalance.delay.ms", "0");

const PATIENCE: Duration = Duration::from_secs(20);

async fn call<R: Request>(connection: &Connection, request: &R, version: i16) -> R::Response {
    let pending = connection.send(request, version).await.expect("is sent");
    timeout(PATIENCE, pending.response()).await.expect("in time").expect("is answered")
}

/// Makes `__consumer_offsets`, and waits until its shards are loaded.
async fn find_coordinator(connection: &Connection) {
    let coordinator_keys = vec![WireString::from_static("any")];
    let request = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    let found = call(connection, &request, 4).await.coordinators.remove(0);
    assert_eq!(found.error_code, 0, "{:?}", found.error_message);
    while call(connection, &ListGroupsRequest::default(), 5).await.error_code != 0 {}
}

async fn start(settings: &[(&str, &str)]) -> (tempfile::TempDir, TestBroker, Connection) {
    let dir = tempfile::tempdir().expect("a directory");
    let settings: Vec<_> = settings.iter().chain([&AT_ONCE]).copied().collect();
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    find_coordinator(&connection).await;
    (dir, broker, connection)
}

fn commit_request(group: &str, partitions: std::ops::Range<i32>) -> OffsetCommitRequest {
    let partitions = partitions.map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        ..Default::default()
    });
    let topic = OffsetCommitRequestTopic {
        name: WireString::from_static("t"),
        partitions: partitions.collect(),
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: WireString::copy_of(group),
        topics: vec![topic],
        ..Default::default()
    }
}

async fn commit(connection: &Connection, group: &str, partitions: std::ops::Range<i32>) {
    let response = call(connection, &commit_request(group, partitions), 9).await;
    assert!(response.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
}

fn fetch_all(group: &str) -> OffsetFetchRequestGroup {
    OffsetFetchRequestGroup {
        group_id: WireString::copy_of(group),
        topics: None,
        ..Default::default()
    }
}

/// What the mentions of a group in one request get: its offsets, or to be asked for again.
async fn told_and_refused(
    connection: &Connection,
    mentions: usize,
) -> (Vec<OffsetFetchResponseGroup>, Vec<OffsetFetchResponseGroup>) {
    let groups = vec![fetch_all("many"); mentions];
    let request = OffsetFetchRequest { groups, ..Default::default() };
    let groups = call(connection, &request, 9).await.groups;
    assert_eq!(groups.len(), mentions, "each mention is answered");
    let loading = ErrorCode::CoordinatorLoadInProgress.code();
    groups.into_iter().partition(|group| group.error_code != loading)
}

fn join_request(group: &'static str, member_id: &str, metadata: Bytes) -> JoinGroupRequest {
    let protocol =
        JoinGroupRequestProtocol { name: "range".into(), metadata, ..Default::default() };
    JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 600_000,
        member_id: WireString::copy_of(member_id),
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

/// Joins as the only member of a group and makes it stable.
async fn stable(
    connection: &Connection,
    group: &'static str,
    metadata: Bytes,
) -> JoinGroupResponse {
    let joined = call(connection, &join_request(group, "", metadata), 3).await;
    assert_eq!(joined.error_code, 0);
    let request = SyncGroupRequest {
        group_id: group.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    assert_eq!(call(connection, &request, 3).await.error_code, 0);
    joined
}

/// Sends a request while all memory for building answers is taken; it is answered when that comes
/// back.
async fn waits_for_memory<R: Request>(broker: &TestBroker, request: R, version: i16) {
    let api = R::API_KEY.name();
    let building = &broker.node().memory.building;
    let connection = broker.connect().await;
    let all = building.try_take(building.limit_bytes()).expect("nothing is being built");
    let waiting = connection.send(&request, version).await.expect("is sent");
    timeout(PATIENCE, until(|| building.is_contended())).await.expect(api);
    drop(all);
    let answer = timeout(PATIENCE, waiting.response()).await;
    answer.unwrap_or_else(|_| panic!("{api} is answered")).expect("and its connection lives");
    until(|| building.used_bytes() == 0).await;
}

#[tokio::test]
async fn answers_wait_until_there_is_memory_for_what_they_really_take() {
    let (_dir, broker, connection) = start(&[]).await;
    create_topic(&connection, "t", 1_000).await;
    commit(&connection, "many", 0..1_000).await;
    stable(&connection, "large", Bytes::from(vec![0; 200_000])).await;
    let long_name = "g".repeat(32_767);
    commit(&connection, &long_name, 0..1).await;

    // Each is a request of some bytes.
    let groups = vec![fetch_all("many")];
    waits_for_memory(&broker, OffsetFetchRequest { groups, ..Default::default() }, 9).await;
    let groups = vec!["large".into()];
    waits_for_memory(&broker, DescribeGroupsRequest { groups, ..Default::default() }, 5).await;
    commit(&connection, &"h".repeat(32_767), 0..1).await;
    waits_for_memory(&broker, ListGroupsRequest::default(), 5).await;
    // One whose records repeat its name.
    waits_for_memory(&broker, commit_request(&long_name, 0..10), 9).await;
    broker.stop().await;
}

#[tokio::test]
async fn a_group_that_is_named_often_is_described_once() {
    let (_dir, broker, connection) = start(&[]).await;
    stable(&connection, "large", Bytes::from(vec![0; 900_000])).await;
    let groups = vec!["large".into(); 10_000];
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    let described = call(&connection, &request, 5).await.groups;
    assert_eq!(described.len(), 1);
    assert_eq!(described[0].members[0].member_metadata.len(), 900_000);
    broker.stop().await;
}

#[tokio::test]
async fn groups_whose_offsets_do_not_fit_into_an_answer_are_asked_for_again() {
    let (_dir, broker, connection) = start(&[("queued.max.request.bytes", "1048576")]).await;
    create_topic(&connection, "t", 1_000).await;
    commit(&connection, "many", 0..500).await;
    commit(&connection, "many", 500..1_000).await;
    let (told, refused) = told_and_refused(&connection, 100).await;
    assert!(told.len() == 1 && told[0].topics[0].partitions.len() == 1_000);
    assert_eq!(refused.len(), 99);
    broker.stop().await;
}

/// Large, and finished at once.
fn large_join() -> JoinGroupRequest {
    join_request("large", "", Bytes::from(vec![0; 900_000]))
}

#[tokio::test]
async fn answers_behind_a_join_that_waits_hold_counted_memory_and_give_it_to_others() {
    let (_dir, broker, connection) = start(&[]).await;
    stable(&connection, "slow", Bytes::new()).await;
    let replies = &broker.node().memory.replies;

    // It waits for the other member, which will not come back for minutes.
    let hoarder = broker.connect().await;
    let joins = hoarder.send(&join_request("slow", "", Bytes::new()), 3).await.expect("is sent");
    let behind = hoarder.send(&large_join(), 3).await.expect("is sent");
    until(|| replies.used_bytes() >= 1_800_000).await;

    assert!(replies.take_now(replies.limit_bytes()).is_none());
    let answer = timeout(PATIENCE, joins.response()).await;
    let answer = answer.expect("who holds memory that is short lets go of it");
    assert_eq!(answer.expect("is answered").error_code, ErrorCode::NotCoordinator.code());
    timeout(PATIENCE, behind.response()).await.expect("in time").expect("is answered");
    until(|| replies.used_bytes() == 0).await;
    broker.stop().await;
}

#[tokio::test]
async fn answers_behind_a_fetch_that_waits_hold_no_memory_that_others_wait_for() {
    let (_dir, broker, connection) = start(&[]).await;
    create_topic(&connection, "t", 1).await;
    let (building, replies) = (&broker.node().memory.building, &broker.node().memory.replies);

    let hoarder = broker.connect().await;
    let mut fetch = fetch_request("t", &[(0, 0)]);
    fetch.max_wait_ms = i32::MAX;
    let waiting = hoarder.send(&fetch, 12).await.expect("is sent");
    let behind = hoarder.send(&large_join(), 3).await.expect("is sent");
    until(|| replies.used_bytes() >= 1_800_000).await;
    assert_eq!(building.used_bytes(), 0);

    assert!(replies.take_now(replies.limit_bytes()).is_none());
    let answer = timeout(PATIENCE, waiting.response()).await;
    answer.expect("who holds memory that is short lets go of it").expect("is answered");
    let joined = timeout(PATIENCE, behind.response()).await.expect("in time").expect("is answered");
    assert_eq!(joined.error_code, 0, "what was there is not lost");
    until(|| replies.used_bytes() == 0).await;
    broker.stop().await;
}

#[tokio::test]
async fn an_answer_that_its_client_does_not_read_holds_no_memory_that_others_wait_for() {
    let (_dir, broker, connection) = start(&[]).await;
    let mut groups = Vec::new();
    for number in 0..16 {
        let group = &*format!("large-{number}").leak();
        stable(&connection, group, Bytes::from(vec![0; 900_000])).await;
        groups.push(WireString::copy_of(group));
    }
    let (building, replies) = (&broker.node().memory.building, &broker.node().memory.replies);
    until(|| building.used_bytes() == 0 && replies.used_bytes() == 0).await;

    let mut stuck = broker.connect_raw().await;
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    let encoded = logway_wire::encode_request(1, None, 5, &request).expect("encodes");
    stuck.writer.write_frame(&encoded.bytes).await.expect("is sent");
    stuck.writer.flush().await.expect("is sent");
    until(|| replies.used_bytes() >= 14_400_000).await;
    timeout(PATIENCE, until(|| building.used_bytes() == 0)).await.expect("it was made");
    assert!(replies.used_bytes() >= 14_400_000);
    drop(stuck);
    broker.stop().await;
}

#[tokio::test]
async fn a_leaders_answer_that_finds_no_memory_can_be_asked_for_again() {
    let (_dir, broker, connection) = start(&[]).await;
    let replies = &broker.node().memory.replies;
    let metadata = Bytes::from(vec![0; 100_000]);
    let named = call(&connection, &join_request("g", "", metadata.clone()), 4).await;
    assert_eq!(named.error_code, ErrorCode::MemberIdRequired.code());
    let join = join_request("g", &named.member_id, metadata);

    let all = replies.try_take(replies.limit_bytes()).expect("there are no large replies");
    let refused = call(&connection, &join, 4).await;
    assert_eq!(refused.error_code, ErrorCode::CoordinatorLoadInProgress.code());
    drop(all);
    let joined = call(&connection, &join, 4).await;
    assert_eq!((joined.error_code, joined.members.len()), (0, 1));
    broker.stop().await;
}

#[tokio::test]
async fn what_a_client_asked_for_that_has_gone_gives_its_memory_back() {
    let (_dir, broker, connection) = start(&[]).await;
    create_topic(&connection, "t", 1_000).await;
    let gone = broker.connect().await;
    gone.send(&commit_request("g", 0..1_000), 9).await.expect("is sent");
    drop(gone);
    let memory = &broker.node().memory.requests;
    let building = &broker.node().memory.building;
    until(|| memory.used_bytes() == 0 && building.used_bytes() == 0).await;
    broker.stop().await;
}

#[tokio::test]
async fn groups_of_all_shards_share_so_much_memory_and_it_is_shown() {
    let (_dir, broker, connection) = start(&[("logway.groups.max.bytes", "1048576")]).await;
    stable(&connection, "first", Bytes::from(vec![0; 300_000])).await;
    let loading = ErrorCode::CoordinatorLoadInProgress.code();
    // In another shard, as the hashes of names will have it.
    let joined = call(&connection, &join_request("u", "", Bytes::from(vec![0; 800_000])), 3).await;
    assert_eq!(joined.error_code, loading);
    let metrics = broker.metrics();
    let value = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name)).expect("is shown");
        line.split(' ').nth(1).expect("has a value").parse::<usize>().expect("is a number")
    };
    assert!(value("logway_group_memory_used_bytes") > 300_000);
    assert_eq!(value("logway_group_memory_limit_bytes"), 1_048_576);
    assert_eq!(value("logway_group_memory_refusals_total"), 1);
    broker.stop().await;
}

/// A batch that unpacks to some megabytes.
fn large_batch() -> Bytes {
    let value = vec![b'x'; 80_000];
    let mut builder = BatchBuilder::new(Compression::Gzip);
    for _ in 0..100 {
        builder.append(TimestampMs(now_ms()), None, Some(&value), &[]).expect("fits");
    }
    builder.finish().expect("fits")
}

#[tokio::test]
async fn ages_that_are_asked_for_often_are_looked_up_once() {
    let (_dir, broker, connection) = start(&[]).await;
    create_topic(&connection, "t", 1).await;
    assert_eq!(produce(&connection, "t", 0, large_batch()).await.error_code, 0);
    commit(&connection, "g", 0..1).await;
    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0; 1_000],
        ..Default::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic.clone(), topic]),
        ..Default::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![group; 20],
        unknown_tagged_fields: vec![UnreadAge::question()],
        ..Default::default()
    };
    // In the time that one takes: forty thousand would take an hour.
    for group in call(&connection, &request, 9).await.groups {
        let partitions: Vec<_> = group.topics.iter().flat_map(|topic| &topic.partitions).collect();
        assert_eq!(partitions.len(), 1, "a partition that is named often is told once");
        let age = UnreadAge::find_in(&partitions[0].unknown_tagged_fields);
        assert!(matches!(age, Some(UnreadAge::Ms(_))), "{age:?}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn a_group_that_is_named_often_is_looked_at_once() {
    let (_dir, broker, connection) = start(&[]).await;
    create_topic(&connection, "t", 5_000).await;
    commit(&connection, "many", 0..5_000).await;
    let (told, refused) = told_and_refused(&connection, 60_000).await;
    assert!(told.len() > 1 && refused.len() > 50_000, "as often as there is memory for it");
    assert!(told.iter().all(|group| group.topics[0].partitions.len() == 5_000));
    broker.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_larger_than_all_memory_for_answers_is_refused() {
    let settings = [("queued.max.request.bytes", "1048576")];
    let (_dir, broker, connection) = start(&settings).await;
    create_topic(&connection, "t", 2_000).await;
    for first in [0, 500, 1_000, 1_500] {
        commit(&connection, "many", first..first + 500).await;
    }
    commit(&connection, "few", 0..10).await;
    let groups = vec![fetch_all("many"), fetch_all("few")];
    let request = OffsetFetchRequest { groups, ..Default::default() };
    let groups = call(&connection, &request, 9).await.groups;
    let policy = ErrorCode::PolicyViolation.code();
    assert_eq!(groups.iter().map(|group| group.error_code).collect::<Vec<_>>(), [policy, 0]);
    // Asked for in parts, it can be had.
    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: (0..1_000).collect(),
        ..Default::default()
    };
    let group = OffsetFetchRequestGroup { topics: Some(vec![topic]), ..fetch_all("many") };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let groups = call(&connection, &request, 9).await.groups;
    assert_eq!((groups[0].error_code, groups[0].topics[0].partitions.len()), (0, 1_000));

    assert_eq!(call(&connection, &ListGroupsRequest::default(), 5).await.groups.len(), 2);
    for number in 0..10 {
        commit(&connection, &format!("{number}{}", "g".repeat(32_000)), 0..1).await;
    }
    let listed = call(&connection, &ListGroupsRequest::default(), 5).await;
    assert_eq!((listed.error_code, listed.groups.len()), (policy, 0), "a part is of no use");
    broker.stop().await;
}
