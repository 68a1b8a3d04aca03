//! What a cluster says about its brokers and topics.

use std::collections::BTreeMap;

use logway_model::{
    BrokerId, ErrorCode, LeaderEpoch, PartitionId, TopicId, TopicName, TopicPartition,
};
use logway_wire::messages::MetadataResponse;
use logway_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

use crate::BrokerAddress;
use crate::error::error_code;

/// Brokers and topics as a broker's metadata had them; never changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterMetadata {
    /// The cluster's name, if the broker tells.
    pub cluster_id: Option<String>,
    /// Where to send what changes the cluster; `None` if any broker passes it on.
    pub controller: Option<BrokerId>,
    /// The brokers that are alive.
    pub brokers: BTreeMap<BrokerId, BrokerInfo>,
    /// The topics that were asked for.
    pub topics: BTreeMap<TopicName, TopicMetadata>,
}

/// A broker as the metadata advertises it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Where clients are to connect.
    pub address: BrokerAddress,
    /// The rack or zone, if it has one.
    pub rack: Option<String>,
}

/// A topic and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Zero from brokers that know no topic ids.
    pub id: TopicId,
    /// Whether the cluster keeps the topic for itself.
    pub is_internal: bool,
    /// Why there is nothing to say about the topic, or [`ErrorCode::None`].
    pub error: ErrorCode,
    /// In the order of their numbers, without gaps unless the broker is confused.
    pub partitions: Vec<PartitionMetadata>,
}

/// A partition and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The number.
    pub id: PartitionId,
    /// The broker to write to and read from, if there is one at present.
    pub leader: Option<BrokerId>,
    /// [`LeaderEpoch::NONE`] from brokers that do not tell.
    pub leader_epoch: LeaderEpoch,
    /// All replicas, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Those in sync.
    pub isr: Vec<BrokerId>,
    /// Those that are down.
    pub offline: Vec<BrokerId>,
}

impl ClusterMetadata {
    /// Takes a response apart. Topics with impossible names are left out: we cannot have asked
    /// for them.
    pub fn from_response(response: &MetadataResponse) -> ClusterMetadata {
        ClusterMetadata {
            cluster_id: response.cluster_id.as_ref().map(ToString::to_string),
            controller: broker_id(response.controller_id),
            brokers: response.brokers.iter().filter_map(broker).collect(),
            topics: response.topics.iter().filter_map(topic).collect(),
        }
    }

    /// A partition, if it is known.
    pub fn partition(&self, partition: &TopicPartition) -> Option<&PartitionMetadata> {
        let partitions = &self.topics.get(&partition.topic)?.partitions;
        partitions.iter().find(|metadata| metadata.id == partition.partition)
    }

    /// The leader of a partition, if both are known.
    pub fn leader(&self, partition: &TopicPartition) -> Option<BrokerId> {
        self.partition(partition)?.leader
    }

    /// The id of a topic, unless it is unknown or the brokers have no topic ids.
    pub fn topic_id(&self, topic: &TopicName) -> Option<TopicId> {
        self.topics.get(topic).map(|metadata| metadata.id).filter(|id| !id.0.is_zero())
    }
}

fn broker(broker: &MetadataResponseBroker) -> Option<(BrokerId, BrokerInfo)> {
    let port = u16::try_from(broker.port).ok()?;
    let address = BrokerAddress::new(broker.host.as_str(), port);
    let rack = broker.rack.as_ref().map(ToString::to_string);
    Some((BrokerId(broker.node_id), BrokerInfo { address, rack }))
}

fn topic(topic: &MetadataResponseTopic) -> Option<(TopicName, TopicMetadata)> {
    let name = TopicName::new(topic.name.as_deref()?).ok()?;
    let mut partitions: Vec<_> = topic.partitions.iter().map(partition).collect();
    partitions.sort_by_key(|partition| partition.id);
    let metadata = TopicMetadata {
        id: TopicId(topic.topic_id),
        is_internal: topic.is_internal,
        error: error_code(topic.error_code),
        partitions,
    };
    Some((name, metadata))
}

fn partition(partition: &MetadataResponsePartition) -> PartitionMetadata {
    PartitionMetadata {
        id: PartitionId(partition.partition_index),
        leader: broker_id(partition.leader_id),
        leader_epoch: LeaderEpoch(partition.leader_epoch),
        replicas: broker_ids(&partition.replica_nodes),
        isr: broker_ids(&partition.isr_nodes),
        offline: broker_ids(&partition.offline_replicas),
    }
}

/// On the wire -1 is no broker.
fn broker_id(id: i32) -> Option<BrokerId> {
    (id >= 0).then_some(BrokerId(id))
}

fn broker_ids(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}
