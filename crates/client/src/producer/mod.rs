//! Writing a topic.
//!
//! [`Producer`] runs in the caller's task and fills batches in the shared [`Accumulator`]; the
//! [`Sender`] task takes them from there, sends them, and puts back what has to be sent again.

mod accumulator;
mod batch;
mod fate;
mod identity;
mod options;
mod outcome;
mod partition_queue;
mod sender;
mod summary;
mod transaction;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::transaction::Transactions;
pub use self::transaction::{CommittedTransactions, TransactionOptions};
pub use fate::Unacknowledged;
use logway_model::{BrokerId, PartitionId, TimestampMs, TopicName, TopicPartition};
use logway_record::Header;
use logway_record::TransactionOutcome;
use logway_wire::messages::ApiVersionsRequest;
pub use options::{Acks, ProducerOptions};
pub use summary::{PartitionSummary, ProduceSummary};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::accumulator::Accumulator;
use self::sender::Sender;
use crate::{Client, ClientError, MissingTopic, Partitioner};

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// Where it goes; `None` leaves it to the key, or to the producer if there is no key.
    pub partition: Option<PartitionId>,
    /// When it was made.
    pub timestamp: TimestampMs,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [Header],
}

/// Writes one topic in batches.
///
/// With [`Acks::All`] and idempotence, the default, each record is stored once and in order even
/// when requests are repeated. The first record that cannot be stored ends the producer: from
/// then on each call returns that error, and what was not acknowledged is given up.
///
/// With [`ProducerOptions::transaction`] the first record begins a transaction. [`Producer::commit`] and
/// [`Producer::abort`] end it, and the next record begins another.
///
/// Dropping it gives up what is buffered; [`Producer::close`] does not.
#[derive(Debug)]
pub struct Producer {
    topic: TopicName,
    client: Client,
    partitioner: Partitioner,
    shared: Arc<Shared>,
    sender: JoinHandle<()>,
    acks: Acks,
    transactions: Option<Transactions>,
}

/// What the producer and its sender task share.
#[derive(Debug)]
struct Shared {
    accumulator: Mutex<Accumulator>,
    /// Wakes the sender: there is something to send, or a time-out to watch.
    work: Notify,
    /// Wakes the producer: there is room, or nothing left, or a failure.
    progress: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Accumulator> {
        // A panic under this lock leaves at worst a batch that is not sent, never a wrong one.
        self.accumulator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Producer {
    /// Finds the topic, creating it if the brokers do that by themselves, and becomes a producer
    /// with an id of its own, or the one of its transactional id. Some of the topic's partitions may lack their leaders: records that
    /// need not go there go elsewhere, the others wait.
    ///
    /// # Panics
    ///
    /// If there are to be transactions without [`Acks::All`] and idempotence.
    pub async fn open(
        client: Client,
        topic: TopicName,
        options: ProducerOptions,
    ) -> Result<Producer, ClientError> {
        let metadata = client.await_any_leader(&topic, MissingTopic::Create).await?;
        let transactions = match options.transaction.clone() {
            Some(transaction) => {
                assert!(options.is_idempotent(), "transactions take acks of all, and idempotence");
                Some(Transactions::init(&client, transaction).await?)
            }
            None => None,
        };
        let identity = match (&transactions, options.is_idempotent()) {
            (Some(transactions), _) => Some(transactions.identity()),
            (None, true) => Some(identity::init_producer_id(&client).await?),
            (None, false) => None,
        };
        let partitions = metadata.topics.get(&topic).map_or(0, |topic| topic.partitions.len());
        let partitions =
            u32::try_from(partitions).expect("no response has room for 2^32 partitions");

        let shared = Arc::new(Shared {
            accumulator: Mutex::new(Accumulator::new(
                topic.clone(),
                partitions,
                &options,
                identity,
            )),
            work: Notify::new(),
            progress: Notify::new(),
        });
        let acks = options.acks;
        let sender = Sender::new(client.clone(), topic.clone(), options, Arc::clone(&shared));
        let first = RandomState::new().hash_one(topic.as_str()) as u32;
        Ok(Producer {
            topic,
            client,
            partitioner: Partitioner::new(partitions, first),
            shared,
            sender: tokio::spawn(sender.run()),
            acks,
            transactions,
        })
    }

    /// Puts a record into a batch, and returns the partition that it goes to. Waits while the buffer is full.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoSuchPartition`], a record that cannot be encoded, or what ended the
    /// producer before.
    pub async fn send(&mut self, record: NewRecord<'_>) -> Result<PartitionId, ClientError> {
        loop {
            {
                let mut accumulator = self.shared.lock();
                accumulator.check()?;
                if accumulator.has_room_for(&record) {
                    let has_leader = |id| has_leader(&self.client, &self.topic, id);
                    let partition =
                        choose_partition(&mut self.partitioner, &accumulator, &record, has_leader);
                    let appended = accumulator.append(partition, &record)?;
                    drop(accumulator);
                    if let Some(transactions) = &mut self.transactions {
                        transactions.took_record();
                    }
                    if appended.is_news {
                        self.shared.work.notify_one();
                    }
                    return Ok(partition);
                }
                accumulator.press();
            }
            self.shared.work.notify_one();
            self.shared.progress.notified().await;
        }
    }

    /// Waits until everything is acknowledged.
    ///
    /// With [`Acks::None`] it waits until the brokers have read it, and says nothing about
    /// whether they stored it.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        loop {
            {
                let mut accumulator = self.shared.lock();
                accumulator.check()?;
                if accumulator.is_empty() {
                    break;
                }
                accumulator.press();
            }
            self.shared.work.notify_one();
            self.shared.progress.notified().await;
        }
        match self.acks {
            Acks::None => self.await_readers().await,
            Acks::Leader | Acks::All => Ok(()),
        }
    }

