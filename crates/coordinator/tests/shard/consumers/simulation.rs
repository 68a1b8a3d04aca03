//! Seeded worlds of members that join, leave, stall, die and send what is old, in consumer groups whose topics come, grow
//! and go, on a broker that crashes and whose log refuses appends.
//!
//! What must hold in each has a file of its own: [`one_owner`], [`offsets`], [`assigned`]. Besides, every request is
//! answered once, and what a shard knows is what one that is loaded from its log knows.

mod assigned;
mod member;
mod offsets;
mod one_owner;

use std::collections::BTreeMap;

use logway_coordinator::{GroupSettings, Reply, RequestBody, RequestToken};
use logway_model::{ErrorCode, PartitionId, TopicId};

use crate::driver::Driver;
use crate::simulation::random::Random;
use crate::story::error;
use member::{Member, Place};
use offsets::Offsets;

pub(crate) const GROUP: &str = "orders";

/// How often a world moves while things go wrong.
const STEPS: usize = 400;

/// What is left out, to see that its absence is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    /// Clients say that they have given up what they go on reading.
    KeepRevoked,
    /// Whoever was fenced commits in the epoch of those that were not.
    CommitWithoutEpoch,
    /// The shard is not told of new partitions.
    HideGrowth,
}

struct World {
    random: Random,
    driver: Driver,
    members: Vec<Member>,
    /// Whose request it is.
    asked: BTreeMap<RequestToken, Asked>,
    offsets: Offsets,
    mutation: Option<Mutation>,
    names: usize,
}

/// A request on its way, by the member's number and life.
enum Asked {
    Heartbeat(usize, u64),
    Commit(Place, i64),
    Fetch(usize, u64, Place),
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> World {
        let mut random = Random::new(seed);
        let mut settings = GroupSettings::default();
        settings.consumer.assignment_interval.default_ms = [0, 0, 1_000][random.below(3)];
        let mut driver = Driver::new(settings);
        driver.change_cluster(|cluster| {
            cluster.set_topic("t", 4);
            cluster.set_topic("u", 2);
        });
        let mut world = World {
            random,
            driver,
            members: Vec::new(),
            asked: BTreeMap::new(),
            offsets: Offsets::default(),
            mutation,
            names: 0,
        };
        for _ in 0..5 {
            world.add_member();
        }
        world
    }

    fn add_member(&mut self) {
        self.names += 1;
        let mut member = Member::new(format!("m{}", self.names));
        member.wants(&["t", "u"][..1 + self.random.below(2)]);
        if self.random.once_in(3) {
            member.pattern = Some("[tuv]");
        }
        if self.random.once_in(3) {
            member.instance = Some(format!("i{}", self.random.below(4)));
        }
        if self.random.once_in(2) {
            member.assignor = Some(["range", "uniform"][self.random.below(2)]);
        }
        self.members.push(member);
    }

    fn step(&mut self) -> Result<(), String> {
        let number = self.random.below(self.members.len().max(1));
        match self.random.below(100) {
            0..40 => self.heartbeat(number),
            40..60 => self.commit(number),
            60..64 => self.members[number].stall(),
            64..67 => self.members[number].wake(),
            67..69 => self.leave(number),
            69..71 => self.members[number].die(),
            71..73 => self.members[number].say_old_epoch(),
            73..76 if self.members.iter().filter(|it| it.is_alive).count() < 7 => self.add_member(),
            76..80 => self.change_topics(),
            80..81 => self.crash(),
            81..83 => self.settle(Err(ErrorCode::NotEnoughReplicas)),
            _ => {}
        }
        if !self.random.once_in(3) {
            self.settle(Ok(()));
        }
        if self.random.once_in(4) {
            let delay_ms = [100, 1_000, 6_000][self.random.below(3)];
            self.driver.advance_ms(delay_ms, |_| {});
        }
        self.take_replies();
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        one_owner::check(self)?;
        self.offsets.check()
    }

    fn heartbeat(&mut self, number: usize) {
        let Some(request) = self.members[number].next_heartbeat(GROUP) else { return };
        let fresh_id = self.driver.fresh_id();
        let sight = logway_coordinator::TopicSight::of_all();
        let body = RequestBody::ConsumerGroupHeartbeat { request, fresh_id, sight };
        let token = self.driver.send("client", 1, body);
        self.asked.insert(token, Asked::Heartbeat(number, self.members[number].life));
    }

    fn leave(&mut self, number: usize) {
        let Some(request) = self.members[number].leaving(GROUP) else { return };
        let fresh_id = self.driver.fresh_id();
        let sight = logway_coordinator::TopicSight::of_all();
        let body = RequestBody::ConsumerGroupHeartbeat { request, fresh_id, sight };
        self.driver.send("client", 1, body);
    }

    /// A member goes on in a partition: where the group is, if it has just got it, and from there.
    fn commit(&mut self, number: usize) {
        let Some((place, position)) = self.members[number].any_position(&mut self.random) else {
            return;
        };
        let life = self.members[number].life;
        let Some(position) = position else {
            let body =
                self.members[number].fetch(GROUP, &self.driver.cluster.name_of(place.0), place);
            let token = self.driver.send("client", 10, RequestBody::OffsetFetch(body));
            self.asked.insert(token, Asked::Fetch(number, life, place));
            return;
        };
        let name = self.driver.cluster.name_of(place.0);
        let mut request = self.members[number].commit(GROUP, &name, place, position + 1);
        if self.mutation == Some(Mutation::CommitWithoutEpoch) {
            self.forge(&mut request, place);
        }
        let token = self.driver.send("client", 10, RequestBody::OffsetCommit(request));
        self.asked.insert(token, Asked::Commit(place, position + 1));
    }

