//! Who writes in transactions.

use std::time::Duration;

use logway_coordinator::transactions::{Producer, TransactionOutcome};
use logway_log::fs::sim::Rng;
use logway_model::{Sequence, TimestampMs, TransactionVersion};
use logway_node::tasks::wall_clock;
use logway_record::{Batch, Compression};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::calls::{
    Refusal, add_partition, begin_producer, commit_offsets, end_transaction, is_at_rest,
    offsets_place, write,
};
use super::invariants;
use super::ledger::Fate;
use super::topics::{PARTITIONS, TOPIC};
use crate::batch::{BatchPlan, transactional_batch};
use crate::cluster::oracle::Place;
use crate::cluster::patience::Patience;
use crate::cluster::producer::Clients;

/// What is not written in this time is given up, and the transaction with it.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// What goes by a second connection, too, may be so much later there.
const LATE_MS: usize = 800;

/// How long transactions may take: some not so long as many do.
const TIMEOUTS_MS: [i32; 3] = [400, 1_500, 3_000];

/// One of the processes that share a transactional id.
pub(in crate::cluster) struct TransactionalProducer {
    owner: usize,
    random: Rng,
    clients: Clients,
    /// Some of its incarnations speak the older protocol.
    is_older_at_times: bool,
    /// The protocol that this incarnation speaks.
    version: TransactionVersion,
    /// What comes next in each partition. By the older protocol the next transaction goes on with it.
    sequences: [i32; PARTITIONS as usize],
    /// What it has added to the transaction. By the newer protocol nobody has to.
    added: Vec<Place>,
    /// What is on its way by a second connection. Nobody waits for its answers.
    late: JoinSet<()>,
}

/// A batch of a transaction that was sent at least once.
struct Part {
    place: Place,
    batch: Batch,
    producer: Producer,
}

impl TransactionalProducer {
    /// One that has nothing under way.
    pub(in crate::cluster) fn new(
        owner: usize,
        random: Rng,
        clients: Clients,
    ) -> TransactionalProducer {
        TransactionalProducer {
            owner,
            random,
            clients,
            is_older_at_times: false,
            version: TransactionVersion::EPOCH_BUMP,
            sequences: [0; PARTITIONS as usize],
            added: Vec::new(),
            late: JoinSet::new(),
        }
    }

    /// The same, by the older protocol.
    pub(in crate::cluster) fn older(self) -> TransactionalProducer {
        TransactionalProducer { version: TransactionVersion::CLASSIC, ..self }
    }

    /// The same, with other nodes that it can ask.
    pub(in crate::cluster) fn asking(self, clients: Clients) -> TransactionalProducer {
        TransactionalProducer { clients, ..self }
    }

    /// The same, but that some of its incarnations speak the older protocol.
    pub(super) fn older_at_times(self, is_older_at_times: bool) -> TransactionalProducer {
        TransactionalProducer { is_older_at_times, ..self }
    }

    pub(super) async fn run(mut self) {
        while !self.clients.is_over() {
            let away_ms = [200, 200, 1_500][self.random.below(3)];
            self.pause(away_ms).await;
            let timeout_ms = TIMEOUTS_MS[self.random.below(3)];
            match begin_producer(&self.clients, &mut self.random, self.owner, timeout_ms).await {
                Ok(producer) => {
                    self.clients.ledger.fence(producer);
                    self.clients.oracle.count(|report| report.incarnations += 1);
                    self.version = match self.is_older_at_times && self.random.coin() {
                        true => TransactionVersion::CLASSIC,
                        false => TransactionVersion::EPOCH_BUMP,
                    };
                    let is_older = !self.version.bumps_epoch();
                    self.clients.oracle.count(|it| it.older_incarnations += u64::from(is_older));
                    self.sequences = Default::default();
                    self.go_on(producer).await;
                }
                Err(refusal) => tracing::debug!(self.owner, ?refusal, "no producer"),
            }
        }
        while self.late.join_next().await.is_some() {}
    }

