//! One world: a cluster that grows, clients that ask it, and everything that can go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use logway_log::fs::sim::Rng;
use logway_metadata::controller::AllocateProducerIds;
use logway_model::ErrorCode;
use logway_quorum::{MembersChange, MetadataQuorum, Mutation, QuorumError, Start, VoterName};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::network::Weather;
use crate::nodes::{DiskPace, Nodes};
use crate::oracle::{Oracle, Report};
use crate::scenarios::{register, topic};

/// So many clients ask at the same time.
const CLIENTS: u64 = 3;

/// A cluster has so many nodes at most, those that left included.
const NODES_MAX: usize = 8;

/// When all is well, commands are taken again within this time.
const HEALED_WITHIN: Duration = Duration::from_secs(20);

/// Nobody waits for an answer for longer: those who answer may have been killed.
const PATIENCE: Duration = Duration::from_secs(20);

type Running = Arc<Mutex<BTreeMap<usize, Weak<MetadataQuorum>>>>;

pub(crate) struct World {
    nodes: Nodes,
    rng: Rng,
    oracle: Oracle,
    running: Running,
    /// Watchers of nodes, and clients.
    tasks: JoinSet<()>,
    clients: JoinSet<()>,
    phase: Arc<Mutex<Phase>>,
    /// Nodes that were killed, and are to come back.
    down: BTreeSet<usize>,
    /// Nodes that were added and not admitted yet.
    waiting: BTreeSet<usize>,
    gone: BTreeSet<usize>,
    /// Nodes that were to be removed, and perhaps were.
    doubtful: BTreeSet<usize>,
    next_number: usize,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// They ask for one thing after the other.
    Busy,
    /// They wait.
    Quiet,
    Over,
}

/// What a world came to: how much happened, and what makes it this one.
#[derive(Debug)]
pub(crate) struct Lived {
    pub(crate) report: Report,
    pub(crate) trace: (u64, u64),
}

/// Lives a world; the error is the first promise that was broken.
pub(crate) async fn live(seed: u64, mutation: Option<Mutation>) -> Result<Lived, String> {
    let mut nodes = Nodes::new(seed);
    nodes.mutation = mutation;
    nodes.submit_timeout = Duration::from_secs(3);
    let mut world = World {
        nodes,
        rng: Rng::new(seed),
        oracle: Oracle::default(),
        running: Running::default(),
        tasks: JoinSet::new(),
        clients: JoinSet::new(),
        phase: Arc::new(Mutex::new(Phase::Busy)),
        down: BTreeSet::new(),
        waiting: BTreeSet::new(),
        gone: BTreeSet::new(),
        doubtful: BTreeSet::new(),
        next_number: 2,
    };
    world.begin().await?;
    let steps = 12 + world.rng.below(20);
    for _ in 0..steps {
        let pause = world.rng.below(500) as u64;
        sleep(Duration::from_millis(pause)).await;
        world.step().await?;
        world.oracle.check()?;
    }
    world.heal().await?;
    world.check_stability().await?;
    world.check_one_way().await?;
    world.end().await
}

impl World {
    async fn begin(&mut self) -> Result<(), String> {
        self.nodes.add(1, Some(1), Start::Found);
        self.start(1).await?;
        let registered = register(&self.nodes.quorum(1)).await;
        registered.map_err(|error| format!("a cluster of one: {error}"))?;
        for client in 0..CLIENTS {
            self.begin_client(client);
        }
        let first = 2 + self.rng.below(4);
        for _ in 0..first {
            self.add_node().await?;
        }
        Ok(())
    }

    fn begin_client(&mut self, number: u64) {
        let client = Client {
            rng: Rng::new(self.rng.next_u64()),
            oracle: self.oracle.clone(),
            running: self.running.clone(),
            phase: self.phase.clone(),
            next_topic: number as u32 * 100_000,
        };
        self.clients.spawn(client.run());
    }

