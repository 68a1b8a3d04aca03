//! Producers, partitions and a coordinator that crashes between any two steps, all by a seed.
//!
//! The partitions are those of a broker: they refuse an epoch that is over, ask the coordinator before they take the first
//! record of a transaction, and take markers of no coordinator that is over. What clients were told is held against what
//! a `read_committed` reader sees in the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use logway_coordinator::RequestToken;
use logway_coordinator::transactions::{
    MarkerOrder, Producer, TransactionOutcome, TransactionReply, TransactionRequest,
    TransactionSettings,
};
use logway_model::{ErrorCode, ProducerEpoch, ProducerId, TopicPartition, TransactionVersion};

use crate::driver::Driver;
use crate::random::Random;
use crate::story::{CLASSIC, TIMEOUT_MS, V2, partition};

const SEEDS: u64 = 300;
const STEPS: usize = 3_000;
const PARTITIONS: usize = 3;
const CLIENTS: usize = 4;

/// A transaction as its client sees it: unique over all clients.
type Tag = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Record { producer: Producer, tag: Tag },
    Marker { producer: ProducerId, outcome: TransactionOutcome },
}

/// One partition, with what its leader knows of producers.
#[derive(Default)]
struct Partition {
    log: Vec<Entry>,
    epochs: BTreeMap<i64, i16>,
    /// The producers with an open transaction.
    open: BTreeSet<i64>,
    /// The newest coordinator that has written a marker for a producer.
    coordinators: BTreeMap<i64, i32>,
    /// Counts the markers of a producer: what was verified before one is not after it.
    markers: BTreeMap<i64, usize>,
}

impl Partition {
    fn is_over(&self, producer: Producer) -> bool {
        self.epochs.get(&producer.id.0).is_some_and(|&epoch| producer.epoch.0 < epoch)
    }

    fn is_open(&self, producer: Producer) -> bool {
        self.open.contains(&producer.id.0)
            && self.epochs.get(&producer.id.0) == Some(&producer.epoch.0)
    }

    fn markers_of(&self, producer: Producer) -> usize {
        self.markers.get(&producer.id.0).copied().unwrap_or(0)
    }

    fn append(&mut self, producer: Producer, tag: Tag) -> Result<(), ErrorCode> {
        if self.is_over(producer) {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        self.epochs.insert(producer.id.0, producer.epoch.0);
        self.open.insert(producer.id.0);
        self.log.push(Entry::Record { producer, tag });
        Ok(())
    }

    fn append_marker(&mut self, order: &MarkerOrder, coordinator: i32) {
        let producer = order.transaction.producer;
        let newest = self.coordinators.get(&producer.id.0);
        if newest.is_some_and(|&newest| coordinator < newest) || self.is_over(producer) {
            return;
        }
        self.coordinators.insert(producer.id.0, coordinator);
        self.epochs.insert(producer.id.0, producer.epoch.0);
        self.open.remove(&producer.id.0);
        *self.markers.entry(producer.id.0).or_default() += 1;
        self.log.push(Entry::Marker { producer: producer.id, outcome: order.outcome() });
    }

    /// What became of each record, by its transaction.
    fn outcomes(&self) -> Vec<(Tag, Option<TransactionOutcome>)> {
        let outcome_after = |place: usize, producer: ProducerId| {
            self.log[place..].iter().find_map(|entry| match entry {
                Entry::Marker { producer: of, outcome } if *of == producer => Some(*outcome),
                _ => None,
            })
        };
        let records = self.log.iter().enumerate().filter_map(|(place, entry)| match entry {
            Entry::Record { producer, tag } => Some((*tag, outcome_after(place, producer.id))),
            Entry::Marker { .. } => None,
        });
        records.collect()
    }
}

/// What a client does, and waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Nothing,
    Init(RequestToken),
    /// A record was sent; the leader of the partition asks the coordinator.
    Joining(RequestToken, usize, usize),
    /// The leader was told that all is well, and has yet to append.
    Appending(usize, usize),
    /// A client of the older protocol adds a partition.
    Adding(RequestToken, usize),
    Ending(RequestToken, TransactionOutcome),
}

