//! Stories of consumer groups.

use insta::assert_snapshot;
use logway_coordinator::{GroupSettings, RequestBody};
use logway_model::ErrorCode;
use logway_wire::messages::DeleteGroupsRequest;

use super::story::Story;

/// Two members that share three partitions.
fn two_stable(story: &mut Story) {
    story.join("a");
    story.join("b");
    story.heartbeat("a");
    story.heartbeat("a");
    story.heartbeat("b");
}

#[test]
fn a_second_member_gets_what_the_first_gives_up() {
    let mut story = Story::new();
    story.note("the first member gets all");
    story.join("a");
    story.note("the second one waits until the first has given up what it shall have");
    story.join("b");
    story.heartbeat("b");
    story.heartbeat("a");
    story.heartbeat("b");
    story.note("a says that it has given it up");
    story.heartbeat("a");
    story.heartbeat("b");
    story.describe();
    story.note("a leaves, and b gets the rest at its next heartbeat");
    story.leave("a", -1);
    story.heartbeat("b");
    story.describe();
    story.note("the group is empty, and stays with its epoch");
    story.leave("b", -1);
    story.describe();
    assert_snapshot!(story.text());
}

#[test]
fn epochs_fence() {
    let mut story = Story::new();
    two_stable(&mut story);
    story.note("a reply was lost: a still says the epoch before, with what it has now");
    story.join("c");
    story.heartbeat("a");
    let before = story.member("a").clone();
    story.heartbeat("a");
    *story.member("a") = before;
    story.heartbeat("a");
    story.note("one that is too far behind or ahead is fenced, and joins again with nothing");
    story.member("a").epoch = 2;
    story.heartbeat("a");
    story.member("a").epoch = 99;
    story.heartbeat("a");
    story.join("a");
    story.note("who is not known has to join");
    story.member("z").epoch = 4;
    story.heartbeat("z");
    assert_snapshot!(story.text());
}

#[test]
fn a_member_is_silent_or_gives_nothing_up() {
    let mut story = Story::new();
    two_stable(&mut story);
    story.note("b is silent until its session is over; a has what it had at its next heartbeat");
    story.wait_ms(30_000);
    story.heartbeat("a");
    story.wait_ms(15_000);
    story.heartbeat("a");
    story.heartbeat("b");
    story.note("a lives and says each time that it still has what it shall give up");
    story.join("c");
    let all = story.member("a").owned.clone();
    story.heartbeat("a");
    for _ in 0..2 {
        story.member("a").owned = all.clone();
        story.wait_ms(30_000);
        story.heartbeat("a");
        story.heartbeat("c");
    }
    story.heartbeat("c");
    assert_snapshot!(story.text());
}

#[test]
fn a_static_member_restarts() {
    let mut story = Story::new();
    for (name, instance) in [("a", "i1"), ("b", "i2"), ("a2", "i1"), ("a3", "i1")] {
        story.member(name).instance = Some(instance);
    }
    two_stable(&mut story);
    story.note("it leaves for now: nobody gets what it has");
    story.leave("a", -2);
    story.heartbeat("b");
    story.note("it is back under another id, with what it had");
    story.join("a2");
    story.heartbeat("b");
    story.note("the former one is fenced; a third one with the same instance may not join");
    story.member("a").epoch = 3;
    story.heartbeat("a");
    story.join("a3");
    story.note("it leaves for now and does not come back");
    story.leave("a2", -2);
    for _ in 0..5 {
        story.wait_ms(10_000);
        story.heartbeat("b");
    }
    assert_snapshot!(story.text());
}

#[test]
fn topics_come_grow_and_go() {
    let mut story = Story::new();
    story.member("a").topics = Some(vec!["t", "u"]);
    story.join("a");
    story.note("a topic that a member waits for is made");
    story.change_cluster("topic u is made", |cluster| cluster.set_topic("u", 1));
    story.heartbeat("a");
    story.note("a topic grows");
    story.change_cluster("topic t has 4 partitions", |cluster| cluster.set_topic("t", 4));
    story.heartbeat("a");
    story.note("a topic goes: its partitions are given up");
    story.change_cluster("topic u is deleted", |cluster| _ = cluster.topics.remove("u"));
    story.heartbeat("a");
    story.heartbeat("a");
    story.note("another topic is of no concern");
    story.change_cluster("topic v is made", |cluster| cluster.set_topic("v", 1));
    story.note("a replica moves to another rack");
    story.change_cluster("t is in racks", |cluster| {
        cluster.racks.insert("t".to_owned(), vec!["r1", "r2", "r1", "r2"]);
    });
    story.heartbeat("a");
    story.note("the member wants something else");
    story.subscribe("a", &["v"]);
    story.heartbeat("a");
    assert_snapshot!(story.text());
}

#[test]
fn patterns() {
    let mut story = Story::new();
    story.change_cluster("topics t1, t2 and secret are made", |cluster| {
        cluster.set_topic("t1", 1);
        cluster.set_topic("t2", 1);
        cluster.set_topic("secret", 1);
    });
    let member = story.member("a");
    member.topics = None;
    member.pattern = Some("t.+|secret");
    member.hidden = vec!["secret"];
    story.note("a gets the topics that match and that it may know of");
    story.join("a");
    story.note("a new topic is seen at a heartbeat, when the last look was some time ago");
    story.change_cluster("topic t3 is made", |cluster| cluster.set_topic("t3", 1));
    story.heartbeat("a");
    story.wait_ms(10_001);
    story.heartbeat("a");
    story.note("b names topics besides");
    let member = story.member("b");
    member.topics = Some(vec!["t"]);
    member.pattern = Some("t.+|secret");
    story.join("b");
    story.note("a pattern that is none");
    story.member("c").pattern = Some("t[");
    story.join("c");
    story.note("nobody subscribes by the pattern any more");
    story.member("b").pattern = Some("");
    story.subscribe("b", &["t"]);
    story.leave("a", -1);
    assert_snapshot!(story.text());
}

