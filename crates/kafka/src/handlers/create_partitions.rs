//! CreatePartitions: gives topics more partitions (KIP-195).

use logway_metadata::controller::{CreatePartitions, PartitionsIncrease, topic_asked_twice};
use logway_model::{BrokerId, ErrorCode, Uuid};
use logway_wire::WireString;
use logway_wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use logway_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use logway_wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::batched_command::time_max;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::mutation_quota::{made_count, submit_within_quota};
use super::repeats::{keep_first, repeated};
use crate::request::{OverQuota, RequestContext, Sizes, refusal};
use logway_node::access::{Operation, Resource};
use logway_node::failure::Failure;
use logway_node::groups::OFFSETS_TOPIC;
use logway_node::transactions::TRANSACTIONS_TOPIC;

/// Clients of older versions do not know `THROTTLING_QUOTA_EXCEEDED`.
const QUOTA_EXCEEDED_FROM: i16 = 3;

/// One answer for each topic named, whose records the controller bounds.
pub(crate) fn built_bytes(_context: &RequestContext, request: &CreatePartitionsRequest) -> usize {
    request.topics.len() * ENTRY_WITH_MESSAGE_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let time_max = time_max(request.timeout_ms);
    let validate_only = request.validate_only;
    let asked_twice = repeated(request.topics.iter().map(|topic| topic.name.as_str()));
    let sizes = context.sizes();
    let judged = |topic: &CreatePartitionsTopic| {
        let name = topic.name.as_str();
        match context.check(Operation::Alter, Resource::Topic(name)) {
            _ if asked_twice.contains(name) => (Err(topic_asked_twice(name).into()), 0),
            Err(code) => (Err(refusal(code)), 0),
            Ok(()) => (increase(topic), added(&sizes, topic)),
        }
    };
    let increases = request.topics.iter().map(judged).collect();
    let create = |topics| CreatePartitions { topics, validate_only };
    let over = OverQuota::at_version(context.version, QUOTA_EXCEEDED_FROM);
    let results = submit_within_quota(&context, over, time_max, increases, create).await;

    let named = request.topics.into_iter().map(|topic| topic.name).zip(results);
    let mut results: Vec<_> = named.map(|(name, result)| topic_result(name, result)).collect();
    keep_first(&mut results, |topic| topic.name.clone());
    CreatePartitionsResponse { results, ..Default::default() }
}

fn increase(asked: &CreatePartitionsTopic) -> Result<PartitionsIncrease, Failure> {
    let spread = match asked.name.as_str() {
        OFFSETS_TOPIC => Some("groups"),
        TRANSACTIONS_TOPIC => Some("transactional ids"),
        _ => None,
    };
    if let Some(spread) = spread {
        let message = format!(
            "{spread} are spread over the partitions of {} by their number, which cannot change",
            asked.name
        );
        return Err(Failure::new(ErrorCode::InvalidPartitions, message));
    }
    let replicas = |assignment: &CreatePartitionsAssignment| {
        assignment.broker_ids.iter().copied().map(BrokerId).collect()
    };
    let assignments = asked.assignments.as_ref();
    Ok(PartitionsIncrease {
        name: asked.name.to_string(),
        count: asked.count,
        assignments: assignments.map(|list| list.iter().map(replicas).collect()),
    })
}

/// How many partitions a topic would get.
fn added(sizes: &Sizes, asked: &CreatePartitionsTopic) -> u32 {
    let present = sizes.partitions_of(Some(&asked.name), Uuid::ZERO);
    let Some(present) = present.and_then(|count| i64::try_from(count).ok()) else { return 0 };
    made_count(i64::from(asked.count) - present)
}

fn topic_result(name: WireString, result: Result<i32, Failure>) -> CreatePartitionsTopicResult {
    let failure = result.err();
    CreatePartitionsTopicResult {
        name,
        error_code: failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code(),
        error_message: failure.map(|failure| failure.message.into()),
        ..Default::default()
    }
}
