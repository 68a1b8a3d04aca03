//! DescribeQuorum: the state of the metadata quorum (KIP-595, KIP-836, KIP-853).
//!
//! Offsets are the indexes of the quorum's own log, which holds metadata as `__cluster_metadata`
//! does in Kafka; it cannot be fetched.
//!
//! As in Kafka the leader answers, by way of the node that was asked: it alone knows how far the others are. While none is
//! found, the answer is Kafka's error, `NOT_LEADER_OR_FOLLOWER`, which clients ask again after. Beside the error stands what
//! the asked node knows: who belongs to the quorum, which is what somebody wants to see who has lost the majority.

use std::time::Duration;

use logway_metadata::record::Endpoint;
use logway_model::{BrokerId, ErrorCode, Offset, TimestampMs};
use logway_quorum::{MemberStatus, QuorumDescription, QuorumStatus};
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

/// What is said beside the error.
const NO_LEADER: &str = "no leader of the metadata quorum is known, or it does not answer";

/// The topic that stands for the quorum's log.
const METADATA_TOPIC: &str = "__cluster_metadata";
const METADATA_PARTITION: i32 = 0;

/// The name of the listener by which the only node of a cluster is described: that for clients, since it listens
/// for no other nodes.
const CLIENT_LISTENER: &str = "PLAINTEXT";

/// The name of the listener by which nodes reach each other, as Kafka's controllers do.
const NODE_LISTENER: &str = "NODE";

/// From this version on there is room for voters' directories and addresses.
const NODES_FROM: i16 = 2;

/// The epoch of partitions that are not described.
const NO_EPOCH: i32 = -1;

/// An election takes less than this. A node that looks for a cluster to join waits no longer than twice as long.
const LEADER_PATIENCE: Duration = Duration::from_secs(1);

