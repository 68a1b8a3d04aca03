//! Rules of consumer groups, one by one.

use std::sync::Arc;

use logway_coordinator::{
    ClassicMember, Client, ConsumerRecord, CurrentAssignment, Effect, GroupEpoch, GroupRecord,
    GroupSettings, GroupVersion, MemberState, OwnedPartitions, Partitions, Reply, Request,
    RequestBody, RequestToken, ResolvedPattern, Subscription, TargetVersion, TopicSight,
    TxnOffsetCommit,
};
use logway_model::{ErrorCode, PartitionId, TimestampMs, TopicId, Uuid};
use logway_wire::WireString;
use logway_wire::messages::consumer_group_heartbeat_request::TopicPartitions;
use logway_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use logway_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ListGroupsRequest,
    TxnOffsetCommitRequest,
};

use crate::driver::Driver;
use crate::story::error;

fn joining(group: &str, member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: WireString::copy_of(group),
        member_id: WireString::copy_of(member),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_names: Some(vec!["t".into()]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn ask(
    driver: &mut Driver,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    let fresh_id = driver.fresh_id();
    let sight = TopicSight::of_all();
    let body = RequestBody::ConsumerGroupHeartbeat { request, fresh_id, sight };
    match driver.ask("client", 1, body) {
        Reply::ConsumerGroupHeartbeat(response) => response,
        other => panic!("{other:?}"),
    }
}

fn code(driver: &mut Driver, request: ConsumerGroupHeartbeatRequest) -> ErrorCode {
    error(ask(driver, request).error_code)
}

fn driver_with(change: impl FnOnce(&mut GroupSettings)) -> Driver {
    let mut settings = GroupSettings::default();
    change(&mut settings);
    let mut driver = Driver::new(settings);
    driver.change_cluster(|cluster| cluster.set_topic("t", 3));
    driver
}

#[test]
fn what_members_can_make_the_coordinator_keep_has_bounds() {
    let mut driver = driver_with(|settings| {
        settings.consumer.size_max = 2;
        settings.member_bytes_max = 4_000;
        settings.groups_max = 2;
    });
    assert_eq!(code(&mut driver, joining("g", "a")), ErrorCode::None);
    assert_eq!(code(&mut driver, joining("g", "b")), ErrorCode::None);
    assert_eq!(code(&mut driver, joining("g", "c")), ErrorCode::GroupMaxSizeReached);
    assert_eq!(code(&mut driver, joining("g", "b")), ErrorCode::None, "who is there may stay");
    let topics = (0..100).map(|number| format!("topic-{number}").into()).collect();
    let greedy =
        ConsumerGroupHeartbeatRequest { subscribed_topic_names: Some(topics), ..joining("h", "a") };
    assert_eq!(code(&mut driver, greedy), ErrorCode::PolicyViolation);
    assert!(driver.shard.group("h").is_none(), "a group that nobody has joined is none");
    assert_eq!(code(&mut driver, joining("h", "a")), ErrorCode::None);
    assert_eq!(code(&mut driver, joining("i", "a")), ErrorCode::PolicyViolation);
}

#[test]
fn a_full_group_takes_back_its_own_and_tells_who_was_thrown_out() {
    let mut driver = driver_with(|settings| settings.consumer.size_max = 1);
    let of_instance = |member: &str, member_epoch| ConsumerGroupHeartbeatRequest {
        instance_id: Some("i".into()),
        member_epoch,
        ..joining("g", member)
    };
    assert_eq!(code(&mut driver, of_instance("a", 0)), ErrorCode::None);
    assert_eq!(code(&mut driver, of_instance("a", -2)), ErrorCode::None);
    assert_eq!(code(&mut driver, of_instance("b", 0)), ErrorCode::None, "it is back");
    let late = ConsumerGroupHeartbeatRequest { member_epoch: 2, ..joining("g", "c") };
    assert_eq!(code(&mut driver, late), ErrorCode::UnknownMemberId);
    assert_eq!(code(&mut driver, joining("g", "c")), ErrorCode::GroupMaxSizeReached);
}

/// Its groups have no room for the assignment of a thousand partitions.
fn driver_with_little_room() -> Driver {
    driver_with(|settings| {
        settings.consumer.assignment_interval.default_ms = 0;
        settings.group_bytes_max = 10_000;
    })
}

/// A heartbeat of a member of `g` that says nothing new.
fn staying(member: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: WireString::copy_of(member),
        member_epoch,
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

#[test]
fn a_member_for_whose_partitions_there_is_no_room_asks_again() {
    let mut driver = driver_with_little_room();
    let joined = ask(&mut driver, joining("g", "a"));
    driver.change_cluster(|cluster| cluster.set_topic("t", 1_000));
    driver.settle_all();
    // By GROUP_MAX_SIZE_REACHED it would end.
    let staying = staying("a", joined.member_epoch);
    assert_eq!(code(&mut driver, staying), ErrorCode::CoordinatorLoadInProgress);
}

#[test]
fn who_has_given_up_its_partitions_is_not_late_for_lack_of_room() {
    let mut driver = driver_with_little_room();
    let joined = ask(&mut driver, joining("g", "a"));
    let assigned = joined.assignment.expect("it has all").topic_partitions;
    let topic_id = assigned[0].topic_id;
    ask(&mut driver, joining("g", "b"));
    let has = |partitions: &[i32]| ConsumerGroupHeartbeatRequest {
        topic_partitions: Some(vec![TopicPartitions {
            topic_id,
            partitions: partitions.to_vec(),
            ..Default::default()
        }]),
        ..staying("a", joined.member_epoch)
    };
    let told = ask(&mut driver, has(&[0, 1, 2]));
    let kept = &told.assignment.expect("it is to give something up").topic_partitions[0].partitions;
    driver.change_cluster(|cluster| cluster.set_topic("t", 1_000));
    driver.settle_all();
    for _ in 0..8 {
        assert_eq!(code(&mut driver, has(kept)), ErrorCode::CoordinatorLoadInProgress);
        // It has a second.
        driver.advance_ms(400, |_| {});
        driver.settle_all();
    }
    let again = code(&mut driver, has(&[0, 1, 2]));
    assert_eq!(again, ErrorCode::FencedMemberEpoch, "what it gave up is not its own any more");
}

#[test]
fn patterns_have_bounds() {
    let mut driver = driver_with(|settings| {
        settings.consumer.pattern_bytes_max = 10;
        settings.consumer.patterns_max = 1;
    });
    let by = |member: &str, pattern: &str| ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some(WireString::copy_of(pattern)),
        ..joining("g", member)
    };
    let refused = ask(&mut driver, by("a", "a.pattern.that.is.long"));
    assert_eq!(error(refused.error_code), ErrorCode::InvalidRegularExpression);
    let message = refused.error_message.expect("says why");
    assert!(message.contains("longer than 10 bytes"), "{message}");
    assert_eq!(code(&mut driver, by("a", "t.*")), ErrorCode::None);
    assert_eq!(code(&mut driver, by("b", "t.*")), ErrorCode::None);
    assert_eq!(code(&mut driver, by("c", "u.*")), ErrorCode::InvalidRegularExpression);
}

#[test]
fn what_a_group_takes_is_given_back() {
    let mut driver = driver_with(|settings| settings.offsets_retention_check_interval_ms = 1_000);
    let before = driver.memory.used_bytes();
    for member in ["a", "b"] {
        assert_eq!(code(&mut driver, joining("g", member)), ErrorCode::None);
    }
    assert!(driver.memory.used_bytes() > before + 2_000);
    for member in ["a", "b"] {
        let leaving = ConsumerGroupHeartbeatRequest { member_epoch: -1, ..joining("g", member) };
        assert_eq!(code(&mut driver, leaving), ErrorCode::None);
    }
    assert_eq!(driver.shard.group("g").map(|group| group.state_name()), Some("Empty"));
    driver.advance_ms(2_000, |_| {});
    driver.settle_all();
    assert!(driver.shard.group("g").is_none(), "an empty group without offsets goes");
    assert_eq!(driver.memory.used_bytes(), before);
    driver.compact();
    assert!(driver.log.is_empty(), "and nothing of it stays in the log: {:?}", driver.log);
}

#[test]
fn there_is_no_memory_for_more() {
    let mut settings = GroupSettings::default();
    settings.consumer.assignment_interval.default_ms = 0;
    let mut driver = Driver::with_memory(settings, 8_000);
    driver.change_cluster(|cluster| cluster.set_topic("t", 3));
    assert_eq!(code(&mut driver, joining("g", "a")), ErrorCode::None);
    let codes: Vec<_> =
        (0..9).map(|number| code(&mut driver, joining("g", &format!("m{number}")))).collect();
    assert!(codes.contains(&ErrorCode::CoordinatorLoadInProgress), "{codes:?}");
    let count = driver.shard.group("g").map(|group| group.member_count());
    let joined = codes.iter().filter(|code| **code == ErrorCode::None).count();
    assert_eq!(count, Some(1 + joined), "who was refused is no member");
}

#[test]
fn times_are_those_of_the_group_within_the_bounds() {
    let mut driver = driver_with(|_| {});
    driver.change_cluster(|cluster| {
        cluster.overrides.heartbeat_interval_ms = Some(9_000);
        cluster.overrides.session_timeout_ms = Some(1_000_000);
    });
    assert_eq!(ask(&mut driver, joining("g", "a")).heartbeat_interval_ms, 9_000);
    driver.change_cluster(|cluster| cluster.overrides.heartbeat_interval_ms = Some(1));
    assert_eq!(ask(&mut driver, joining("g", "a")).heartbeat_interval_ms, 5_000);
    driver.advance_ms(59_000, |_| {});
    let members = |driver: &Driver| driver.shard.group("g").map(|group| group.member_count());
    assert_eq!(members(&driver), Some(1));
    driver.advance_ms(1_001, |_| {});
    driver.settle_all();
    assert_eq!(members(&driver), Some(0), "the most that counts is 60 s");
}

#[test]
fn groups_are_listed_by_type() {
    let mut driver = driver_with(|_| {});
    assert_eq!(code(&mut driver, joining("g", "a")), ErrorCode::None);
    for (types, expected) in [(vec![], 1), (vec!["Consumer"], 1), (vec!["classic"], 0)] {
        let request = ListGroupsRequest {
            types_filter: types.into_iter().map(WireString::from).collect(),
            ..Default::default()
        };
        let Reply::ListGroups(listed) = driver.ask("o", 5, RequestBody::ListGroups(request)) else {
            panic!("is listed")
        };
        assert_eq!(listed.groups.len(), expected);
        let kinds = listed.groups.iter().map(|group| (&*group.group_type, &*group.protocol_type));
        assert!(kinds.into_iter().all(|kind| kind == ("consumer", "consumer")));
    }
}

/// What a producer is told that commits an offset of `t` in its transaction for a member of `g`. One that the shard takes
/// stays on its way into the log.
fn commit_in_transaction(
    driver: &mut Driver,
    (member, epoch): (&str, i32),
    partition: i32,
    change: impl FnOnce(&mut TxnOffsetCommitRequest),
) -> ErrorCode {
    let topic = TxnOffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![TxnOffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: 7,
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut request = TxnOffsetCommitRequest {
        group_id: "g".into(),
        generation_id: epoch,
        member_id: WireString::copy_of(member),
        topics: vec![topic],
        ..Default::default()
    };
    change(&mut request);
    let topic_ids = vec![driver.cluster.topics["t"].id];
    let body = RequestBody::TxnOffsetCommit(TxnOffsetCommit { request, topic_ids, guard: None });
    let (token, client) = (RequestToken(u64::MAX), Client::default());
    let request = Request { token, version: 3, client, body };
    match &driver.shard.request(driver.now(), request)[..] {
        [Effect::AppendInTransaction { .. }] => ErrorCode::None,
        [Effect::Reply { reply: Reply::TxnOffsetCommit(told), .. }] => {
            error(told.topics[0].partitions[0].error_code)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_producer_commits_for_a_member_in_the_epoch_of_that_member() {
    let mut driver = driver_with(|settings| settings.consumer.assignment_interval.default_ms = 0);
    let topic_id = driver.cluster.topics["t"].id.0;
    let has = |partitions: &[i32]| {
        let partitions = partitions.to_vec();
        Some(vec![TopicPartitions { topic_id, partitions, ..Default::default() }])
    };
    let beat = |driver: &mut Driver, member: &str, epoch, topic_partitions| {
        let request = ConsumerGroupHeartbeatRequest { topic_partitions, ..staying(member, epoch) };
        let told = ask(driver, request);
        let assigned = told.assignment.into_iter().flat_map(|it| it.topic_partitions);
        (told.member_epoch, assigned.flat_map(|it| it.partitions).collect::<Vec<_>>())
    };
    assert_eq!(ask(&mut driver, joining("g", "a")).member_epoch, 2);
    assert_eq!(code(&mut driver, joining("g", "b")), ErrorCode::None);
    let (epoch, kept) = beat(&mut driver, "a", 2, has(&[0, 1, 2]));
    assert_eq!((epoch, kept.len()), (2, 2), "a is to give something up");
    assert_eq!(beat(&mut driver, "a", 2, has(&kept)).0, 3);
    let (epoch, got) = beat(&mut driver, "b", 3, Some(Vec::new()));
    assert_eq!((epoch, got.len()), (3, 1), "b has it");
    let (kept, got) = (kept[0], got[0]);
    let is_static: fn(&mut TxnOffsetCommitRequest) =
        |request| request.group_instance_id = Some("i".into());
    for (member, partition, change, expected) in [
        (("a", 3), kept, None, ErrorCode::None),
        (("a", 4), kept, None, ErrorCode::IllegalGeneration),
        (("a", 2), kept, None, ErrorCode::None),
        (("a", 2), got, None, ErrorCode::IllegalGeneration),
        (("b", 2), got, None, ErrorCode::IllegalGeneration),
        (("a", 0), kept, None, ErrorCode::IllegalGeneration),
        (("a", -1), kept, None, ErrorCode::IllegalGeneration),
        (("c", 3), kept, None, ErrorCode::UnknownMemberId),
        (("", 3), kept, None, ErrorCode::UnknownMemberId),
        (("", -1), kept, Some(is_static), ErrorCode::UnknownMemberId),
        (("", -1), kept, None, ErrorCode::None),
    ] {
        let told = commit_in_transaction(&mut driver, member, partition, change.unwrap_or(|_| {}));
        assert_eq!(told, expected, "{member:?} for partition {partition}, {change:?}");
    }
}

#[test]
fn a_producer_commits_for_a_consumer_group_that_all_have_left() {
    let mut driver = driver_with(|_| {});
    assert_eq!(code(&mut driver, joining("g", "a")), ErrorCode::None);
    let leaving = ConsumerGroupHeartbeatRequest { member_epoch: -1, ..joining("g", "a") };
    assert_eq!(code(&mut driver, leaving), ErrorCode::None);
    let mut commit = |member| commit_in_transaction(&mut driver, member, 0, |_| {});
    assert_eq!(commit(("a", -1)), ErrorCode::None);
    assert_eq!(commit(("a", 1)), ErrorCode::UnknownMemberId);
}

#[test]
fn every_record_is_read_back_as_it_was_written() {
    let topic = TopicId(Uuid([7; 16]));
    let target: Partitions = [(topic, [PartitionId(1), PartitionId(2)].into())].into();
    let owned: OwnedPartitions = [(topic, [(PartitionId(1), GroupEpoch(3))].into())].into();
    let subscription = Subscription {
        instance_id: Some("i".into()),
        rack_id: Some("r".into()),
        topics: ["t".into(), "u".into()].into(),
        pattern: Some("t.*".into()),
        rebalance_timeout_ms: 5,
        assignor: Some("range".into()),
        classic: Some(ClassicMember {
            session_timeout_ms: 9,
            protocols: vec![("range".into(), bytes::Bytes::from_static(b"x"))],
        }),
        ..Subscription::default()
    };
    let current = CurrentAssignment {
        epoch: GroupEpoch(4),
        previous_epoch: GroupEpoch(3),
        state: MemberState::UnreleasedPartitions,
        assigned: owned.clone(),
        revoking: owned,
    };
    let resolved =
        ResolvedPattern { topics: ["t".into()].into(), version: 8, resolved_at: TimestampMs(9) };
    let version = GroupVersion { epoch: GroupEpoch(5), metadata_hash: -6 };
    let made_at = Some(TimestampMs(11));
    let id = || "m".into();
    let records = [
        ConsumerRecord::Group(Some(version)),
        ConsumerRecord::Group(None),
        ConsumerRecord::FormerTopics(false),
        ConsumerRecord::Member(id(), Some(Arc::new(subscription))),
        ConsumerRecord::Member(id(), Some(Arc::default())),
        ConsumerRecord::Member(id(), None),
        ConsumerRecord::Assignment(Some(TargetVersion { epoch: GroupEpoch(5), made_at })),
        ConsumerRecord::Assignment(Some(TargetVersion { epoch: GroupEpoch(5), made_at: None })),
        ConsumerRecord::Assignment(None),
        ConsumerRecord::Target(id(), Some(Arc::new(target))),
        ConsumerRecord::Target(id(), None),
        ConsumerRecord::Current(id(), Some(Arc::new(current))),
        ConsumerRecord::Current(id(), None),
        ConsumerRecord::Pattern("t.*".into(), Some(Arc::new(resolved))),
        ConsumerRecord::Pattern("t.*".into(), None),
    ];
    for record in records {
        let record = GroupRecord::Consumer { group: "g".into(), record };
        let (key, value) = record.encode();
        assert_eq!(GroupRecord::decode(&key, value.as_ref()), Ok(Some(record.clone())));
        let bytes = key.len() + value.as_ref().map_or(0, |value| value.len());
        assert!(record.bytes_max() >= bytes, "{record:?} takes {bytes}");
        for len in 0..value.as_ref().map_or(0, |value| value.len()) {
            let cut = value.as_ref().map(|value| value.slice(..len));
            // Some cuts are whole values: of texts and lists that end with them. None panics.
            let _ = GroupRecord::decode(&key, cut.as_ref());
        }
    }
}
