//! ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).

use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use logway_wire::messages::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use super::building::ENTRY_BYTES;
use crate::request::{RequestContext, refusal_text};
use logway_node::access::{Operation, Resource};

/// The answer is empty, but for a requester who is refused: it names what was asked.
pub(crate) fn built_bytes(
    context: &RequestContext,
    request: &ListPartitionReassignmentsRequest,
) -> usize {
    if context.may(Operation::Describe, Resource::Cluster) {
        return 0;
    }
    let topics = request.topics.iter().flatten();
    topics.map(|topic| (1 + topic.partition_indexes.len()) * ENTRY_BYTES).sum()
}

/// None is: replicas stay on their brokers. As in Kafka, topics that do not exist are no error here.
pub(crate) async fn handle(
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    match context.check(Operation::Describe, Resource::Cluster) {
        Ok(()) => ListPartitionReassignmentsResponse { error_message: None, ..Default::default() },
        Err(code) => refused(request, code),
    }
}

fn refused(
    request: ListPartitionReassignmentsRequest,
    code: ErrorCode,
) -> ListPartitionReassignmentsResponse {
    let partition =
        |partition_index| OngoingPartitionReassignment { partition_index, ..Default::default() };
    let topics = request.topics.into_iter().flatten().map(|topic| OngoingTopicReassignment {
        name: topic.name,
        partitions: topic.partition_indexes.into_iter().map(partition).collect(),
        ..Default::default()
    });
    ListPartitionReassignmentsResponse {
        error_code: code.code(),
        error_message: Some(WireString::from_static(refusal_text(code))),
        topics: topics.collect(),
        ..Default::default()
    }
}
