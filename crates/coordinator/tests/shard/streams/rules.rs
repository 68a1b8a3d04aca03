//! Rules of streams groups, one by one.

use std::sync::Arc;

use logway_coordinator::{
    CurrentTasks, GroupEpoch, GroupRecord, GroupSettings, MemberState, OwnedTasks, StreamsRecord,
};
use logway_model::{ErrorCode, PartitionId};
use logway_wire::messages::streams_group_heartbeat_request::{
    Endpoint, KeyValue, TaskIds as SaidTaskIds,
};
use logway_wire::messages::streams_group_heartbeat_response::TaskIds as ToldTaskIds;
use logway_wire::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};

use super::story::{GROUP, Story, joining, staying};
use crate::driver::Driver;
use crate::story::error;

/// A thread of a process that answers queries.
fn joining_with_endpoint(member: &str) -> StreamsGroupHeartbeatRequest {
    let user_endpoint = Some(Endpoint { host: "host".into(), port: 80, ..Default::default() });
    StreamsGroupHeartbeatRequest { process_id: Some("p".into()), user_endpoint, ..joining(member) }
}

fn ask(
    driver: &mut Driver,
    request: StreamsGroupHeartbeatRequest,
) -> StreamsGroupHeartbeatResponse {
    super::story::ask(driver, request).0
}

fn driver_with(settings: GroupSettings) -> Driver {
    let mut driver = Driver::new(settings);
    for topic in ["lines", "by-word", "counts"] {
        driver.change_cluster(|cluster| cluster.set_topic(topic, 2));
    }
    driver
}

fn current(state: MemberState, is_revoking: bool) -> CurrentTasks {
    let active = [(Arc::from("0"), [(PartitionId(1), GroupEpoch(3))].into())];
    let revoking = OwnedTasks { active: active.into(), ..Default::default() };
    CurrentTasks {
        state,
        revoking: if is_revoking { revoking } else { OwnedTasks::default() },
        ..Default::default()
    }
}

/// The value of a member's record, with its state by another number.
fn value_of(current: CurrentTasks, number: Option<u8>) -> (bytes::Bytes, Vec<u8>) {
    let record = StreamsRecord::Current("m".into(), Some(Arc::new(current)));
    let (key, value) = GroupRecord::Streams { group: GROUP.into(), record }.encode();
    let mut value = value.expect("it is no tombstone").to_vec();
    // Behind the version of 2 bytes and two epochs of 4.
    value[10] = number.unwrap_or(value[10]);
    (key, value)
}

fn state_in(key: &bytes::Bytes, value: Vec<u8>) -> MemberState {
    let decoded = GroupRecord::decode(key, Some(&value.into())).expect("it is whole");
    let Some(GroupRecord::Streams { record: StreamsRecord::Current(_, Some(current)), .. }) =
        decoded
    else {
        panic!("{decoded:?}")
    };
    current.state
}

#[test]
fn states_have_the_numbers_that_kafka_gives_them() {
    for (state, number) in [
        (MemberState::Stable, 1),
        (MemberState::UnrevokedPartitions, 2),
        (MemberState::UnreleasedPartitions, 3),
        (MemberState::Unknown, 127),
    ] {
        let is_revoking = state == MemberState::UnrevokedPartitions;
        let (key, value) = value_of(current(state, is_revoking), None);
        assert_eq!(value[10], number, "{state:?}");
        assert_eq!(state_in(&key, value), state);
    }
}

/// Earlier versions counted from 0.
#[test]
fn states_of_earlier_versions_are_known_by_what_is_to_be_given_up() {
    for (number, is_revoking, state) in [
        (0, false, MemberState::Stable),
        (1, true, MemberState::UnrevokedPartitions),
        (2, false, MemberState::UnreleasedPartitions),
        (4, false, MemberState::Unknown),
        (0, true, MemberState::Unknown),
    ] {
        let (key, value) = value_of(current(MemberState::Stable, is_revoking), Some(number));
        assert_eq!(state_in(&key, value), state, "{number}, {is_revoking}");
    }
}

