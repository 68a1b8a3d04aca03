//! DescribeQuorum: the state of the metadata quorum (KIP-595, KIP-836, KIP-853).
//!
//! Offsets are the indexes of the quorum's own log, which holds metadata as `__cluster_metadata`
//! does in Kafka; it cannot be fetched.

use logway_model::{BrokerId, ErrorCode, TimestampMs};
use logway_quorum::{QuorumStatus, VoterStatus};
use logway_wire::WireString;
use logway_wire::messages::describe_quorum_request;
use logway_wire::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use logway_wire::messages::{DescribeQuorumRequest, DescribeQuorumResponse};

use super::building::ENTRY_BYTES;
use super::cluster_view::{BrokerView, ClusterView, leader_number};
use crate::request::{Cluster, RequestContext, refusal_text};
use logway_node::access::Operation;
use logway_node::tasks::wall_clock;

/// The topic that stands for the quorum's log.
const METADATA_TOPIC: &str = "__cluster_metadata";
const METADATA_PARTITION: i32 = 0;

/// The protocol's word for a connection without encryption or authentication.
const LISTENER_NAME: &str = "PLAINTEXT";

/// From this version on there is room for voters' directories and addresses.
const NODES_FROM: i16 = 2;

/// The epoch of partitions that are not described.
const NO_EPOCH: i32 = -1;

/// One answer for each partition named.
pub(crate) fn built_bytes(_context: &RequestContext, request: &DescribeQuorumRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    (request.topics.len() + partitions.sum::<usize>()) * ENTRY_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DescribeQuorumRequest,
) -> DescribeQuorumResponse {
    let cluster = match context.cluster(Operation::Describe) {
        Ok(cluster) => cluster,
        Err(code) => {
            return DescribeQuorumResponse {
                error_code: code.code(),
                error_message: Some(WireString::from_static(refusal_text(code))),
                ..Default::default()
            };
        }
    };
    if !is_about_metadata(&request) {
        return refused(request, ErrorCode::UnknownTopicOrPartition);
    }
    let status = cluster.quorum_status();
    if status.leader != Some(context.settings().node_id) {
        return refused(request, ErrorCode::NotLeaderOrFollower);
    }
    let view = ClusterView::of(&context);
    let nodes = view.brokers().filter(|broker| is_voter(&status, broker.id)).map(node);
    DescribeQuorumResponse {
        error_message: None,
        topics: vec![TopicData {
            topic_name: METADATA_TOPIC.into(),
            partitions: vec![partition(&context, &cluster, &status)],
            ..Default::default()
        }],
        nodes: if context.version >= NODES_FROM { nodes.collect() } else { Vec::new() },
        ..Default::default()
    }
}

/// Kafka describes one partition, and nothing at all where more is asked for.
fn is_about_metadata(request: &DescribeQuorumRequest) -> bool {
    let [topic] = &request.topics[..] else { return false };
    let [partition] = &topic.partitions[..] else { return false };
    *topic.topic_name == *METADATA_TOPIC && partition.partition_index == METADATA_PARTITION
}

fn refused(request: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse {
    let partition = |asked: describe_quorum_request::PartitionData| PartitionData {
        partition_index: asked.partition_index,
        error_code: code.code(),
        error_message: Some(WireString::from_static(code.name())),
        leader_id: leader_number(None),
        leader_epoch: NO_EPOCH,
        high_watermark: -1,
        ..Default::default()
    };
    let topic = |asked: describe_quorum_request::TopicData| TopicData {
        topic_name: asked.topic_name,
        partitions: asked.partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    let topics = request.topics.into_iter().map(topic).collect();
    DescribeQuorumResponse { error_message: None, topics, ..Default::default() }
}

fn partition(context: &RequestContext, cluster: &Cluster, status: &QuorumStatus) -> PartitionData {
    let voter = |voter: &VoterStatus| match voter.id == context.settings().node_id {
        // The leader is always as far as itself.
        true if context.version < NODES_FROM => replica(voter, wall_clock()),
        true => {
            let directory_id = cluster.log_dirs().metadata_directory_id();
            let state = replica(voter, wall_clock());
            ReplicaState { replica_directory_id: directory_id.0, ..state }
        }
        false => replica(voter, TimestampMs::NONE),
    };
    PartitionData {
        partition_index: METADATA_PARTITION,
        error_message: None,
        leader_id: leader_number(status.leader),
        leader_epoch: status.epoch.0,
        high_watermark: status.high_watermark.0,
        current_voters: status.voters.iter().map(voter).collect(),
        ..Default::default()
    }
}

fn replica(voter: &VoterStatus, caught_up: TimestampMs) -> ReplicaState {
    ReplicaState {
        replica_id: voter.id.0,
        log_end_offset: voter.log_end.0,
        last_fetch_timestamp: caught_up.0,
        last_caught_up_timestamp: caught_up.0,
        ..Default::default()
    }
}

fn is_voter(status: &QuorumStatus, id: BrokerId) -> bool {
    status.voters.iter().any(|voter| voter.id == id)
}

fn node(broker: BrokerView<'_>) -> Node {
    let listener = Listener {
        name: LISTENER_NAME.into(),
        host: WireString::copy_of(&broker.address.host),
        port: broker.address.port,
        ..Default::default()
    };
    Node { node_id: broker.id.0, listeners: vec![listener], ..Default::default() }
}
