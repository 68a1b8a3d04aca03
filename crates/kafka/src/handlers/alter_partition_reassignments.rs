//! AlterPartitionReassignments: moves partitions to other brokers (KIP-455).

use std::collections::HashMap;

use logway_metadata::controller::{AlterPartitionReassignments, PartitionMove};
use logway_model::{BrokerId, ErrorCode, PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::alter_partition_reassignments_request::ReassignableTopic;
use logway_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use logway_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
};

use super::batched_command::{submit_in_parts, time_max};
use super::building::ENTRY_WITH_MESSAGE_BYTES;
use super::cluster_view::ClusterView;
use crate::request::{RequestContext, TopicGrant, refusal_text};
use logway_node::access::Operation;
use logway_node::failure::Failure;

/// One answer for each partition named.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &AlterPartitionReassignmentsRequest,
) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    (request.topics.len() + partitions.sum::<usize>()) * ENTRY_WITH_MESSAGE_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let cluster = match context.cluster(Operation::Alter) {
        Ok(cluster) => cluster,
        Err(code) => return refused(request, code),
    };
    let may_change_count = request.allow_replication_factor_change;
    // A request about nothing is told the default, as Kafka tells it.
    let told_change_count = may_change_count || request.topics.is_empty();
    let view = ClusterView::of(&context);
    let named = Named::of(&context, &view, cluster.all_topics(), &request.topics);
    let time_max = time_max(request.timeout_ms);
    let command = |moves| AlterPartitionReassignments { moves, may_change_count };
    let outcomes: Vec<Result<(), Failure>> =
        submit_in_parts(&context, time_max, &named.moves, command).await;
    let mut indexes = named.indexes.into_iter();
    let responses = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|asked| {
            let index = indexes.next().expect("there is one for each partition");
            let outcome = index.map_or_else(|| Err(unknown()), |index| outcomes[index].clone());
            response(asked.partition_index, outcome.err())
        });
        let partitions = partitions.collect();
        ReassignableTopicResponse { name: topic.name, partitions, ..Default::default() }
    });
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: told_change_count,
        error_message: None,
        responses: responses.collect(),
        ..Default::default()
    }
}

/// What a request is about: each partition once, as it was named last. So it is done in Kafka, too.
struct Named {
    moves: Vec<PartitionMove>,
    /// For each partition of the request, which of the moves it is; `None` where its topic is not known.
    indexes: Vec<Option<usize>>,
}

impl Named {
    fn of(
        context: &RequestContext,
        view: &ClusterView,
        grant: TopicGrant,
        topics: &[ReassignableTopic],
    ) -> Named {
        let mut named = Named { moves: Vec::new(), indexes: Vec::new() };
        let mut known: HashMap<(TopicId, PartitionId), usize> = HashMap::new();
        for topic in topics {
            let id = view.by_name(context, &topic.name, grant).ok().map(|topic| topic.id);
            for asked in &topic.partitions {
                let Some(topic_id) = id else {
                    named.indexes.push(None);
                    continue;
                };
                let partition = PartitionId(asked.partition_index);
                let brokers = |ids: &Vec<i32>| ids.iter().copied().map(BrokerId).collect();
                let replicas = asked.replicas.as_ref().map(brokers);
                let asked = PartitionMove { topic_id, partition, replicas };
                let index = *known.entry((topic_id, partition)).or_insert(named.moves.len());
                match named.moves.get_mut(index) {
                    Some(earlier) => *earlier = asked,
                    None => named.moves.push(asked),
                }
                named.indexes.push(Some(index));
            }
        }
        named
    }
}

/// The request as a whole, and each partition of it, for a requester who may not.
fn refused(
    request: AlterPartitionReassignmentsRequest,
    code: ErrorCode,
) -> AlterPartitionReassignmentsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partition = |index| ReassignablePartitionResponse {
            partition_index: index,
            error_code: code.code(),
            error_message: Some(WireString::from_static(refusal_text(code))),
            ..Default::default()
        };
        let partitions = topic.partitions.into_iter().map(|asked| partition(asked.partition_index));
        let partitions = partitions.collect();
        ReassignableTopicResponse { name: topic.name, partitions, ..Default::default() }
    });
    AlterPartitionReassignmentsResponse {
        // As Kafka, which says nothing of it where it refuses everything.
        allow_replication_factor_change: true,
        error_code: code.code(),
        error_message: Some(WireString::from_static(refusal_text(code))),
        responses: topics.collect(),
        ..Default::default()
    }
}

fn unknown() -> Failure {
    Failure::new(ErrorCode::UnknownTopicOrPartition, "the partition does not exist")
}

fn response(partition_index: i32, failure: Option<Failure>) -> ReassignablePartitionResponse {
    ReassignablePartitionResponse {
        partition_index,
        error_code: failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code(),
        error_message: failure.map(|failure| failure.message.into()),
        ..Default::default()
    }
}
