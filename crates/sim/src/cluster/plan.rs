//! How a world of several nodes is made, and what befalls it: all from the seed.

use std::time::Duration;

use logway_log::fs::sim::Rng;

use super::network::Weather;

/// What a world consists of, and what happens in it.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) weather: Weather,
    pub(super) topics: Vec<TopicPlan>,
    /// Small appends may be written by the thread that has received them.
    pub(super) inline_appends: bool,
    /// Machines lose their power, or disks fail: a record that was not flushed may be lost.
    pub(super) is_power_at_risk: bool,
    /// Partitions are moved between nodes all the time.
    pub(super) moves_partitions: bool,
    pub(super) events: Vec<Event>,
    /// The whole of it takes so long.
    pub(super) lasts: Duration,
}

/// A topic, with as many replicas as it can have, up to three.
#[derive(Debug, Clone)]
pub(super) struct TopicPlan {
    pub(super) name: &'static str,
    pub(super) partitions: i32,
    pub(super) in_sync_min: u32,
    pub(super) is_durable: bool,
    pub(super) segment_ms: u32,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) what: What,
}

/// Nodes are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A process is killed. Its page cache survives.
    Kill(usize),
    /// A machine loses its power, and with it all that was not synced.
    PowerCut(usize),
    /// All machines lose it at the same moment.
    PowerCutOfAll,
    /// A node stops in good order.
    Stop(usize),
    /// A node that is down is started.
    Start(usize),
    /// All nodes that are down are started.
    StartAll,
    /// Nothing that one node sends reaches the other.
    CutOneWay(usize, usize),
    /// Two nodes do not hear each other, while a third hears both.
    CutPair(usize, usize),
    /// A node hears nobody and nobody hears it.
    Isolate(usize),
    /// All can hear all.
    HealNetwork,
    /// No sync of a node's disk returns …
    HoldSyncs(usize),
    /// … until now.
    ReleaseSyncs(usize),
    /// After some more syncs one fails, of the files of logs.
    FailSync(usize, u64),
}

impl Plan {
    pub(super) fn new(random: &mut Rng) -> Plan {
        let nodes = if random.below(5) == 0 { 5 } else { 3 };
        let is_power_at_risk = random.below(3) > 0;
        let segment_ms = [604_800_000, 604_800_000, 700][random.below(3)];
        let topic = |name, partitions, in_sync_min, is_durable| TopicPlan {
            name,
            partitions,
            in_sync_min,
            is_durable,
            segment_ms,
        };
        let topics = vec![
            topic("two-in-sync", 2, 2, true),
            topic("one-in-sync", 1, 1, true),
            topic("not-durable", 1, 2, false),
        ];
        let mut events = Vec::new();
        let mut at_ms = random.below(400) as u64;
        for _ in 0..3 + random.below(6) {
            let lasts_ms = add_fault(random, nodes, is_power_at_risk, at_ms, &mut events);
            // The next one may begin before this one is over.
            at_ms += match random.below(3) {
                0 => random.below(300) as u64,
                1 => lasts_ms,
                _ => lasts_ms + random.below(600) as u64,
            };
        }
        events.sort_by_key(|event| event.at);
        let lasts = events.last().map_or(Duration::ZERO, |event| event.at);
        Plan {
            nodes,
            weather: Weather::new(random),
            topics,
            inline_appends: random.coin(),
            is_power_at_risk,
            moves_partitions: random.coin(),
            events,
            lasts: lasts + Duration::from_millis(200),
        }
    }
}

/// Plans one fault and its end. Returns how long it lasts.
fn add_fault(
    random: &mut Rng,
    nodes: usize,
    is_power_at_risk: bool,
    mut at_ms: u64,
    events: &mut Vec<Event>,
) -> u64 {
    let mut add = |at_ms: u64, what| events.push(Event { at: Duration::from_millis(at_ms), what });
    let node = 1 + random.below(nodes);
    let other = 1 + (node + random.below(nodes - 1)) % nodes;
    let down_ms = [50, 400, 1_500][random.below(3)] + random.below(300) as u64;
    let kinds = if is_power_at_risk { 11 } else { 6 };
    match random.below(kinds) {
        0 | 1 => {
            add(at_ms, What::Kill(node));
            add(at_ms + down_ms, What::Start(node));
            down_ms
        }
        2 => {
            add(at_ms, What::Stop(node));
            add(at_ms + down_ms, What::Start(node));
            down_ms
        }
        3 | 4 => {
            let what = match random.below(4) {
                0 => What::CutOneWay(node, other),
                1 => What::CutPair(node, other),
                _ => What::Isolate(node),
            };
            add(at_ms, what);
            let cut_ms = 200 + random.below(1_800) as u64;
            add(at_ms + cut_ms, What::HealNetwork);
            cut_ms
        }
        5 => {
            add(at_ms, What::HoldSyncs(node));
            let held_ms = 100 + random.below(1_500) as u64;
            add(at_ms + held_ms, What::ReleaseSyncs(node));
            held_ms
        }
        6 | 7 => {
            add(at_ms, What::PowerCut(node));
            add(at_ms + down_ms, What::Start(node));
            down_ms
        }
        8 | 9 => {
            // Perhaps while a disk hangs.
            if random.coin() {
                add(at_ms, What::HoldSyncs(node));
                at_ms += 30 + random.below(300) as u64;
            }
            add(at_ms, What::PowerCutOfAll);
            match random.coin() {
                true => add(at_ms + 20, What::StartAll),
                // One is late.
                false => {
                    (1..=nodes).filter(|it| *it != node).for_each(|it| {
                        add(at_ms + 20 + random.below(100) as u64, What::Start(it));
                    });
                    add(at_ms + down_ms, What::Start(node));
                }
            }
            down_ms + 500
        }
        _ => {
            add(at_ms, What::FailSync(node, random.below(30) as u64));
            add(at_ms + 300 + down_ms, What::PowerCut(node));
            add(at_ms + 400 + down_ms, What::Start(node));
            400 + down_ms
        }
    }
}