#[test]
fn offsets_of_members() {
    let mut story = Story::new();
    two_stable(&mut story);
    story.commit("a", 0, 10);
    story.fetch("a");
    story.note("b is an epoch behind: what it has had since then it may commit, and nothing else");
    story.join("c");
    story.heartbeat("a");
    story.heartbeat("b");
    let former = story.member("b").clone();
    story.heartbeat("b");
    story.member("b").epoch = 3;
    story.commit("b", 2, 20);
    story.commit("b", 0, 21);
    story.fetch("b");
    *story.member("b") = former;
    story.note("strangers may not, and nor may who has left");
    story.member("z").epoch = 5;
    story.commit("z", 0, 1);
    story.member("tool").epoch = -1;
    story.commit("tool", 0, 1);
    story.note("the group is empty: tools may, and members of former times not");
    for name in ["a", "b", "c"] {
        story.leave(name, -1);
    }
    story.commit("tool", 0, 1);
    story.member("a").epoch = 5;
    story.commit("a", 0, 2);
    assert_snapshot!(story.text());
}

#[test]
fn assignments_are_not_made_more_often_than_is_set() {
    let mut story = Story::with(GroupSettings::default());
    story.join("a");
    story.note("b comes at once: its assignment waits for a second, and comes by itself");
    story.join("b");
    story.heartbeat("a");
    story.wait_ms(1_000);
    story.heartbeat("a");
    story.heartbeat("a");
    story.heartbeat("b");
    assert_snapshot!(story.text());
}

#[test]
fn load_after_a_crash() {
    let mut story = Story::new();
    two_stable(&mut story);
    story.note("c joins, a is to give something up, and the broker dies with a reply on its way");
    story.join("c");
    story.holds_appends = true;
    story.heartbeat("a");
    story.crash();
    story.holds_appends = false;
    story.describe();
    story.heartbeat("a");
    story.heartbeat("a");
    story.heartbeat("c");
    story.note("b is heard of no more");
    story.wait_ms(44_000);
    story.heartbeat("a");
    story.heartbeat("c");
    story.wait_ms(1_000);
    story.heartbeat("a");
    assert_snapshot!(story.text());
}

#[test]
fn what_is_on_its_way_to_the_log() {
    let mut story = Story::new();
    story.holds_appends = true;
    story.note("the others wait until the first is durable, and are worked on together then");
    story.join("a");
    story.join("b");
    story.join("c");
    story.heartbeat("b");
    story.settle(Ok(()));
    story.note("the log refuses: all of them are told, and nothing has changed");
    story.settle(Err(ErrorCode::NotEnoughReplicas));
    story.describe();
    story.note("a group whose members are on their way is not deleted");
    story.leave("a", -1);
    story.settle(Ok(()));
    story.join("b");
    let DeleteGroupsRequest { groups_names, .. } =
        DeleteGroupsRequest { groups_names: vec!["orders".into()], ..Default::default() };
    let body = RequestBody::DeleteGroups { groups: groups_names };
    story.send("operator", 2, "deletes the group", body);
    story.settle(Ok(()));
    assert_snapshot!(story.text());
}

#[test]
fn who_has_left_for_now_has_the_time_of_its_session() {
    let mut story = Story::new();
    story.member("a").instance = Some("i");
    story.member("a").rebalance_timeout_ms = 20_000;
    story.join("a");
    story.join("b");
    story.heartbeat("a");
    story.wait_ms(15_000);
    story.leave("a", -2);
    story.heartbeat("b");
    story.wait_ms(20_000);
    story.heartbeat("b");
    story.describe();
    assert!(story.text().ends_with("a at -2: t-0 t-1; b at 3: t-2\n"), "{}", story.text());
}

#[test]
fn what_is_still_to_be_given_up_is_told_as_assigned() {
    let mut story = Story::new();
    story.join("a");
    story.join("b");
    story.heartbeat("a");
    story.describe();
    assert!(story.text().ends_with("a at 2: t-0 t-1 t-2; b at 3: \n"), "{}", story.text());
}

#[test]
fn a_pattern_that_nobody_reads_by_any_more_goes() {
    let mut story = Story::new();
    for (name, pattern) in [("a", "[a-s]"), ("b", "[t-z]")] {
        story.member(name).topics = None;
        story.member(name).pattern = Some(pattern);
        story.join(name);
    }
    story.member("s").instance = Some("i");
    story.join("s");
    story.leave("s", -2);
    story.note("a takes the place of the static member, with what that has wanted");
    story.member("a").instance = Some("i");
    story.member("a").topics = Some(vec!["t"]);
    story.member("a").pattern = Some("");
    story.join("a");
    for _ in 0..16 {
        story.wait_ms(40_000);
        story.heartbeat("a");
        story.heartbeat("b");
    }
    story.heartbeat("b");
    assert!(story.text().contains("no pattern [a-s]"), "{}", story.text());
}
