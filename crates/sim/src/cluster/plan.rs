//! How a world of several nodes is made, and what befalls it: all from the seed.

use std::time::Duration;

use logway_log::fs::sim::Rng;

use super::network::Weather;

/// Whether there are transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// In half of the worlds.
    AsPlanned,
    /// In all of them.
    Always,
    /// In none.
    Never,
}

/// What a world consists of, and what happens in it.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) weather: Weather,
    pub(super) topics: Vec<TopicPlan>,
    /// How old a segment of a topic may be.
    pub(super) segment_ms: u32,
    /// Small appends may be written by the thread that has received them.
    pub(super) inline_appends: bool,
    /// What a leader sends a follower at once. A few batches are more than that in some worlds.
    pub(super) answer_bytes_max: u32,
    /// The size of each journal: some are so small that they are filled many times, and none costs much to copy.
    pub(super) journal_bytes: u64,
    /// Machines lose their power, or disks fail: a record that was not flushed may be lost.
    pub(super) is_power_at_risk: bool,
    /// Partitions are moved between nodes all the time.
    pub(super) moves_partitions: bool,
    /// Nobody writes to this partition for most of the time: the number of it among all.
    pub(super) quiet: Option<usize>,
    /// There are producers and readers of transactions.
    pub(super) has_transactions: bool,
    /// Some producers of transactions speak the older protocol.
    pub(super) has_older_clients: bool,
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
    /// No sync of the logs on a node's disk returns, until [`What::ReleaseSyncs`]; those of the metadata do.
    SlowLogs(usize),
    /// Somebody has a node lead all that it has.
    Favour(usize),
    /// A machine loses its power and its disk. Somebody removes the node, if others have all that it had: then it is
    /// started with an empty disk, under its number.
    Replace(usize),
}

impl Plan {
    /// The plan that a seed gives. What came later is drawn apart: so the rest of a world is as it was before.
    pub(super) fn new(random: &mut Rng, apart: &mut Rng) -> Plan {
        let nodes = if random.below(5) == 0 { 5 } else { 3 };
        let is_power_at_risk = random.below(3) > 0;
        let segment_ms = [604_800_000, 604_800_000, 700][random.below(3)];
        let topic = |name, partitions, in_sync_min, is_durable| TopicPlan {
            name,
            partitions,
            in_sync_min,
            is_durable,
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
            segment_ms,
            inline_appends: random.coin(),
            answer_bytes_max: [10 << 20, 10 << 20, 250, 600][random.below(4)],
            journal_bytes: [64, 256, 1_024][apart.below(3)] << 10,
            is_power_at_risk,
            moves_partitions: random.coin(),
            quiet: random.coin().then(|| random.below(3)),
            has_transactions: apart.coin(),
            has_older_clients: apart.below(3) == 0,
            events,
            lasts: lasts + Duration::from_millis(200),
        }
    }
}

impl Plan {
    /// A world in which nothing happens: one partition that is not durable, and of which everything is promised.
    pub(super) fn calm() -> Plan {
        let (name, partitions, in_sync_min, is_durable) = ("not-durable", 1, 1, false);
        let topic = TopicPlan { name, partitions, in_sync_min, is_durable };
        Plan {
            nodes: 3,
            weather: Weather::FAIR,
            topics: vec![topic],
            segment_ms: 604_800_000,
            inline_appends: false,
            answer_bytes_max: 10 << 20,
            journal_bytes: 256 << 10,
            is_power_at_risk: false,
            moves_partitions: false,
            quiet: None,
            has_transactions: false,
            has_older_clients: false,
            events: Vec::new(),
            lasts: Duration::ZERO,
        }
    }
}

/// What may happen in every world, and what else where the power is at risk. What is here twice is twice as likely.
const KINDS: [Kind; 10] = [
    Kind::Kill,
    Kind::Kill,
    Kind::Bounce,
    Kind::Stop,
    Kind::Cut,
    Kind::Cut,
    Kind::SlowDisk,
    Kind::LeadersOnSlowDisk,
    Kind::Replacement,
    Kind::Replacement,
];
const KINDS_OF_POWER: [Kind; 7] = [
    Kind::PowerCut,
    Kind::PowerCut,
    Kind::PowerCutOfAll,
    Kind::PowerCutOfAll,
    Kind::FailingSync,
    Kind::Reset,
    Kind::Reset,
];

/// A fault, with all that belongs to it.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Kill,
    /// A process is killed, and its supervisor starts it at once: nobody may have noticed.
    Bounce,
    Stop,
    Cut,
    SlowDisk,
    /// Somebody moves leaders, twice, while the disk of the last one is slow: as a tool that balances them does.
    LeadersOnSlowDisk,
    /// A disk is lost, and its node gets an empty one. At first the new node may not hear one of the others.
    Replacement,
    PowerCut,
    PowerCutOfAll,
    FailingSync,
    /// A machine whose disk hangs is reset, as by a watchdog, and is back at once.
    Reset,
}

/// The events of one fault.
struct Faults<'a> {
    random: &'a mut Rng,
    nodes: usize,
    events: &'a mut Vec<Event>,
}

