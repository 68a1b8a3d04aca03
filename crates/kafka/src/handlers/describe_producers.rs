//! DescribeProducers: the idempotent producers of partitions, and their open transactions (KIP-664).

use logway_log::Completion;
use logway_log::producer_state::ProducerState;
use logway_model::{ErrorCode, Offset, PartitionId, ProducerId, Sequence, Uuid};
use logway_wire::WireString;
use logway_wire::messages::describe_producers_request::TopicRequest;
use logway_wire::messages::describe_producers_response::{
    PartitionResponse, ProducerState as DescribedProducer, TopicResponse,
};
use logway_wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

use super::building::{ENTRY_BYTES, with_all};
use super::cluster_view::absence;
use super::repeats::repeated_partitions;
use crate::request::{RequestContext, refusal_text};
use logway_node::access::Operation;
use logway_node::failure::Failure;

/// The logs of so many partitions are asked at once: what each says takes memory until the answer has it.
const ASKED_AT_ONCE: usize = 64;

/// What a log knows.
type Known = Vec<(ProducerId, ProducerState)>;

/// What the protocol says where no transaction is open.
const NO_TRANSACTION: Offset = Offset(-1);

/// One answer for each partition named, and each producer once at most.
pub(crate) fn built_bytes(context: &RequestContext, request: &DescribeProducersRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partition_indexes.len());
    let partitions: usize = partitions.sum();
    let producers = if partitions == 0 { 0 } else { context.producer_count() };
    let named = request.topics.len() + partitions;
    with_all(context, named * ENTRY_BYTES, producers * ENTRY_BYTES)
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    // A partition may have thousands of producers, so that a request could be answered only with far
    // more memory than its own if it could ask for the same partition again and again.
    let asked_twice = repeated_partitions(
        request.topics.iter().map(|topic| (&*topic.name, topic.partition_indexes.iter().copied())),
    );
    let mut topics: Vec<TopicResponse> = request.topics.iter().map(unanswered).collect();
    let partitions = request.topics.iter().enumerate().flat_map(|(place, topic)| {
        topic.partition_indexes.iter().map(move |&index| (place, &*topic.name, index))
    });
    let partitions: Vec<(usize, &str, i32)> = partitions.collect();
    for some in partitions.chunks(ASKED_AT_ONCE) {
        let ask = |&(place, name, index)| {
            let asked = match asked_twice.contains(&(name, index)) {
                true => Err(ErrorCode::InvalidRequest),
                false => ask(&context, name, PartitionId(index)),
            };
            (place, index, asked)
        };
        let asked: Vec<_> = some.iter().map(ask).collect();
        for (place, index, asked) in asked {
            let outcome = match asked {
                Ok(producers) => describe_all(producers).await,
                Err(code) => Err(code),
            };
            topics[place].partitions.push(response(index, outcome));
        }
    }
    DescribeProducersResponse { topics, ..Default::default() }
}

fn unanswered(asked: &TopicRequest) -> TopicResponse {
    let partitions = Vec::with_capacity(asked.partition_indexes.len());
    TopicResponse { name: asked.name.clone(), partitions, ..Default::default() }
}

/// Asks the log of a partition, which answers behind what it has to do.
fn ask(
    context: &RequestContext,
    name: &str,
    id: PartitionId,
) -> Result<Completion<Known>, ErrorCode> {
    let topics = context.served_topics();
    let topic = match absence(name) {
        // The name is judged first, as in Kafka.
        ErrorCode::UnknownTopicOrPartition => topics.by_name(context, name, Operation::Read),
        code => return Err(code),
    };
    // Followers know producers too, and a tool may ask each replica.
    let replica = topic.and_then(|topic| topic.replica(id).map_or_else(|| topic.partition(id), Ok));
    let replica = replica.map_err(|code| context.absence_here(code, name, Uuid::ZERO, id))?;
    Ok(replica.log().producers())
}

async fn describe_all(asked: Completion<Known>) -> Result<Vec<DescribedProducer>, ErrorCode> {
    let mut known = asked.await.map_err(|error| Failure::from(error).code)?;
    known.sort_unstable_by_key(|(id, _)| *id);
    Ok(known.iter().map(|(id, state)| describe(*id, state)).collect())
}

fn describe(id: ProducerId, state: &ProducerState) -> DescribedProducer {
    DescribedProducer {
        producer_id: id.0,
        producer_epoch: i32::from(state.epoch.0),
        last_sequence: state.last_batch().map_or(Sequence::NONE, |batch| batch.last_sequence).0,
        last_timestamp: state.last_timestamp.0,
        coordinator_epoch: state.coordinator_epoch,
        current_txn_start_offset: state.transaction_start.unwrap_or(NO_TRANSACTION).0,
        ..Default::default()
    }
}

fn response(
    partition_index: i32,
    outcome: Result<Vec<DescribedProducer>, ErrorCode>,
) -> PartitionResponse {
    let (code, active_producers) = match outcome {
        Ok(producers) => (ErrorCode::None, producers),
        Err(code) => (code, Vec::new()),
    };
    PartitionResponse {
        partition_index,
        error_code: code.code(),
        error_message: explanation(code).map(WireString::from_static),
        active_producers,
        ..Default::default()
    }
}

/// The reason, in memory that all answers share.
fn explanation(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::None => None,
        ErrorCode::InvalidRequest => Some("the request has this partition more than once"),
        ErrorCode::InvalidTopicException => Some("no topic can have this name"),
        ErrorCode::UnknownTopicOrPartition => Some("the partition does not exist"),
        ErrorCode::TopicAuthorizationFailed => Some(refusal_text(code)),
        ErrorCode::NotLeaderOrFollower => Some("this broker has no replica of the partition"),
        _ => Some("the log of the partition is not available"),
    }
}