    /// Does one thing by chance.
    async fn step(&mut self) -> Result<(), String> {
        match self.rng.below(24) {
            0 | 1 => self.cut_some(),
            2 => self.isolate_one(),
            3 => self.cut_one_way(),
            4 => self.bridge(),
            5 | 6 => self.nodes.network.heal(),
            7 | 8 => self.change_weather(),
            9 => self.change_disks(),
            10 | 11 => self.kill_one(false),
            12 | 13 => self.kill_one(true),
            14 => self.kill_leader(),
            15 => self.cut_power_of_all(),
            16 => self.cut_power_soon().await,
            17..=20 => self.restart_some().await?,
            21 => self.snapshot_one(),
            22 => self.hand_over(),
            _ => self.change_members().await?,
        }
        Ok(())
    }

    fn addresses(&self) -> Vec<String> {
        self.nodes.all.values().map(|node| node.address.clone()).collect()
    }

    fn any_address(&mut self) -> String {
        let addresses = self.addresses();
        addresses[self.rng.below(addresses.len())].clone()
    }

    fn cut_some(&mut self) {
        for _ in 0..1 + self.rng.below(3) {
            let (one, other) = (self.any_address(), self.any_address());
            self.nodes.network.cut_both(&one, &other);
        }
    }

    fn isolate_one(&mut self) {
        let one = self.any_address();
        for other in self.addresses() {
            self.nodes.network.cut_both(&one, &other);
        }
    }

    fn cut_one_way(&mut self) {
        let one = self.any_address();
        let hears_nobody = self.rng.coin();
        for other in self.addresses() {
            match hears_nobody {
                true => self.nodes.network.cut(&other, &one),
                false => self.nodes.network.cut(&one, &other),
            }
        }
    }

    /// Two halves, and one node that reaches both.
    fn bridge(&mut self) {
        let bridge = self.any_address();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for address in self.addresses().into_iter().filter(|address| *address != bridge) {
            if self.rng.coin() { left.push(address) } else { right.push(address) }
        }
        for one in &left {
            for other in &right {
                self.nodes.network.cut_both(one, other);
            }
        }
    }

    fn change_weather(&mut self) {
        let weather = Weather {
            lost: self.rng.below(150),
            repeated: self.rng.below(150),
            delay_max_ms: 1 + self.rng.below(60),
        };
        self.nodes.network.set_weather(weather);
    }

    fn change_disks(&mut self) {
        let pace = DiskPace {
            pause_max_ms: self.rng.below(15),
            stalls: self.rng.below(20),
            stall_max_ms: 1 + self.rng.below(800),
        };
        self.nodes.set_disk_pace(pace);
    }

    fn any_running(&mut self) -> Option<usize> {
        let running: Vec<usize> = self.nodes.running().map(|(number, _)| number).collect();
        (!running.is_empty()).then(|| running[self.rng.below(running.len())])
    }

    fn kill_one(&mut self, is_power_cut: bool) {
        if let Some(number) = self.any_running() {
            self.stop(number, is_power_cut);
        }
    }

    fn kill_leader(&mut self) {
        if let Some(number) = self.nodes.leader() {
            let is_power_cut = self.rng.coin();
            self.stop(number, is_power_cut);
        }
    }

    fn cut_power_of_all(&mut self) {
        let running: Vec<usize> = self.nodes.running().map(|(number, _)| number).collect();
        running.into_iter().for_each(|number| self.stop(number, true));
    }

    fn stop(&mut self, number: usize, is_power_cut: bool) {
        match is_power_cut {
            true => self.nodes.power_cut(number),
            false => self.nodes.kill(number),
        }
        self.running.lock().expect("no panic").remove(&number);
        self.down.insert(number);
    }

    /// The power fails in the middle of something that the disk does.
    async fn cut_power_soon(&mut self) {
        let Some(number) = self.any_running() else { return };
        let change = 1 + self.rng.below(30) as u64;
        self.nodes.crash_at_change(number, change);
        sleep(Duration::from_millis(self.rng.below(300) as u64)).await;
        self.stop(number, true);
    }

    async fn restart_some(&mut self) -> Result<(), String> {
        let down: Vec<usize> = self.down.iter().copied().collect();
        let all = self.rng.coin();
        for number in down {
            if all || self.rng.coin() {
                self.start(number).await?;
            }
        }
        Ok(())
    }

