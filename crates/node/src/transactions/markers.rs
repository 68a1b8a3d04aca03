//! The coordinator has markers written to the leaders of partitions.
//!
//! Each transaction that has ended has a task, which tries until each of its markers is written. Nothing waits for another
//! transaction: the markers for one node are sent together, by several calls at a time, and those for a node that does not
//! answer are tried again by their own tasks. A partition that was deleted needs no marker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use logway_coordinator::Marker;
use logway_coordinator::transactions::{MarkerOrder, TransactionOutcome, TransactionShard};
use logway_model::{BrokerId, ErrorCode, TopicPartition};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::sleep;

use crate::Node;
use crate::backoff::Backoff;
use crate::cluster::Mutation;
use crate::shards::{Command, WeakShardHandle};
use crate::tasks::join_all;

/// Markers of one call.
const MARKERS_MAX: usize = 200;

/// Calls to one node at a time.
const CALLS_MAX: usize = 8;

/// How long a node may take: longer than it waits itself for a marker to be committed.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Debug, Default)]
pub struct TransactionMetrics {
    markers: AtomicU64,
    committed: AtomicU64,
    aborted: AtomicU64,
    orders_ending: AtomicU64,
}

impl TransactionMetrics {
    /// How many markers were written for transactions of this coordinator.
    pub fn markers(&self) -> u64 {
        self.markers.load(Ordering::Relaxed)
    }

    /// How many transactions have ended and wait for their markers.
    pub fn ending(&self) -> u64 {
        self.orders_ending.load(Ordering::Relaxed)
    }

    /// How many transactions have ended so with all their markers.
    pub fn ended(&self, outcome: TransactionOutcome) -> u64 {
        self.of(outcome).load(Ordering::Relaxed)
    }

    fn of(&self, outcome: TransactionOutcome) -> &AtomicU64 {
        match outcome {
            TransactionOutcome::Commit => &self.committed,
            TransactionOutcome::Abort => &self.aborted,
        }
    }
}

/// What is on its way to other nodes.
#[derive(Debug, Default)]
pub(super) struct MarkerQueues {
    /// Without a bound of its own: each transaction that has ended has one entry for a node at a time.
    by_broker: Mutex<HashMap<BrokerId, mpsc::UnboundedSender<Queued>>>,
}

/// A marker for one node.
#[derive(Debug)]
struct Queued {
    partition: TopicPartition,
    marker: Marker,
    send_outcome: oneshot::Sender<Result<(), ErrorCode>>,
}

/// Begins to have markers written, and tells the shard at the end.
pub(super) fn begin(
    node: Weak<Node>,
    shard: WeakShardHandle<TransactionShard>,
    order: MarkerOrder,
) {
    if let Some(node) = node.upgrade() {
        node.transactions.metrics.orders_ending.fetch_add(1, Ordering::Relaxed);
    }
    tokio::spawn(async move {
        let is_done = write_all(&node, &shard, &order).await;
        if let Some(node) = node.upgrade() {
            let metrics = &node.transactions.metrics;
            metrics.orders_ending.fetch_sub(1, Ordering::Relaxed);
            metrics.of(order.outcome()).fetch_add(u64::from(is_done), Ordering::Relaxed);
        }
        if is_done {
            let tell = move |shard: &mut TransactionShard, now| shard.markers_written(now, &order);
            shard.send(Command::Event(Box::new(tell)));
        }
    });
}

/// Whether all markers are written; else the coordinator is another one by now.
async fn write_all(
    node: &Weak<Node>,
    shard: &WeakShardHandle<TransactionShard>,
    order: &MarkerOrder,
) -> bool {
    let marker = Marker {
        producer: order.transaction.producer,
        outcome: order.outcome(),
        coordinator_epoch: shard.epoch.0,
        version: order.transaction.version,
    };
    let mut left: Vec<TopicPartition> = order.transaction.partitions.iter().collect();
    let mut backoff = Backoff::between(PAUSE_MIN, PAUSE_MAX);
    loop {
        let Some(node) = node.upgrade().filter(|_| shard.is_alive()) else { return false };
        let tries = left.into_iter().map(|partition| try_one(&node, partition, marker));
        left = Vec::new();
        for (partition, fate) in join_all(tries.collect()).await {
            match fate {
                Fate::Done => {}
                Fate::Again => left.push(partition),
                Fate::Replaced => {
                    drop(node);
                    wait_until_replaced(shard, &partition, &marker).await;
                    return false;
                }
            }
        }
        if left.is_empty() || node.breaks(Mutation::MarksOnce) {
            return true;
        }
        drop(node);
        sleep(backoff.pause()).await;
    }
}

