//! What a client can make the coordinator keep has bounds.

use std::time::{Duration, Instant};

use bytes::Bytes;
use logway_coordinator::{DeletedTopic, GroupRecord, GroupSettings, Reply, RequestBody};
use logway_model::{ErrorCode, TopicId};
use logway_wire::WireString;
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{
    JoinGroupRequest, JoinGroupResponse, ListGroupsRequest, OffsetCommitRequest, SyncGroupRequest,
};

use crate::driver::Driver;
use crate::offsets::{commit, commit_request, delete_request};
use crate::rules::{heartbeat, join, join_request, protocol, settings, stable, sync, sync_static};
use crate::story::error;

#[test]
fn a_group_has_so_many_members_those_that_have_yet_to_join_included() {
    let mut driver = Driver::new(GroupSettings { group_size_max: 3, ..settings() });
    stable(&mut driver);
    for expected in [
        ErrorCode::MemberIdRequired,
        ErrorCode::MemberIdRequired,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::GroupMaxSizeReached,
    ] {
        let response = join(&mut driver, 4, join_request(""));
        assert_eq!(error(response.error_code), expected);
    }
    driver.advance_ms(10_000, |_| {});
    let response = join(&mut driver, 4, join_request(""));
    assert_eq!(error(response.error_code), ErrorCode::MemberIdRequired, "ids are free again");
}

#[test]
fn a_group_that_was_larger_shrinks_when_it_is_loaded() {
    let mut driver = Driver::new(GroupSettings::default());
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let fresh_id = driver.fresh_id();
        let body = RequestBody::JoinGroup { request: join_request(""), fresh_id };
        tokens.push(driver.send("c", 3, body));
    }
    driver.advance_ms(6_000, |_| {});
    let members: Vec<_> = tokens
        .into_iter()
        .map(|token| match driver.take_reply(token) {
            Some(Reply::JoinGroup(response)) => response,
            other => panic!("{other:?}"),
        })
        .collect();
    let leader = members.iter().find(|member| !member.members.is_empty()).expect("one leads");
    assert_eq!(crate::rules::sync(&mut driver, &leader.member_id, 1), ErrorCode::None);

    let mut smaller = Driver::new(GroupSettings { group_size_max: 2, ..GroupSettings::default() });
    smaller.log = std::mem::take(&mut driver.log);
    smaller.load();
    let outcomes: Vec<_> = members
        .iter()
        .map(|member| {
            let fresh_id = smaller.fresh_id();
            let request = join_request(&member.member_id);
            smaller.send("c", 3, RequestBody::JoinGroup { request, fresh_id })
        })
        .collect();
    let replies: Vec<_> =
        outcomes.into_iter().filter_map(|token| smaller.take_reply(token)).collect();
    let codes: Vec<_> = replies
        .iter()
        .map(|reply| match reply {
            Reply::JoinGroup(response) => error(response.error_code),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::None, ErrorCode::GroupMaxSizeReached]);
}

#[test]
fn a_shard_has_so_many_groups() {
    let mut driver = Driver::new(GroupSettings { groups_max: 2, ..settings() });
    for (name, expected) in [
        ("a", ErrorCode::None),
        ("b", ErrorCode::None),
        ("c", ErrorCode::PolicyViolation),
        ("a", ErrorCode::MemberIdRequired),
    ] {
        let version = if expected == ErrorCode::MemberIdRequired { 4 } else { 3 };
        let response = join(&mut driver, version, in_group(name, ""));
        assert_eq!(error(response.error_code), expected, "{name}");
    }
    assert_eq!(commit(&mut driver, "d", &[("t", 0, 1)]), [ErrorCode::PolicyViolation]);
}

