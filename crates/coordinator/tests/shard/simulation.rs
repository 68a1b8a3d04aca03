//! Seeded worlds of clients that join, leave, stall, die, come back and send what is old, on a broker that crashes and
//! whose log refuses appends.
//!
//! What must hold in each: a partition has one owner in each generation; a committed offset never goes back unless
//! it is reset; every request is answered once; what a shard knows is what one that is loaded from its log knows;
//! and when all is well again, every group has all its members and all partitions have an owner.

mod client;
mod model;
pub(crate) mod random;

use std::collections::BTreeMap;

use logway_coordinator::{GroupSettings, Reply, RequestBody, RequestToken};
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use logway_wire::messages::{OffsetCommitRequest, OffsetDeleteRequest};

use crate::driver::{Driver, durable};
use client::{Client, Phase};
use model::Model;
use random::Random;

/// The partitions that each group reads.
const PARTITIONS: i32 = 6;

/// How often the world moves while things go wrong.
const STEPS: usize = 600;

const GROUPS: [&str; 2] = ["green", "red"];

struct World {
    random: Random,
    driver: Driver,
    model: Model,
    clients: Vec<Client>,
    /// Commits that are open.
    commits: BTreeMap<RequestToken, OffsetCommitRequest>,
    /// Requests of tools, and the group they are about.
    tools: BTreeMap<RequestToken, &'static str>,
    /// Whether nothing goes wrong any more.
    is_calm: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let settings = GroupSettings {
            initial_rebalance_delay_ms: [0, 500, 3_000][random.below(3)],
            offsets_retention_check_interval_ms: 20_000,
            append_records_max: 1 + random.below(4),
            ..GroupSettings::default()
        };
        let mut clients = Vec::new();
        for group in GROUPS {
            for number in 0..2 + random.below(4) {
                clients.push(Client::new(group, number, &mut random));
            }
        }
        World {
            driver: Driver::new(settings),
            model: Model::default(),
            clients,
            commits: BTreeMap::new(),
            tools: BTreeMap::new(),
            is_calm: false,
            random,
        }
    }

    fn step(&mut self) {
        let delay_ms = 1 + self.random.below(800) as u64;
        self.driver.advance_ms(delay_ms, |_| {});
        self.deliver();
        for number in 0..self.clients.len() {
            self.let_client_act(number);
        }
        let settled = self.random.below(4);
        for _ in 0..settled {
            self.settle();
        }
        if !self.is_calm {
            self.disturb();
        }
        self.deliver();
        if self.random.once_in(20) {
            self.driver.compact();
            self.compare_with_log();
        }
    }

    fn let_client_act(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if self.is_calm {
            client.come_back();
        }
        let Some((version, mut body)) =
            client.act(&mut self.driver, &mut self.random, self.is_calm)
        else {
            return;
        };
        let mut commit = None;
        if let RequestBody::OffsetCommit(request) = &mut body {
            let partition = &mut request.topics[0].partitions[0];
            partition.committed_offset =
                self.model.next_offset(client.group, partition.partition_index);
            commit = Some(request.clone());
        }
        let token = self.driver.send(&client.name, version, body);
        self.commits.extend(commit.map(|request| (token, request)));
        client.sent(token, self.driver.elapsed_ms);
    }

    /// Ends the oldest append, mostly well.
    fn settle(&mut self) {
        let Some((_, records)) = self.driver.in_flight.front() else { return };
        let fails = !self.is_calm && self.random.below(10) == 0;
        let outcome = if fails { Err(ErrorCode::NotEnoughReplicas) } else { Ok(()) };
        if !fails {
            self.model.appended(records);
        }
        self.driver.settle(outcome);
        self.deliver();
    }

    fn disturb(&mut self) {
        match self.random.below(200) {
            0..3 => self.crash(),
            3 => self.move_partition(),
            4..7 => self.delete_offsets(),
            7..9 => self.delete_group(),
            9..20 => self.fetch(),
            _ => {}
        }
    }

    fn crash(&mut self) {
        let kept = self.random.below(self.driver.in_flight.len() + 1);
        for (_, records) in self.driver.in_flight.iter().take(kept) {
            self.model.appended(records);
        }
        self.driver.crash(kept);
        self.tools.clear();
        self.commits.clear();
        self.clients.iter_mut().for_each(Client::lose_connection);
    }

    /// The shard ends in order and is loaded elsewhere; what is on its way may be lost.
    fn move_partition(&mut self) {
        self.driver.unload();
        self.deliver();
        self.driver.load();
    }

    fn group(&mut self) -> &'static str {
        GROUPS[self.random.below(GROUPS.len())]
    }

    fn delete_offsets(&mut self) {
        let group = self.group();
        let partition_index = self.random.below(PARTITIONS as usize) as i32;
        let request = OffsetDeleteRequest {
            group_id: group.into(),
            topics: vec![OffsetDeleteRequestTopic {
                name: "t".into(),
                partitions: vec![OffsetDeleteRequestPartition {
                    partition_index,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let token = self.driver.send("tool", 0, RequestBody::OffsetDelete(request));
        self.tools.insert(token, group);
    }

    fn delete_group(&mut self) {
        let group = self.group();
        let body = RequestBody::DeleteGroups { groups: vec![group.into()] };
        let token = self.driver.send("tool", 2, body);
        self.tools.insert(token, group);
    }

    fn fetch(&mut self) {
        let group = self.group();
        let request = OffsetFetchRequestGroup {
            group_id: WireString::from(group),
            topics: None,
            ..Default::default()
        };
        let body = RequestBody::OffsetFetch(request);
        let token = self.driver.send("tool", 9, body);
        self.tools.insert(token, group);
    }

    /// Brings replies to those who asked.
    fn deliver(&mut self) {
        while let Some((token, reply)) = self.driver.replies.pop_front() {
            if let Some(group) = self.tools.remove(&token) {
                if let Reply::OffsetFetch(response) = &reply {
                    self.model.fetched(group, response);
                }
                continue;
            }
            if let (Some(request), Reply::OffsetCommit(response)) =
                (self.commits.remove(&token), &reply)
            {
                self.model.commit_told(&request, response);
            }
            let client = self.clients.iter_mut().find(|client| client.waits_for(token));
            // A client that has asked again does not read what its first request is told.
            let Some(client) = client else { continue };
            if let Reply::SyncGroup(response) = &reply
                && response.error_code == 0
            {
                self.model.assigned(client, &response.assignment);
            }
            client.receive(token, reply, self.driver.elapsed_ms);
        }
    }

    /// A shard that reads the log now knows what this one knows, apart from what has yet to be durable.
    fn compare_with_log(&self) {
        let replayed = self.driver.replayed();
        assert_eq!(durable(&self.driver.shard), durable(&replayed));
        if !self.driver.in_flight.is_empty() {
            return;
        }
        for group in self.driver.shard.groups() {
            if group.state_name() == "Stable" {
                let metadata = group.metadata().expect("a stable group is in the log");
                assert_eq!(metadata.generation, group.generation());
                assert_eq!(metadata.members.len(), group.member_count());
            }
        }
    }

    /// After a while without trouble, everybody has a part of everything.
    fn become_calm(&mut self) {
        self.is_calm = true;
        for _ in 0..1500 {
            self.step();
        }
        while !self.driver.in_flight.is_empty() {
            self.settle();
        }
        for name in GROUPS {
            let members: Vec<&Client> =
                self.clients.iter().filter(|client| client.group == name).collect();
            let group = self.driver.shard.group(name).expect("its members have come back");
            assert_eq!(group.state_name(), "Stable", "{name}");
            assert_eq!(group.member_count(), members.len(), "{name}");
            let mut owned: Vec<i32> =
                members.iter().flat_map(|client| client.owned.iter().copied()).collect();
            owned.sort_unstable();
            assert_eq!(owned, (0..PARTITIONS).collect::<Vec<_>>(), "{name}");
            assert!(members.iter().all(|client| client.phase == Phase::Member), "{name}");
        }
    }
}

/// How many worlds; more of them with `LOGWAY_SIM_SEEDS`, another range with `LOGWAY_SIM_FIRST_SEED`.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    };
    let first = number("LOGWAY_SIM_FIRST_SEED", 0);
    first..first + number("LOGWAY_SIM_SEEDS", 40)
}

#[test]
fn worlds_of_clients_that_misbehave() {
    for seed in seeds() {
        let run = std::panic::AssertUnwindSafe(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.become_calm();
            world.driver.unload();
        });
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!(
                "seed {seed}: repeat it with LOGWAY_SIM_FIRST_SEED={seed} LOGWAY_SIM_SEEDS=1"
            );
            std::panic::resume_unwind(panic);
        }
    }
}