    async fn pause(&mut self, most_ms: usize) {
        sleep(Duration::from_millis(self.random.below(most_ms) as u64)).await;
    }

    /// Has one transaction after the other, until it is fenced or starts again.
    async fn go_on(&mut self, mut producer: Producer) {
        for _ in 0..1 + self.random.below(12) {
            if self.clients.is_over() {
                return;
            }
            match self.transact(producer).await {
                Some(next) => producer = next,
                None if self.clients.ledger.is_fenced(producer) => {
                    return self.haunt(producer).await;
                }
                None => return,
            }
            self.pause(30).await;
        }
    }

    /// The number of a transaction that is begun. It is drawn when the producer has begun: of one id, later transactions
    /// have higher numbers.
    fn begin(&mut self) -> u64 {
        self.added.clear();
        if self.version.bumps_epoch() {
            self.sequences = Default::default();
        }
        let number = self.clients.number();
        self.clients.ledger.begin(number, self.owner);
        number
    }

    /// One transaction. Gives who the producer is behind it; `None` if that is not known.
    async fn transact(&mut self, producer: Producer) -> Option<Producer> {
        let number = self.begin();
        let mut is_written = self.write_some(number, producer).await;
        if is_written && self.random.coin() {
            is_written = self.commit_offsets(number, producer).await;
        }
        let is_left = self.random.below(if is_written { 10 } else { 2 }) == 0;
        if is_left {
            // Its successor, or its timeout, is to abort it.
            self.clients.oracle.count(|report| report.transactions_left += 1);
            return None;
        }
        if !is_written || self.random.below(4) == 0 {
            let next = self.end(producer, TransactionOutcome::Abort).await?;
            self.clients.oracle.count(|report| report.transactions_aborted += 1);
            // By the older protocol, who does not know whether a batch is written needs another epoch.
            return (is_written || self.version.bumps_epoch()).then_some(next);
        }
        self.commit((number, producer)).await
    }

    /// Becomes the producer of the id, and begins a transaction by a batch to a partition; `None` if that does not come
    /// about in a time.
    pub(in crate::cluster) async fn open(
        &mut self,
        partition: usize,
        time_max: Duration,
    ) -> Option<(u64, Producer)> {
        let (number, producer) = self.become_producer(time_max).await?;
        self.write(number, producer, partition).await.then_some((number, producer))
    }

    /// Becomes the producer of the id, and begins a transaction, by the older protocol, by adding a partition.
    pub(in crate::cluster) async fn open_unwritten(
        &mut self,
        place: Place,
        time_max: Duration,
    ) -> Option<(u64, Producer)> {
        let (number, producer) = self.become_producer(time_max).await?;
        self.add(producer, place).await.then_some((number, producer))
    }

    async fn become_producer(&mut self, time_max: Duration) -> Option<(u64, Producer)> {
        let timeout_ms = i32::try_from(time_max.as_millis()).unwrap_or(i32::MAX);
        let mut patience = Patience::new(time_max);
        let producer = loop {
            match begin_producer(&self.clients, &mut self.random, self.owner, timeout_ms).await {
                Ok(producer) => break producer,
                Err(Refusal::Again) if patience.wait().await => {}
                Err(_) => return None,
            }
        };
        self.clients.ledger.fence(producer);
        Some((self.begin(), producer))
    }

    /// Aborts a transaction. Whether that is done.
    pub(in crate::cluster) async fn abort(&mut self, producer: Producer) -> bool {
        let is_aborted = self.end(producer, TransactionOutcome::Abort).await.is_some();
        self.clients.oracle.count(|report| report.transactions_aborted += u64::from(is_aborted));
        is_aborted
    }