/// Plans one fault and its end. Returns how long it lasts.
fn add_fault(
    random: &mut Rng,
    nodes: usize,
    is_power_at_risk: bool,
    at_ms: u64,
    events: &mut Vec<Event>,
) -> u64 {
    let more = if is_power_at_risk { KINDS_OF_POWER.len() } else { 0 };
    let kind = random.below(KINDS.len() + more);
    let kind = KINDS.get(kind).unwrap_or_else(|| &KINDS_OF_POWER[kind - KINDS.len()]);
    Faults { random, nodes, events }.add_kind(*kind, at_ms)
}

impl Faults<'_> {
    fn add(&mut self, at_ms: u64, what: What) {
        self.events.push(Event { at: Duration::from_millis(at_ms), what });
    }

    /// From `min` up to `min + range`.
    fn ms(&mut self, min: u64, range: usize) -> u64 {
        min + self.random.below(range) as u64
    }

    /// Two nodes.
    fn pair(&mut self) -> (usize, usize) {
        let node = 1 + self.random.below(self.nodes);
        (node, 1 + (node + self.random.below(self.nodes - 1)) % self.nodes)
    }

    fn add_kind(&mut self, kind: Kind, at_ms: u64) -> u64 {
        let (node, other) = self.pair();
        let down_ms = [50, 400, 1_500][self.random.below(3)] + self.ms(0, 300);
        match kind {
            Kind::Kill => self.down(at_ms, What::Kill(node), down_ms),
            Kind::Bounce => {
                let down_ms = self.ms(5, 40);
                self.down(at_ms, What::Kill(node), down_ms)
            }
            Kind::Stop => self.down(at_ms, What::Stop(node), down_ms),
            Kind::PowerCut => self.down(at_ms, What::PowerCut(node), down_ms),
            Kind::Cut => {
                let what = match self.random.below(4) {
                    0 => What::CutOneWay(node, other),
                    1 => What::CutPair(node, other),
                    _ => What::Isolate(node),
                };
                let cut_ms = self.ms(200, 1_800);
                self.add(at_ms, what);
                self.add(at_ms + cut_ms, What::HealNetwork);
                cut_ms
            }
            Kind::SlowDisk => {
                let held_ms = self.ms(100, 1_500);
                self.add(at_ms, What::HoldSyncs(node));
                self.add(at_ms + held_ms, What::ReleaseSyncs(node));
                held_ms
            }
            Kind::LeadersOnSlowDisk => self.leaders_on_slow_disk(at_ms, node, other),
            Kind::Replacement => self.replacement(at_ms, node, other),
            Kind::PowerCutOfAll => self.power_cut_of_all(at_ms, node, down_ms),
            Kind::FailingSync => {
                let passes = self.ms(0, 30);
                self.add(at_ms, What::FailSync(node, passes));
                self.add(at_ms + 300 + down_ms, What::PowerCut(node));
                self.add(at_ms + 400 + down_ms, What::Start(node));
                400 + down_ms
            }
            Kind::Reset => {
                let (hung_ms, down_ms) = (self.ms(30, 300), self.ms(5, 60));
                self.add(at_ms, What::HoldSyncs(node));
                hung_ms + self.down(at_ms + hung_ms, What::PowerCut(node), down_ms)
            }
        }
    }

    /// A node ends so, and is started some time later.
    fn down(&mut self, at_ms: u64, what: What, down_ms: u64) -> u64 {
        let (What::Kill(node) | What::PowerCut(node) | What::Stop(node)) = what else { return 0 };
        self.add(at_ms, what);
        self.add(at_ms + down_ms, What::Start(node));
        down_ms
    }

    fn leaders_on_slow_disk(&mut self, at_ms: u64, node: usize, other: usize) -> u64 {
        let away_ms = self.ms(5, 40);
        let back_ms = away_ms + self.ms(40, 200);
        let held_ms = back_ms + self.ms(100, 300);
        self.add(at_ms, What::SlowLogs(node));
        self.add(at_ms + away_ms, What::Favour(other));
        self.add(at_ms + back_ms, What::Favour(node));
        self.add(at_ms + held_ms, What::ReleaseSyncs(node));
        held_ms
    }

    fn replacement(&mut self, at_ms: u64, node: usize, other: usize) -> u64 {
        let down_ms = self.ms(300, 1_200);
        self.add(at_ms, What::Replace(node));
        self.add(at_ms + down_ms, What::Start(node));
        if self.random.below(3) == 0 {
            return down_ms;
        }
        let cut_ms = self.ms(400, 1_200);
        self.add(at_ms + down_ms, What::CutPair(node, other));
        self.add(at_ms + down_ms + cut_ms, What::HealNetwork);
        down_ms + cut_ms
    }

    fn power_cut_of_all(&mut self, mut at_ms: u64, node: usize, down_ms: u64) -> u64 {
        // Perhaps while a disk hangs.
        if self.random.coin() {
            self.add(at_ms, What::HoldSyncs(node));
            at_ms += self.ms(30, 300);
        }
        self.add(at_ms, What::PowerCutOfAll);
        match self.random.coin() {
            true => self.add(at_ms + 20, What::StartAll),
            // One is late.
            false => {
                for it in (1..=self.nodes).filter(|it| *it != node) {
                    let start_ms = at_ms + self.ms(20, 100);
                    self.add(start_ms, What::Start(it));
                }
                self.add(at_ms + down_ms, What::Start(node));
            }
        }
        down_ms + 500
    }
}
