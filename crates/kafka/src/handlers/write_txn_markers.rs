//! WriteTxnMarkers: ends transactions in partitions (KIP-98, KIP-890). Transaction coordinators ask for it, and tools that
//! abort what hangs (KIP-664).

use std::sync::Arc;

use logway_coordinator::Marker;
use logway_coordinator::transactions::{Producer, TransactionOutcome};
use logway_model::{ErrorCode, PartitionId, ProducerEpoch, ProducerId, TransactionVersion};
use logway_node::access::Operation;
use logway_node::replica::Replica;
use logway_node::transactions::StartedEnd;
use logway_wire::WireString;
use logway_wire::messages::write_txn_markers_request::WritableTxnMarker;
use logway_wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use logway_wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::building::ENTRY_BYTES;
use super::repeats::{keep_first, merge_same};
use crate::request::{RequestContext, TopicGrant};

/// An append under way, and its answer, for each partition of each marker.
pub(crate) fn built_bytes(_context: &RequestContext, request: &WriteTxnMarkersRequest) -> usize {
    let topics = request.markers.iter().flat_map(|marker| &marker.topics);
    let partitions: usize = topics.clone().map(|topic| topic.partition_indexes.len()).sum();
    (request.markers.len() + topics.count() + 4 * partitions) * ENTRY_BYTES
}

/// As Kafka, it asks whether the requester may alter the cluster, which an administrator may, and then whether it is a
/// broker.
pub(crate) async fn handle(
    context: RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let cluster = context.cluster_for_either(Operation::Alter, Operation::ClusterAction);
    let grant = cluster.map(|cluster| cluster.all_topics());
    // All markers are handed over before the first is waited for.
    let started: Vec<Started> =
        request.markers.into_iter().map(|marker| start(&context, grant, marker)).collect();
    let mut response = WriteTxnMarkersResponse::default();
    for Started { producer_id, topics } in started {
        let mut result = WritableTxnMarkerResult { producer_id, ..Default::default() };
        for (name, partitions) in topics {
            let mut topic = WritableTxnMarkerTopicResult { name, ..Default::default() };
            for (partition_index, marker) in partitions {
                let code = finish(marker).await.err().unwrap_or(ErrorCode::None);
                topic.partitions.push(WritableTxnMarkerPartitionResult {
                    partition_index,
                    error_code: code.code(),
                    ..Default::default()
                });
            }
            result.topics.push(topic);
        }
        response.markers.push(result);
    }
    response.markers = each_once(response.markers);
    response
}

/// Each producer, topic and partition once, and what has nothing in it not at all, as Kafka tells them.
fn each_once(markers: Vec<WritableTxnMarkerResult>) -> Vec<WritableTxnMarkerResult> {
    let producer = |marker: &WritableTxnMarkerResult| marker.producer_id;
    let mut markers =
        merge_same(markers, producer, |marker, other| marker.topics.extend(other.topics));
    for marker in &mut markers {
        let name = |topic: &WritableTxnMarkerTopicResult| topic.name.clone();
        let topics = std::mem::take(&mut marker.topics);
        marker.topics =
            merge_same(topics, name, |topic, other| topic.partitions.extend(other.partitions));
        for topic in &mut marker.topics {
            keep_first(&mut topic.partitions, |partition| partition.partition_index);
        }
        marker.topics.retain(|topic| !topic.partitions.is_empty());
    }
    markers.retain(|marker| !marker.topics.is_empty());
    markers
}

/// A marker on its way to its partitions, by topic.
struct Started {
    producer_id: i64,
    topics: Vec<(WireString, Vec<StartedPartition>)>,
}

/// The number of a partition, and what has become of the marker for it.
type StartedPartition = (i32, Result<StartedEnd, ErrorCode>);

fn start(
    context: &RequestContext,
    grant: Result<TopicGrant, ErrorCode>,
    asked: WritableTxnMarker,
) -> Started {
    let marker = Marker {
        producer: Producer {
            id: ProducerId(asked.producer_id),
            epoch: ProducerEpoch(asked.producer_epoch),
        },
        coordinator_epoch: asked.coordinator_epoch,
        outcome: match asked.transaction_result {
            true => TransactionOutcome::Commit,
            false => TransactionOutcome::Abort,
        },
        version: TransactionVersion(asked.transaction_version.into()),
    };
    let topics = asked.topics.into_iter().map(|topic| {
        let start = |index: i32| {
            let replica = grant.and_then(|grant| find(context, grant, &topic.name, index));
            let started = replica.and_then(|replica| context.begin_marker(&replica, marker));
            (index, started)
        };
        let partitions = topic.partition_indexes.into_iter().map(start).collect();
        (topic.name.clone(), partitions)
    });
    Started { producer_id: asked.producer_id, topics: topics.collect() }
}

fn find(
    context: &RequestContext,
    grant: TopicGrant,
    name: &str,
    index: i32,
) -> Result<Arc<Replica>, ErrorCode> {
    let topics = context.served_topics();
    let (_, replica) = topics.led_by_name(context, name, PartitionId(index), grant)?;
    Ok(Arc::clone(replica))
}

async fn finish(started: Result<StartedEnd, ErrorCode>) -> Result<(), ErrorCode> {
    started?.finish().await
}
