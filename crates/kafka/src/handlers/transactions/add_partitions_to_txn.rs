//! AddPartitionsToTxn: partitions become part of a transaction, or are found to be (KIP-98, KIP-890).
//!
//! | version | who asks |
//! |---|---|
//! | 0–3 | a client, about one transaction |
//! | 4 | a broker, about several; some of them are only to be verified |
//! | 5 | the same, for clients that raise their epoch with each transaction |

use std::collections::HashSet;

use logway_coordinator::transactions::{TransactionReply, TransactionRequest};
use logway_model::{ErrorCode, PartitionId, TopicName, TopicPartition, TransactionVersion};
use logway_wire::WireString;
use logway_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use logway_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use logway_wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use super::{check_id, known_code, producer};
use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::repeats::merge_same;
use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};
use logway_node::topics::is_internal;

const KNOWS_FENCED_FROM: i16 = 2;
const OF_BROKERS_FROM: i16 = 4;
const EPOCH_BUMP_FROM: i16 = 5;

/// An entry for each partition, and what the shard is asked.
pub(crate) fn built_bytes(_context: &RequestContext, request: &AddPartitionsToTxnRequest) -> usize {
    let of_brokers = request.transactions.iter().flat_map(|it| &it.topics);
    let topics = request.v3_and_below_topics.iter().chain(of_brokers);
    topics.map(|topic| (1 + topic.partitions.len()) * ENTRY_BYTES).sum()
}

pub(crate) async fn handle(
    context: RequestContext,
    mut request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    if context.version >= OF_BROKERS_FROM {
        return answer_broker(&context, request).await;
    }
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: std::mem::take(&mut request.v3_and_below_transactional_id),
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        topics: std::mem::take(&mut request.v3_and_below_topics),
        ..AddPartitionsToTxnTransaction::default()
    };
    let id = Resource::TransactionalId(&transaction.transactional_id);
    let results_by_topic_v3_and_below = match context.check(Operation::Write, id) {
        Ok(()) => answer(&context, &transaction, Some(Operation::Write)).await,
        Err(code) => tell(&transaction.topics, |_, _| code),
    };
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
}

async fn answer_broker(
    context: &RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    if let Err(code) = context.check(Operation::ClusterAction, Resource::Cluster) {
        return AddPartitionsToTxnResponse { error_code: code.code(), ..Default::default() };
    }
    let mut results_by_transaction = Vec::with_capacity(request.transactions.len());
    for transaction in request.transactions {
        let topic_results = answer(context, &transaction, None).await;
        let transactional_id = transaction.transactional_id;
        results_by_transaction.push(AddPartitionsToTxnResult {
            transactional_id,
            topic_results,
            ..Default::default()
        });
    }
    AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() }
}

/// Adds all partitions or none. `operation` is what the requester must be allowed to do with each topic.
///
/// As in Kafka, what became of all together is told as the request names it. What became of each is told once.
async fn answer(
    context: &RequestContext,
    transaction: &AddPartitionsToTxnTransaction,
    operation: Option<Operation>,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topics = &each_once(&transaction.topics);
    let mut partitions = Vec::new();
    let refusal = |topic: &WireString, number: i32| {
        if let Some(operation) = operation {
            context.check(operation, Resource::Topic(topic))?;
            // As in Kafka. Else the end of the transaction would write a marker among the coordinators' own records.
            if is_internal(topic) {
                return Err(ErrorCode::TopicAuthorizationFailed);
            }
        }
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let topic = TopicName::new(topic).map_err(|_illegal| unknown)?;
        let partition = TopicPartition::new(topic, PartitionId(number));
        if context.exists(&partition) { Ok(partition) } else { Err(unknown) }
    };
    let mut is_refused = false;
    let refused = tell(topics, |topic, number| match refusal(topic, number) {
        Ok(partition) => {
            partitions.push(partition);
            ErrorCode::OperationNotAttempted
        }
        Err(code) => {
            is_refused = true;
            code
        }
    });
    if is_refused {
        return refused;
    }
    let outcomes = match check_id(&transaction.transactional_id) {
        Ok(()) => ask(context, transaction, partitions).await,
        Err(code) => vec![Err(code); partitions.len()],
    };
    let mut codes = outcomes.into_iter().map(|outcome| {
        let code = outcome.err().unwrap_or(ErrorCode::None);
        // Those that know how to abort are the brokers, which tell their clients what these know.
        let version = context.version;
        known_code(code, version >= KNOWS_FENCED_FROM, version >= OF_BROKERS_FROM)
    });
    match transaction.verify_only {
        true => tell(topics, |_, _| codes.next().expect("there is one for each partition")),
        false => {
            let of_all = codes.next().unwrap_or(ErrorCode::None);
            tell(&transaction.topics, |_, _| of_all)
        }
    }
}

