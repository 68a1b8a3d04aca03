//! Golden transcripts: what clients see, in the order in which they see it.

use insta::assert_snapshot;
use logway_model::ErrorCode;

use crate::driver::subscription;
use crate::story::Story;

/// Three consumers in a stable group, led by `a`.
fn three_stable(story: &mut Story) {
    story.join_with_id("a");
    story.join_with_id("b");
    story.join_with_id("c");
    story.wait_ms(6_000);
    story.sync("b", &[]);
    story.sync("a", &[("a", "t-0"), ("b", "t-1"), ("c", "t-2")]);
    story.sync("c", &[]);
}

#[test]
fn three_members_join_one_leaves_the_leader_reassigns() {
    let mut story = Story::new();
    story.note("three consumers find each other during the initial delay");
    three_stable(&mut story);
    story.note("one leaves: the others learn it by their heartbeats and join again");
    story.leave("c");
    story.heartbeat("a");
    story.heartbeat("b");
    story.join("b");
    story.join("a");
    story.note("the next generation");
    story.sync("a", &[("a", "t-0 t-2"), ("b", "t-1")]);
    story.sync("b", &[]);
    story.describe("operator");
    story.note("the last ones leave: the group is empty, and the log knows it");
    story.leave("a");
    story.leave("b");
    story.describe("operator");
    assert_snapshot!(story.text());
}

#[test]
fn a_static_member_restarts() {
    let mut story = Story::new();
    for (name, instance) in [("a", "one"), ("b", "two")] {
        story.consumer(name).instance_id = Some(instance);
    }
    story.note("static members need not be given an id first");
    story.join("a");
    story.join("b");
    story.wait_ms(6_000);
    story.sync("a", &[("a", "t-0"), ("b", "t-1")]);
    story.sync("b", &[]);
    story.note("one comes back without its id: nobody else notices");
    let former = story.consumer("b").clone();
    story.consumer("b").member_id.clear();
    story.join("b");
    story.sync("b", &[]);
    story.heartbeat("a");
    story.note("who still uses the former id is fenced");
    *story.consumer("zombie") = former;
    story.heartbeat("zombie");
    story.commit("zombie", 1, 10);
    story.sync("zombie", &[]);
    story.note("the leader comes back: it is told not to assign (KIP-814)");
    story.consumer("a").member_id.clear();
    story.join("a");
    story.sync("a", &[]);
    story.note("the log cannot be written: the member stays who it was");
    story.holds_appends = true;
    story.consumer("b").member_id.clear();
    story.join("b");
    story.settle(Err(ErrorCode::NotEnoughReplicas));
    story.describe("operator");
    assert_snapshot!(story.text());
}

#[test]
fn a_cooperative_rebalance_takes_two_rounds() {
    let mut story = Story::new();
    for name in ["a", "b"] {
        story.consumer(name).protocols = vec![("cooperative-sticky", subscription(&["t"]))];
    }
    story.note("one consumer has everything");
    story.join_with_id("a");
    story.wait_ms(3_000);
    story.sync("a", &[("a", "t-0 t-1")]);
    story.note("another one comes: in the first round it gets nothing, the owner gives up a part");
    story.join_with_id("b");
    story.heartbeat("a");
    story.join("a");
    story.sync("a", &[("a", "t-0"), ("b", "")]);
    story.sync("b", &[]);
    story.note("the owner joins again at once, having revoked: the second round");
    story.join("a");
    story.heartbeat("b");
    story.join("b");
    story.sync("b", &[]);
    story.sync("a", &[("a", "t-0"), ("b", "t-1")]);
    assert_snapshot!(story.text());
}

