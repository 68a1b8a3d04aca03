//! ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).
//!
//! In Kafka the controller answers. Here the node does that is asked, once it knows all that was committed before: who
//! has begun a move through another node must not be told that nothing is on its way.

use std::time::Duration;

use logway_model::{ErrorCode, PartitionId};
use logway_wire::WireString;
use logway_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use logway_wire::messages::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use logway_metadata::{PartitionImage, TopicImage};
use logway_wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;

use super::building::{PARTITION_BYTES, with_all};
use super::cluster_view::{ClusterView, numbers};
use crate::request::{RequestContext, TopicGrant, refusal_text};
use logway_node::access::Operation;

/// A partition that is moved has up to five lists of brokers.
const MOVED_BYTES: usize = 2 * PARTITION_BYTES;

/// What is named, or all that is moved.
pub(crate) fn built_bytes(
    context: &RequestContext,
    request: &ListPartitionReassignmentsRequest,
) -> usize {
    match &request.topics {
        Some(topics) => {
            topics.iter().map(|topic| (1 + topic.partition_indexes.len()) * MOVED_BYTES).sum()
        }
        None => {
            let sizes = context.sizes();
            let all = sizes.topic_count() + sizes.partition_count();
            with_all(context, 0, all * MOVED_BYTES)
        }
    }
}

/// As in Kafka, topics and partitions that do not exist are no error here.
pub(crate) async fn handle(
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let cluster = match context.cluster(Operation::Describe) {
        Ok(cluster) => cluster,
        Err(code) => return refused(request, code, refusal_text(code).into()),
    };
    let time_max = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    if let Err(failure) = cluster.until_current(time_max).await {
        return refused(request, failure.code, failure.message.into());
    }
    let (view, grant) = (ClusterView::of(&context), cluster.all_topics());
    let topics = match request.topics {
        Some(topics) => named(&context, &view, grant, topics),
        None => {
            let topics = view.topics_from(&context, "", grant);
            topics.filter_map(|topic| moved(topic, topic.numbered_partitions())).collect()
        }
    };
    ListPartitionReassignmentsResponse { error_message: None, topics, ..Default::default() }
}

fn named(
    context: &RequestContext,
    view: &ClusterView,
    grant: TopicGrant,
    topics: Vec<ListPartitionReassignmentsTopics>,
) -> Vec<OngoingTopicReassignment> {
    let listed = topics.into_iter().filter_map(|asked| {
        let topic = view.by_name(context, &asked.name, grant).ok()?;
        let ids = asked.partition_indexes.into_iter().map(PartitionId);
        moved(topic, ids.filter_map(|id| Some((id, topic.partition(id)?))))
    });
    listed.collect()
}

/// Those of a topic's partitions that are on their way, if any are.
fn moved<'a>(
    topic: &TopicImage,
    partitions: impl Iterator<Item = (PartitionId, &'a PartitionImage)>,
) -> Option<OngoingTopicReassignment> {
    let on_the_way = partitions.filter_map(|(id, partition)| {
        let reassignment = partition.reassignment.as_ref()?;
        Some(OngoingPartitionReassignment {
            partition_index: id.0,
            replicas: numbers(&partition.replicas),
            adding_replicas: numbers(&reassignment.adding().collect::<Vec<_>>()),
            removing_replicas: numbers(&reassignment.removing().collect::<Vec<_>>()),
            ..Default::default()
        })
    });
    let partitions: Vec<OngoingPartitionReassignment> = on_the_way.collect();
    let name = WireString::copy_of(topic.name.as_str());
    let listed = OngoingTopicReassignment { name, partitions, ..Default::default() };
    (!listed.partitions.is_empty()).then_some(listed)
}

fn refused(
    request: ListPartitionReassignmentsRequest,
    code: ErrorCode,
    message: WireString,
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
        error_message: Some(message),
        topics: topics.collect(),
        ..Default::default()
    }
}