/// A partition has a marker of a later coordinator. This one is told so by the metadata, in a moment. If it never is, somebody
/// has written a marker with an epoch that no coordinator had, and the transaction still counts as one that ends.
async fn wait_until_replaced(
    shard: &WeakShardHandle<TransactionShard>,
    partition: &TopicPartition,
    marker: &Marker,
) {
    sleep(PAUSE_MAX).await;
    if shard.is_alive() {
        tracing::warn!(
            %partition, producer_id = %marker.producer.id, coordinator_epoch = marker.coordinator_epoch,
            "a transaction cannot end: the partition has a marker of its producer with a later coordinator epoch"
        );
    }
    while shard.is_alive() {
        sleep(PAUSE_MAX).await;
    }
}

/// What has become of a marker.
enum Fate {
    Done,
    Again,
    /// A later coordinator looks after the transaction.
    Replaced,
}

async fn try_one(
    node: &Arc<Node>,
    partition: TopicPartition,
    marker: Marker,
) -> (TopicPartition, Fate) {
    let leader = {
        let image = node.image();
        let found = image.topic(partition.topic.as_str());
        match found.and_then(|topic| topic.partition(partition.partition)) {
            // It was deleted: this coordinator knew of it when it became part of the transaction.
            None => return (partition, Fate::Done),
            Some(found) => found.leader,
        }
    };
    let outcome = match leader {
        None => Err(ErrorCode::LeaderNotAvailable),
        Some(broker) if broker == node.settings.node_id => {
            let outcomes = node.write_markers(vec![(partition.clone(), marker)]).await;
            outcomes.into_iter().next().unwrap_or(Err(ErrorCode::UnknownServerError))
        }
        Some(broker) => send_to(node, broker, partition.clone(), marker).await,
    };
    let fate = match outcome {
        Ok(()) => {
            node.transactions.metrics.markers.fetch_add(1, Ordering::Relaxed);
            Fate::Done
        }
        Err(ErrorCode::TransactionCoordinatorFenced) => Fate::Replaced,
        // The producer has a newer epoch there: this transaction has ended there before.
        Err(ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced) => Fate::Done,
        Err(code) => {
            tracing::debug!(%partition, %code, "a marker is not written yet");
            Fate::Again
        }
    };
    (partition, fate)
}

/// Sends a marker with others for the same node.
async fn send_to(
    node: &Arc<Node>,
    broker: BrokerId,
    partition: TopicPartition,
    marker: Marker,
) -> Result<(), ErrorCode> {
    let (send_outcome, outcome) = oneshot::channel();
    let queued = Queued { partition, marker, send_outcome };
    {
        let queues = &node.transactions.queues.by_broker;
        let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(broker).or_insert_with(|| {
            let (queue, queued) = mpsc::unbounded_channel();
            tokio::spawn(send_queued(Arc::downgrade(node), broker, queued));
            queue
        });
        // The task ends with the node only.
        let _ = queue.send(queued);
    }
    outcome.await.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable))
}

/// Sends what is queued for a node, several calls at a time.
async fn send_queued(
    node: Weak<Node>,
    broker: BrokerId,
    mut queued: mpsc::UnboundedReceiver<Queued>,
) {
    let slots = Arc::new(Semaphore::new(CALLS_MAX));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await;
        let mut markers = Vec::new();
        if queued.recv_many(&mut markers, MARKERS_MAX).await == 0 {
            return;
        }
        let node = node.clone();
        tokio::spawn(async move {
            let _slot = slot;
            let Some(node) = node.upgrade() else { return };
            call(&node, broker, markers).await;
        });
    }
}

async fn call(node: &Arc<Node>, broker: BrokerId, queued: Vec<Queued>) {
    let asked = queued.iter().map(|it| (it.partition.clone(), it.marker)).collect();
    let answer = node.send_markers(broker, asked, ANSWER_MAX).await;
    let outcomes = answer.unwrap_or_else(|failure| {
        tracing::warn!(%broker, reason = failure.message, "a node takes no transaction markers");
        vec![Err(failure.code); queued.len()]
    });
    for (queued, outcome) in queued.into_iter().zip(outcomes) {
        // Its shard may have ended.
        let _ = queued.send_outcome.send(outcome);
    }
}