async fn ask(
    context: &RequestContext,
    transaction: &AddPartitionsToTxnTransaction,
    partitions: Vec<TopicPartition>,
) -> Vec<Result<(), ErrorCode>> {
    let count = partitions.len();
    let id = transaction.transactional_id.as_str();
    let producer = producer(transaction.producer_id, transaction.producer_epoch);
    let version = match context.version {
        EPOCH_BUMP_FROM.. => TransactionVersion::EPOCH_BUMP,
        _ => TransactionVersion::CLASSIC,
    };
    let reply = context.ask_transactions(id, |_| match transaction.verify_only {
        true => TransactionRequest::VerifyPartitions {
            transactional_id: id.into(),
            producer,
            partitions: partitions.clone(),
        },
        false => TransactionRequest::AddPartitions {
            transactional_id: id.into(),
            producer,
            partitions: partitions.clone(),
            version,
        },
    });
    match reply.await {
        Ok(TransactionReply::AddPartitions(outcome)) => vec![outcome; count],
        Ok(TransactionReply::VerifyPartitions(outcomes)) => outcomes,
        Ok(other) => unreachable!("the shard answered {other:?}"),
        Err(code) => vec![Err(code); count],
    }
}

/// Each topic and each partition once, however often the request names them, and no topic without partitions.
fn each_once(topics: &[AddPartitionsToTxnTopic]) -> Vec<AddPartitionsToTxnTopic> {
    let name = |topic: &AddPartitionsToTxnTopic| topic.name.clone();
    let topics = topics.iter().cloned();
    let mut topics =
        merge_same(topics, name, |topic, other| topic.partitions.extend(other.partitions));
    for topic in &mut topics {
        let mut seen = HashSet::new();
        topic.partitions.retain(|number| seen.insert(*number));
    }
    topics.retain(|topic| !topic.partitions.is_empty());
    topics
}

/// An answer for each partition.
fn tell(
    topics: &[AddPartitionsToTxnTopic],
    mut code: impl FnMut(&WireString, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topics = topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|&partition_index| {
            let partition_error_code = code(&topic.name, partition_index).code();
            AddPartitionsToTxnPartitionResult {
                partition_index,
                partition_error_code,
                ..Default::default()
            }
        });
        let results_by_partition = partitions.collect();
        let name = topic.name.clone();
        AddPartitionsToTxnTopicResult { name, results_by_partition, ..Default::default() }
    });
    topics.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_taken_once_and_topics_without_any_not_at_all() {
        let topic = |(name, partitions): (&'static str, &[i32])| AddPartitionsToTxnTopic {
            name: name.into(),
            partitions: partitions.to_vec(),
            ..Default::default()
        };
        let named: [(_, &[i32]); 4] = [("a", &[2, 2]), ("b", &[]), ("a", &[1, 2]), ("b", &[])];
        assert_eq!(each_once(&named.map(topic)), [topic(("a", &[2, 1]))]);
    }
}
