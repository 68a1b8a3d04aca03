//! The transaction coordinator, and what leaders of partitions have to do with it.
//!
//! | file | idea |
//! |---|---|
//! | this one | the shards of `__transaction_state` that this node leads |
//! | [`joining`] | the leader of a partition asks before it takes the first record of a transaction |
//! | [`markers`] | the coordinator has markers written, here and on other nodes |
//! | [`ending`] | the leader of a partition writes a marker |
//! | [`calls`], [`message`] | what nodes ask each other, in bytes |

mod calls;
mod ending;
mod joining;
mod markers;
mod message;

use std::sync::Arc;

pub use logway_coordinator::transactions::TRANSACTIONS_TOPIC;
use logway_coordinator::transactions::{
    Producer, TransactionReply, TransactionRequest, TransactionSettings, TransactionShard,
};
use logway_coordinator::{Client, GroupMemory, partition_of_transactional_id};
use logway_metadata::settings::BrokerSettings;
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, PartitionId, ProducerId};
use logway_record::Compression;
use tokio::sync::oneshot;

use crate::Node;
use crate::cluster::Mutation;
use crate::memory::MemoryBudget;
use crate::shards::{self, ShardTable};
use crate::topics::Topic;
pub use ending::StartedEnd;
pub use joining::{TransactionClaim, TransactionPart, refusal_for_producer};
use markers::MarkerQueues;
pub use markers::TransactionMetrics;

/// A question to a shard of transactions.
pub type Question = shards::Question<TransactionShard>;
/// A reply on its way.
pub type Pending = shards::Pending<TransactionShard>;
/// A question whose answer is being measured.
pub type Measuring = shards::Measuring<TransactionShard>;

/// All shards of this broker.
pub struct TransactionCoordinator {
    settings: TransactionSettings,
    /// What all transactional ids take.
    pub(crate) memory: GroupMemory,
    reply_memory: MemoryBudget,
    shards: ShardTable<TransactionShard>,
    queues: MarkerQueues,
    /// What is counted.
    pub metrics: TransactionMetrics,
}

impl TransactionCoordinator {
    /// Without shards, until [`TransactionCoordinator::follow`] is told of partitions.
    pub fn new(settings: &BrokerSettings, reply_memory: MemoryBudget) -> TransactionCoordinator {
        let transactions = &settings.transactions;
        let id_expiration_ms = transactions.id_expiration.as_millis();
        TransactionCoordinator {
            settings: TransactionSettings {
                timeout_max_ms: transactions.timeout_max_ms,
                id_expiration_ms: i64::try_from(id_expiration_ms).unwrap_or(i64::MAX),
                ..TransactionSettings::default()
            },
            memory: GroupMemory::new(transactions.memory_max_bytes),
            reply_memory,
            shards: ShardTable::new(partition_of_transactional_id),
            queues: MarkerQueues::default(),
            metrics: TransactionMetrics::default(),
        }
    }

    /// Begins the shards of partitions that are led here now, and ends those of partitions that are not any more. To be
    /// called in a runtime.
    pub(crate) fn follow(&self, node: &Arc<Node>, topic: Option<&Arc<Topic>>) {
        self.shards.follow(topic, |partition, loads| {
            let node = Arc::downgrade(node);
            shards::new(
                partition,
                TransactionShard::new(self.settings.clone(), self.memory.clone()),
                Compression::None,
                self.reply_memory.clone(),
                loads,
                Box::new(move |order, shard| markers::begin(node.clone(), shard.clone(), order)),
            )
        });
    }

    /// Whether a producer may have such a transaction timeout: it is judged before its coordinator is looked for.
    pub fn check_timeout(&self, timeout_ms: i32) -> Result<(), ErrorCode> {
        self.settings.check_timeout(timeout_ms)
    }

    /// Asks the shard of a transactional id. The order of calls is the order in which the shard is asked.
    pub fn ask(&self, id: &str, question: Question) -> Pending {
        self.shards.ask(id, question)
    }

    /// The leader epoch of the shard of a transactional id, if it is here.
    fn epoch_of(&self, id: &str) -> Option<LeaderEpoch> {
        self.shards.epoch_of(id)
    }

    /// Asks the shard of a transactional id how large its answer would be.
    pub fn measure(&self, id: &str, question: Question) -> Measuring {
        self.shards.measure(id, question)
    }

    /// Asks every shard there is how large its answer would be.
    pub fn measure_all(&self, question: impl Fn() -> Question) -> Vec<Measuring> {
        self.shards.measure_all(question)
    }

    /// What every shard there is has to show.
    pub(crate) fn look_at_all<T: Send + 'static>(
        &self,
        look: fn(&TransactionShard) -> T,
    ) -> Vec<oneshot::Receiver<T>> {
        self.shards.look_at_all(look)
    }

    /// Ends all shards, and waits until what they have begun to write is written.
    pub(crate) async fn stop(&self) {
        self.shards.stop().await;
    }
}

impl Node {
    /// The partition of `__transaction_state` that an id belongs to, and the broker that leads it; `None` if nobody does.
    pub fn transaction_coordinator(&self, id: &str) -> Option<(PartitionId, BrokerId)> {
        let image = self.image();
        let topic = image.topic(TRANSACTIONS_TOPIC)?;
        let count = u32::try_from(topic.partition_count()).ok().filter(|&count| count > 0)?;
        let number = i32::try_from(partition_of_transactional_id(id, count)).ok()?;
        let partition = PartitionId(number);
        Some((partition, topic.partition(partition)?.leader?))
    }

    /// Asks the shard of a transactional id, and once more with a new producer id if it needs one.
    pub async fn ask_transactions(
        self: &Arc<Self>,
        id: &str,
        request: impl Fn(Option<ProducerId>) -> TransactionRequest,
    ) -> Result<TransactionReply, ErrorCode> {
        let forged = match self.breaks(Mutation::EndsForAnybody) {
            true => self.current_producer(id).await,
            false => None,
        };
        let question = |fresh_id| {
            let mut body = request(fresh_id);
            if let (TransactionRequest::EndTxn { producer, .. }, Some(forged)) = (&mut body, forged)
            {
                *producer = forged;
            }
            question(body)
        };
        let reply = self.transactions.ask(id, question(None)).reply().await?;
        if reply != TransactionReply::NeedsProducerId {
            return Ok(reply);
        }
        let (fresh_id, _) =
            self.next_producer_id().await.map_err(|failure| match failure.code {
                // As in Kafka: each client asks again after this one.
                ErrorCode::NotController => ErrorCode::CoordinatorLoadInProgress,
                code => code,
            })?;
        self.transactions.ask(id, question(Some(fresh_id))).reply().await
    }

    /// Who may end the transaction of an id: for [`Mutation::EndsForAnybody`].
    async fn current_producer(&self, id: &str) -> Option<Producer> {
        let body = TransactionRequest::Describe(vec![id.into()]);
        match self.transactions.ask(id, question(body)).reply().await {
            Ok(TransactionReply::Describe(mut told)) => told.pop()?.ok().map(|it| it.producer),
            _ => None,
        }
    }
}

fn question(body: TransactionRequest) -> Question {
    Question { version: 0, client: Client::default(), body, held: Vec::new() }
}
