//! One world of several nodes, from its founding to its end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use logway_log::fs::sim::{Failure, Fault, Rng, SimOperation};
use logway_log::random_uuid;
use logway_metadata::controller::{CreateTopics, NewTopic};
use logway_model::{BrokerId, ErrorCode, Offset, TopicId};
use logway_node::cluster::Mutation;
use logway_quorum::QuorumError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::life::End;
use super::machine::{Machine, Served, Serving, Surroundings};
use super::moves::{Mover, favour};
use super::mutation::ClusterMutation;
use super::network::{Network, Repeats};
use super::oracle::{Oracle, Place};
use super::patience::{LOOK_INTERVAL, Patience};
use super::plan::{Event, Plan, TopicPlan, Transactions, What};
use super::producer::{Clients, Producer};
use super::reader::Reader;
use super::removal::remove;
use super::report::ClusterReport;
use super::transactions::{Ledger, topics as transactional};
use super::watcher::Watcher;
use crate::violation::Violation;

/// A cluster is founded, and its topics are made, within this time.
const FOUNDED_WITHIN: Duration = Duration::from_secs(30);

/// Who writes to a quiet partition pauses for up to so long.
const QUIET_MS: usize = 1_500;

/// A world.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Rng,
    pub(super) machines: Vec<Machine>,
    pub(super) surroundings: Surroundings,
    pub(super) clients: Clients,
    pub(super) tasks: JoinSet<()>,
    /// Who is to be started as soon as it can be.
    due: Vec<usize>,
}

impl World {
    /// The world of a seed.
    pub(super) fn new(
        seed: u64,
        transactions: Transactions,
        mutation: Option<&ClusterMutation>,
    ) -> World {
        let mut random = Rng::new(seed);
        let mut plan = Plan::new(&mut random, &mut Rng::new(!seed));
        plan.has_transactions = match transactions {
            _ if mutation.is_some_and(|mutation| mutation.is_about_transactions) => true,
            Transactions::AsPlanned => plan.has_transactions,
            Transactions::Always => true,
            Transactions::Never => false,
        };
        World::planned(plan, random, mutation)
    }

    /// A world of which the plan is given.
    pub(super) fn planned(
        plan: Plan,
        mut random: Rng,
        mutation: Option<&ClusterMutation>,
    ) -> World {
        let oracle = Oracle::default();
        oracle.count(|report| report.worlds = 1);
        let serving = Serving::default();
        let surroundings = Surroundings {
            network: Network::new(random.next_u64()),
            serving: serving.clone(),
            oracle: oracle.clone(),
            inline_appends: plan.inline_appends,
            answer_bytes_max: plan.answer_bytes_max,
            journal_bytes: plan.journal_bytes,
            mutation: mutation.map(|mutation| mutation.rule),
        };
        let disks = random.next_u64();
        World {
            machines: (1..=plan.nodes).map(|number| Machine::new(number, disks)).collect(),
            plan,
            random,
            surroundings,
            clients: Clients {
                serving,
                oracle,
                ledger: Ledger::default(),
                is_over: Arc::new(AtomicBool::new(false)),
                next_number: Arc::default(),
            },
            tasks: JoinSet::new(),
            due: Vec::new(),
        }
    }

    pub(super) async fn live(&mut self) -> Result<ClusterReport, Violation> {
        tracing::debug!(plan = ?self.plan, "a world");
        self.found().await?;
        self.create_topics().await?;
        self.surroundings.network.set_weather(self.plan.weather);
        let brings_late = self.surroundings.mutation == Some(Mutation::BeginsWhatWasGivenUp);
        self.plan.has_older_clients |= brings_late;
        self.surroundings.network.set_repeats_of_clients(match self.plan.has_older_clients {
            _ if brings_late => Repeats::Often,
            true => Repeats::Never,
            false => Repeats::AsWeather,
        });
        self.begin_clients();
        let lived = self.suffer().await;
        lived.and_then(|()| self.clients.oracle.check())?;
        self.end().await?;
        self.clients.oracle.check()?;
        Ok(self.clients.oracle.report())
    }

    /// All partitions.
    pub(super) fn places(&self) -> Vec<Place> {
        let of = |topic: &TopicPlan| {
            let name = topic.name;
            (0..topic.partitions).map(move |partition| Place { topic: name, partition })
        };
        self.plan.topics.iter().flat_map(of).collect()
    }