#[test]
fn a_member_stalls() {
    let mut story = Story::new();
    for name in ["a", "b"] {
        story.consumer(name).session_timeout_ms = 120_000;
    }
    three_stable(&mut story);
    story.note("c is silent until its session is over");
    story.wait_ms(10_000);
    story.heartbeat("a");
    story.join("a");
    story.join("b");
    story.sync("a", &[("a", "t-0 t-2"), ("b", "t-1")]);
    story.sync("b", &[]);
    story.note("it wakes up, and is nobody any more");
    story.heartbeat("c");
    story.commit("c", 2, 100);
    story.note("b is alive but heeds no rebalance: it is out when the time to join is over");
    story.consumer("d").session_timeout_ms = 120_000;
    story.join_with_id("d");
    story.heartbeat("b");
    story.join("a");
    story.wait_ms(60_000);
    story.heartbeat("b");
    story.note("d never asks for its assignment: it is out when the time for that is over");
    story.sync("a", &[("a", "t-0 t-1"), ("d", "t-2")]);
    story.wait_ms(60_000);
    story.heartbeat("d");
    story.describe("operator");
    assert_snapshot!(story.text());
}

#[test]
fn a_commit_from_an_old_generation() {
    let mut story = Story::new();
    three_stable(&mut story);
    story.commit("a", 0, 10);
    story.note("b misses a rebalance");
    let former = story.consumer("b").clone();
    story.leave("c");
    story.commit("b", 1, 20);
    story.join("a");
    story.join("b");
    story.commit("b", 1, 21);
    story.sync("a", &[("a", "t-0 t-2"), ("b", "t-1")]);
    story.sync("b", &[]);
    *story.consumer("old b") = former;
    story.commit("old b", 1, 22);
    story.note("a client without membership cannot commit for a group that has members");
    story.consumer("tool");
    story.commit("tool", 1, 0);
    story.fetch("tool");
    assert_snapshot!(story.text());
}

#[test]
fn load_after_a_crash() {
    let mut story = Story::new();
    three_stable(&mut story);
    story.commit("a", 0, 10);
    story.note("a commit is on its way, and a rebalance under way, when the broker dies");
    story.holds_appends = true;
    story.commit("a", 0, 11);
    story.leave("c");
    story.join("a");
    story.crash();
    story.holds_appends = false;
    story.note(
        "the last generation that was stable goes on, with the offsets that were acknowledged",
    );
    story.describe("operator");
    story.fetch("a");
    story.heartbeat("a");
    story.heartbeat("b");
    story.commit("a", 0, 12);
    story.note("who had left is thrown out by its session");
    story.wait_ms(9_000);
    story.heartbeat("a");
    story.heartbeat("b");
    story.wait_ms(1_000);
    story.heartbeat("a");
    assert_snapshot!(story.text());
}

#[test]
fn what_is_on_its_way_to_the_log() {
    let mut story = Story::new();
    story.note("the leader's assignment is told to nobody before it is durable");
    story.holds_appends = true;
    story.join_with_id("a");
    story.join_with_id("b");
    story.wait_ms(6_000);
    story.sync("b", &[]);
    story.sync("a", &[("a", "t-0"), ("b", "t-1")]);
    story.describe("operator");
    story.note("the leader asks again: its first word counts");
    story.sync("a", &[("a", "t-0 t-1"), ("b", "")]);
    story.note("it cannot be stored: everybody joins again");
    story.settle(Err(ErrorCode::NotEnoughReplicas));
    story.join("a");
    story.join("b");
    story.sync("a", &[("a", "t-0"), ("b", "t-1")]);
    story.sync("b", &[]);
    story.settle(Ok(()));
    story.note("commits overtake no other; until one is durable, what it replaces is told");
    story.commit("a", 0, 10);
    story.commit("a", 0, 11);
    story.fetch("b");
    story.settle(Ok(()));
    story.fetch("b");
    story.settle(Ok(()));
    story.fetch("b");
    story.note("one fails, and the next does not");
    story.commit("a", 0, 12);
    story.commit("a", 0, 13);
    story.settle(Err(ErrorCode::KafkaStorageError));
    story.settle(Ok(()));
    story.fetch("b");
    story.note("the partition moves away: all that wait are told");
    story.commit("a", 0, 14);
    story.join("a");
    story.unload();
    story.note("the next shard is being loaded");
    story.join("a");
    story.heartbeat("a");
    story.commit("a", 0, 15);
    story.fetch("b");
    assert_snapshot!(story.text());
}
