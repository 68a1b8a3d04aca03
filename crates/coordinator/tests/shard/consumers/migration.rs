//! Groups that change their kind while they have members.

use bytes::Bytes;
use insta::assert_snapshot;
use logway_coordinator::{Reply, RequestBody};
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use logway_wire::messages::{
    ConsumerProtocolAssignment, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
    SyncGroupRequest, consumer_protocol_assignment::TopicPartition,
};
use logway_wire::{Encoder, Message};

use super::story::{GROUP, Story};
use crate::driver::subscription;

fn join(story: &mut Story, name: &'static str) {
    let fresh_id = story.driver.fresh_id();
    let member_id = story.classic_id(name);
    let request = JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 30_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: subscription(&["t"]),
            ..Default::default()
        }],
        ..Default::default()
    };
    story.send(name, 9, "joins the classic way", RequestBody::JoinGroup { request, fresh_id });
}

/// Syncs; a leader brings what it assigns of `t`.
fn sync(story: &mut Story, name: &'static str, assigned: &[(&'static str, &[i32])]) {
    let assignments = assigned.iter().map(|(to, partitions)| SyncGroupRequestAssignment {
        member_id: story.classic_id(to).into(),
        assignment: assignment(partitions),
        ..Default::default()
    });
    let assignments = assignments.collect();
    let request = SyncGroupRequest {
        group_id: GROUP.into(),
        generation_id: story.member(name).epoch,
        assignments,
        member_id: story.classic_id(name).into(),
        ..Default::default()
    };
    story.send(name, 5, "syncs", RequestBody::SyncGroup(request));
}