    /// All partitions, with those that transactions need.
    pub(super) fn all_places(&self) -> Vec<Place> {
        let of_transactions = transactional::places().filter(|_| self.plan.has_transactions);
        self.places().into_iter().chain(of_transactions).collect()
    }

    /// Starts one node after the other, each to join those before it.
    pub(super) async fn found(&mut self) -> Result<(), Violation> {
        for number in 1..=self.plan.nodes {
            self.machines[number - 1].start(&self.surroundings)?;
            let what = format!("node {number} serves");
            self.until(&what, FOUNDED_WITHIN, |world| match world.clients.serving.get(number) {
                Some(_) => Ok(()),
                None => Err("it does not".to_owned()),
            })
            .await?;
        }
        self.until("all vote and are active", FOUNDED_WITHIN, |world| world.are_all_members()).await
    }

    pub(super) fn are_all_members(&self) -> Result<(), String> {
        let nodes = self.plan.nodes;
        let serving = self.clients.serving.all();
        if serving.len() < nodes {
            return Err(format!("{} of {nodes} serve", serving.len()));
        }
        for served in serving {
            let (image, status) = (served.node.image(), served.node.quorum.status());
            let own = served.node.settings.node_id;
            if status.voters.len() < nodes {
                return Err(format!("node {own} knows {} voters", status.voters.len()));
            }
            let numbers = 1..=i32::try_from(nodes).unwrap_or(0);
            if let Some(fenced) = numbers.map(BrokerId).find(|id| !image.is_active(*id)) {
                return Err(format!("node {own} knows that {fenced} is fenced"));
            }
        }
        Ok(())
    }

    /// A topic by its plan, with a replica on each of three nodes.
    pub(super) fn new_topic(&self, plan: &TopicPlan) -> NewTopic {
        let flush = if plan.is_durable { "1" } else { "1000000" };
        let configs = [
            ("min.insync.replicas", plan.in_sync_min.to_string()),
            ("flush.messages", flush.to_owned()),
            ("segment.ms", self.plan.segment_ms.to_string()),
        ];
        NewTopic {
            name: plan.name.to_owned(),
            id: TopicId(random_uuid()),
            num_partitions: plan.partitions,
            replication_factor: 3,
            assignments: Vec::new(),
            configs: configs.map(|(name, value)| (name.to_owned(), Some(value))).to_vec(),
        }
    }

    pub(super) async fn create_topics(&mut self) -> Result<(), Violation> {
        let mut topics: Vec<NewTopic> =
            self.plan.topics.iter().map(|topic| self.new_topic(topic)).collect();
        for topic in &self.plan.topics {
            // What was not flushed survives a process, and not a machine.
            let is_kept = topic.is_durable || !self.plan.is_power_at_risk;
            for partition in 0..topic.partitions {
                self.clients.oracle.add(Place { topic: topic.name, partition }, is_kept);
            }
        }
        if self.plan.has_transactions {
            let served = self.first_node()?;
            topics.push(self.new_topic(&transactional::TOPIC_PLAN));
            topics.extend(transactional::coordinator_topics(&served.node.settings));
        }
        self.submit_topics(topics).await?;
        self.until("all are in sync", FOUNDED_WITHIN, |world| world.are_all_in_sync()).await
    }

    /// The node that has founded the cluster, while it serves.
    pub(super) fn first_node(&self) -> Result<Served, Violation> {
        self.clients.serving.get(1).ok_or_else(|| Violation::new("node 1 has ended"))
    }

    /// Has the first node make topics.
    pub(super) async fn submit_topics(&self, topics: Vec<NewTopic>) -> Result<(), Violation> {
        let served = self.first_node()?;
        let create = CreateTopics { topics, validate_only: false };
        let mut patience = Patience::new(FOUNDED_WITHIN);
        let mut may_be_made = false;
        let created = loop {
            let error = match served.node.quorum.submit(create.clone()).await {
                Ok(created) => break created,
                Err(error) => error,
            };
            // Else the machine has other work, and the controller was late.
            let is_unknown = matches!(error, QuorumError::OutcomeUnknown);
            if !(is_unknown || error.is_retriable()) || !patience.wait().await {
                return Err(Violation::new(format!("no topics: {error}")));
            }
            may_be_made |= is_unknown;
        };
        for refusal in created.reply.into_iter().filter_map(Result::err) {
            if !may_be_made || refusal.code != ErrorCode::TopicAlreadyExists {
                return Err(Violation::new(format!("a topic is refused: {refusal}")));
            }
        }
        Ok(())
    }