struct Client {
    id: &'static str,
    version: TransactionVersion,
    producer: Option<Producer>,
    wait: Wait,
    tag: Tag,
    has_records: bool,
    is_ending: Option<TransactionOutcome>,
    /// The partitions that a client of the older protocol has added.
    added: BTreeSet<usize>,
}

struct World {
    random: Random,
    driver: Driver,
    partitions: Vec<Partition>,
    names: Vec<TopicPartition>,
    clients: Vec<Client>,
    /// Markers on their way, each from the coordinator that has ordered it.
    orders: Vec<(MarkerOrder, i32, VecDeque<usize>)>,
    next_producer_id: i64,
    next_tag: Tag,
    /// What clients were told of records and of ends.
    acknowledged: Vec<(Tag, usize)>,
    told: BTreeMap<Tag, TransactionOutcome>,
}

impl World {
    fn new(seed: u64) -> World {
        let client = |number: usize| Client {
            id: if number.is_multiple_of(2) { "even" } else { "odd" },
            version: if number < 3 { V2 } else { CLASSIC },
            producer: None,
            wait: Wait::Nothing,
            tag: 0,
            has_records: false,
            is_ending: None,
            added: BTreeSet::new(),
        };
        World {
            random: Random::new(seed),
            driver: Driver::new(TransactionSettings::default()),
            partitions: (0..PARTITIONS).map(|_| Partition::default()).collect(),
            names: (0..PARTITIONS).map(|number| partition(&format!("x-{number}"))).collect(),
            clients: (0..CLIENTS).map(client).collect(),
            orders: Vec::new(),
            next_producer_id: 1,
            next_tag: 1,
            acknowledged: Vec::new(),
            told: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..=4 => {
                let client = self.random.below(CLIENTS);
                self.act(client);
            }
            5..=7 => {
                let failed = self.random.once_in(12).then_some(ErrorCode::NotEnoughReplicas);
                self.driver.settle(failed.map_or(Ok(()), Err));
            }
            8 | 9 => self.deliver_marker(),
            10 => {
                let ms = self.random.below(TIMEOUT_MS as usize / 8);
                self.driver.wait_ms(ms as u64);
            }
            _ if self.random.once_in(4) => self.crash(),
            _ => {}
        }
        self.take_orders();
    }

    fn crash(&mut self) {
        self.driver.crash();
        // Nobody hears from the one before; its markers may be on their way for long.
        for client in &mut self.clients {
            if matches!(
                client.wait,
                Wait::Init(_) | Wait::Joining(..) | Wait::Adding(..) | Wait::Ending(..)
            ) {
                client.wait = Wait::Nothing;
            }
        }
    }

    fn take_orders(&mut self) {
        while let Some(order) = self.driver.orders.pop_front() {
            let named = order.transaction.partitions.iter();
            let places = named.map(|partition| {
                self.names.iter().position(|name| *name == partition).expect("is ours")
            });
            let places = places.collect();
            self.orders.push((order, self.driver.epoch, places));
        }
    }

    fn deliver_marker(&mut self) {
        if self.orders.is_empty() {
            return;
        }
        let place = self.random.below(self.orders.len());
        let (order, coordinator, places) = &mut self.orders[place];
        match places.pop_front() {
            Some(partition) => {
                self.partitions[partition].append_marker(order, *coordinator);
                if self.random.once_in(8) {
                    // Nobody heard that it was written.
                    places.push_back(partition);
                }
            }
            None => {
                let (order, coordinator, _) = self.orders.swap_remove(place);
                if coordinator == self.driver.epoch {
                    self.driver.markers_written(&order);
                }
            }
        }
    }

    fn fresh_id(&mut self) -> ProducerId {
        self.next_producer_id += 1;
        ProducerId(self.next_producer_id)
    }

