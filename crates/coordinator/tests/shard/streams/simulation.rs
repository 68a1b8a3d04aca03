//! Threads that join, work, stall, leave and die, while brokers crash: a task is processed in one place at any time.

use std::collections::{BTreeMap, BTreeSet};

use super::story::Story;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A xorshift: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// By what the log says, a task is active at one member; and no process has a task twice.
fn check_owners(story: &Story) {
    let group = story.driver.shard.group(super::story::GROUP);
    let mut owners = BTreeMap::new();
    for (member, task) in group.iter().flat_map(|group| group.active_tasks()) {
        let other = owners.insert(task.clone(), member);
        assert!(other.is_none(), "{task:?} is active at {member} and {other:?}\n{}", story.text());
    }
}

fn run(seed: u64) {
    let mut settings = Story::settings();
    settings.streams.standby_replicas = 1;
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut story = Story::with(settings);
    story.make_topics(&[("lines", 4), ("by-word", 4), ("counts", 4)]);
    let mut here = BTreeSet::new();
    for _ in 0..200 {
        let name = NAMES[usize::try_from(random.below(6)).expect("is small")];
        match random.below(20) {
            0 | 1 => {
                story.thread(name).process = if random.below(2) == 0 { "one" } else { "two" };
                story.join(name);
                here.insert(name);
            }
            2 if here.remove(name) => story.leave(name),
            3 => story.wait_ms(random.below(50_000)),
            4 => story.crash(),
            _ if here.contains(name) => story.heartbeat(name),
            _ => {}
        }
        check_owners(&story);
    }
    // At rest, all tasks are processed.
    here.iter().for_each(|name| story.leave(name));
    story.join("a");
    story.join("b");
    for _ in 0..6 {
        story.heartbeat("a");
        story.heartbeat("b");
        story.wait_ms(10_000);
        check_owners(&story);
    }
    let group = story.driver.shard.group(super::story::GROUP).expect("it has members");
    assert_eq!(group.active_tasks().count(), 8, "seed {seed}\n{}", story.text());
    assert_eq!(group.state_name(), "Stable", "seed {seed}\n{}", story.text());
}

#[test]
fn a_task_is_active_in_one_place() {
    (1..=150).for_each(run);
}
