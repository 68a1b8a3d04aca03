//! Stories of streams groups.

use insta::assert_snapshot;
use logway_coordinator::RequestBody;
use logway_wire::messages::DeleteGroupsRequest;

use super::story::{GROUP, Story, word_count};

#[test]
fn a_second_thread_gets_what_the_first_gives_up() {
    let mut story = Story::new();
    story.note("the first thread gets all tasks");
    story.join("a");
    story.note("the second one waits until the first has given up what it shall have");
    story.join("b");
    story.heartbeat("a");
    story.heartbeat("b");
    story.note("a says that it has given them up");
    story.heartbeat("a");
    story.heartbeat("b");
    story.describe();
    story.note("the broker dies: the group goes on where it was");
    story.crash();
    story.heartbeat("a");
    story.heartbeat("b");
    story.describe();
    story.note("a is not heard of any more, and b gets the rest");
    for _ in 0..4 {
        story.wait_ms(12_000);
        story.heartbeat("b");
    }
    story.heartbeat("b");
    story.leave("b");
    story.describe();
    let delete = DeleteGroupsRequest { groups_names: vec![GROUP.into()], ..Default::default() };
    let body = RequestBody::DeleteGroups { groups: delete.groups_names };
    story.send("operator", 2, "deletes the group", body);
    story.describe();
    assert_snapshot!(story.text());
}

#[test]
fn internal_topics_are_asked_for_and_waited_for() {
    let mut story = Story::with(Story::settings());
    story.note("there is not even the source");
    story.join("a");
    assert!(story.missing.is_empty());
    story.describe();
    story.note("the partitions of what is missing follow from the source's");
    story.make_topics(&[("lines", 3)]);
    story.heartbeat("a");
    let expected = [("by-word".to_owned(), 3), ("counts".to_owned(), 3)];
    assert_eq!(story.missing, expected);
    story.note("one of two, with another number of partitions");
    story.make_topics(&[("counts", 1)]);
    story.heartbeat("a");
    story.note("all is there, and the tasks are assigned at once");
    story.make_topics(&[("counts", 3), ("by-word", 3)]);
    story.heartbeat("a");
    story.describe();
    story.note("the source has more partitions than the topics that follow from it");
    story.make_topics(&[("lines", 4)]);
    story.heartbeat("a");
    assert_snapshot!(story.text());
}

#[test]
fn standbys_are_in_other_processes() {
    let mut story = Story::new();
    story.driver.change_cluster(|cluster| cluster.streams_overrides.standby_replicas = Some(1));
    story.join("a");
    story.thread("a2").process = "a";
    story.join("a2");
    story.join("b");
    for _ in 0..3 {
        story.heartbeat("a");
        story.heartbeat("a2");
        story.heartbeat("b");
    }
    story.describe();
    story.note("b is gone: what it did is done by who has the state");
    story.leave("b");
    story.heartbeat("a");
    story.heartbeat("a2");
    story.heartbeat("a");
    story.heartbeat("a2");
    story.describe();
    assert_snapshot!(story.text());
}

#[test]
fn the_first_assignment_waits_for_more_threads() {
    let mut settings = Story::settings();
    settings.streams.initial_rebalance_delay_ms = 3_000;
    let mut story = Story::with(settings);
    story.make_topics(&[("lines", 2), ("by-word", 2), ("counts", 2)]);
    story.join("a");
    story.wait_ms(1_000);
    story.join("b");
    story.wait_ms(2_000);
    story.heartbeat("a");
    story.heartbeat("b");
    assert_snapshot!(story.text());
}

#[test]
fn who_is_late_or_asks_for_too_much_is_refused() {
    let mut story = Story::new();
    story.note("somebody that was never here");
    story.thread("c").epoch = 3;
    story.heartbeat("c");
    story.join("a");
    story.heartbeat("c");
    story.note("an epoch that is to come");
    story.thread("a").epoch = 9;
    story.heartbeat("a");
    story.thread("a").epoch = 2;
    story.note(
        "offsets of an epoch that is over, of what the thread has had since then and has not",
    );
    story.join("b");
    story.heartbeat("a");
    story.heartbeat("a");
    story.heartbeat("b");
    story.commit("a", 2, 0);
    story.commit("a", 2, 1);
    story.commit("b", 2, 1);
    story.commit("b", 3, 1);
    story.note("another topology");
    let mut other = word_count();
    other.epoch = 1;
    other.subtopologies.truncate(1);
    story.thread("d").topology = other;
    story.join("d");
    let mut broken = word_count();
    broken.subtopologies[1].copartition_groups.push(
        logway_wire::messages::streams_group_heartbeat_request::CopartitionGroup {
            source_topics: vec![7],
            ..Default::default()
        },
    );
    story.thread("d").topology = broken;
    story.join("d");
    story.note("the end of the application is told to all, until they have left");
    story.thread("a").shuts_down = true;
    story.heartbeat("a");
    story.heartbeat("b");
    story.leave("a");
    story.leave("b");
    story.thread("b").shuts_down = false;
    story.join("b");
    assert_snapshot!(story.text());
}