    fn begin_clients(&mut self) {
        for (number, place) in self.places().into_iter().enumerate() {
            let pause_min_ms = if self.plan.quiet == Some(number) { QUIET_MS } else { 0 };
            let mut producer = |is_careful| Producer {
                place,
                random: Rng::new(self.random.next_u64()),
                clients: self.clients.clone(),
                is_careful,
                pause_max_ms: [2, 20, 100][self.random.below(3)].max(pause_min_ms),
            };
            let producers = [producer(true), producer(true), producer(false)];
            producers.into_iter().for_each(|producer| _ = self.tasks.spawn(producer.run()));
            for _ in 0..2 {
                let random = Rng::new(self.random.next_u64());
                let clients = self.clients.clone();
                let reader = Reader { place, random, clients, position: Offset::ZERO };
                self.tasks.spawn(reader.run());
            }
        }
        self.begin_watching();
        if self.plan.has_transactions {
            self.begin_transactions();
        }
        let random = Rng::new(self.random.next_u64());
        if self.plan.moves_partitions {
            let (places, nodes, clients) =
                (self.all_places(), self.plan.nodes, self.clients.clone());
            self.tasks.spawn(Mover { places, nodes, random, clients }.run());
        }
    }

    /// Has somebody look at the replicas themselves.
    pub(super) fn begin_watching(&mut self) {
        let is_durable = |place: &Place| {
            self.plan.topics.iter().any(|topic| topic.name == place.topic && topic.is_durable)
        };
        let is_kept = |place: &Place| self.clients.oracle.is_kept(*place);
        let kept = self.places().into_iter().filter(is_kept);
        let places = kept.map(|place| (place, is_durable(&place))).collect();
        self.tasks.spawn(Watcher { places, clients: self.clients.clone() }.run());
    }

    /// Lives through all that is planned.
    async fn suffer(&mut self) -> Result<(), Violation> {
        let begun = Instant::now();
        for Event { at, what } in self.plan.events.clone() {
            self.pass_until(begun + at).await?;
            self.clients.oracle.check()?;
            tracing::info!(?what, "it happens");
            self.happen(what).await?;
        }
        self.pass_until(begun + self.plan.lasts).await
    }

    /// Lets time pass. Who could not be started when it was to be is started meanwhile.
    async fn pass_until(&mut self, until: Instant) -> Result<(), Violation> {
        while Instant::now() < until {
            self.start_late().await?;
            sleep_until(until.min(Instant::now() + LOOK_INTERVAL)).await;
        }
        Ok(())
    }

    /// Starts who is due, if it is known with which disk.
    async fn start_late(&mut self) -> Result<(), Violation> {
        let World { machines, surroundings, due, .. } = self;
        for node in std::mem::take(due) {
            let machine = &mut machines[node - 1];
            if !machine.can_start() {
                due.push(node);
                continue;
            }
            machine.settle_removal(surroundings).await;
            machine.start(surroundings)?;
        }
        Ok(())
    }

