//! Offsets: committed, fetched, deleted, expired.

use logway_coordinator::{
    DeletedTopic, GroupSettings, Reply, RequestBody, offset_fetch_groups, offset_fetch_response,
};
use logway_model::{ErrorCode, TopicId, Uuid};
use logway_wire::WireString;
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use logway_wire::messages::{
    DescribeGroupsResponse, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest,
};

use crate::driver::{Driver, subscription};
use crate::rules::{driver, join, join_request, protocol, settings, stable, sync};
use crate::story::error;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(crate) fn commit_request(group: &str, offsets: &[(&str, i32, i64)]) -> OffsetCommitRequest {
    let topics = offsets.iter().map(|&(topic, partition_index, committed_offset)| {
        OffsetCommitRequestTopic {
            name: WireString::copy_of(topic),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index,
                committed_offset,
                ..Default::default()
            }],
            ..Default::default()
        }
    });
    OffsetCommitRequest {
        group_id: WireString::copy_of(group),
        topics: topics.collect(),
        ..Default::default()
    }
}

/// Commits without membership, and returns the error of each partition.
pub(crate) fn commit(
    driver: &mut Driver,
    group: &str,
    offsets: &[(&str, i32, i64)],
) -> Vec<ErrorCode> {
    commit_with(driver, 9, commit_request(group, offsets))
}