#[test]
fn members_and_groups_hold_so_many_bytes() {
    let limits = GroupSettings { member_bytes_max: 2_000, group_bytes_max: 5_000, ..settings() };
    let mut driver = Driver::new(limits);
    let with_metadata = |bytes: usize| JoinGroupRequest {
        protocols: vec![protocol("range", Bytes::from(vec![0; bytes]))],
        ..join_request("")
    };
    let response = join(&mut driver, 3, with_metadata(2_000));
    assert_eq!(error(response.error_code), ErrorCode::PolicyViolation);
    let leader = join(&mut driver, 3, with_metadata(1_500));
    assert_eq!(error(leader.error_code), ErrorCode::None);

    // An assignment that is too large fails as one that the log would refuse.
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: leader.member_id.clone(),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: leader.member_id.clone(),
            assignment: Bytes::from(vec![0; 4_000]),
            ..Default::default()
        }],
        ..Default::default()
    };
    match driver.ask("c", 5, RequestBody::SyncGroup(request)) {
        Reply::SyncGroup(response) => {
            assert_eq!(error(response.error_code), ErrorCode::UnknownServerError);
        }
        other => panic!("{other:?}"),
    }

    for expected in [None, Some(ErrorCode::GroupMaxSizeReached)] {
        let fresh_id = driver.fresh_id();
        let body = RequestBody::JoinGroup { request: with_metadata(1_500), fresh_id };
        let token = driver.send("c", 3, body);
        let code = driver.take_reply(token).map(|reply| match reply {
            Reply::JoinGroup(response) => error(response.error_code),
            other => panic!("{other:?}"),
        });
        assert_eq!(code, expected, "two find room beside each other, and no third");
    }
}

#[test]
fn a_group_has_so_many_offsets() {
    let mut driver = Driver::new(GroupSettings { group_offsets_max: 2, ..settings() });
    let codes = commit(&mut driver, "g", &[("t", 0, 1), ("t", 1, 1), ("t", 0, 2), ("t", 2, 1)]);
    let (good, bad) = (ErrorCode::None, ErrorCode::InvalidCommitOffsetSize);
    assert_eq!(codes, [good, good, good, bad]);
    assert_eq!(commit(&mut driver, "g", &[("t", 1, 5), ("u", 0, 5)]), [good, bad]);
    assert_eq!(commit(&mut driver, "other", &[("t", 2, 5)]), [good]);
}

#[test]
fn what_is_on_its_way_to_a_group_with_many_offsets_makes_clients_wait_and_not_give_up() {
    let mut driver = Driver::new(GroupSettings { group_offsets_max: 3, ..settings() });
    let codes = |driver: &mut Driver, token| match driver.take_reply(token) {
        Some(Reply::OffsetCommit(response)) => error(response.topics[0].partitions[0].error_code),
        other => panic!("{other:?}"),
    };
    // The same partition again and again, over a slow log.
    let again: Vec<_> = (0..3)
        .map(|_| {
            let request = commit_request("g", &[("t", 0, 1)]);
            driver.send("c", 9, RequestBody::OffsetCommit(request))
        })
        .collect();
    let request = commit_request("g", &[("t", 1, 1)]);
    let other = driver.send("c", 9, RequestBody::OffsetCommit(request));
    assert_eq!(codes(&mut driver, other), ErrorCode::CoordinatorLoadInProgress);
    driver.settle_all();
    assert!(again.into_iter().all(|token| codes(&mut driver, token) == ErrorCode::None));
    assert_eq!(commit(&mut driver, "g", &[("t", 1, 1)]), [ErrorCode::None], "there was room");
}

/// The longest name that the wire can carry.
fn longest_name() -> String {
    "g".repeat(32_767)
}

/// A request that names one partition so often, each time with a higher offset.
fn repeated_commit(group: &str, times: i64) -> OffsetCommitRequest {
    let offsets: Vec<_> = (1..=times).map(|offset| ("t", 0, offset)).collect();
    commit_request(group, &offsets)
}

