//! The coordinators of transactions.

use std::sync::Arc;

use logway_coordinator::transactions::{Producer, TransactionReply, TransactionRequest};
use logway_coordinator::{Client, Marker, TxnOffsetCommit, partition_of_group};
use logway_model::{BrokerId, ErrorCode, PartitionId, ProducerId, TopicName, TopicPartition};
use logway_node::Failure;
use logway_node::access::{Operation, Resource};
use logway_node::coordinator_topics::{ensure_offsets_topic, ensure_transactions_topic};
use logway_node::groups::OFFSETS_TOPIC;
use logway_node::replica::Replica;
use logway_node::transactions::{
    Measuring, Question, StartedEnd, TRANSACTIONS_TOPIC, TransactionClaim,
};

use crate::request::RequestContext;

/// A transactional id with which the requester may do what it has asked for.
pub(crate) struct PermittedTransactionalId<'a> {
    context: &'a RequestContext,
    id: &'a str,
}

impl RequestContext {
    /// A transactional id, to do an operation with. Fails with `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`.
    pub(crate) fn transactional_id<'a>(
        &'a self,
        id: &'a str,
        operation: Operation,
    ) -> Result<PermittedTransactionalId<'a>, ErrorCode> {
        self.check(operation, Resource::TransactionalId(id))?;
        Ok(PermittedTransactionalId { context: self, id })
    }

    /// Asks every shard how large its answer would be. What it tells has to be judged by
    /// [`RequestContext::sees_transactional_id`].
    pub(crate) fn measure_all_transactions(
        &self,
        question: impl Fn() -> Question,
    ) -> Vec<Measuring> {
        self.node().transactions.measure_all(question)
    }

    /// Whether the requester is told of a transactional id.
    pub(crate) fn sees_transactional_id(&self, id: &str) -> bool {
        self.may(Operation::Describe, Resource::TransactionalId(id))
    }

    /// A question to a shard of transactions.
    pub(crate) fn transaction_question(&self, body: TransactionRequest) -> Question {
        let held = [&self.request_share, &self.building];
        let held = held.into_iter().flatten().cloned().collect();
        Question { version: self.version, client: Client::default(), body, held }
    }

    /// Asks the shard of a transactional id for a broker, or for a client whose permission was judged.
    pub(crate) async fn ask_transactions(
        &self,
        id: &str,
        request: impl Fn(Option<ProducerId>) -> TransactionRequest,
    ) -> Result<TransactionReply, ErrorCode> {
        self.node().ask_transactions(id, request).await
    }

    /// The partition of `__consumer_offsets` that a group belongs to, for its offsets to become part of a transaction. The
    /// topic is made if it is not there.
    pub(crate) async fn offsets_partition(&self, group: &str) -> Result<TopicPartition, Failure> {
        let node = self.node();
        ensure_offsets_topic(node).await?;
        let image = node.image();
        let count = image.topic(OFFSETS_TOPIC).map_or(0, |topic| topic.partition_count());
        let number = match u32::try_from(count) {
            Ok(count) if count > 0 => partition_of_group(group, count),
            _ => {
                let message = format!("{OFFSETS_TOPIC} is not known here yet");
                return Err(Failure::new(ErrorCode::CoordinatorNotAvailable, message));
            }
        };
        let topic = TopicName::new(OFFSETS_TOPIC).expect("the name is legal");
        Ok(TopicPartition::new(topic, PartitionId(i32::try_from(number).unwrap_or(0))))
    }

    /// Writes the end of a transaction to a replica, which the requester was given for that.
    pub(crate) fn begin_marker(
        &self,
        replica: &Arc<Replica>,
        marker: Marker,
    ) -> Result<StartedEnd, ErrorCode> {
        self.node().begin_marker(replica, marker)
    }

    /// Whether there is such a partition.
    pub(crate) fn exists(&self, partition: &TopicPartition) -> bool {
        self.node().knows(partition)
    }
}

impl PermittedTransactionalId<'_> {
    /// Whether its producer may have such a transaction timeout.
    pub(crate) fn check_timeout(&self, timeout_ms: i32) -> Result<(), ErrorCode> {
        self.context.node().transactions.check_timeout(timeout_ms)
    }

    /// Asks its shard, and once more with a new producer id if it needs one.
    pub(crate) async fn ask(
        &self,
        request: impl Fn(Option<ProducerId>) -> TransactionRequest,
    ) -> Result<TransactionReply, ErrorCode> {
        self.context.node().ask_transactions(self.id, request).await
    }

    /// Asks its shard how large the answer would be.
    pub(crate) fn measure(&self, question: Question) -> Measuring {
        self.context.node().transactions.measure(self.id, question)
    }

    /// The node that looks after it; as of a [group](super::group::PermittedGroup::coordinator).
    pub(crate) async fn coordinator(&self) -> Result<Option<BrokerId>, Failure> {
        let node = self.context.node();
        ensure_transactions_topic(node).await?;
        let Some((partition, leader)) = node.transaction_coordinator(self.id) else {
            return Ok(None);
        };
        let topics = node.topics();
        let is_served = || {
            let topic = topics.by_name(TRANSACTIONS_TOPIC);
            topic.is_ok_and(|topic| topic.partition(partition).is_ok())
        };
        let is_serving = leader != self.context.settings().node_id || is_served();
        Ok(is_serving.then_some(leader))
    }

    /// Has the partition of a group, which this node leads, take part in the transaction of a commit of offsets. The commit
    /// is complete then.
    pub(crate) async fn join_group(
        &self,
        commit: &mut TxnOffsetCommit,
        producer: Producer,
        adds_partitions: bool,
    ) -> Result<(), ErrorCode> {
        let claim = TransactionClaim { transactional_id: self.id, adds_partitions };
        self.context.node().join_group(claim, producer, commit).await
    }
}
