//! Shards that are loaded, and groups as logs can have them.

use std::sync::Arc;

use bytes::Bytes;
use logway_coordinator::{GroupMetadata, GroupRecord, MemberMetadata};
use logway_model::{ErrorCode, TimestampMs};

use crate::driver::{Driver, durable};
use crate::offsets::commit;
use crate::rules::{driver, heartbeat, join, join_request, stable, sync};
use crate::story::error;

fn member(id: &str) -> MemberMetadata {
    MemberMetadata {
        member_id: id.into(),
        instance_id: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        subscription: Bytes::new(),
        assignment: Bytes::new(),
    }
}

fn group(members: Vec<MemberMetadata>) -> GroupMetadata {
    GroupMetadata {
        protocol_type: Some("consumer".into()),
        generation: 3,
        protocol: Some("range".into()),
        leader: Some("a".into()),
        state_timestamp: Some(TimestampMs(0)),
        members,
    }
}

fn loaded(metadata: GroupMetadata) -> Driver {
    let mut driver = driver();
    let record = GroupRecord::Metadata { group: "g".into(), metadata: Some(Arc::new(metadata)) };
    driver.log.push(record.encode());
    driver.load();
    driver
}

#[test]
fn members_go_on_after_a_load_and_have_a_session_to_say_so() {
    let mut driver = loaded(group(vec![member("a"), member("b")]));
    driver.advance_ms(9_999, |_| {});
    assert_eq!(heartbeat(&mut driver, "a", 3), ErrorCode::None);
    driver.advance_ms(1, |_| {});
    assert_eq!(heartbeat(&mut driver, "a", 3), ErrorCode::RebalanceInProgress, "b is missing");
    assert_eq!(heartbeat(&mut driver, "b", 3), ErrorCode::UnknownMemberId);
}

#[test]
fn a_shard_that_is_not_loaded_has_members_wait_or_begin_anew() {
    let mut driver = driver();
    stable(&mut driver);
    driver.shard = driver.replayed();
    let loading = ErrorCode::CoordinatorLoadInProgress;
    assert_eq!(commit(&mut driver, "g", &[("t", 0, 1)]), [loading]);
    assert_eq!(error(join(&mut driver, 5, join_request("")).error_code), loading);
    assert_eq!(heartbeat(&mut driver, "a", 1), ErrorCode::None, "it stays");
    assert_eq!(sync(&mut driver, "a", 1), ErrorCode::RebalanceInProgress, "it joins again");
}

#[test]
fn logs_that_are_odd_make_groups_that_work() {
    // A leader that is no member, no protocol, the same member twice, one instance with two members.
    let twins = ["a", "b"].map(|id| MemberMetadata { instance_id: Some("i".into()), ..member(id) });
    let odd = [
        GroupMetadata { leader: Some("z".into()), ..group(vec![member("a")]) },
        GroupMetadata {
            leader: None,
            protocol: None,
            protocol_type: None,
            ..group(vec![member("a")])
        },
        group(vec![member("a"), member("a")]),
        group(twins.to_vec()),
        GroupMetadata { generation: i32::MAX, ..group(vec![member("a")]) },
    ];
    for metadata in odd {
        let mut driver = loaded(metadata.clone());
        assert_eq!(driver.shard.group("g").map(|group| group.state_name()), Some("Stable"));
        driver.advance_ms(600_000, |_| {});
        driver.settle_all();
        let response = join(&mut driver, 3, join_request(""));
        assert_eq!(error(response.error_code), ErrorCode::None, "{metadata:?}");
    }
}

#[test]
fn tombstones_take_back_what_was_before_them() {
    let mut driver = driver();
    commit(&mut driver, "g", &[("t", 0, 1), ("t", 1, 1)]);
    let tombstone = GroupRecord::Offset {
        group: "g".into(),
        topic: "t".into(),
        partition: logway_model::PartitionId(0),
        offset: None,
    };
    driver.log.push(tombstone.encode());
    driver.load();
    assert_eq!(driver.shard.group("g").map(|group| group.offset_count()), Some(1));
    driver.compact();
    let before = durable(&driver.shard);
    driver.load();
    assert_eq!(durable(&driver.shard), before, "a cleaner changes nothing");
}

#[test]
fn a_group_that_became_empty_is_empty_after_a_load() {
    let mut driver = driver();
    stable(&mut driver);
    commit(&mut driver, "other", &[("t", 0, 1)]);
    driver.advance_ms(10_000, |_| {});
    driver.settle_all();
    driver.crash(0);
    let group = driver.shard.group("g").expect("the log knows it");
    assert_eq!((group.state_name(), group.generation()), ("Empty", 2));
    assert_eq!(group.protocol_type(), "consumer");
}