fn commit_with(driver: &mut Driver, version: i16, request: OffsetCommitRequest) -> Vec<ErrorCode> {
    match driver.ask("c", version, RequestBody::OffsetCommit(request)) {
        Reply::OffsetCommit(response) => {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| error(partition.error_code)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn fetch_one(
    driver: &mut Driver,
    topic: OffsetFetchRequestTopics,
) -> OffsetFetchResponsePartitions {
    let request = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let body = RequestBody::OffsetFetch(request);
    match driver.ask("c", 9, body) {
        Reply::OffsetFetch(mut response) => {
            assert_eq!(error(response.error_code), ErrorCode::None);
            response.topics.remove(0).partitions.remove(0)
        }
        other => panic!("{other:?}"),
    }
}

fn topic(name: &str, partition: i32) -> OffsetFetchRequestTopics {
    OffsetFetchRequestTopics {
        name: WireString::copy_of(name),
        partition_indexes: vec![partition],
        ..Default::default()
    }
}

/// The committed offset, or -1.
fn fetch(driver: &mut Driver, name: &str, partition: i32) -> i64 {
    fetch_one(driver, topic(name, partition)).committed_offset
}

pub(crate) fn delete_request(group: &str, partitions: &[(&str, i32)]) -> OffsetDeleteRequest {
    let topics = partitions.iter().map(|&(name, partition_index)| OffsetDeleteRequestTopic {
        name: WireString::copy_of(name),
        partitions: vec![OffsetDeleteRequestPartition { partition_index, ..Default::default() }],
        ..Default::default()
    });
    OffsetDeleteRequest {
        group_id: WireString::copy_of(group),
        topics: topics.collect(),
        ..Default::default()
    }
}

fn delete_offset(driver: &mut Driver, name: &str, partition_index: i32) -> ErrorCode {
    let request = delete_request("g", &[(name, partition_index)]);
    match driver.ask("c", 0, RequestBody::OffsetDelete(request)) {
        Reply::OffsetDelete(response) if response.error_code != 0 => error(response.error_code),
        Reply::OffsetDelete(response) => error(response.topics[0].partitions[0].error_code),
        other => panic!("{other:?}"),
    }
}

fn delete_group(driver: &mut Driver, name: &str) -> ErrorCode {
    let body = RequestBody::DeleteGroups { groups: vec![WireString::copy_of(name)] };
    match driver.ask("c", 2, body) {
        Reply::DeleteGroups(results) => error(results[0].error_code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_committed_is_what_is_fetched() {
    let mut driver = driver();
    let mut request = commit_request("g", &[("t", 3, 42)]);
    let partition = &mut request.topics[0].partitions[0];
    partition.committed_leader_epoch = 7;
    partition.committed_metadata = Some("note, ü".into());
    assert_eq!(commit_with(&mut driver, 9, request), [ErrorCode::None]);
    let fetched = fetch_one(&mut driver, topic("t", 3));
    assert_eq!((fetched.committed_offset, fetched.committed_leader_epoch), (42, 7));
    assert_eq!(fetched.metadata.as_deref(), Some("note, ü"));
    let none = fetch_one(&mut driver, topic("t", 4));
    assert_eq!((none.committed_offset, none.committed_leader_epoch), (-1, -1));
    assert_eq!(none.metadata.as_deref(), Some(""));
    driver.crash(0);
    assert_eq!(fetch_one(&mut driver, topic("t", 3)), fetched, "and after a crash");
}

#[test]
fn a_text_that_is_too_long_fails_its_own_partition_only() {
    let mut driver = Driver::new(GroupSettings { offset_metadata_max_units: 4, ..settings() });
    let mut request = commit_request("g", &[("t", 0, 1), ("t", 1, 1), ("t", 2, 1)]);
    request.topics[0].partitions[0].committed_metadata = Some("long!".into());
    request.topics[1].partitions[0].committed_metadata = None;
    request.topics[2].partitions[0].committed_metadata = Some("four".into());
    let codes = commit_with(&mut driver, 9, request);
    assert_eq!(codes, [ErrorCode::OffsetMetadataTooLarge, ErrorCode::None, ErrorCode::None]);
    assert_eq!((fetch(&mut driver, "t", 0), fetch(&mut driver, "t", 1)), (-1, 1));
}

#[test]
fn a_text_is_as_long_as_kafka_counts_it() {
    let mut driver = Driver::new(GroupSettings { offset_metadata_max_units: 4, ..settings() });
    for (text, is_taken) in
        [("üüüü", true), ("üüüüü", false), ("😀😀", true), ("😀😀a", false), ("世界你好", true)]
    {
        let mut request = commit_request("g", &[("t", 0, 1)]);
        request.topics[0].partitions[0].committed_metadata = Some(text.into());
        let code = commit_with(&mut driver, 9, request)[0];
        let expected = if is_taken { ErrorCode::None } else { ErrorCode::OffsetMetadataTooLarge };
        assert_eq!(code, expected, "{text}");
    }
}

#[test]
fn commits_are_taken_from_members_of_this_generation_and_from_nobody_else() {
    let mut driver = driver();
    let with =
        |generation: i32, member_id: &str, instance_id: Option<&'static str>| OffsetCommitRequest {
            generation_id_or_member_epoch: generation,
            member_id: WireString::copy_of(member_id),
            group_instance_id: instance_id.map(WireString::from),
            ..commit_request("g", &[("t", 0, 1)])
        };
    assert_eq!(commit_with(&mut driver, 8, with(1, "m", None)), [ErrorCode::IllegalGeneration]);
    assert_eq!(commit_with(&mut driver, 9, with(1, "m", None)), [ErrorCode::GroupIdNotFound]);

    let member = join(&mut driver, 3, join_request(""));
    let id = member.member_id.as_str();
    let commit = |driver: &mut Driver, request| commit_with(driver, 9, request)[0];
    let in_rebalance = commit(&mut driver, with(1, id, None));
    assert_eq!(in_rebalance, ErrorCode::RebalanceInProgress, "the assignment is not known yet");
    sync(&mut driver, id, 1);
    assert_eq!(commit(&mut driver, with(1, id, None)), ErrorCode::None);
    assert_eq!(commit(&mut driver, with(0, id, None)), ErrorCode::IllegalGeneration);
    assert_eq!(commit(&mut driver, with(-1, id, None)), ErrorCode::IllegalGeneration);
    assert_eq!(commit(&mut driver, with(1, "m", None)), ErrorCode::UnknownMemberId);
    assert_eq!(commit(&mut driver, with(-1, "", None)), ErrorCode::UnknownMemberId);
    assert_eq!(commit(&mut driver, with(1, id, Some("i"))), ErrorCode::UnknownMemberId);
    // A rebalance: members may still commit for what they give up.
    let fresh_id = driver.fresh_id();
    let body = RequestBody::JoinGroup { request: join_request(""), fresh_id };
    driver.send("c", 3, body);
    assert_eq!(commit(&mut driver, with(1, id, None)), ErrorCode::None);
    // Empty again.
    driver.advance_ms(400_000, |_| {});
    driver.settle_all();
    assert_eq!(commit(&mut driver, with(1, id, None)), ErrorCode::UnknownMemberId);
    assert_eq!(commit(&mut driver, with(-1, "", None)), ErrorCode::None);
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let mut driver = driver();
    let member = stable(&mut driver);
    for _ in 0..4 {
        driver.advance_ms(9_000, |_| {});
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: 1,
            member_id: member.member_id.clone(),
            ..commit_request("g", &[("t", 0, 1)])
        };
        assert_eq!(commit_with(&mut driver, 9, request), [ErrorCode::None]);
    }
}

#[test]
fn a_topic_made_anew_is_not_read_from_the_old_ones_offsets() {
    let mut driver = driver();
    let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
    let mut request = commit_request("g", &[("t", 0, 42)]);
    request.topics[0].topic_id = old;
    assert_eq!(commit_with(&mut driver, 10, request), [ErrorCode::None]);
    let mut with_id = |topic_id| {
        let topic = OffsetFetchRequestTopics { topic_id, ..topic("t", 0) };
        fetch_one(&mut driver, topic).committed_offset
    };
    assert_eq!([with_id(old), with_id(Uuid::ZERO), with_id(new)], [42, 42, -1]);
}

#[test]
fn offsets_of_deleted_topics_are_deleted() {
    let mut driver = driver();
    let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
    let mut request = commit_request("g", &[("t", 0, 1), ("t", 1, 2), ("t", 2, 3), ("u", 0, 4)]);
    request.topics[0].topic_id = old;
    request.topics[1].topic_id = new;
    commit_with(&mut driver, 10, request);
    // One that is on its way.
    let body = RequestBody::OffsetCommit(commit_request("g", &[("t", 9, 9)]));
    driver.send("c", 9, body);
    let deleted = DeletedTopic { name: "t".into(), id: TopicId(old) };
    let effects = driver.shard.topics_deleted(driver.now(), &[deleted]);
    driver.apply(effects);
    driver.settle_all();
    let left = [("t", 0), ("t", 1), ("t", 2), ("t", 9), ("u", 0)];
    let left = left.map(|(name, partition)| fetch(&mut driver, name, partition));
    assert_eq!(left, [-1, 2, -1, -1, 4]);

    // And while the log is read.
    driver.shard = driver.replayed();
    let deleted = DeletedTopic { name: "u".into(), id: TopicId(old) };
    assert_eq!(driver.shard.topics_deleted(driver.now(), &[deleted]), []);
    let effects = driver.shard.loaded(driver.now());
    driver.apply(effects);
    driver.settle_all();
    assert_eq!((fetch(&mut driver, "t", 1), fetch(&mut driver, "u", 0)), (2, -1));
}

/// Sends a commit for a topic of that id, and lets it be on its way.
fn send_commit(driver: &mut Driver, topic_id: Uuid, offset: i64) {
    let mut request = commit_request("g", &[("t", 0, offset)]);
    request.topics[0].topic_id = topic_id;
    driver.send("c", 10, RequestBody::OffsetCommit(request));
}

#[test]
fn a_commit_for_a_topic_made_anew_survives_the_deletion_of_the_old_one() {
    let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
    // Whether one more is sent before the first has landed, and whether the first can be written.
    for (goes_on, first) in [(false, Ok(())), (true, Err(ErrorCode::NotEnoughReplicas))] {
        let mut driver = driver();
        send_commit(&mut driver, old, 1);
        driver.settle_all();
        send_commit(&mut driver, new, 2);
        let deleted = [DeletedTopic { name: "t".into(), id: TopicId(old) }];
        let effects = driver.shard.topics_deleted(driver.now(), &deleted);
        driver.apply(effects);
        if goes_on {
            send_commit(&mut driver, new, 3);
        }
        driver.settle(first);
        driver.settle_all();
        let expected = if goes_on { 3 } else { 2 };
        assert_eq!(fetch(&mut driver, "t", 0), expected);
        driver.crash(0);
        assert_eq!(fetch(&mut driver, "t", 0), expected, "the log has it too");
    }
}

#[test]
fn the_old_topics_offset_goes_when_the_new_ones_could_not_be_written() {
    let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
    let mut driver = driver();
    send_commit(&mut driver, old, 1);
    driver.settle_all();
    send_commit(&mut driver, new, 2);
    let deleted = [DeletedTopic { name: "t".into(), id: TopicId(old) }];
    let effects = driver.shard.topics_deleted(driver.now(), &deleted);
    driver.apply(effects);
    driver.settle(Err(ErrorCode::NotEnoughReplicas));
    driver.settle_all();
    assert_eq!(fetch(&mut driver, "t", 0), -1);
}

#[test]
fn a_commit_on_its_way_keeps_nobody_from_reading_what_it_replaces() {
    let mut driver = driver();
    commit(&mut driver, "g", &[("t", 0, 1)]);
    for offset in 2..10 {
        send_commit(&mut driver, Uuid::ZERO, offset);
        assert_eq!(driver.in_flight.len(), 2.min(offset as usize - 1), "one follows the other");
        let request = OffsetFetchRequestGroup {
            group_id: "g".into(),
            topics: Some(vec![topic("t", 0)]),
            ..Default::default()
        };
        let token = driver.send("c", 9, RequestBody::OffsetFetch(request));
        let reply = driver.take_reply(token).expect("nothing is waited for");
        let Reply::OffsetFetch(group) = reply else { panic!("{reply:?}") };
        let durable = if offset == 2 { 1 } else { offset - 2 };
        assert_eq!(group.topics[0].partitions[0].committed_offset, durable);
        if offset > 2 {
            driver.settle(Ok(()));
        }
    }
}

#[test]
fn offsets_of_subscribed_topics_cannot_be_deleted() {
    let mut driver = driver();
    assert_eq!(delete_offset(&mut driver, "t", 0), ErrorCode::GroupIdNotFound);
    commit(&mut driver, "g", &[("t", 0, 1), ("u", 0, 2)]);
    stable(&mut driver);
    assert_eq!(delete_offset(&mut driver, "t", 0), ErrorCode::GroupSubscribedToTopic);
    assert_eq!(delete_offset(&mut driver, "u", 0), ErrorCode::None);
    assert_eq!((fetch(&mut driver, "t", 0), fetch(&mut driver, "u", 0)), (1, -1));
    driver.crash(0);
    assert_eq!(delete_offset(&mut driver, "t", 0), ErrorCode::GroupSubscribedToTopic);
    driver.advance_ms(20_000, |_| {});
    driver.settle_all();
    assert_eq!(delete_offset(&mut driver, "t", 0), ErrorCode::None, "nobody is left");
    assert_eq!(fetch(&mut driver, "t", 0), -1);
}

#[test]
fn members_of_other_kinds_keep_all_offsets_from_being_deleted() {
    let mut driver = driver();
    let mut request = join_request("");
    request.protocol_type = "connect".into();
    join(&mut driver, 3, request);
    assert_eq!(delete_offset(&mut driver, "t", 0), ErrorCode::NonEmptyGroup);
    // A consumer whose metadata is its own: it may subscribe to anything.
    let mut driver = self::driver();
    let mut request = join_request("");
    request.protocols = vec![protocol("own", "?".into())];
    join(&mut driver, 3, request);
    assert_eq!(delete_offset(&mut driver, "t", 0), ErrorCode::GroupSubscribedToTopic);
}

#[test]
fn groups_without_members_can_be_deleted_with_all_they_have() {
    let mut driver = Driver::new(GroupSettings { append_records_max: 2, ..settings() });
    assert_eq!(delete_group(&mut driver, "g"), ErrorCode::GroupIdNotFound);
    stable(&mut driver);
    assert_eq!(delete_group(&mut driver, "g"), ErrorCode::NonEmptyGroup);
    driver.advance_ms(10_000, |_| {});
    driver.settle_all();
    commit(&mut driver, "g", &[("t", 0, 1), ("t", 1, 1), ("t", 2, 1), ("t", 3, 1)]);
    // What is on its way goes too.
    driver.send("c", 9, RequestBody::OffsetCommit(commit_request("g", &[("t", 9, 9)])));
    assert_eq!(delete_group(&mut driver, "g"), ErrorCode::None);
    assert_eq!(driver.shard.group_count(), 0);
    driver.crash(0);
    assert_eq!(driver.shard.group_count(), 0, "the log knows it");
}

#[test]
fn a_deletion_that_fails_in_part_is_told_as_failed() {
    let mut driver = Driver::new(GroupSettings { append_records_max: 2, ..settings() });
    commit(&mut driver, "g", &[("t", 0, 1), ("t", 1, 1), ("t", 2, 1)]);
    let token = driver.send("c", 2, RequestBody::DeleteGroups { groups: vec!["g".into()] });
    assert_eq!(driver.in_flight.len(), 2);
    driver.settle(Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(driver.take_reply(token), None, "the rest is on its way");
    driver.settle(Ok(()));
    match driver.take_reply(token) {
        Some(Reply::DeleteGroups(results)) => {
            assert_eq!(error(results[0].error_code), ErrorCode::CoordinatorNotAvailable);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn offsets_without_members_expire_after_their_last_commit() {
    let mut driver = driver();
    commit(&mut driver, "g", &[("t", 0, 1)]);
    driver.advance_ms(4 * DAY_MS, |_| {});
    commit(&mut driver, "g", &[("t", 1, 1)]);
    driver.advance_ms(3 * DAY_MS + 600_000, |_| {});
    driver.settle_all();
    assert_eq!((fetch(&mut driver, "t", 0), fetch(&mut driver, "t", 1)), (-1, 1));
    driver.advance_ms(4 * DAY_MS, |_| {});
    driver.settle_all();
    assert_eq!(driver.shard.group_count(), 0, "and then the group is gone");
}

#[test]
fn offsets_of_a_group_that_had_members_expire_after_the_last_has_left() {
    let mut driver = driver();
    commit(&mut driver, "g", &[("t", 0, 1), ("u", 0, 1)]);
    let patient = logway_wire::messages::JoinGroupRequest {
        session_timeout_ms: 1_800_000,
        ..join_request("")
    };
    let member = join(&mut driver, 3, patient);
    sync(&mut driver, &member.member_id, 1);
    for _ in 0..400 {
        driver.advance_ms(1_600_000, |_| {});
        driver.settle_all();
        let beat = crate::rules::heartbeat(&mut driver, &member.member_id, 1);
        assert_eq!(beat, ErrorCode::None);
    }
    let offsets = (fetch(&mut driver, "t", 0), fetch(&mut driver, "u", 0));
    assert_eq!(offsets, (1, -1), "what members subscribe to is kept, the rest ages");
    driver.advance_ms(6 * DAY_MS, |_| {});
    driver.settle_all();
    driver.crash(0);
    assert_eq!(fetch(&mut driver, "t", 0), 1, "not seven days since it is empty");
    driver.advance_ms(DAY_MS + 2_400_000, |_| {});
    driver.settle_all();
    assert_eq!(driver.shard.group_count(), 0);
}

#[test]
fn old_clients_say_when_their_offsets_expire() {
    let mut driver = driver();
    let request =
        OffsetCommitRequest { retention_time_ms: 1_000, ..commit_request("g", &[("t", 0, 1)]) };
    commit_with(&mut driver, 4, request);
    driver.crash(0);
    assert_eq!(fetch(&mut driver, "t", 0), 1);
    driver.advance_ms(600_000, |_| {});
    driver.settle_all();
    assert_eq!(fetch(&mut driver, "t", 0), -1);
}

#[test]
fn an_offset_that_is_committed_again_does_not_expire_meanwhile() {
    let mut driver = driver();
    commit(&mut driver, "g", &[("t", 0, 1)]);
    driver.advance_ms(7 * DAY_MS - 1, |_| {});
    driver.send("c", 9, RequestBody::OffsetCommit(commit_request("g", &[("t", 0, 2)])));
    driver.advance_ms(600_000, |_| {});
    driver.settle_all();
    assert_eq!(fetch(&mut driver, "t", 0), 2);
}

#[test]
fn groups_are_listed_by_state_and_type_and_described() {
    let mut driver = driver();
    commit(&mut driver, "simple", &[("t", 0, 1)]);
    stable(&mut driver);
    let mut list = |states: &[&'static str], types: &[&'static str]| {
        let request = ListGroupsRequest {
            states_filter: states.iter().map(|name| WireString::from(*name)).collect(),
            types_filter: types.iter().map(|name| WireString::from(*name)).collect(),
            ..Default::default()
        };
        match driver.ask("c", 5, RequestBody::ListGroups(request)) {
            Reply::ListGroups(response) => {
                let name = |group: &logway_wire::messages::list_groups_response::ListedGroup| {
                    let words = [&group.group_id, &group.protocol_type, &group.group_state];
                    words.map(|word| word.as_str()).join("/") + "/" + &group.group_type
                };
                response.groups.iter().map(name).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let (stable, simple) = ("g/consumer/Stable/classic", "simple//Empty/classic");
    assert_eq!(list(&[], &[]), [stable, simple]);
    assert_eq!(list(&["stable", "Dead"], &[]), [stable]);
    assert_eq!(list(&[" EMPTY "], &["Classic"]), [simple]);
    assert_eq!(list(&[], &["consumer"]), [""; 0]);

    let mut describe = |version: i16, name: &'static str| {
        let body = RequestBody::DescribeGroups { groups: vec![name.into()] };
        match driver.ask("c", version, body) {
            Reply::DescribeGroups(groups) => {
                DescribeGroupsResponse { groups, ..Default::default() }
            }
            other => panic!("{other:?}"),
        }
    };
    let group = &describe(5, "g").groups[0];
    assert_eq!((&*group.group_state, &*group.protocol_data), ("Stable", "range"));
    assert_eq!(group.members[0].member_metadata, subscription(&["t"]));
    assert_eq!(&*group.members[0].client_host, "/127.0.0.1");
    let unknown = &describe(5, "nobody").groups[0];
    assert_eq!((error(unknown.error_code), &*unknown.group_state), (ErrorCode::None, "Dead"));
    let unknown = &describe(6, "nobody").groups[0];
    assert_eq!(error(unknown.error_code), ErrorCode::GroupIdNotFound);
    assert_eq!(unknown.error_message.as_deref(), Some("Group nobody not found."));
}

#[test]
fn every_version_of_offset_fetch_is_taken_apart_and_put_together() {
    let mut driver = driver();
    commit(&mut driver, "g", &[("t", 0, 42)]);
    let single = OffsetFetchRequest {
        group_id: "g".into(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: "t".into(),
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    };
    let mut answer = |request: &OffsetFetchRequest, version: i16, loaded: bool| {
        if !loaded {
            driver.unload();
        }
        let groups = offset_fetch_groups(request, version).into_iter().map(|request| {
            let body = RequestBody::OffsetFetch(request);
            match driver.ask("c", version, body) {
                Reply::OffsetFetch(group) => group,
                other => panic!("{other:?}"),
            }
        });
        offset_fetch_response(request, version, groups.collect())
    };
    assert_eq!(answer(&single, 7, true).topics[0].partitions[0].committed_offset, 42);
    let all = OffsetFetchRequest { topics: None, ..single.clone() };
    assert_eq!(answer(&all, 2, true).topics[0].partitions[0].committed_offset, 42);
    let group = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![topic("t", 0)]),
        ..Default::default()
    };
    let batch = OffsetFetchRequest { groups: vec![group.clone(), group], ..Default::default() };
    let response = answer(&batch, 8, true);
    assert_eq!(response.groups.len(), 2);
    assert_eq!(response.groups[1].topics[0].partitions[0].committed_offset, 42);

    let loading = ErrorCode::CoordinatorLoadInProgress;
    let response = answer(&single, 1, false);
    assert_eq!(error(response.topics[0].partitions[0].error_code), loading);
    let response = answer(&single, 7, false);
    assert_eq!((error(response.error_code), response.topics.len()), (loading, 0));
}