fn assignment(partitions: &[i32]) -> Bytes {
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: vec![TopicPartition {
            topic: "t".into(),
            partitions: partitions.to_vec(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut to = Encoder::new();
    to.i16(1);
    assignment.encode(&mut to, 1).expect("it can be written");
    to.into_bytes().expect("it holds no records")
}

fn heartbeat(story: &mut Story, name: &'static str) {
    let request = HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: story.member(name).epoch,
        member_id: story.classic_id(name).into(),
        ..Default::default()
    };
    story.send(name, 4, "is alive", RequestBody::Heartbeat(request));
}

fn leave(story: &mut Story, name: &'static str) {
    let identity =
        MemberIdentity { member_id: story.classic_id(name).into(), ..Default::default() };
    let request =
        LeaveGroupRequest { group_id: GROUP.into(), members: vec![identity], ..Default::default() };
    story.send(name, 5, "leaves", RequestBody::LeaveGroup(request));
}

/// Two members of the classic protocol, each with partitions.
fn two_classics(story: &mut Story) {
    for name in ["x", "y"] {
        join(story, name);
        join(story, name);
    }
    story.wait_ms(6_000);
    sync(story, "x", &[("x", &[0, 1]), ("y", &[2])]);
    sync(story, "y", &[]);
}

#[test]
fn a_classic_group_is_upgraded_member_by_member_and_downgraded_again() {
    let mut story = Story::new();
    two_classics(&mut story);
    story.note("the first member of the new protocol joins: the others keep what they have");
    story.join("a");
    story.note("they are told to join again, and sync for what they have then");
    for name in ["x", "y"] {
        heartbeat(&mut story, name);
        join(&mut story, name);
        sync(&mut story, name, &[]);
        heartbeat(&mut story, name);
    }
    story.heartbeat("a");
    story.describe();
    story.note("one leaves, and the rest is shared");
    leave(&mut story, "y");
    heartbeat(&mut story, "x");
    join(&mut story, "x");
    sync(&mut story, "x", &[]);
    story.heartbeat("a");
    story.note("the last member of the new protocol leaves: the group is a classic one again");
    story.leave("a", -1);
    heartbeat(&mut story, "x");
    join(&mut story, "x");
    sync(&mut story, "x", &[("x", &[0, 1, 2])]);
    story.describe();
    assert_snapshot!(story.text());
}

#[test]
fn an_empty_group_becomes_what_its_next_member_speaks() {
    let mut story = Story::new();
    story.join("a");
    story.leave("a", -1);
    story.note("an empty consumer group");
    join(&mut story, "x");
    join(&mut story, "x");
    story.wait_ms(3_000);
    sync(&mut story, "x", &[("x", &[0, 1, 2])]);
    leave(&mut story, "x");
    story.note("an empty classic group");
    story.join("a");
    story.describe();
    assert_snapshot!(story.text());
}

#[test]
fn an_upgrade_that_the_log_refuses_leaves_the_classic_group_as_it_was() {
    let mut story = Story::new();
    two_classics(&mut story);
    story.holds_appends = true;
    story.join("a");
    story.note("meanwhile the others wait");
    heartbeat(&mut story, "x");
    story.settle(Err(logway_model::ErrorCode::NotEnoughReplicas));
    story.holds_appends = false;
    heartbeat(&mut story, "y");
    story.note("and a crash in the middle of another one as well");
    story.holds_appends = true;
    story.join("a");
    story.crash();
    story.holds_appends = false;
    heartbeat(&mut story, "x");
    heartbeat(&mut story, "y");
    assert_snapshot!(story.text());
}

#[test]
fn a_failed_upgrade_of_a_group_in_its_first_rebalance_does_not_end_that() {
    let mut story = Story::new();
    join(&mut story, "x");
    join(&mut story, "x");
    story.holds_appends = true;
    story.join("a");
    story.settle(Err(logway_model::ErrorCode::NotEnoughReplicas));
    story.holds_appends = false;
    join(&mut story, "x");
    story.wait_ms(30_000);
    let generation = story.member("x").epoch;
    assert_eq!(generation, 1, "{}", story.text());
}

/// So it has to be counted.
#[test]
fn what_waits_for_a_conversion_is_kept_whole() {
    let mut story = Story::new();
    join(&mut story, "x");
    story.holds_appends = true;
    story.join("a");
    let fresh_id = story.driver.fresh_id();
    let request = JoinGroupRequest { group_id: GROUP.into(), ..Default::default() };
    let body = RequestBody::JoinGroup { request, fresh_id };
    let token = story.driver.send("x", 9, body.clone());
    assert!(story.driver.shard.keeps_request(token));
    story.driver.settle_all();
    assert!(!story.driver.shard.keeps_request(token));
    story.driver.replies.clear();
    story.holds_appends = false;
    story.leave("a", -1);
    let token = story.driver.send("x", 9, body);
    assert!(story.driver.shard.keeps_request(token), "the group is to be a classic one first");
}

#[test]
fn a_classic_member_for_whose_partitions_there_is_no_room_asks_again() {
    let mut settings = logway_coordinator::GroupSettings::default();
    settings.consumer.assignment_interval.default_ms = 0;
    settings.group_bytes_max = 20_000;
    let mut story = Story::with(settings);
    story.join("a");
    join(&mut story, "x");
    join(&mut story, "x");
    story.change_cluster("t grows", |cluster| cluster.set_topic("t", 1_000));
    for _ in 0..6 {
        story.wait_ms(9_000);
        story.heartbeat("a");
        join(&mut story, "x");
    }
    let text = story.text();
    assert!(text.contains("x < COORDINATOR_LOAD_IN_PROGRESS"), "{text}");
    assert!(!text.contains("GROUP_MAX_SIZE_REACHED") && !text.contains("no member"), "{text}");
}

/// It does not know which topics the others may see.
#[test]
fn a_classic_member_looks_up_no_patterns() {
    let mut story = Story::new();
    story.member("a").topics = None;
    story.member("a").pattern = Some("[a-z]+");
    story.member("a").hidden = vec!["secret"];
    story.join("a");
    story.change_cluster("there is a secret", |cluster| cluster.set_topic("secret", 3));
    story.wait_ms(11_000);
    join(&mut story, "x");
    join(&mut story, "x");
    story.heartbeat("a");
    assert!(!story.text().contains("secret "), "{}", story.text());
    assert!(!story.text().contains("secret-"), "{}", story.text());
    assert!(!story.text().contains("secret]"), "{}", story.text());
}

#[test]
fn a_classic_member_that_heeds_no_rebalance_is_out() {
    let mut story = Story::new();
    two_classics(&mut story);
    story.join("a");
    story.note("x joins, and y only says that it lives");
    heartbeat(&mut story, "x");
    join(&mut story, "x");
    sync(&mut story, "x", &[]);
    for _ in 0..4 {
        heartbeat(&mut story, "x");
        heartbeat(&mut story, "y");
        story.heartbeat("a");
        story.wait_ms(9_000);
    }
    heartbeat(&mut story, "y");
    story.describe();
    assert_snapshot!(story.text());
}

/// What a group that was converted back and forth leaves in the log is what it is.
#[test]
fn the_log_of_a_converted_group_makes_the_same_group() {
    let mut story = Story::new();
    two_classics(&mut story);
    story.join("a");
    story.driver.compact();
    story.driver.load();
    let body = RequestBody::ConsumerGroupDescribe { groups: vec![GROUP.into()] };
    let Reply::ConsumerGroupDescribe(groups) = story.driver.ask("operator", 1, body) else {
        panic!("is described")
    };
    assert_eq!((groups[0].error_code, groups[0].members.len()), (0, 3));
    let types: Vec<i8> = groups[0].members.iter().map(|member| member.member_type).collect();
    assert_eq!(types.iter().filter(|kind| **kind == 0).count(), 2);
}