    /// Commits a transaction. Gives who the producer is behind it; `None` if that is not known.
    pub(in crate::cluster) async fn commit(
        &mut self,
        (number, producer): (u64, Producer),
    ) -> Option<Producer> {
        self.clients.ledger.settle(number, Fate::Asked);
        let next = self.end(producer, TransactionOutcome::Commit).await?;
        self.clients.ledger.settle(number, Fate::Committed);
        self.clients.oracle.count(|report| report.transactions_committed += 1);
        Some(next)
    }

    /// Whether its coordinator says that nothing is left to be done of the id's last transaction.
    pub(in crate::cluster) async fn is_at_rest(&mut self) -> bool {
        matches!(is_at_rest(&self.clients, &mut self.random, self.owner).await, Ok(true))
    }

    /// Tries, as a producer that has been replaced, to write and commit one more transaction.
    async fn haunt(&mut self, producer: Producer) {
        let number = self.begin();
        let partition = self.random.below(PARTITIONS as usize);
        self.write(number, producer, partition).await;
        if self.random.coin() {
            self.commit_offsets(number, producer).await;
        }
        let Self { clients, random, owner, version, .. } = self;
        let outcome = TransactionOutcome::Commit;
        let ended = end_transaction(clients, random, *owner, producer, outcome, *version).await;
        clients.oracle.count(|report| report.fenced += u64::from(ended.is_err()));
        self.judge(producer, true, ended.is_ok(), "ended a transaction");
    }

    fn judge(&self, producer: Producer, was_fenced: bool, is_done: bool, what: &str) {
        if let Err(broken) = invariants::fencing::check(producer, was_fenced && is_done, what) {
            self.clients.oracle.violated(broken);
        }
    }