    /// Starts a node and watches it.
    async fn start(&mut self, number: usize) -> Result<(), String> {
        let directory = self.nodes.all[&number].directory.to_string();
        let granted = self.nodes.network.granted(&directory);
        let started = self.nodes.start(number).await;
        started.map_err(|error| format!("node {number} does not start: {error}"))?;
        let quorum = self.nodes.quorum(number);
        let epoch = quorum.status().epoch.0;
        if i64::from(epoch) < granted as i64 {
            return Err(format!("node {number} has forgotten its vote in term {granted}: {epoch}"));
        }
        self.down.remove(&number);
        let weak = Arc::downgrade(&quorum);
        self.running.lock().expect("no panic").insert(number, weak.clone());
        let (oracle, mut watch) = (self.oracle.clone(), quorum.watch());
        drop(quorum);
        self.tasks.spawn(async move {
            loop {
                match weak.upgrade() {
                    Some(quorum) => oracle.observe(number, &quorum),
                    None => return,
                }
                // Who leads can change without an image.
                if let Ok(Err(_)) = timeout(Duration::from_millis(100), watch.changed()).await {
                    return;
                }
            }
        });
        Ok(())
    }

    fn snapshot_one(&mut self) {
        let Some(number) = self.any_running() else { return };
        let quorum = self.nodes.quorum(number);
        self.tasks.spawn(async move { _ = timeout(PATIENCE, quorum.snapshot()).await });
    }

    fn hand_over(&mut self) {
        let Some(number) = self.nodes.leader() else { return };
        let quorum = self.nodes.quorum(number);
        self.tasks.spawn(async move { _ = quorum.hand_over().await });
    }

    async fn change_members(&mut self) -> Result<(), String> {
        match self.rng.below(6) {
            0 | 1 if self.nodes.all.len() > 4 => self.remove_one().await,
            2 => self.change_voters().await,
            _ => self.add_node().await?,
        }
        Ok(())
    }

    /// Has a node admitted, or tries that again.
    async fn add_node(&mut self) -> Result<(), String> {
        if self.waiting.is_empty() && self.nodes.all.len() < NODES_MAX {
            self.nodes.add(self.next_number, None, Start::Join);
            self.waiting.insert(self.next_number);
            self.next_number += 1;
        }
        let Some(&number) = self.waiting.first() else { return Ok(()) };
        if timeout(Duration::from_secs(2), self.nodes.admit(number))
            .await
            .is_ok_and(|it| it.is_ok())
        {
            self.waiting.remove(&number);
            self.start(number).await?;
        }
        Ok(())
    }

    /// Removes a node for good, from the cluster and from the world.
    async fn remove_one(&mut self) {
        let members: Vec<usize> = self.nodes.all.keys().copied().collect();
        let number = members[self.rng.below(members.len())];
        let (Some(asked), Some(id)) = (self.any_running(), self.nodes.all[&number].id) else {
            return;
        };
        if self.gone.contains(&number) || asked == number {
            return;
        }
        let quorum = self.nodes.quorum(asked);
        let removed = quorum.change_members(MembersChange::remove(id));
        match timeout(Duration::from_secs(3), removed).await {
            Ok(Ok(_)) => self.forget(number),
            _ => _ = self.doubtful.insert(number),
        }
        // It may have been the one broker that topics are made on.
        _ = timeout(Duration::from_secs(3), register(&quorum)).await;
    }

    /// Takes a voter's vote, or gives it back.
    async fn change_voters(&mut self) {
        let members: Vec<usize> = self.nodes.all.keys().copied().collect();
        let number = members[self.rng.below(members.len())];
        let Some(asked) = self.any_running() else { return };
        let node = &self.nodes.all[&number];
        let Some(id) = node.id else { return };
        let voter = VoterName { id, directory: node.directory };
        let quorum = self.nodes.quorum(asked);
        let is_voter = quorum.status().voters.iter().any(|known| known.id == id);
        let change = match is_voter {
            true => MembersChange::RemoveVoter(voter),
            false => MembersChange::AddVoter(voter),
        };
        // Whatever the answer is: the quorum goes on.
        _ = timeout(Duration::from_secs(3), quorum.change_members(change)).await;
    }

