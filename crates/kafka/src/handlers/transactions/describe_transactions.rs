//! DescribeTransactions: where transactional ids are (KIP-664).

use std::future::Future;

use logway_coordinator::transactions::{Transaction, TransactionReply, TransactionRequest};
use logway_model::ErrorCode;
use logway_wire::messages::describe_transactions_response::{TopicData, TransactionState};
use logway_wire::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};
use logway_wire::{Decoder, WireString};

use super::check_id;
use crate::handlers::measured::{self, Part, QUESTION_BYTES, ToldPart, TooLarge, ask_measured};
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::{Operation, Resource};
use logway_node::memory::Held;
use logway_node::transactions::Measuring;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let built_bytes =
        |request: &DescribeTransactionsRequest| request.transactional_ids.len() * QUESTION_BYTES;
    measured::prepare(context, body, built_bytes, start)
}

/// Each id is described as often as it is named, as in Kafka.
fn start(
    context: &RequestContext,
    request: DescribeTransactionsRequest,
) -> impl Future<Output = (DescribeTransactionsResponse, Held)> + use<> {
    let parts = request.transactional_ids.into_iter().map(|id| {
        let body = TransactionRequest::Describe(vec![id.as_str().into()]);
        let permitted = context.transactional_id(&id, Operation::Describe);
        let permitted = permitted.and_then(|permitted| check_id(&id).map(|()| permitted));
        let measuring = match permitted {
            Ok(permitted) => permitted.measure(context.transaction_question(body)),
            Err(code) => Measuring::refused(code),
        };
        Part { about: id, measuring, mentions: 1 }
    });
    let parts = parts.collect();
    let context = context.clone();
    async move {
        let (told, held) = ask_measured(&context, parts, TooLarge::TellInParts).await;
        let describe = |ToldPart { about, answer, .. }: ToldPart<WireString, _>| {
            let described = answer.and_then(|reply| match reply {
                TransactionReply::Describe(mut described) => {
                    described.pop().unwrap_or(Err(ErrorCode::TransactionalIdNotFound))
                }
                other => unreachable!("the shard answered {other:?}"),
            });
            match described {
                Ok(transaction) => described_as(&context, about, &transaction),
                Err(code) => TransactionState {
                    transactional_id: about,
                    error_code: code.code(),
                    ..TransactionState::default()
                },
            }
        };
        let transaction_states = told.into_iter().map(describe).collect();
        (DescribeTransactionsResponse { transaction_states, ..Default::default() }, held)
    }
}

/// Topics that the requester may not describe are left out, as in Kafka.
fn described_as(
    context: &RequestContext,
    transactional_id: WireString,
    transaction: &Transaction,
) -> TransactionState {
    let topics = transaction.partitions.by_topic();
    let topics = topics
        .filter(|(topic, _)| context.may(Operation::Describe, Resource::Topic(topic.as_str())))
        .map(|(topic, partitions)| TopicData {
            topic: WireString::copy_of(topic.as_str()),
            partitions: partitions.iter().map(|number| number.0).collect(),
            ..TopicData::default()
        });
    TransactionState {
        transactional_id,
        transaction_state: WireString::from(transaction.state.name()),
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_start_time_ms: transaction.started.0,
        producer_id: transaction.producer.id.0,
        producer_epoch: transaction.producer.epoch.0,
        topics: topics.collect(),
        ..TransactionState::default()
    }
}