    /// Waits until everything is acknowledged, and commits it. Without records there is nothing to commit.
    ///
    /// # Errors
    ///
    /// What keeps records from being stored, and what the coordinator says. Then the transaction is to be aborted.
    ///
    /// # Panics
    ///
    /// Without [`ProducerOptions::transaction`].
    pub async fn commit(&mut self) -> Result<(), ClientError> {
        self.flush().await?;
        let transactions = self.transactions.as_mut().expect(NO_TRANSACTIONS);
        if transactions.end(TransactionOutcome::Commit).await?.is_some() {
            self.shared.lock().go_on_as(transactions.identity());
        }
        Ok(())
    }

    /// Gives up the transaction that is open, and ends the producer. Returns how the transaction has ended, `None` if
    /// there was none. A commit that was given up while it waited for its answer cannot be undone, and is seen through.
    ///
    /// # Errors
    ///
    /// What the coordinator says, or that it cannot be asked. It aborts the transaction by itself when
    /// [`TransactionOptions::timeout`] is over.
    ///
    /// # Panics
    ///
    /// Without [`ProducerOptions::transaction`].
    pub async fn abort(&mut self) -> Result<Option<TransactionOutcome>, ClientError> {
        self.shared.lock().fail(ClientError::Stopped { task: "producer" });
        self.shared.work.notify_one();
        // What is on its way to a leader comes too late: its epoch is over.
        let transactions = self.transactions.as_mut().expect(NO_TRANSACTIONS);
        transactions.end(TransactionOutcome::Abort).await
    }

    /// What has been committed; `None` for a producer without transactions.
    pub fn committed(&self) -> Option<CommittedTransactions> {
        self.transactions.as_ref().map(Transactions::committed)
    }

    /// What has been acknowledged so far.
    pub fn summary(&self) -> ProduceSummary {
        self.shared.lock().summary().clone()
    }

    /// How many records were taken and are not acknowledged, and what is known of them.
    pub fn unacknowledged(&self) -> Unacknowledged {
        self.shared.lock().unacknowledged()
    }

    /// Waits after a failure for the answers that are on their way, so that
    /// [`Producer::unacknowledged`] counts as few records as possible among those that nobody knows
    /// about. Nothing more is sent.
    pub async fn settle(&mut self) {
        while self.shared.lock().is_in_flight() {
            self.shared.progress.notified().await;
        }
    }

    /// Flushes and ends.
    pub async fn close(mut self) -> Result<ProduceSummary, ClientError> {
        self.flush().await?;
        Ok(self.summary())
    }

    /// Each broker handles the requests of a connection in order: the answer to this one proves
    /// that all before it have been read.
    async fn await_readers(&self) -> Result<(), ClientError> {
        let metadata = self.client.metadata();
        let topic = metadata.topics.get(&self.topic);
        let leaders: BTreeSet<BrokerId> = topic
            .into_iter()
            .flat_map(|topic| topic.partitions.iter().filter_map(|partition| partition.leader))
            .collect();
        for leader in leaders {
            self.client.broker(leader).await?.call(&ApiVersionsRequest::default()).await?;
        }
        Ok(())
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.sender.abort();
    }
}

/// What a caller has to see to.
const NO_TRANSACTIONS: &str = "the producer was opened with a transactional id";

/// Records without a key fill one batch after the other, each in the next partition that has a
/// leader.
fn choose_partition(
    partitioner: &mut Partitioner,
    accumulator: &Accumulator,
    record: &NewRecord<'_>,
    has_leader: impl Fn(PartitionId) -> bool,
) -> PartitionId {
    match (record.partition, record.key) {
        (Some(partition), _) => partition,
        (None, Some(key)) => partitioner.for_key(key),
        (None, None) => {
            if !accumulator.has_batch_for(partitioner.sticky(), record) {
                partitioner.advance(has_leader);
            }
            partitioner.sticky()
        }
    }
}

fn has_leader(client: &Client, topic: &TopicName, id: PartitionId) -> bool {
    client.metadata().leader(&TopicPartition::new(topic.clone(), id)).is_some()
}
