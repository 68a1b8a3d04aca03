//! ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).

use logway_wire::messages::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use crate::request::RequestContext;

/// The answer is empty.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    _request: &ListPartitionReassignmentsRequest,
) -> usize {
    0
}

/// None is: there is no other broker. As in Kafka, topics that do not exist are no error here.
pub(crate) async fn handle(
    _context: RequestContext,
    _request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse { error_message: None, ..Default::default() }
}