#[test]
fn a_partition_that_a_commit_names_often_is_written_down_once() {
    let mut driver = Driver::new(settings());
    let name = longest_name();
    let token = driver.send("c", 9, RequestBody::OffsetCommit(repeated_commit(&name, 100_000)));
    let (_, records) = &driver.in_flight[0];
    assert_eq!((driver.in_flight.len(), records.len()), (1, 1));
    match &records[0] {
        GroupRecord::Offset { offset: Some(offset), .. } => {
            assert_eq!(offset.offset.0, 100_000, "the last one counts");
        }
        other => panic!("{other:?}"),
    }
    driver.settle_all();
    match driver.take_reply(token) {
        Some(Reply::OffsetCommit(response)) => {
            assert_eq!(response.topics.len(), 100_000, "each mention is answered");
            assert!(response.topics.iter().all(|topic| topic.partitions[0].error_code == 0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_partition_that_a_deletion_names_often_is_written_down_once() {
    let mut driver = Driver::new(settings());
    commit(&mut driver, "g", &[("t", 0, 1)]);
    let request = delete_request("g", &[("t", 0); 1_000]);
    let token = driver.send("c", 0, RequestBody::OffsetDelete(request));
    let records: usize = driver.in_flight.iter().map(|(_, records)| records.len()).sum();
    assert_eq!(records, 1);
    driver.settle_all();
    match driver.take_reply(token) {
        Some(Reply::OffsetDelete(response)) => assert_eq!(response.topics.len(), 1_000),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_makes_so_many_bytes_of_records() {
    let mut driver = Driver::new(GroupSettings { commit_bytes_max: 100_000, ..settings() });
    let name = longest_name();
    let offsets: Vec<_> = (0..5).map(|partition| ("t", partition, 1)).collect();
    let (good, bad) = (ErrorCode::None, ErrorCode::InvalidCommitOffsetSize);
    assert_eq!(commit(&mut driver, &name, &offsets), [good, good, good, bad, bad]);
    assert_eq!(commit(&mut driver, &name, &offsets[3..]), [good, good], "in another there is room");

    let partitions: Vec<_> = (0..5).map(|partition| ("t", partition)).collect();
    let body = RequestBody::OffsetDelete(delete_request(&name, &partitions));
    match driver.ask("c", 0, body) {
        Reply::OffsetDelete(response) => {
            let outcome = |place: usize| error(response.topics[place].partitions[0].error_code);
            assert_eq!([0, 1, 2, 3, 4].map(outcome), [good, good, good, bad, bad]);
        }
        other => panic!("{other:?}"),
    }
    let written = driver.log.iter().map(|(key, _)| key.len()).max();
    assert!(written < Some(name.len() + 128), "records are no larger than was counted");
}

#[test]
fn many_records_need_not_share_an_append() {
    let mut driver = Driver::new(GroupSettings { append_bytes_max: 70_000, ..settings() });
    let name = longest_name();
    let offsets: Vec<_> = (0..6).map(|partition| ("t", partition, 1)).collect();
    commit(&mut driver, &name, &offsets);
    let body = RequestBody::DeleteGroups { groups: vec![WireString::copy_of(&name)] };
    driver.send("c", 2, body);
    let lengths: Vec<_> = driver.in_flight.iter().map(|(_, records)| records.len()).collect();
    assert_eq!(lengths, [2, 2, 2, 1], "two names fit into each");
}

/// Formerly each partition was searched for in everything on its way: ten thousand million comparisons here.
#[test]
fn a_deletion_takes_no_longer_for_what_is_on_its_way() {
    const MANY: i32 = 100_000;
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut driver = Driver::new(settings());
    let offsets: Vec<_> = (0..MANY).map(|partition| ("t", partition, 1)).collect();
    driver.send("c", 9, RequestBody::OffsetCommit(commit_request("g", &[("s", 0, 1)])));
    driver.settle_all();
    driver.send("c", 9, RequestBody::OffsetCommit(commit_request("g", &offsets[..99_000])));
    let absent: Vec<_> = (0..MANY).map(|partition| ("u", partition)).collect();
    let began = Instant::now();
    driver.send("c", 0, RequestBody::OffsetDelete(delete_request("g", &absent)));
    let elapsed = began.elapsed();
    assert!(elapsed < PATIENCE, "{elapsed:?}");
}

#[test]
fn messages_repeat_no_long_names() {
    let mut driver = Driver::new(settings());
    let body = RequestBody::DescribeGroups { groups: vec![longest_name().into()] };
    match driver.ask("c", 6, body) {
        Reply::DescribeGroups(groups) => {
            let message = groups[0].error_message.as_deref().expect("it is said why");
            assert!(message.len() < 400, "{}", message.len());
            assert_eq!(groups[0].group_id.len(), 32_767, "the name itself is whole");
        }
        other => panic!("{other:?}"),
    }
}

/// A group with a member of so much metadata, stable, with one offset.
fn group_of_one(driver: &mut Driver) -> JoinGroupResponse {
    let request = JoinGroupRequest {
        protocols: vec![protocol("range", Bytes::from(vec![0; 20_000]))],
        ..join_request("")
    };
    let member = join(driver, 3, request);
    assert_eq!(error(member.error_code), ErrorCode::None);
    assert_eq!(sync(driver, &member.member_id, member.generation_id), ErrorCode::None);
    member
}

#[test]
fn all_groups_share_so_much_memory() {
    let mut driver = Driver::with_memory(settings(), 100_000);
    let loading = ErrorCode::CoordinatorLoadInProgress;
    commit(&mut driver, "h", &[("t", 0, 1)]);
    let member = group_of_one(&mut driver);

    // Offsets of a client without membership take what is left.
    let mut partition = 0;
    while commit(&mut driver, "filler", &[("t", partition, 1)]) == [ErrorCode::None] {
        partition += 1;
        assert!(partition < 1_000, "the memory ends");
    }
    assert!(driver.memory.used_bytes() <= driver.memory.limit_bytes());
    assert!(driver.memory.refusals() > 0);
    assert_eq!(
        commit(&mut driver, "filler", &[("t", partition, 1), ("t", 0, 2)]),
        [loading, ErrorCode::None,]
    );
    let newcomer = in_group("new", "");
    assert_eq!(error(join(&mut driver, 4, newcomer.clone()).error_code), loading);
    let longer = JoinGroupRequest {
        protocols: vec![protocol("range", Bytes::from(vec![0; 40_000]))],
        ..join_request(&member.member_id)
    };
    assert_eq!(error(join(&mut driver, 3, longer).error_code), loading);

    // Who is there goes on.
    assert_eq!(heartbeat(&mut driver, &member.member_id, 1), ErrorCode::None);
    let same = JoinGroupRequest {
        protocols: vec![protocol("range", Bytes::from(vec![1; 20_000]))],
        ..join_request(&member.member_id)
    };
    assert_eq!(error(join(&mut driver, 3, same).error_code), ErrorCode::None);
    assert_eq!(sync(&mut driver, &member.member_id, 2), ErrorCode::None);
    assert_eq!(commit(&mut driver, "h", &[("t", 0, 2)]), [ErrorCode::None]);

    // What goes makes room.
    let body = RequestBody::DeleteGroups { groups: vec!["filler".into()] };
    driver.ask("c", 2, body);
    assert_eq!(error(join(&mut driver, 3, newcomer).error_code), ErrorCode::None);
    driver.unload();
    assert_eq!(driver.memory.used_bytes(), 0, "but for a shard without groups");
}

#[test]
fn an_assignment_without_room_lets_the_group_gather_anew() {
    let mut driver = Driver::with_memory(settings(), 30_000);
    let member = join(&mut driver, 3, join_request(""));
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: 1,
        member_id: member.member_id.clone(),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: member.member_id.clone(),
            assignment: Bytes::from(vec![0; 40_000]),
            ..Default::default()
        }],
        ..Default::default()
    };
    match driver.ask("c", 5, RequestBody::SyncGroup(request)) {
        Reply::SyncGroup(response) => {
            assert_eq!(error(response.error_code), ErrorCode::RebalanceInProgress);
        }
        other => panic!("{other:?}"),
    }
    let rejoined = join(&mut driver, 3, join_request(&member.member_id));
    assert_eq!((error(rejoined.error_code), rejoined.generation_id), (ErrorCode::None, 2));
}

#[test]
fn a_deletion_that_is_repeated_while_it_goes_on_is_not_begun_again() {
    let mut driver = Driver::new(GroupSettings { append_records_max: 10, ..settings() });
    let offsets: Vec<_> = (0..100).map(|partition| ("t", partition, 1)).collect();
    commit(&mut driver, "g", &offsets);
    for _ in 0..100 {
        driver.send("c", 2, RequestBody::DeleteGroups { groups: vec!["g".into()] });
    }
    let records: usize = driver.in_flight.iter().map(|(_, records)| records.len()).sum();
    assert_eq!(records, 101);
    driver.settle_all();
    assert_eq!(driver.shard.group_count(), 0);
}

#[test]
fn a_static_member_that_comes_back_again_and_again_is_written_down_once_at_a_time() {
    let mut driver = Driver::new(settings());
    let instance = || JoinGroupRequest {
        group_instance_id: Some("one".into()),
        protocols: vec![protocol("range", Bytes::from(vec![0; 20_000]))],
        ..join_request("")
    };
    let member = join(&mut driver, 5, instance());
    assert_eq!(sync_static(&mut driver, &member), ErrorCode::None);

    let tokens: Vec<_> = (0..1_000)
        .map(|_| {
            let fresh_id = driver.fresh_id();
            driver.send("c", 5, RequestBody::JoinGroup { request: instance(), fresh_id })
        })
        .collect();
    assert_eq!(driver.in_flight.len(), 1);
    driver.settle(Ok(()));
    assert_eq!(driver.in_flight.len(), 1, "the last one, when the log knows of the first");
    driver.settle_all();
    let codes: Vec<_> = tokens
        .into_iter()
        .map(|token| match driver.take_reply(token) {
            Some(Reply::JoinGroup(response)) => (error(response.error_code), response.member_id),
            other => panic!("{other:?}"),
        })
        .collect();
    let (last, earlier) = codes.split_last().expect("there are some");
    assert!(earlier.iter().all(|(code, _)| *code == ErrorCode::FencedInstanceId));
    assert_eq!(last.0, ErrorCode::None);
    assert_eq!(heartbeat(&mut driver, &last.1, 1), ErrorCode::None);
    driver.load();
    assert_eq!(heartbeat(&mut driver, &last.1, 1), ErrorCode::None, "the log knows the last one");
}

#[test]
fn of_static_members_that_come_back_together_each_is_told_when_the_log_knows_it() {
    let mut driver = Driver::new(settings());
    let instance = |name: &'static str| JoinGroupRequest {
        group_instance_id: Some(name.into()),
        ..join_request("")
    };
    let names = ["one", "two", "three"];
    let come_back = |driver: &mut Driver| -> Vec<_> {
        let join = |name| {
            let fresh_id = driver.fresh_id();
            driver.send("c", 5, RequestBody::JoinGroup { request: instance(name), fresh_id })
        };
        names.map(join).to_vec()
    };
    let joined = |driver: &mut Driver, token| match driver.take_reply(token) {
        Some(Reply::JoinGroup(response)) => Some(response),
        None => None,
        other => panic!("{other:?}"),
    };
    // The first is a generation alone; the others make it join again.
    let first = join(&mut driver, 5, instance("one"));
    let others = [instance("two"), instance("three")].map(|request| {
        let fresh_id = driver.fresh_id();
        driver.send("c", 5, RequestBody::JoinGroup { request, fresh_id })
    });
    let again = JoinGroupRequest { member_id: first.member_id.clone(), ..instance("one") };
    let leader = join(&mut driver, 5, again);
    assert_eq!(leader.members.len(), 3);
    assert!(others.into_iter().all(|token| joined(&mut driver, token).is_some()));
    assert_eq!(sync_static(&mut driver, &leader), ErrorCode::None);

    let tokens = come_back(&mut driver);
    driver.settle(Ok(()));
    let told: Vec<_> = tokens.iter().map(|token| joined(&mut driver, *token).is_some()).collect();
    assert_eq!(told, [true, false, false]);
    // The log fails: the others are what they were.
    driver.settle(Err(ErrorCode::NotEnoughReplicas));
    let codes = tokens[1..].iter().map(|token| joined(&mut driver, *token).map(|it| it.error_code));
    let codes: Vec<_> = codes.collect();
    assert!(codes.iter().all(|code| code.is_some_and(|code| code != 0)), "{codes:?}");
    assert!(driver.in_flight.is_empty());
}

/// A SyncGroup of the only member, which gives itself so many bytes.
fn assign(
    driver: &mut Driver,
    group: &'static str,
    member: &JoinGroupResponse,
    bytes: usize,
) -> ErrorCode {
    let request = SyncGroupRequest {
        group_id: group.into(),
        generation_id: member.generation_id,
        member_id: member.member_id.clone(),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: member.member_id.clone(),
            assignment: Bytes::from(vec![0; bytes]),
            ..Default::default()
        }],
        ..Default::default()
    };
    match driver.ask("c", 5, RequestBody::SyncGroup(request)) {
        Reply::SyncGroup(response) => error(response.error_code),
        other => panic!("{other:?}"),
    }
}

/// A member's request to join this group.
fn in_group(group: &'static str, member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest { group_id: group.into(), ..join_request(member_id) }
}

/// New groups take memory until they are refused.
fn fill(driver: &mut Driver) {
    for number in 0.. {
        if commit(driver, &format!("filler-{number}"), &[("t", 0, 1)]) != [ErrorCode::None] {
            return;
        }
        assert!(number < 1_000, "the memory ends");
    }
}

#[test]
fn groups_that_there_are_go_on_when_new_ones_have_taken_the_memory() {
    let mut driver = Driver::with_memory(settings(), 100_000);
    let member = join(&mut driver, 3, in_group("g", ""));
    assert_eq!(assign(&mut driver, "g", &member, 2_000), ErrorCode::None);
    fill(&mut driver);

    // A little more than before.
    let again = join(&mut driver, 3, in_group("g", &member.member_id));
    assert_eq!(assign(&mut driver, "g", &again, 2_100), ErrorCode::None);
    // And one member more: the first one waits for it.
    let fresh_id = driver.fresh_id();
    let request = in_group("g", "");
    let second = driver.send("c", 3, RequestBody::JoinGroup { request, fresh_id });
    assert_eq!(driver.take_reply(second), None, "it waits for the other");
    let again = join(&mut driver, 3, in_group("g", &member.member_id));
    assert_eq!((error(again.error_code), again.members.len()), (ErrorCode::None, 2));
}

#[test]
fn a_group_whose_assignment_finds_no_room_keeps_the_room_that_it_has() {
    let mut driver = Driver::with_memory(settings(), 100_000);
    let member = join(&mut driver, 3, in_group("g", ""));
    assert_eq!(assign(&mut driver, "g", &member, 10_000), ErrorCode::None);
    let other = join(&mut driver, 3, in_group("h", ""));
    assert_eq!(assign(&mut driver, "h", &other, 1_000), ErrorCode::None);

    let again = join(&mut driver, 3, in_group("g", &member.member_id));
    assert_eq!(assign(&mut driver, "g", &again, 60_000), ErrorCode::RebalanceInProgress);
    // The other group takes what it can get.
    let mut bytes = 40_000;
    loop {
        let other = join(&mut driver, 3, in_group("h", &other.member_id));
        if assign(&mut driver, "h", &other, bytes) == ErrorCode::None {
            break;
        }
        bytes -= 500;
    }
    let again = join(&mut driver, 3, in_group("g", &member.member_id));
    assert_eq!(assign(&mut driver, "g", &again, 10_000), ErrorCode::None);
}

#[test]
fn the_kind_of_a_group_counts() {
    let kind = WireString::from("k".repeat(30_000));
    let request = || JoinGroupRequest { protocol_type: kind.clone(), ..join_request("") };
    let mut driver = Driver::with_memory(settings(), 20_000);
    let refused = join(&mut driver, 3, request());
    assert_eq!(error(refused.error_code), ErrorCode::CoordinatorLoadInProgress);

    let mut driver = Driver::with_memory(settings(), 100_000);
    let member = join(&mut driver, 3, request());
    assert_eq!(error(member.error_code), ErrorCode::None);
    assert!(driver.memory.used_bytes() >= 30_000, "{}", driver.memory.used_bytes());
    for body in [
        RequestBody::ListGroups(ListGroupsRequest::default()),
        RequestBody::DescribeGroups { groups: vec!["g".into()] },
    ] {
        let bytes = driver.shard.answer_bytes(&body);
        assert!(bytes >= 60_000, "{body:?} takes {bytes}");
    }
}

/// So many groups with twenty offsets each.
fn groups_with_offsets(driver: &mut Driver, count: usize) -> Vec<WireString> {
    let offsets: Vec<_> = (0..20).map(|partition| ("t", partition, 1)).collect();
    let names: Vec<_> = (0..count).map(|number| WireString::from(format!("g-{number}"))).collect();
    for name in &names {
        commit(driver, name, &offsets);
    }
    names
}

/// Lets appends succeed one by one; the most records that were on their way at a time.
fn most_in_flight(driver: &mut Driver) -> usize {
    let in_flight =
        |driver: &Driver| driver.in_flight.iter().map(|(_, records)| records.len()).sum();
    let mut most: usize = in_flight(driver);
    while driver.settle(Ok(())) {
        most = most.max(in_flight(driver));
    }
    most
}

#[test]
fn offsets_that_expire_together_are_taken_back_a_part_at_a_time() {
    let limits = GroupSettings { append_records_max: 50, ..settings() };
    let mut driver = Driver::new(GroupSettings { offsets_retention_ms: 1_000, ..limits });
    groups_with_offsets(&mut driver, 30);
    driver.advance_ms(10 * 60 * 1_000, |_| {});
    assert_eq!(most_in_flight(&mut driver), 50);
    let left: usize = driver.shard.groups().map(|group| group.offset_count()).sum();
    assert_eq!(left, 0);
    assert_eq!(driver.shard.group_count(), 0);
}

#[test]
fn what_expires_over_a_log_that_fails_expires_later() {
    let limits = GroupSettings { append_records_max: 50, ..settings() };
    let mut driver = Driver::new(GroupSettings { offsets_retention_ms: 1_000, ..limits });
    groups_with_offsets(&mut driver, 30);
    driver.advance_ms(10 * 60 * 1_000, |_| {});
    driver.settle(Err(ErrorCode::NotEnoughReplicas));
    assert!(driver.in_flight.is_empty());
    driver.advance_ms(10 * 60 * 1_000, |_| {});
    driver.settle_all();
    assert_eq!(driver.shard.group_count(), 0);
}

#[test]
fn offsets_of_a_deleted_topic_are_taken_back_a_part_at_a_time() {
    let mut driver = Driver::new(GroupSettings { append_records_max: 50, ..settings() });
    groups_with_offsets(&mut driver, 30);
    let topic = DeletedTopic { name: "t".into(), id: TopicId::default() };
    let effects = driver.shard.topics_deleted(driver.now(), &[topic]);
    driver.apply(effects);
    assert_eq!(most_in_flight(&mut driver), 60, "what three groups have");
    let left: usize = driver.shard.groups().map(|group| group.offset_count()).sum();
    assert_eq!(left, 0);
}

#[test]
fn a_request_deletes_so_many_offsets_at_a_time() {
    let mut driver = Driver::new(GroupSettings { group_offsets_max: 50, ..settings() });
    let names = groups_with_offsets(&mut driver, 30);
    let delete = |driver: &mut Driver| {
        let body = RequestBody::DeleteGroups { groups: names.clone() };
        let token = driver.send("c", 2, body);
        assert!(most_in_flight(driver) <= 60);
        match driver.take_reply(token) {
            Some(Reply::DeleteGroups(results)) => {
                results.iter().map(|result| error(result.error_code)).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let codes = delete(&mut driver);
    assert_eq!(codes[..2], [ErrorCode::None; 2]);
    assert!(codes[2..].iter().all(|code| *code == ErrorCode::CoordinatorLoadInProgress));
    while driver.shard.group_count() > 0 {
        delete(&mut driver);
    }
}