/// The end of a log that this node does not know.
const UNKNOWN_OFFSET: i64 = -1;

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
    let quorum = Quorum::of(&context, &cluster).await;
    let nodes = match context.version >= NODES_FROM {
        true => quorum.nodes(&ClusterView::of(&context)),
        false => Vec::new(),
    };
    DescribeQuorumResponse {
        error_message: None,
        topics: vec![TopicData {
            topic_name: METADATA_TOPIC.into(),
            partitions: vec![quorum.partition()],
            ..Default::default()
        }],
        nodes,
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

/// The quorum as one request sees it.
struct Quorum {
    status: QuorumStatus,
    members: Vec<MemberStatus>,
    /// By whose word: the leader's, or that of this node.
    is_told_by_leader: bool,
    has_directories: bool,
    now: TimestampMs,
}

impl Quorum {
    async fn of(context: &RequestContext, cluster: &Cluster) -> Quorum {
        let own_id = context.settings().node_id;
        let told = cluster.quorum_by_leader(LEADER_PATIENCE).await;
        let is_told_by_leader = told.is_ok();
        let QuorumDescription { mut status, mut members } = told.unwrap_or_else(|error| {
            tracing::debug!(%error, "the leader of the quorum does not tell how it is");
            cluster.quorum_seen_here()
        });
        if !is_told_by_leader {
            // Whoever it was does not answer.
            status.leader = None;
        }
        if let Some(own) = members.iter_mut().find(|member| member.id == own_id) {
            own.directory = cluster.log_dirs().metadata_directory_id();
        }
        Quorum {
            is_told_by_leader,
            has_directories: context.version >= NODES_FROM,
            now: wall_clock(),
            status,
            members,
        }
    }

    fn partition(&self) -> PartitionData {
        let replicas = |votes: bool| {
            let members = self.members.iter().filter(move |member| member.is_voter == votes);
            members.map(|member| self.replica(member)).collect()
        };
        let code = match self.is_told_by_leader {
            true => ErrorCode::None,
            false => ErrorCode::NotLeaderOrFollower,
        };
        let is_error = code != ErrorCode::None;
        PartitionData {
            partition_index: METADATA_PARTITION,
            error_code: code.code(),
            error_message: is_error.then(|| WireString::from_static(NO_LEADER)),
            leader_id: leader_number(self.status.leader),
            leader_epoch: self.status.epoch.0,
            high_watermark: self.status.high_watermark.0,
            current_voters: replicas(true),
            observers: replicas(false),
            ..Default::default()
        }
    }

    fn replica(&self, member: &MemberStatus) -> ReplicaState {
        let at = |ago: Duration| {
            let ago_ms = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
            TimestampMs(self.now.0.saturating_sub(ago_ms))
        };
        let heard = member.last_heard.filter(|_| self.is_told_by_leader);
        let heard = heard.map_or(TimestampMs::NONE, at);
        let caught_up = match member.log_end >= self.leader_log_end() {
            true => heard,
            false => TimestampMs::NONE,
        };
        let state = ReplicaState {
            replica_id: member.id.0,
            log_end_offset: member.log_end.map_or(UNKNOWN_OFFSET, |end| end.0),
            last_fetch_timestamp: heard.0,
            last_caught_up_timestamp: caught_up.0,
            ..Default::default()
        };
        match self.has_directories {
            true => ReplicaState { replica_directory_id: member.directory.0, ..state },
            false => state,
        }
    }

    /// Where the leader's log ends, if that is known here.
    fn leader_log_end(&self) -> Option<Offset> {
        let leader = self.members.iter().find(|member| Some(member.id) == self.status.leader);
        leader.and_then(|leader| leader.log_end)
    }

    /// The members by the addresses at which other nodes reach them. The only node of a cluster may have none: then by
    /// that for clients.
    fn nodes(&self, view: &ClusterView) -> Vec<Node> {
        if self.members.iter().any(|member| !member.address.is_empty()) {
            return self.members.iter().filter_map(node_of).collect();
        }
        let is_member =
            |broker: &BrokerView<'_>| self.members.iter().any(|member| member.id == broker.id);
        let nodes = view.brokers().filter(is_member).map(|broker| {
            let Endpoint { host, port } = broker.address;
            node(broker.id, CLIENT_LISTENER, host, *port)
        });
        nodes.collect()
    }
}

/// A member by the address at which other nodes reach it, if it has one.
fn node_of(member: &MemberStatus) -> Option<Node> {
    let Endpoint { host, port } = member.address.parse().ok()?;
    Some(node(member.id, NODE_LISTENER, &host, port))
}

fn node(id: BrokerId, listener: &'static str, host: &str, port: u16) -> Node {
    let listener = Listener {
        name: WireString::from_static(listener),
        host: WireString::copy_of(host),
        port,
        ..Default::default()
    };
    Node { node_id: id.0, listeners: vec![listener], ..Default::default() }
}

#[cfg(test)]
mod tests {
    use logway_model::{DirectoryId, LeaderEpoch, Uuid};

    use super::*;

    /// A leader 1, a voter 2 that is two records behind, and an observer 3 that has everything, as the leader
    /// sees them.
    fn quorum() -> Quorum {
        let member = |id, is_voter, log_end, heard_ms| MemberStatus {
            id: BrokerId(id),
            directory: DirectoryId(Uuid([id as u8; 16])),
            address: format!("node-{id}:9094"),
            is_voter,
            log_end: Some(Offset(log_end)),
            last_heard: Some(Duration::from_millis(heard_ms)),
        };
        Quorum {
            status: QuorumStatus {
                leader: Some(BrokerId(1)),
                epoch: LeaderEpoch(5),
                high_watermark: Offset(9),
                voters: Vec::new(),
            },
            members: vec![member(1, true, 10, 0), member(2, true, 8, 30), member(3, false, 10, 40)],
            is_told_by_leader: true,
            has_directories: true,
            now: TimestampMs(1_000),
        }
    }

    fn told(replicas: &[ReplicaState]) -> Vec<(i32, i64, i64, i64)> {
        let replica = |it: &ReplicaState| {
            let (fetched, caught_up) = (it.last_fetch_timestamp, it.last_caught_up_timestamp);
            (it.replica_id, it.log_end_offset, fetched, caught_up)
        };
        replicas.iter().map(replica).collect()
    }

    #[test]
    fn the_leader_tells_how_far_everybody_is() {
        let partition = quorum().partition();
        assert_eq!(told(&partition.current_voters), [(1, 10, 1_000, 1_000), (2, 8, 970, -1)]);
        assert_eq!(told(&partition.observers), [(3, 10, 960, 960)]);
        assert_eq!(partition.observers[0].replica_directory_id, Uuid([3; 16]));
        assert_eq!((partition.leader_id, partition.leader_epoch), (1, 5));
    }

    #[test]
    fn while_nobody_leads_a_node_tells_who_votes_and_how_far_itself_is() {
        let mut quorum = quorum();
        quorum.is_told_by_leader = false;
        quorum.status.leader = None;
        quorum.members[0].log_end = None;
        quorum.members[2].log_end = None;
        let partition = quorum.partition();
        assert_eq!(told(&partition.current_voters), [(1, -1, -1, -1), (2, 8, -1, -1)]);
        assert_eq!(told(&partition.observers), [(3, -1, -1, -1)]);
        assert_eq!(partition.leader_id, -1);
        assert_eq!(partition.error_code, ErrorCode::NotLeaderOrFollower.code());
    }

    #[test]
    fn a_member_is_reached_where_other_nodes_reach_it() {
        let mut members = quorum().members;
        members[1].address = String::new();
        let nodes = members.iter().map(|member| {
            let Node { node_id, listeners, .. } = node_of(member)?;
            let [listener] = listeners.as_slice() else { panic!("one listener") };
            Some((node_id, listener.name.to_string(), listener.host.to_string(), listener.port))
        });
        let expected = |id: i32| Some((id, "NODE".to_owned(), format!("node-{id}"), 9_094));
        assert_eq!(nodes.collect::<Vec<_>>(), [expected(1), None, expected(3)]);
    }
}