    /// Does something once more, some time later, as if the client had given up a connection on which it still was.
    fn repeat_late<F: Future + Send + 'static>(
        &mut self,
        work: impl FnOnce(Clients, Rng, usize) -> F,
    ) {
        if self.random.below(8) > 0 {
            return;
        }
        let delay = Duration::from_millis(self.random.below(LATE_MS) as u64);
        let work = work(self.clients.clone(), Rng::new(self.random.next_u64()), self.owner);
        self.late.spawn(async move {
            sleep(delay).await;
            work.await;
        });
    }

    async fn end(&mut self, producer: Producer, outcome: TransactionOutcome) -> Option<Producer> {
        let version = self.version;
        // By the older protocol nobody can tell the end of a transaction from that of the one before.
        if version.bumps_epoch() {
            self.repeat_late(move |clients, mut random, owner| async move {
                _ = end_transaction(&clients, &mut random, owner, producer, outcome, version).await;
            });
        }
        loop {
            let Self { clients, random, owner, .. } = self;
            match end_transaction(clients, random, *owner, producer, outcome, version).await {
                Ok(next) => return Some(next),
                Err(Refusal::Again) => self.pause(30).await,
                Err(Refusal::Over(code)) => {
                    tracing::debug!(self.owner, ?producer, %outcome, %code, "it ends otherwise");
                    return None;
                }
            }
        }
    }

    /// Writes some batches to partitions. Whether all are acknowledged.
    async fn write_some(&mut self, number: u64, producer: Producer) -> bool {
        for _ in 0..1 + self.random.below(4) {
            let partition = self.random.below(PARTITIONS as usize);
            if !self.write(number, producer, partition).await {
                return false;
            }
            self.pause(15).await;
        }
        true
    }

    /// Writes a batch. Whether it is acknowledged.
    pub(in crate::cluster) async fn write(
        &mut self,
        number: u64,
        producer: Producer,
        partition: usize,
    ) -> bool {
        let place = Place { topic: TOPIC, partition: i32::try_from(partition).unwrap_or(0) };
        if !self.add(producer, place).await {
            return false;
        }
        let sequence = Sequence(self.sequences[partition]);
        let TimestampMs(now) = wall_clock();
        let records = (0..1 + self.random.below(2)).map(|_| (0, Some(self.random.below(200))));
        let plan = BatchPlan {
            records: records.collect(),
            number: self.clients.number(),
            timestamp: TimestampMs(now),
            producer: Some((producer.id, sequence)),
            compression: Compression::None,
        };
        let batch = transactional_batch(&plan, producer.epoch);
        let is_fenced = self.clients.ledger.is_fenced(producer);
        self.clients.ledger.sends(number, place, &batch, is_fenced);
        let (repeated, version) = (batch.clone(), self.version);
        self.repeat_late(move |clients, mut random, owner| async move {
            _ = write(&clients, &mut random, owner, place, repeated, version).await;
        });
        let records = batch.header().record_count;
        let is_written = self.send(Part { place, batch, producer }).await;
        self.sequences[partition] += if is_written { records } else { 0 };
        is_written
    }

    /// Adds a partition to the transaction, where the protocol asks for it. Whether it is part of the transaction, as far as the
    /// producer knows: one that is fenced does not ask.
    async fn add(&mut self, producer: Producer, place: Place) -> bool {
        let is_fenced = self.clients.ledger.is_fenced(producer);
        if self.version.bumps_epoch() || is_fenced || self.added.contains(&place) {
            return true;
        }
        let deadline = Instant::now() + WRITTEN_WITHIN;
        while Instant::now() < deadline {
            let Self { clients, random, owner, .. } = self;
            match add_partition(clients, random, *owner, producer, place).await {
                Ok(()) => {
                    self.added.push(place);
                    return true;
                }
                Err(Refusal::Again) => self.pause(30).await,
                Err(Refusal::Over(code)) => {
                    tracing::debug!(self.owner, ?producer, %code, "a partition is not added");
                    return false;
                }
            }
        }
        false
    }

    /// Sends a batch until it is acknowledged or refused; whether it is acknowledged.
    async fn send(&mut self, Part { place, batch, producer }: Part) -> bool {
        let deadline = Instant::now() + WRITTEN_WITHIN;
        while Instant::now() < deadline {
            let was_fenced = self.clients.ledger.is_fenced(producer);
            let Self { clients, random, owner, version, .. } = self;
            match write(clients, random, *owner, place, batch.clone(), *version).await {
                Ok(outcome) => {
                    self.judge(producer, was_fenced, !outcome.is_duplicate, "written");
                    return true;
                }
                Err(Refusal::Again) => self.pause(30).await,
                Err(Refusal::Over(code)) => {
                    clients.oracle.count(|report| report.fenced += u64::from(was_fenced));
                    tracing::debug!(self.owner, ?producer, %code, "a batch is refused");
                    return false;
                }
            }
        }
        false
    }

    /// Has the group commit the number of the transaction. Whether it is acknowledged.
    async fn commit_offsets(&mut self, number: u64, producer: Producer) -> bool {
        if !self.add(producer, offsets_place(self.owner)).await {
            return false;
        }
        self.clients.ledger.commits_offset(number);
        let was_fenced = self.clients.ledger.is_fenced(producer);
        let version = self.version;
        // By the older protocol it could be taken for a commit of the next transaction.
        if version.bumps_epoch() {
            self.repeat_late(move |clients, mut random, owner| async move {
                _ = commit_offsets(&clients, &mut random, owner, producer, number, version).await;
            });
        }
        let deadline = Instant::now() + WRITTEN_WITHIN;
        while Instant::now() < deadline {
            let Self { clients, random, owner, .. } = self;
            match commit_offsets(clients, random, *owner, producer, number, version).await {
                Ok(()) => {
                    self.judge(producer, was_fenced, true, "committed offsets");
                    return true;
                }
                Err(Refusal::Again) => self.pause(30).await,
                Err(Refusal::Over(code)) => {
                    clients.oracle.count(|report| report.fenced += u64::from(was_fenced));
                    tracing::debug!(self.owner, ?producer, %code, "offsets are refused");
                    return false;
                }
            }
        }
        false
    }
}