    async fn happen(&mut self, what: What) -> Result<(), Violation> {
        let oracle = self.clients.oracle.clone();
        let World { machines, surroundings, due, .. } = self;
        let network = &surroundings.network;
        match what {
            What::Kill(node) => {
                oracle.count(|report| report.kills += 1);
                machines[node - 1].end(surroundings, End::Process);
            }
            What::PowerCut(node) => {
                oracle.count(|report| report.power_cuts += 1);
                machines[node - 1].end(surroundings, End::PowerCut);
            }
            What::PowerCutOfAll => {
                oracle.count(|report| report.power_cuts += machines.len() as u64);
                machines.iter_mut().for_each(|it| it.end(surroundings, End::PowerCut));
            }
            What::Stop(node) => {
                oracle.count(|report| report.stops += 1);
                machines[node - 1].stop(surroundings).await?;
            }
            What::Start(node) => {
                due.push(node);
                self.start_late().await?;
            }
            What::StartAll => {
                due.extend(1..=machines.len());
                self.start_late().await?;
            }
            What::CutOneWay(from, to) => {
                oracle.count(|report| report.network_cuts += 1);
                network.cut(from, to);
            }
            What::CutPair(one, other) => {
                oracle.count(|report| report.network_cuts += 1);
                network.cut(one, other);
                network.cut(other, one);
            }
            What::Isolate(node) => {
                oracle.count(|report| report.network_cuts += 1);
                for other in 1..=machines.len() {
                    network.cut(node, other);
                    network.cut(other, node);
                }
            }
            What::HealNetwork => network.heal(),
            What::HoldSyncs(node) => {
                oracle.count(|report| report.disk_faults += 1);
                machines[node - 1].disk().hang_syncs();
            }
            What::ReleaseSyncs(node) => machines[node - 1].disk().release_syncs(),
            What::FailSync(node, passes) => {
                oracle.count(|report| report.disk_faults += 1);
                oracle.let_disks_fail(true);
                let fault = Fault::new(SimOperation::Sync, Failure::Io).in_path(".log");
                machines[node - 1].fail(fault.after(passes).times(1));
            }
            What::SlowLogs(node) => {
                oracle.count(|report| report.disk_faults += 1);
                let disk = machines[node - 1].disk();
                disk.hold_syncs_in(".log");
                disk.hold_syncs_in("/journal");
            }
            What::Favour(node) => {
                let (places, clients) = (self.all_places(), self.clients.clone());
                self.tasks.spawn(favour(places, node_number(node), clients));
            }
            What::Replace(node) => {
                // What became of a removal is told by a majority: one disk at a time is lost.
                let serving = &self.clients.serving;
                let is_settled = machines.iter().all(|machine| machine.has_joined_again(serving));
                let machine = &mut machines[node - 1];
                if is_settled && machine.is_running() {
                    // Where no power is at risk, a node that cannot be removed is back with all that it had.
                    let is_power_at_risk = self.plan.is_power_at_risk;
                    let end = if is_power_at_risk { End::PowerCut } else { End::Process };
                    machine.end(surroundings, end);
                    let removal = tokio::spawn(remove(node_number(node), self.clients.clone()));
                    self.machines[node - 1].await_removal(removal);
                }
            }
        }
        Ok(())
    }

    /// Starts all nodes that do not run, whatever becomes of their removal. What does is known within a time: by then nothing is in
    /// the way of others.
    pub(super) async fn start_all(&mut self, known_within: Duration) -> Result<(), Violation> {
        // Others may be needed to remove one.
        self.start_who_can().await?;
        let what = "what became of removals is known";
        self.until(what, known_within, |world| {
            match world.machines.iter().all(Machine::can_start) {
                true => Ok(()),
                false => Err(format!(
                    "{} of {} serve",
                    world.clients.serving.all().len(),
                    world.plan.nodes
                )),
            }
        })
        .await?;
        self.start_who_can().await
    }

    async fn start_who_can(&mut self) -> Result<(), Violation> {
        let World { machines, surroundings, .. } = self;
        for machine in machines.iter_mut().filter(|machine| machine.can_start()) {
            machine.settle_removal(surroundings).await;
            machine.start(surroundings)?;
        }
        Ok(())
    }

    /// Ends all nodes.
    pub(super) fn leave(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.end(&self.surroundings, End::Process));
    }

    /// Waits for something that has to come about; `reached` says what is missing.
    pub(super) async fn until(
        &self,
        what: &str,
        time_max: Duration,
        reached: impl Fn(&World) -> Result<(), String>,
    ) -> Result<(), Violation> {
        let mut patience = Patience::new(time_max);
        loop {
            self.clients.oracle.check()?;
            let Err(missing) = reached(self) else { return Ok(()) };
            if !patience.wait().await {
                let what = format!("not within {time_max:?}: {what}: {missing}");
                return Err(self.waited_too_long(&what));
            }
        }
    }
}

pub(super) fn node_number(node: usize) -> BrokerId {
    BrokerId(i32::try_from(node).unwrap_or(i32::MAX))
}
