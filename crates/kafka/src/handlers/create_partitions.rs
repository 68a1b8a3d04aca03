//! CreatePartitions: gives topics more partitions (KIP-195).

use logway_metadata::controller::{CreatePartitions, PartitionsIncrease};
use logway_model::{BrokerId, ErrorCode};
use logway_wire::WireString;
use logway_wire::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use logway_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use logway_wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::batched_command::time_max;
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::mutation_quota::{made_count, submit_within_quota};
use super::repeats::keep_first;
use crate::request::RequestContext;
use logway_node::failure::Failure;
use logway_node::groups::OFFSETS_TOPIC;

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
    let increases = request.topics.iter();
    let increases = increases.map(|topic| (increase(topic), added(&context, topic))).collect();
    let create = |topics| CreatePartitions { topics, validate_only };
    let results =
        submit_within_quota(&context, QUOTA_EXCEEDED_FROM, time_max, increases, create).await;

    let named = request.topics.into_iter().map(|topic| topic.name).zip(results);
    let mut results: Vec<_> = named.map(|(name, result)| topic_result(name, result)).collect();
    keep_first(&mut results, |topic| topic.name.clone());
    CreatePartitionsResponse { results, ..Default::default() }
}

fn increase(asked: &CreatePartitionsTopic) -> Result<PartitionsIncrease, Failure> {
    if asked.name.as_str() == OFFSETS_TOPIC {
        let message = format!(
            "groups are spread over the partitions of {OFFSETS_TOPIC} by their \
            number, which cannot change"
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
fn added(context: &RequestContext, asked: &CreatePartitionsTopic) -> u32 {
    let image = context.node().image();
    let Some(topic) = image.topic(&asked.name) else { return 0 };
    made_count(i64::from(asked.count) - i64::from(topic.partition_count()))
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
