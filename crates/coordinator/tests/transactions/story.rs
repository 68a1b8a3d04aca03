//! What happens to a shard, as a text that can be read.

use std::collections::HashMap;
use std::fmt::Write;

use logway_coordinator::TransactionalId;
use logway_coordinator::transactions::{
    MarkerOrder, Producer, Transaction, TransactionOutcome, TransactionReply, TransactionRequest,
    TransactionSettings,
};
use logway_model::{
    ErrorCode, PartitionId, ProducerEpoch, ProducerId, TopicName, TopicPartition,
    TransactionVersion,
};

use crate::driver::{Driver, WALL_ZERO_MS};

pub(crate) const V2: TransactionVersion = TransactionVersion::EPOCH_BUMP;
pub(crate) const CLASSIC: TransactionVersion = TransactionVersion::CLASSIC;

/// The transaction timeout of all clients.
pub(crate) const TIMEOUT_MS: i32 = 60_000;

/// A shard, clients that know who they are, and what was said.
pub(crate) struct Story {
    pub(crate) driver: Driver,
    text: String,
    next_producer_id: i64,
    /// Who each client believes to be.
    producers: HashMap<&'static str, Producer>,
}

/// A partition by its directory's name.
pub(crate) fn partition(name: &str) -> TopicPartition {
    let (topic, number) = name.rsplit_once('-').expect("topic and number");
    let number = number.parse().expect("a number");
    TopicPartition::new(TopicName::new(topic).expect("a legal name"), PartitionId(number))
}

fn partitions(names: &str) -> Vec<TopicPartition> {
    names.split_whitespace().map(partition).collect()
}