    /// A node is no member any more.
    fn forget(&mut self, number: usize) {
        if self.nodes.all[&number].quorum.is_some() {
            self.stop(number, true);
        }
        self.down.remove(&number);
        self.doubtful.remove(&number);
        self.gone.insert(number);
    }

    /// Asks the leader which nodes are members, of those that may have been removed.
    fn resolve_doubts(&mut self) {
        let Some(leader) = self.nodes.leader() else { return };
        let members = self.nodes.quorum(leader).members();
        for number in self.doubtful.clone() {
            let id = self.nodes.all[&number].id;
            if number != leader && !members.iter().any(|member| Some(member.id) == id) {
                self.forget(number);
            }
        }
    }

    /// Everything is well from now on.
    async fn heal(&mut self) -> Result<(), String> {
        self.nodes.network.heal();
        self.nodes.set_disk_pace(DiskPace::FAST);
        for number in self.down.clone() {
            self.start(number).await?;
        }
        let begin = Instant::now();
        loop {
            self.resolve_doubts();
            let told = timeout(HEALED_WITHIN, self.ask_all()).await;
            match told {
                Ok(Ok(())) => return Ok(()),
                _ if begin.elapsed() < HEALED_WITHIN => {}
                Ok(Err(error)) => return Err(self.not_healed(&error)),
                Err(_) => return Err(self.not_healed("no answer")),
            }
            self.oracle.check()?;
        }
    }

    fn not_healed(&self, error: &str) -> String {
        format!("all is well, but commands fail: {error}\n{:#?}", self.nodes.statuses())
    }

    /// Every member takes commands.
    async fn ask_all(&self) -> Result<(), String> {
        for (number, quorum) in self.members() {
            let told = register(&quorum).await;
            told.map_err(|error| format!("node {number}: {error}"))?;
        }
        Ok(())
    }

    /// The nodes that run and belong to the cluster.
    fn members(&self) -> Vec<(usize, Arc<MetadataQuorum>)> {
        let running = self.nodes.running().filter(|(number, _)| !self.gone.contains(number));
        running.map(|(number, quorum)| (number, Arc::clone(quorum))).collect()
    }

    fn set_phase(&self, phase: Phase) {
        *self.phase.lock().expect("no panic") = phase;
    }

    /// A voter that cannot hear the leader disturbs nobody.
    async fn check_stability(&mut self) -> Result<(), String> {
        // A log that grows would keep it from being elected as well. And voters that were about to change
        // have, by then.
        self.set_phase(Phase::Quiet);
        sleep(Duration::from_secs(1)).await;
        let leader = self.nodes.try_led().await?;
        let status = self.nodes.quorum(leader).status();
        let voters: Vec<_> = status.voters.iter().map(|voter| Some(voter.id)).collect();
        let is_voter =
            |&number: &usize| number != leader && voters.contains(&self.nodes.all[&number].id);
        let Some(deaf) = self.nodes.running().map(|(number, _)| number).find(is_voter) else {
            return Ok(());
        };
        if voters.len() < 3 {
            return Ok(());
        }
        self.nodes.network.cut_both(&self.nodes.address(leader), &self.nodes.address(deaf));
        sleep(Duration::from_secs(1)).await;
        self.nodes.network.heal();
        sleep(Duration::from_millis(500)).await;
        let after = self.nodes.quorum(leader).status();
        self.set_phase(Phase::Busy);
        match (after.leader, after.epoch) == (status.leader, status.epoch) {
            true => Ok(()),
            false => Err(format!("node {deaf} has ended a leadership: {status:?}, {after:?}")),
        }
    }

    /// A leader that hears nobody keeps nobody from electing another one.
    async fn check_one_way(&mut self) -> Result<(), String> {
        let leader = self.nodes.try_led().await?;
        if self.nodes.quorum(leader).status().voters.len() < 3 {
            return Ok(());
        }
        for other in self.addresses() {
            self.nodes.network.cut(&other, &self.nodes.address(leader));
        }
        let Some((number, quorum)) =
            self.members().into_iter().find(|(number, _)| *number != leader)
        else {
            return Ok(());
        };
        // It asks again and again, for as long as a command may take.
        let told = timeout(PATIENCE, quorum.wait_until_current()).await;
        self.nodes.network.heal();
        match told {
            Ok(Ok(_)) => Ok(()),
            other => Err(format!("node {number} finds no leader but a deaf one: {other:?}")),
        }
    }