    /// The client goes on: hears what it waits for, or does the next thing.
    fn act(&mut self, number: usize) {
        match self.clients[number].wait {
            Wait::Nothing => self.begin(number),
            Wait::Init(token) => {
                let Some(reply) = self.driver.take_reply(token) else { return };
                let client = &mut self.clients[number];
                client.wait = Wait::Nothing;
                if let TransactionReply::InitProducerId(Ok(producer)) = reply {
                    client.producer = Some(producer);
                    client.is_ending = None;
                    self.begin_transaction(number);
                }
            }
            Wait::Adding(token, partition) => {
                let Some(reply) = self.driver.take_reply(token) else { return };
                let client = &mut self.clients[number];
                client.wait = Wait::Nothing;
                match reply {
                    TransactionReply::AddPartitions(Ok(())) => _ = client.added.insert(partition),
                    TransactionReply::AddPartitions(Err(code)) => self.note(number, code),
                    other => panic!("is no reply to AddPartitions: {other:?}"),
                }
            }
            Wait::Joining(token, partition, markers) => {
                let Some(reply) = self.driver.take_reply(token) else { return };
                let client = &mut self.clients[number];
                client.wait = Wait::Nothing;
                match joined(&reply) {
                    Ok(()) => client.wait = Wait::Appending(partition, markers),
                    Err(code) => self.note(number, code),
                }
            }
            Wait::Appending(partition, markers) => {
                self.clients[number].wait = Wait::Nothing;
                let producer = self.clients[number].producer.expect("it has one");
                if self.partitions[partition].markers_of(producer) == markers {
                    self.append(number, partition);
                }
            }
            Wait::Ending(token, outcome) => {
                let Some(reply) = self.driver.take_reply(token) else { return };
                self.clients[number].wait = Wait::Nothing;
                match reply {
                    TransactionReply::EndTxn(Ok(producer)) => {
                        let client = &mut self.clients[number];
                        self.told.insert(client.tag, outcome);
                        client.producer = Some(producer);
                        client.is_ending = None;
                        self.begin_transaction(number);
                    }
                    TransactionReply::EndTxn(Err(code)) => self.note(number, code),
                    other => panic!("is no reply to EndTxn: {other:?}"),
                }
            }
        }
    }

    /// An error: who is fenced begins anew, everybody else asks again.
    fn note(&mut self, number: usize, code: ErrorCode) {
        let is_retriable = matches!(
            code,
            ErrorCode::ConcurrentTransactions
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::CoordinatorLoadInProgress
        );
        if !is_retriable {
            self.clients[number].producer = None;
        }
    }

    fn begin_transaction(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.tag = self.next_tag;
        client.has_records = false;
        client.added.clear();
        self.next_tag += 1;
    }

    fn begin(&mut self, number: usize) {
        let (id, version) = (self.clients[number].id, self.clients[number].version);
        let Some(producer) = self.clients[number].producer else {
            let fresh_id = Some(self.fresh_id());
            let token = self.driver.ask(TransactionRequest::InitProducerId {
                transactional_id: id.into(),
                timeout_ms: TIMEOUT_MS,
                expected: None,
                fresh_id,
            });
            self.clients[number].wait = Wait::Init(token);
            return;
        };
        let ends = self.clients[number].is_ending.or_else(|| {
            let client = &self.clients[number];
            (client.has_records && self.random.once_in(3)).then(|| match self.random.once_in(3) {
                true => TransactionOutcome::Abort,
                false => TransactionOutcome::Commit,
            })
        });
        if let Some(outcome) = ends {
            let fresh_id = Some(self.fresh_id());
            let token = self.driver.ask(TransactionRequest::EndTxn {
                transactional_id: id.into(),
                producer,
                outcome,
                version,
                fresh_id,
            });
            self.clients[number].is_ending = Some(outcome);
            self.clients[number].wait = Wait::Ending(token, outcome);
            return;
        }
        self.produce(number, producer);
    }

    fn produce(&mut self, number: usize, producer: Producer) {
        let partition = self.random.below(PARTITIONS);
        let (id, version) = (self.clients[number].id, self.clients[number].version);
        let add = TransactionRequest::AddPartitions {
            transactional_id: id.into(),
            producer,
            partitions: vec![self.names[partition].clone()],
            version,
        };
        let is_added = self.clients[number].added.contains(&partition);
        // One that forgets to add a partition, or whose records are late, must not open a transaction that nobody ends.
        if !version.bumps_epoch() && !is_added && !self.random.once_in(6) {
            let token = self.driver.ask(add);
            self.clients[number].wait = Wait::Adding(token, partition);
            return;
        }
        if self.partitions[partition].is_open(producer) {
            self.append(number, partition);
            return;
        }
        let markers = self.partitions[partition].markers_of(producer);
        let token = self.driver.ask(match version.bumps_epoch() {
            true => add,
            false => TransactionRequest::VerifyPartitions {
                transactional_id: id.into(),
                producer,
                partitions: vec![self.names[partition].clone()],
            },
        });
        self.clients[number].wait = Wait::Joining(token, partition, markers);
    }

