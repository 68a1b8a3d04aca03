//! Who writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use logway_log::fs::sim::Rng;
use logway_log::{AppendOutcome, LogError};
use logway_model::{PartitionId, ProducerId, Sequence, TimestampMs};
use logway_node::append::{Acks, AppendError, Appender};
use logway_node::tasks::wall_clock;
use logway_record::{Batch, Compression};
use tokio::time::{sleep, timeout};

use super::machine::{Served, Serving};
use super::oracle::{Oracle, Place, Sent};
use super::transactions::Ledger;
use crate::batch::{BatchPlan, batch};

/// A producer waits so long for one answer, and then sends the batch again.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What the clients of a world share.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) serving: Serving,
    pub(super) oracle: Oracle,
    pub(super) ledger: Ledger,
    /// No new batch is begun.
    pub(super) is_over: Arc<AtomicBool>,
    /// The number of the next batch, and that of the next producer.
    pub(super) next_number: Arc<AtomicU64>,
}

impl Clients {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(super) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::SeqCst)
    }

    /// The same clients, where they know of one node alone: what they ask for is done if that one leads.
    pub(super) fn of_node(&self, number: usize) -> Clients {
        Clients { serving: self.serving.only(number), ..self.clone() }
    }

    pub(super) fn any_node(&self, random: &mut Rng) -> Option<Served> {
        let mut nodes = self.serving.all();
        (!nodes.is_empty()).then(|| nodes.swap_remove(random.below(nodes.len())))
    }

    /// The node that leads a partition, as one node believes; or any node.
    pub(super) fn leader(&self, place: Place, random: &mut Rng) -> Option<Served> {
        let nodes = self.serving.all();
        if nodes.is_empty() {
            return None;
        }
        let asked = &nodes[random.below(nodes.len())];
        let image = asked.node.image();
        let topic = image.topic(place.topic)?;
        let leader = topic.partition(PartitionId(place.partition))?.leader?;
        self.serving.get(usize::try_from(leader.0).ok()?)
    }
}

/// Sends one batch after the other to one partition.
pub(super) struct Producer {
    pub(super) place: Place,
    pub(super) random: Rng,
    pub(super) clients: Clients,
    /// One that waits for no other replica sends each batch once, and minds no loss.
    pub(super) is_careful: bool,
    pub(super) pause_max_ms: usize,
}

/// Why a batch was not acknowledged.
enum Failed {
    /// The sequence is not the next: the log has lost what was before it, or the node is behind.
    OutOfOrder(String),
    Other(String),
}

impl Producer {
    pub(super) async fn run(mut self) {
        let mut id = ProducerId(i64::try_from(self.clients.number()).unwrap_or(0));
        let mut sequence = 0;
        while !self.clients.is_over() {
            sleep(Duration::from_millis(self.random.below(self.pause_max_ms + 1) as u64)).await;
            if !self.is_careful {
                let (batch, _) = self.next_batch(None);
                _ = self.send(&batch, Acks::Leader).await;
                continue;
            }
            match self.write_once(id, Sequence(sequence)).await {
                Some(records) => sequence += records,
                // What it had written is gone, where nobody had promised to keep it.
                None => {
                    id = ProducerId(i64::try_from(self.clients.number()).unwrap_or(0));
                    sequence = 0;
                }
            }
        }
    }

    /// Writes one batch. Gives how many records it has, once it is acknowledged; `None` if the log has lost what was
    /// before it.
    pub(super) async fn write_once(&mut self, id: ProducerId, sequence: Sequence) -> Option<i32> {
        let (batch, number) = self.next_batch(Some((id, sequence)));
        let is_acknowledged = self.send_until_acknowledged(&batch, number).await;
        is_acknowledged.then_some(batch.header().record_count)
    }

    /// A batch that nobody has sent yet, and its number.
    fn next_batch(&mut self, producer: Option<(ProducerId, Sequence)>) -> (Batch, u64) {
        let plan = self.plan(producer);
        let (batch, number) = (batch(&plan), plan.number);
        let sent = Sent { number, is_idempotent: producer.is_some() };
        self.clients.oracle.sent(self.place, &batch, sent);
        (batch, number)
    }

    fn plan(&mut self, producer: Option<(ProducerId, Sequence)>) -> BatchPlan {
        let size_max = if self.random.below(20) == 0 { 30_000 } else { 200 };
        let records = (0..1 + self.random.below(3))
            .map(|_| (self.random.below(10), Some(self.random.below(size_max))))
            .collect();
        let TimestampMs(now) = wall_clock();
        BatchPlan {
            number: self.clients.number(),
            records,
            timestamp: TimestampMs(now),
            producer,
            compression: Compression::None,
        }
    }

    /// Sends a batch again and again. Returns whether it was acknowledged.
    async fn send_until_acknowledged(&mut self, batch: &Batch, number: u64) -> bool {
        let mut out_of_order = 0;
        loop {
            let oracle = self.clients.oracle.clone();
            match self.send(batch, Acks::All).await {
                Ok(outcome) => {
                    let AppendOutcome { base_offset, last_offset, is_duplicate, .. } = outcome;
                    oracle.acknowledged(self.place, number, base_offset, last_offset);
                    oracle.count(|report| report.duplicates += u64::from(is_duplicate));
                    return true;
                }
                Err(Failed::OutOfOrder(reason)) => {
                    tracing::debug!(place = %self.place, number, reason, "out of order");
                    out_of_order += 1;
                    if out_of_order > 20 && !oracle.is_kept(self.place) {
                        return false;
                    }
                }
                Err(Failed::Other(reason)) => {
                    tracing::debug!(place = %self.place, number, reason, "not acknowledged");
                }
            }
            oracle.count(|report| report.failed += 1);
            sleep(Duration::from_millis(5 + self.random.below(30) as u64)).await;
        }
    }

    async fn send(&mut self, batch: &Batch, acks: Acks) -> Result<AppendOutcome, Failed> {
        let other = |reason: &str| Failed::Other(reason.to_owned());
        let Some(served) = self.clients.leader(self.place, &mut self.random) else {
            return Err(other("nobody leads"));
        };
        let Served { node, runtime, life } = served;
        let (place, batch) = (self.place, batch.clone());
        let appending = runtime.spawn(async move {
            let replica = {
                let topics = node.topics();
                let topic = topics.by_name(place.topic);
                let found = topic.and_then(|it| it.partition(PartitionId(place.partition)));
                found.cloned().map_err(|code| Failed::Other(format!("{code:?}")))?
            };
            let appender = Appender::default();
            let work = async {
                let begun = node.append(&replica, batch, acks, &appender).await;
                let begun = begun.map_err(|failure| Failed::Other(failure.message))?;
                begun.finish().await.map_err(|error| match error {
                    AppendError::Log(error @ LogError::OutOfOrderSequence { .. }) => {
                        Failed::OutOfOrder(error.to_string())
                    }
                    error => Failed::Other(error.to_string()),
                })
            };
            appender.drive(work).await
        });
        match timeout(ANSWER_MAX, appending).await {
            Ok(Ok(outcome)) if life.is_alive() => outcome,
            Ok(_) => Err(other("the node has ended")),
            Err(_elapsed) => Err(other("no answer in time")),
        }
    }
}