    /// Makes a commit one of the partition's owner.
    fn forge(&self, request: &mut logway_wire::messages::OffsetCommitRequest, place: Place) {
        let Some(group) = self.driver.shard.group(GROUP) else { return };
        let owner = group.owned_partitions().find(|(_, topic, number)| (*topic, *number) == place);
        let Some((owner, ..)) = owner else { return };
        request.member_id = owner.as_str().to_owned().into();
        let of_owner = self.members.iter().find(|member| member.id == owner.as_str());
        request.generation_id_or_member_epoch = of_owner.map_or(0, |member| member.epoch);
    }

    fn change_topics(&mut self) {
        let (which, partitions) = (self.random.below(6), 1 + self.random.below(6) as i32);
        let hides = self.mutation == Some(Mutation::HideGrowth);
        let change = |cluster: &mut crate::cluster::TestCluster| match which {
            0 => _ = cluster.topics.remove("v"),
            1 | 2 => cluster.set_topic("v", partitions),
            _ => {
                let name = ["t", "u"][which % 2];
                let grown = cluster.topics[name].partition_count.max(partitions);
                cluster.set_topic(name, grown);
            }
        };
        match hides {
            true => change(&mut self.driver.cluster),
            false => self.driver.change_cluster(change),
        }
    }

    fn settle(&mut self, outcome: Result<(), ErrorCode>) {
        if let Some((_, records)) = self.driver.in_flight.front().cloned()
            && self.driver.settle(outcome)
            && outcome.is_ok()
        {
            self.offsets.appended(&records);
        }
    }

    fn crash(&mut self) {
        let kept = self.random.below(3).min(self.driver.in_flight.len());
        for (_, records) in self.driver.in_flight.iter().take(kept) {
            self.offsets.appended(records);
        }
        if self.random.once_in(2) {
            self.driver.compact();
        }
        self.driver.crash(kept);
        self.asked.clear();
    }

    fn take_replies(&mut self) {
        while let Some((token, reply)) = self.driver.replies.pop_front() {
            match (self.asked.remove(&token), reply) {
                (Some(Asked::Heartbeat(number, life)), Reply::ConsumerGroupHeartbeat(response)) => {
                    let keeps = self.mutation == Some(Mutation::KeepRevoked);
                    self.members[number].take_reply(life, &response, keeps);
                }
                (Some(Asked::Fetch(number, life, place)), Reply::OffsetFetch(response))
                    if response.error_code == 0 =>
                {
                    let offset = response.topics[0].partitions[0].committed_offset;
                    self.offsets.told(place, offset);
                    self.members[number].begin_at(life, place, offset.max(0));
                }
                (Some(Asked::Commit(place, offset)), Reply::OffsetCommit(response)) => {
                    let code = error(response.topics[0].partitions[0].error_code);
                    if code == ErrorCode::None {
                        self.offsets.acknowledged(place, offset);
                    }
                }
                _ => {}
            }
        }
    }

    /// Nothing goes wrong any more: those that live go on until nothing changes.
    fn calm_down(&mut self) {
        for member in &mut self.members {
            member.wake();
        }
        // Longer than a session, and with a heartbeat of each in between.
        for _ in 0..60 {
            for number in 0..self.members.len() {
                self.heartbeat(number);
                while !self.driver.in_flight.is_empty() {
                    self.settle(Ok(()));
                }
                self.take_replies();
            }
            self.driver.advance_ms(2_000, |_| {});
            while !self.driver.in_flight.is_empty() {
                self.settle(Ok(()));
            }
        }
        self.take_replies();
    }
}

fn run(seed: u64, mutation: Option<Mutation>) -> Result<(), String> {
    let mut world = World::new(seed, mutation);
    for step in 0..STEPS {
        world.step().map_err(|reason| format!("seed {seed}, step {step}: {reason}"))?;
    }
    world.calm_down();
    let is_well = world.check().and_then(|()| assigned::check(&world));
    is_well.map_err(|reason| format!("seed {seed}, at the end: {reason}"))?;
    let loaded = world.driver.replayed();
    let owned = |shard: &logway_coordinator::GroupShard| {
        let group = shard.group(GROUP);
        let owned = group.into_iter().flat_map(|group| group.owned_partitions());
        let owned = owned.map(|(id, topic, number)| (topic, number, id.as_str().to_owned()));
        let mut owned: Vec<(TopicId, PartitionId, String)> = owned.collect();
        owned.sort();
        owned
    };
    match owned(&loaded) == owned(&world.driver.shard) {
        true => Ok(()),
        false => Err(format!("seed {seed}: the log says something else than the shard")),
    }
}

/// How many worlds are tried; `CONSUMER_WORLDS` says another number, for the long form.
fn worlds() -> u64 {
    std::env::var("CONSUMER_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

#[test]
fn members_come_and_go() {
    for seed in 0..worlds() {
        if let Err(reason) = run(seed, None) {
            panic!("{reason}");
        }
    }
}

#[test]
fn what_is_left_out_is_missed() {
    for mutation in [Mutation::KeepRevoked, Mutation::CommitWithoutEpoch, Mutation::HideGrowth] {
        let noticed = (0..60).find_map(|seed| run(seed, Some(mutation)).err());
        let noticed = noticed.unwrap_or_else(|| panic!("nobody misses {mutation:?}"));
        println!("{mutation:?}: {noticed}");
    }
}