impl Story {
    pub(crate) fn new() -> Story {
        Story {
            driver: Driver::new(TransactionSettings::default()),
            text: String::new(),
            next_producer_id: 1000,
            producers: HashMap::new(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn say(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a text");
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.say(&format!("\n# {text}"));
    }

    /// Gives a client another epoch or id than it was told.
    pub(crate) fn pretend(&mut self, client: &'static str, id: i64, epoch: i16) {
        let producer = Producer { id: ProducerId(id), epoch: ProducerEpoch(epoch) };
        self.producers.insert(client, producer);
    }

    /// InitProducerId of a client for an id, as one that was just started.
    pub(crate) fn init(&mut self, client: &'static str, id: &str) {
        self.init_as(client, id, None);
    }

    /// The same of one that had an error.
    pub(crate) fn init_again(&mut self, client: &'static str, id: &str) {
        let expected = self.producers[client];
        self.init_as(client, id, Some(expected));
    }

    fn init_as(&mut self, client: &'static str, id: &str, expected: Option<Producer>) {
        self.say(&format!("{client} -> InitProducerId {id} {}", shown_expected(expected)));
        self.ask(client, |fresh_id| TransactionRequest::InitProducerId {
            transactional_id: id.into(),
            timeout_ms: TIMEOUT_MS,
            expected,
            fresh_id,
        });
    }

    pub(crate) fn add(
        &mut self,
        client: &'static str,
        id: &str,
        names: &str,
        version: TransactionVersion,
    ) {
        let producer = self.producers[client];
        self.say(&format!("{client} -> AddPartitions {id} {} {names}", shown(producer)));
        self.ask(client, |_| TransactionRequest::AddPartitions {
            transactional_id: id.into(),
            producer,
            partitions: partitions(names),
            version,
        });
    }

    pub(crate) fn verify(&mut self, client: &'static str, id: &str, names: &str) {
        let producer = self.producers[client];
        self.say(&format!("{client} -> VerifyPartitions {id} {} {names}", shown(producer)));
        self.ask(client, |_| TransactionRequest::VerifyPartitions {
            transactional_id: id.into(),
            producer,
            partitions: partitions(names),
        });
    }

    pub(crate) fn end(
        &mut self,
        client: &'static str,
        id: &str,
        outcome: TransactionOutcome,
        version: TransactionVersion,
    ) {
        let producer = self.producers[client];
        self.say(&format!("{client} -> EndTxn {id} {} {outcome:?}", shown(producer)));
        self.ask(client, |fresh_id| TransactionRequest::EndTxn {
            transactional_id: id.into(),
            producer,
            outcome,
            version,
            fresh_id,
        });
    }

    /// Asks, with a new producer id if the shard wants one. What it appends becomes durable.
    fn ask(
        &mut self,
        client: &'static str,
        body: impl Fn(Option<ProducerId>) -> TransactionRequest,
    ) {
        let mut token = self.driver.ask(body(None));
        let mut reply = self.driver.take_reply(token);
        if reply == Some(TransactionReply::NeedsProducerId) {
            let fresh = ProducerId(self.next_producer_id);
            self.next_producer_id += 1;
            token = self.driver.ask(body(Some(fresh)));
            reply = self.driver.take_reply(token);
        }
        self.settle_all();
        match reply.or_else(|| self.driver.take_reply(token)) {
            Some(reply) => self.hear(client, &reply),
            None => self.say(&format!("  {client} hears nothing")),
        }
    }

    fn hear(&mut self, client: &'static str, reply: &TransactionReply) {
        let line = match reply {
            TransactionReply::InitProducerId(Ok(producer))
            | TransactionReply::EndTxn(Ok(producer)) => {
                self.producers.insert(client, *producer);
                format!("is {}", shown(*producer))
            }
            TransactionReply::InitProducerId(Err(code)) | TransactionReply::EndTxn(Err(code)) => {
                code.name().to_owned()
            }
            TransactionReply::AddPartitions(outcome) => shown_outcome(*outcome).to_owned(),
            TransactionReply::VerifyPartitions(outcomes) => {
                let shown: Vec<_> = outcomes.iter().map(|it| shown_outcome(*it)).collect();
                shown.join(" ")
            }
            other => format!("{other:?}"),
        };
        self.say(&format!("  {client} <- {line}"));
    }

    /// Each append becomes durable, and those that follow from it.
    pub(crate) fn settle_all(&mut self) {
        while !self.driver.in_flight.is_empty() {
            for record in self.driver.settle(Ok(())) {
                let id = record.transactional_id.as_str().to_owned();
                let line = record.transaction.as_deref().map_or("forgotten".to_owned(), state);
                self.say(&format!("  log: {id} {line}"));
            }
        }
    }

    /// The oldest append fails.
    pub(crate) fn fail(&mut self, code: ErrorCode) {
        let records = self.driver.settle(Err(code)).len();
        self.say(&format!("  log: {} for {records} record", code.name()));
    }

    /// The markers of the oldest order are written.
    pub(crate) fn write_markers(&mut self) {
        let order = self.driver.orders.pop_front().expect("markers were ordered");
        self.say(&format!("markers: {}", shown_order(&order)));
        self.driver.markers_written(&order);
        self.settle_all();
    }

    pub(crate) fn no_markers(&mut self) {
        assert!(self.driver.orders.is_empty(), "{:?}", self.driver.orders);
    }

    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.say(&format!("{ms} ms pass"));
        self.driver.wait_ms(ms);
        self.settle_all();
    }

    /// Lets time pass without the log.
    pub(crate) fn wait_only_ms(&mut self, ms: u64) {
        self.say(&format!("{ms} ms pass, and the log is slow"));
        self.driver.wait_ms(ms);
    }

    pub(crate) fn crash(&mut self) {
        self.driver.crash();
        self.say("the coordinator moves");
        for (id, transaction) in self.driver.shard.transactions() {
            writeln!(self.text, "  knows: {id} {}", state(transaction)).expect("a text");
        }
        self.settle_all();
    }

    pub(crate) fn knows(&self, id: &str) -> Option<&Transaction> {
        self.driver.shard.transaction(TransactionalId::from(id).as_str()).map(AsRef::as_ref)
    }
}

fn shown(producer: Producer) -> String {
    format!("{}/{}", producer.id.0, producer.epoch.0)
}

fn shown_expected(expected: Option<Producer>) -> String {
    expected.map_or("anew".to_owned(), |it| format!("again as {}", shown(it)))
}

fn shown_outcome(outcome: Result<(), ErrorCode>) -> &'static str {
    outcome.err().unwrap_or(ErrorCode::None).name()
}

fn shown_partitions(transaction: &Transaction) -> String {
    let names: Vec<_> = transaction.partitions.iter().map(|it| it.to_string()).collect();
    names.join(" ")
}

fn shown_order(order: &MarkerOrder) -> String {
    let transaction = &order.transaction;
    let producer = shown(transaction.producer);
    format!("{:?} of {producer} to {}", order.outcome(), shown_partitions(transaction))
}

fn state(transaction: &Transaction) -> String {
    let mut text = format!("{} {}", transaction.state.name(), shown(transaction.producer));
    if transaction.next_producer_id.is_some() {
        write!(text, " then {}/0", transaction.next_producer_id.0).expect("a text");
    }
    if transaction.started.0 >= 0 {
        write!(text, " since {}", transaction.started.0 - WALL_ZERO_MS).expect("a text");
    }
    if !transaction.partitions.is_empty() {
        write!(text, " [{}]", shown_partitions(transaction)).expect("a text");
    }
    text
}
