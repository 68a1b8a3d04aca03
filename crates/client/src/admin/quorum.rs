//! The quorum that commits the cluster's metadata.

use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset, TimestampMs};
use logway_wire::WireString;
use logway_wire::messages::DescribeQuorumRequest;
use logway_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use logway_wire::messages::describe_quorum_response::{Node, ReplicaState};

use crate::error::check;
use crate::{BrokerAddress, Client, ClientError, Connection};

/// The topic that stands for the metadata, of one partition.
const METADATA_TOPIC: WireString = WireString::from_static("__cluster_metadata");

/// The state of the metadata quorum (KIP-836).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The active controller.
    pub leader: Option<BrokerId>,
    /// Which of the leaders since the beginning it is.
    pub leader_epoch: LeaderEpoch,
    /// What is committed lies before it.
    pub high_watermark: Offset,
    /// Those who vote.
    pub voters: Vec<QuorumReplica>,
    /// Those who only follow.
    pub observers: Vec<QuorumReplica>,
    /// Where nodes listen for each other, as far as the broker says (KIP-853).
    pub nodes: Vec<QuorumNode>,
}

/// Where a node of the quorum is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumNode {
    /// Its number.
    pub id: BrokerId,
    /// Its listeners by name.
    pub listeners: Vec<(String, BrokerAddress)>,
}

/// A node that keeps a copy of the metadata log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// Its number.
    pub id: BrokerId,
    /// The offset after the last one it has; `None` if the leader does not know.
    pub log_end: Option<Offset>,
    /// When it last had everything, by the leader's clock; `None` if the leader does not know.
    pub caught_up_at: Option<TimestampMs>,
    /// When the leader last heard it, by the leader's clock; `None` if the leader does not know.
    pub heard_at: Option<TimestampMs>,
}

impl QuorumDescription {
    /// All who have a copy, those who vote first.
    pub fn replicas(&self) -> impl Iterator<Item = &QuorumReplica> {
        self.voters.iter().chain(&self.observers)
    }

    /// Where the leader's log ends, if that is known.
    pub fn leader_log_end(&self) -> Option<Offset> {
        self.replicas().find(|replica| Some(replica.id) == self.leader)?.log_end
    }
}

impl Client {
    /// Describes the metadata quorum. Any broker has its leader say how it is. While there is none, `leader` is `None`, and
    /// the rest is what the asked broker knows.
    pub async fn describe_quorum(&self) -> Result<QuorumDescription, ClientError> {
        describe(&self.any().await?).await
    }
}

/// What the broker at the other end knows.
async fn describe(connection: &Connection) -> Result<QuorumDescription, ClientError> {
    let partition = PartitionData::default();
    let topic = TopicData {
        topic_name: METADATA_TOPIC,
        partitions: vec![partition],
        ..TopicData::default()
    };
    let request = DescribeQuorumRequest { topics: vec![topic], ..Default::default() };
    let response = connection.call(&request).await?;
    let what = || "describe the metadata quorum".to_owned();
    check(what, response.error_code, response.error_message.as_ref())?;
    let topics = response.topics;
    let partition = topics.into_iter().flat_map(|topic| topic.partitions).next();
    let partition = partition.ok_or_else(|| ClientError::UnexpectedResponse {
        address: connection.address().clone(),
        api: "DescribeQuorum",
        problem: "no partition".to_owned(),
    })?;
    // A broker that finds no leader says so, and all the same who votes. Those of Apache Kafka then say nothing else.
    let finds_no_leader = partition.error_code == ErrorCode::NotLeaderOrFollower.code();
    if !finds_no_leader || partition.current_voters.is_empty() {
        check(what, partition.error_code, partition.error_message.as_ref())?;
    }
    Ok(QuorumDescription {
        leader: (partition.leader_id >= 0).then_some(BrokerId(partition.leader_id)),
        leader_epoch: LeaderEpoch(partition.leader_epoch),
        high_watermark: Offset(partition.high_watermark),
        voters: partition.current_voters.iter().map(replica).collect(),
        observers: partition.observers.iter().map(replica).collect(),
        nodes: response.nodes.iter().map(node).collect(),
    })
}

fn node(node: &Node) -> QuorumNode {
    let listeners = node.listeners.iter().map(|listener| {
        let address = BrokerAddress::new(listener.host.to_string(), listener.port);
        (listener.name.to_string(), address)
    });
    QuorumNode { id: BrokerId(node.node_id), listeners: listeners.collect() }
}

fn replica(replica: &ReplicaState) -> QuorumReplica {
    let log_end = replica.log_end_offset;
    let time = |timestamp: i64| (timestamp >= 0).then_some(TimestampMs(timestamp));
    QuorumReplica {
        id: BrokerId(replica.replica_id),
        log_end: (log_end >= 0).then_some(Offset(log_end)),
        caught_up_at: time(replica.last_caught_up_timestamp),
        heard_at: time(replica.last_fetch_timestamp),
    }
}