#[test]
fn somebody_else_asks_for_missing_topics_when_one_has_asked_in_vain() {
    let mut story = Story::with(Story::settings());
    story.make_topics(&[("lines", 2)]);
    let mut who_asked = Vec::new();
    story.join("a");
    who_asked.extend((!story.missing.is_empty()).then_some("a"));
    story.join("b");
    who_asked.extend((!story.missing.is_empty()).then_some("b"));
    for _ in 0..6 {
        // A heartbeat each interval, a's first.
        story.wait_ms(3_001);
        story.heartbeat("a");
        who_asked.extend((!story.missing.is_empty()).then_some("a"));
        story.wait_ms(2_000);
        story.heartbeat("b");
        who_asked.extend((!story.missing.is_empty()).then_some("b"));
    }
    assert!(who_asked.contains(&"a") && who_asked.contains(&"b"), "{who_asked:?}");
}

#[test]
fn who_was_thrown_out_of_a_full_group_is_told_so() {
    let mut settings = Story::settings();
    settings.streams.size_max = 1;
    let mut driver = driver_with(settings);
    assert_eq!(error(ask(&mut driver, joining_with_endpoint("a")).error_code), ErrorCode::None);
    let late = ask(&mut driver, staying("b", 2));
    assert_eq!(error(late.error_code), ErrorCode::UnknownMemberId);
    let full = ask(&mut driver, joining_with_endpoint("b"));
    assert_eq!(error(full.error_code), ErrorCode::GroupMaxSizeReached);
}

#[test]
fn threads_of_one_process_are_told_as_one_endpoint() {
    let mut driver = driver_with(Story::settings());
    let first = ask(&mut driver, joining_with_endpoint("a"));
    ask(&mut driver, joining_with_endpoint("b"));
    // a gives up half of it, and b gets that.
    let halved = ask(&mut driver, staying("a", first.member_epoch));
    let has = StreamsGroupHeartbeatRequest {
        active_tasks: as_said(halved.active_tasks),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..staying("a", halved.member_epoch)
    };
    let settled = ask(&mut driver, has);
    let b = ask(&mut driver, staying("b", 3));
    assert_eq!(error(b.error_code), ErrorCode::None, "{:?}", b.error_message);
    let request = StreamsGroupHeartbeatRequest {
        endpoint_information_epoch: -7,
        ..staying("a", settled.member_epoch)
    };
    let endpoints = ask(&mut driver, request).partitions_by_user_endpoint.expect("it is news");
    assert_eq!(endpoints.len(), 1, "{endpoints:?}");
    let lines = endpoints[0].active_partitions.iter().find(|it| it.topic.as_str() == "lines");
    assert_eq!(lines.map(|it| it.partitions.clone()), Some(vec![0, 1]));
}

#[test]
fn who_has_given_up_its_tasks_is_not_late_for_lack_of_room() {
    let mut driver = driver_with(GroupSettings { group_bytes_max: 20_000, ..Story::settings() });
    let first = ask(&mut driver, joining("a"));
    ask(&mut driver, joining("b"));
    let halved = ask(&mut driver, staying("a", first.member_epoch));
    let too_much = || KeyValue { value: "v".repeat(20_000).into(), ..Default::default() };
    let has = |active_tasks| StreamsGroupHeartbeatRequest {
        active_tasks,
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        client_tags: Some(vec![too_much()]),
        ..staying("a", halved.member_epoch)
    };
    let mut code_after = |active: &Option<Vec<SaidTaskIds>>, wait_ms| {
        driver.advance_ms(wait_ms, |_| {});
        driver.settle_all();
        error(ask(&mut driver, has(active.clone())).error_code)
    };
    let (all, kept) = (as_said(first.active_tasks), as_said(halved.active_tasks));
    for _ in 0..4 {
        assert_eq!(code_after(&kept, 25_000), ErrorCode::CoordinatorLoadInProgress);
    }
    let again = code_after(&all, 0);
    assert_eq!(again, ErrorCode::FencedMemberEpoch, "what it gave up is not its own any more");
}

/// What a member was told to have, as it says that it has it.
fn as_said(told: Option<Vec<ToldTaskIds>>) -> Option<Vec<SaidTaskIds>> {
    let of = told?.into_iter().map(|it| SaidTaskIds {
        subtopology_id: it.subtopology_id,
        partitions: it.partitions,
        ..Default::default()
    });
    Some(of.collect())
}

#[test]
fn who_has_given_up_tasks_and_is_to_give_up_more_is_an_epoch_further() {
    let mut story = Story::new();
    story.join("a");
    story.join("b");
    story.heartbeat("a");
    let epoch = story.thread("a").epoch;
    story.join("c");
    story.join("d");
    story.heartbeat("a");
    assert_eq!(story.thread("a").epoch, epoch + 1);
    assert!(story.text().contains("UnrevokedPartitions"));
}