    async fn end(mut self) -> Result<Lived, String> {
        self.set_phase(Phase::Over);
        let clients = async { while self.clients.join_next().await.is_some() {} };
        if timeout(PATIENCE * 2, clients).await.is_err() {
            return Err("a client waits for ever".to_owned());
        }
        self.heal().await?;
        self.nodes.try_led().await?;
        let mut ends = Vec::new();
        for (number, quorum) in self.members() {
            let current = timeout(HEALED_WITHIN, quorum.wait_until_current()).await;
            if !matches!(current, Ok(Ok(_))) {
                return Err(format!("node {number} does not catch up: {current:?}"));
            }
            quorum.check_running().map_err(|error| format!("node {number}: {error}"))?;
            self.oracle.observe(number, &quorum);
            ends.push((number, quorum.image()));
        }
        for (number, image) in &ends {
            if *image != ends[0].1 {
                return Err(format!("nodes {} and {number} end with other images", ends[0].0));
            }
        }
        self.oracle.check_end(&ends[0].1);
        self.oracle.check()?;
        Ok(Lived { report: self.oracle.report(), trace: self.nodes.network.trace() })
    }
}

/// Asks for one thing after the other.
struct Client {
    rng: Rng,
    oracle: Oracle,
    running: Running,
    phase: Arc<Mutex<Phase>>,
    next_topic: u32,
}

impl Client {
    async fn run(mut self) {
        loop {
            sleep(Duration::from_millis(self.rng.below(120) as u64)).await;
            let phase = *self.phase.lock().expect("no panic");
            match phase {
                Phase::Busy => {}
                Phase::Quiet => continue,
                Phase::Over => return,
            }
            let Some(quorum) = self.any_node() else { continue };
            match self.rng.below(3) {
                0 => self.allocate(quorum).await,
                _ => self.create(quorum).await,
            }
        }
    }

    fn any_node(&mut self) -> Option<Arc<MetadataQuorum>> {
        let running = self.running.lock().expect("no panic");
        let nodes: Vec<_> = running.values().filter_map(Weak::upgrade).collect();
        (!nodes.is_empty()).then(|| nodes[self.rng.below(nodes.len())].clone())
    }

    async fn create(&mut self, quorum: Arc<MetadataQuorum>) {
        let number = self.next_topic;
        self.next_topic += 1;
        let name = format!("topic-{number}");
        let floor = self.oracle.acknowledged();
        let committed = match timeout(PATIENCE, quorum.submit(topic(number))).await {
            Ok(Ok(committed)) => committed,
            Ok(Err(error)) => return self.failed(&error, Some(name)),
            Err(_) => return self.oracle.unknown(false),
        };
        match &committed.reply[0] {
            Ok(_) => {
                if quorum.image().topic(&name).is_none() {
                    self.oracle.violated(format!("who created {name} does not see it"));
                }
                self.oracle.topic_created(name, committed.index, floor);
            }
            // Nobody else creates a topic of this name.
            Err(error) if error.code == ErrorCode::TopicAlreadyExists => {
                self.oracle.violated(format!("{name} is created twice for one command"));
            }
            Err(_) => self.oracle.topic_refused(name),
        }
    }

    async fn allocate(&mut self, quorum: Arc<MetadataQuorum>) {
        let floor = self.oracle.acknowledged();
        match timeout(PATIENCE, quorum.submit(AllocateProducerIds)).await {
            Ok(Ok(committed)) => {
                self.oracle.block_given(committed.reply.first.0, committed.index, floor);
            }
            Ok(Err(QuorumError::OutcomeUnknown | QuorumError::Stopped { .. })) | Err(_) => {
                self.oracle.unknown(true);
            }
            Ok(Err(_)) => {}
        }
    }

    fn failed(&self, error: &QuorumError, name: Option<String>) {
        match error {
            QuorumError::OutcomeUnknown | QuorumError::Stopped { .. } => self.oracle.unknown(false),
            _ => name.into_iter().for_each(|name| self.oracle.topic_refused(name)),
        }
    }
}
