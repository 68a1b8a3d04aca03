//! AlterPartitionReassignments: moves partitions to other brokers (KIP-455).
//!
//! Replicas stay on the brokers that they were put on. What a partition can be assigned to is what it has, which
//! changes nothing; and no reassignment is ever under way that could be cancelled.

use logway_metadata::{PartitionImage, TopicImage};
use logway_model::{BrokerId, ErrorCode, PartitionId};
use logway_wire::WireString;
use logway_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use logway_wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use logway_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
};

use super::building::ENTRY_BYTES;
use super::cluster_view::ClusterView;
use crate::request::{RequestContext, refusal_text};
use logway_node::access::Operation;

/// Why a partition is not reassigned: the code, and the reason in memory that all answers share.
type Refusal = (ErrorCode, &'static str);

/// One answer for each partition named.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &AlterPartitionReassignmentsRequest,
) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    (request.topics.len() + partitions.sum::<usize>()) * ENTRY_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let cluster = match context.cluster(Operation::Alter) {
        Ok(cluster) => cluster,
        Err(code) => return refused(request, code),
    };
    let view = ClusterView::of(&context);
    let may_change_count = request.allow_replication_factor_change;
    // A request about nothing is told the default, as Kafka tells it.
    let told_change_count = may_change_count || request.topics.is_empty();
    let topics = request.topics.into_iter().map(|asked| {
        let topic = view.by_name(&context, &asked.name, cluster.all_topics()).ok();
        reassign(&view, topic, asked, may_change_count)
    });
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: told_change_count,
        error_message: None,
        responses: topics.collect(),
        ..Default::default()
    }
}

/// The request as a whole, and each partition of it, for a requester who may not.
fn refused(
    request: AlterPartitionReassignmentsRequest,
    code: ErrorCode,
) -> AlterPartitionReassignmentsResponse {
    let refusal = (code, refusal_text(code));
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter();
        let partitions = partitions.map(|asked| response(asked.partition_index, Err(refusal)));
        let partitions = partitions.collect();
        ReassignableTopicResponse { name: topic.name, partitions, ..Default::default() }
    });
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        error_code: code.code(),
        error_message: Some(WireString::from_static(refusal_text(code))),
        responses: topics.collect(),
        ..Default::default()
    }
}

fn reassign(
    view: &ClusterView,
    topic: Option<&TopicImage>,
    asked: ReassignableTopic,
    may_change_count: bool,
) -> ReassignableTopicResponse {
    let ReassignableTopic { name, partitions, .. } = asked;
    let is_known = |id: BrokerId| view.has_broker(id);
    let judge = |asked: ReassignablePartition| {
        let id = PartitionId(asked.partition_index);
        let partition = topic.and_then(|topic| view.partition(topic, id));
        let partition = partition.map(|partition| partition.image);
        let outcome = judge(partition, asked.replicas.as_deref(), may_change_count, is_known);
        response(asked.partition_index, outcome)
    };
    let partitions = partitions.into_iter().map(judge).collect();
    ReassignableTopicResponse { name, partitions, ..Default::default() }
}

/// In Kafka's order: the partition, the brokers, and then their number.
fn judge(
    partition: Option<&PartitionImage>,
    wanted: Option<&[i32]>,
    may_change_count: bool,
    is_known: impl Fn(BrokerId) -> bool,
) -> Result<(), Refusal> {
    let Some(partition) = partition else {
        return Err((ErrorCode::UnknownTopicOrPartition, "the partition does not exist"));
    };
    let Some(wanted) = wanted else {
        let reason = "no reassignment of the partition is in progress";
        return Err((ErrorCode::NoReassignmentInProgress, reason));
    };
    let invalid = |reason| Err((ErrorCode::InvalidReplicaAssignment, reason));
    if wanted.is_empty() {
        return invalid("the list of replicas is empty");
    }
    if !wanted.iter().all(|&id| is_known(BrokerId(id))) {
        return invalid("the list of replicas names a broker that is not registered");
    }
    let mut distinct = wanted.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < wanted.len() {
        return invalid("the list of replicas names a broker more than once");
    }
    if wanted.len() != partition.replicas.len() && !may_change_count {
        let reason = "the request does not allow another number of replicas";
        return Err((ErrorCode::InvalidReplicationFactor, reason));
    }
    match partition.replicas.iter().map(|id| id.0).eq(wanted.iter().copied()) {
        true => Ok(()),
        false => invalid("partitions cannot be moved between brokers"),
    }
}

fn response(partition_index: i32, outcome: Result<(), Refusal>) -> ReassignablePartitionResponse {
    let refusal = outcome.err();
    ReassignablePartitionResponse {
        partition_index,
        error_code: refusal.map_or(ErrorCode::None, |(code, _)| code).code(),
        error_message: refusal.map(|(_, reason)| WireString::from_static(reason)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use logway_model::LeaderEpoch;

    use super::*;

    fn outcome(wanted: Option<&[i32]>, may_change_count: bool) -> Option<ErrorCode> {
        let partition = PartitionImage {
            replicas: vec![BrokerId(1)],
            directories: Vec::new(),
            isr: vec![BrokerId(1)],
            eligible: Vec::new(),
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        };
        let is_known = |id: BrokerId| id.0 <= 2;
        judge(Some(&partition), wanted, may_change_count, is_known).err().map(|(code, _)| code)
    }

    #[test]
    fn a_partition_may_stay_where_it_is() {
        assert_eq!(outcome(Some(&[1]), true), None);
        assert_eq!(outcome(Some(&[1]), false), None);
    }

    #[test]
    fn other_assignments_are_refused_as_kafka_does() {
        let invalid = Some(ErrorCode::InvalidReplicaAssignment);
        for wanted in [&[] as &[i32], &[7], &[1, 7], &[1, 1], &[2], &[1, 2]] {
            assert_eq!(outcome(Some(wanted), true), invalid, "{wanted:?}");
        }
        assert_eq!(outcome(Some(&[1, 2]), false), Some(ErrorCode::InvalidReplicationFactor));
        assert_eq!(outcome(None, true), Some(ErrorCode::NoReassignmentInProgress));
        let unknown = judge(None, None, true, |_| true).expect_err("it does not exist");
        assert_eq!(unknown.0, ErrorCode::UnknownTopicOrPartition);
    }
}