    fn append(&mut self, number: usize, partition: usize) {
        let client = &mut self.clients[number];
        let producer = client.producer.expect("it has one");
        match self.partitions[partition].append(producer, client.tag) {
            Ok(()) => {
                client.has_records = true;
                self.acknowledged.push((client.tag, partition));
            }
            Err(_) => client.producer = None,
        }
    }

    /// All that is on its way arrives, and nobody does anything more.
    fn come_to_rest(&mut self) {
        for client in &mut self.clients {
            client.wait = Wait::Nothing;
        }
        let timeout_ms = u64::try_from(TIMEOUT_MS).expect("a time");
        for _ in 0..4 {
            while !self.driver.in_flight.is_empty() || !self.orders.is_empty() {
                self.driver.settle(Ok(()));
                self.take_orders();
                self.deliver_marker();
                self.take_orders();
            }
            self.driver.wait_ms(timeout_ms);
            self.take_orders();
        }
    }

    fn check(&self, seed: u64) {
        let mut outcomes: BTreeMap<Tag, BTreeSet<bool>> = BTreeMap::new();
        let mut present: BTreeSet<(Tag, usize)> = BTreeSet::new();
        for (number, partition) in self.partitions.iter().enumerate() {
            assert!(partition.open.is_empty(), "seed {seed}: partition {number} hangs");
            for (tag, outcome) in partition.outcomes() {
                let outcome = outcome.unwrap_or_else(|| panic!("seed {seed}: {tag} hangs"));
                outcomes.entry(tag).or_default().insert(outcome == TransactionOutcome::Commit);
                present.insert((tag, number));
            }
        }
        for (tag, seen) in &outcomes {
            assert_eq!(seen.len(), 1, "seed {seed}: transaction {tag} is torn");
            let is_committed = seen.contains(&true);
            if let Some(told) = self.told.get(tag) {
                let was_told = *told == TransactionOutcome::Commit;
                assert_eq!(is_committed, was_told, "seed {seed}: {tag} is not as it was told");
            }
        }
        for acknowledged in &self.acknowledged {
            assert!(present.contains(acknowledged), "seed {seed}: {acknowledged:?} is lost");
        }
    }
}

fn joined(reply: &TransactionReply) -> Result<(), ErrorCode> {
    match reply {
        TransactionReply::AddPartitions(outcome) => *outcome,
        TransactionReply::VerifyPartitions(outcomes) => outcomes[0],
        other => panic!("does not tell of partitions: {other:?}"),
    }
}

#[test]
fn a_transaction_is_all_or_nothing_whatever_crashes_when() {
    let (mut committed, mut aborted) = (0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.come_to_rest();
        world.check(seed);
        for outcome in world.told.values() {
            match outcome {
                TransactionOutcome::Commit => committed += 1,
                TransactionOutcome::Abort => aborted += 1,
            }
        }
    }
    assert!(committed > 1_000 && aborted > 300, "{committed} committed, {aborted} aborted");
}

#[test]
fn the_check_notices_what_it_is_for() {
    let record = |tag| Entry::Record {
        producer: Producer { id: ProducerId(1), epoch: ProducerEpoch(0) },
        tag,
    };
    let marker = |outcome| Entry::Marker { producer: ProducerId(1), outcome };
    let fails = |logs: [Vec<Entry>; 2], told: Option<TransactionOutcome>| {
        let mut world = World::new(0);
        for (partition, log) in world.partitions.iter_mut().zip(logs) {
            partition.log = log;
        }
        world.told.extend(told.map(|told| (7, told)));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.check(0))).is_err()
    };
    let (commit, abort) = (TransactionOutcome::Commit, TransactionOutcome::Abort);
    assert!(!fails([vec![record(7), marker(commit)], Vec::new()], Some(commit)));
    assert!(fails([vec![record(7), marker(commit)], Vec::new()], Some(abort)), "not as told");
    assert!(fails([vec![record(7)], Vec::new()], None), "hangs");
    let torn = [vec![record(7), marker(commit)], vec![record(7), marker(abort)]];
    assert!(fails(torn, None), "torn");
}
