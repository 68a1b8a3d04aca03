//! Which batches of a Produce are part of the transaction that its client claims.

use std::collections::HashMap;
use std::sync::Arc;

use logway_coordinator::transactions::Producer;
use logway_log::VerificationGuard;
use logway_model::{ErrorCode, PartitionId, TopicPartition};
use logway_node::Failure;
use logway_node::access::Operation;
use logway_node::replica::Replica;
use logway_node::transactions::{TransactionClaim, TransactionPart, refusal_for_producer};
use logway_record::{Batch, BatchHeader};
use logway_wire::Records;
use logway_wire::messages::produce_request::TopicProduceData;

use crate::request::{RequestContext, ServedTopics};

/// From this version on, a partition becomes part of a transaction by being written to (KIP-890).
const ADDS_PARTITIONS_FROM: i16 = 12;

/// From this version on, clients know that they can abort and go on (KIP-1050).
const KNOWS_ABORTABLE_FROM: i16 = 11;

/// What the coordinator has said of the partitions of a request.
#[derive(Default)]
pub(crate) struct Membership(HashMap<TopicPartition, Result<Option<VerificationGuard>, Failure>>);

impl Membership {
    /// Asks about all partitions at once: each question of its own would have the next one wait for its record.
    pub(crate) async fn of(
        context: &RequestContext,
        topics: &ServedTopics,
        transactional_id: &str,
        data: &[TopicProduceData],
    ) -> Membership {
        let parts = parts_of(context, topics, data);
        let adds_partitions = context.version >= ADDS_PARTITIONS_FROM;
        let claim = TransactionClaim { transactional_id, adds_partitions };
        let knows_abortable = context.version >= KNOWS_ABORTABLE_FROM;
        let outcomes = context.join_transaction(claim, &parts).await;
        let outcomes = parts.iter().zip(outcomes).map(|(part, outcome)| {
            let partition = part.replica.topic_partition().clone();
            let outcome = outcome
                .map_err(|code| refusal_for_producer(code, &partition, claim, knows_abortable));
            (partition, outcome)
        });
        Membership(outcomes.collect())
    }

    /// What to show to the log with a batch, or why it is refused.
    pub(crate) fn take(
        &mut self,
        replica: &Arc<Replica>,
        batch: &Batch,
    ) -> Result<Option<VerificationGuard>, Failure> {
        if !batch.header().attributes.is_transactional() {
            return Ok(None);
        }
        match self.0.get(replica.topic_partition()) {
            Some(outcome) => outcome.clone(),
            // The request claims no transaction, though the batch does: as Kafka says it.
            None => {
                let message = "a transactional batch in a request without a transactional id, or \
                    without a producer";
                Err(Failure::new(ErrorCode::TransactionalIdAuthorizationFailed, message))
            }
        }
    }
}

/// The transactional batches for partitions that are led here.
fn parts_of(
    context: &RequestContext,
    topics: &ServedTopics,
    data: &[TopicProduceData],
) -> Vec<TransactionPart> {
    let mut parts = Vec::new();
    for topic_data in data {
        let (name, id) = (&topic_data.name, topic_data.topic_id);
        let Ok(topic) = topics.by_name_or_id(context, name, id, Operation::Write) else { continue };
        for partition in &topic_data.partition_data {
            let Ok(replica) = topic.partition(PartitionId(partition.index)) else { continue };
            let Some(Records::InMemory(bytes)) = &partition.records else { continue };
            let Ok(header) = BatchHeader::parse(bytes) else { continue };
            if header.attributes.is_transactional() && header.producer_id.is_some() {
                parts.push(TransactionPart {
                    replica: Arc::clone(replica),
                    producer: Producer { id: header.producer_id, epoch: header.producer_epoch },
                    sequence: header.base_sequence,
                });
            }
        }
    }
    parts
}
