//! The records that cluster metadata is made of.
//!
//! On disk a record is one JSON object with one key, its kind and the version of its layout:
//!
//! ```text
//! {"topic/0":{"name":"orders","id":"mHXhSmZmSNiVcUPAqvxVGg"}}
//! ```
//!
//! JSON, because somebody will have to read it with nothing but a pager at hand. The version is a
//! part of the key so that a record of a newer layout is an unknown kind, and an unknown kind or
//! field fails the whole decode: a broker never runs on metadata that it understood in part.
//! A layout that changes gets the next version beside the old one, and a field that the older one has not
//! gets a default that says so. A record is written in the oldest layout that can hold it, and only
//! when the cluster has finalised the level of that layout ([`MetadataLevel`]).

mod broker_session;
mod reassignment;
mod remove_broker;
mod stream;

use std::fmt;
use std::str::FromStr;

pub use broker_session::{BrokerEpoch, BrokerSessionRecord, BrokerState, Listener, NODE_LISTENER};
use logway_model::{
    BrokerId, DirectoryId, LeaderEpoch, PartitionId, ProducerId, TopicId, TopicName,
};
pub use reassignment::Reassignment;
pub use remove_broker::RemoveBrokerRecord;
use serde::{Deserialize, Serialize};
pub use stream::{
    HashKey, HashRange, NotAHashKey, Shard, ShardEnd, ShardRecord, StreamConsumer, StreamMode,
    StreamPhase, StreamRecord, StreamState, StreamsRecord,
};

use crate::acl::Acl;
use crate::credential::ScramCredential;
use crate::delegation_token::DelegationToken;
use crate::error::excerpt;
use crate::join_token::{Digest, JoinToken};
use crate::level::{
    MetadataLevel, NODE_KEYS_FEATURE, NODE_KEYS_LEVEL, REASSIGNMENTS_FEATURE, REASSIGNMENTS_LEVEL,
    REMOVALS_FEATURE, REMOVALS_LEVEL, SECURITY_FEATURE, SECURITY_LEVEL, STREAMS_FEATURE,
    STREAMS_LEVEL, TOKENS_FEATURE, TOKENS_LEVEL,
};
use crate::quota::{QuotaEntity, QuotaKey, QuotaLimit};
use crate::sasl::ScramMechanism;

/// One change of the cluster's metadata.
///
/// Records are committed by the quorum and applied to a [`MetadataImage`] in order.
///
/// [`MetadataImage`]: crate::MetadataImage
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataRecord {
    /// A topic exists.
    #[serde(rename = "topic/0")]
    Topic(TopicRecord),
    /// A topic, its partitions and its settings are gone.
    #[serde(rename = "remove_topic/0")]
    RemoveTopic(RemoveTopicRecord),
    /// The state of one partition, whole.
    #[serde(rename = "partition/1", alias = "partition/0")]
    Partition(PartitionRecord),
    /// The same of one that has eligible leader replicas; made by [`MetadataRecord::partition`].
    #[serde(rename = "partition/2")]
    PartitionWithEligible(PartitionRecord),
    /// The same of one that is on its way to other replicas; made by [`MetadataRecord::partition`].
    #[serde(rename = "partition/3")]
    PartitionReassigned(PartitionRecord),
    /// A setting of a topic or broker is overridden, or no longer.
    #[serde(rename = "config/0")]
    Config(ConfigRecord),
    /// A broker belongs to the cluster.
    #[serde(rename = "broker/1", alias = "broker/0")]
    Broker(BrokerRecord),
    /// Producer ids below a bound are given out.
    #[serde(rename = "producer_ids/0")]
    ProducerIds(ProducerIdsRecord),
    /// A feature of the cluster is at a level.
    #[serde(rename = "feature/0")]
    Feature(FeatureRecord),
    /// What a client may use per second, or that it may use what it likes.
    #[serde(rename = "client_quota/0")]
    ClientQuota(ClientQuotaRecord),
    /// A user has a password, or no longer.
    #[serde(rename = "scram_credential/0")]
    ScramCredential(ScramCredentialRecord),
    /// An entry of an access control list is there, or no longer.
    #[serde(rename = "acl/0")]
    Acl(AclRecord),
    /// A delegation token is there, whole.
    #[serde(rename = "delegation_token/0")]
    DelegationToken(DelegationToken),
    /// A delegation token is gone.
    #[serde(rename = "remove_delegation_token/0")]
    RemoveDelegationToken(RemoveDelegationTokenRecord),
    /// A broker of a cluster has started, or may lead, or no longer.
    #[serde(rename = "broker_session/0")]
    BrokerSession(BrokerSessionRecord),
    /// A broker does not belong to the cluster any more.
    #[serde(rename = "remove_broker/0")]
    RemoveBroker(RemoveBrokerRecord),
    /// A topic is a stream.
    #[serde(rename = "stream/0")]
    Stream(Box<StreamRecord>),
    /// A partition is a shard.
    #[serde(rename = "shard/0")]
    Shard(ShardRecord),
    /// What all streams share.
    #[serde(rename = "streams/0")]
    Streams(StreamsRecord),
    /// A node is known by a key, until its broker is removed.
    #[serde(rename = "node_key/0")]
    NodeKey(NodeKeyRecord),
}

impl MetadataRecord {
    /// The state of one partition, in the oldest layout that can hold it.
    pub fn partition(record: PartitionRecord) -> MetadataRecord {
        match (&record.reassignment, record.eligible.is_empty()) {
            (Some(_), _) => MetadataRecord::PartitionReassigned(record),
            (None, false) => MetadataRecord::PartitionWithEligible(record),
            (None, true) => MetadataRecord::Partition(record),
        }
    }

    /// The end of an override: the setting of the resource is as without it.
    pub fn override_ended(resource: ConfigResource, name: &str) -> MetadataRecord {
        MetadataRecord::Config(ConfigRecord { resource, name: name.to_owned(), value: None })
    }

    /// The level that a cluster must have finalised before this record is written.
    pub fn level(&self) -> MetadataLevel {
        match self {
            MetadataRecord::Topic(_)
            | MetadataRecord::RemoveTopic(_)
            | MetadataRecord::Partition(_)
            | MetadataRecord::Config(_)
            | MetadataRecord::Broker(_)
            | MetadataRecord::ProducerIds(_)
            | MetadataRecord::Feature(_)
            | MetadataRecord::ClientQuota(_)
            | MetadataRecord::ScramCredential(_)
            | MetadataRecord::Acl(_)
            | MetadataRecord::DelegationToken(_)
            | MetadataRecord::RemoveDelegationToken(_)
            | MetadataRecord::Stream(_)
            | MetadataRecord::Shard(_)
            | MetadataRecord::Streams(_)
            | MetadataRecord::NodeKey(_) => MetadataLevel::ONE_NODE,
            MetadataRecord::BrokerSession(_) | MetadataRecord::RemoveBroker(_) => {
                MetadataLevel::CLUSTER
            }
            MetadataRecord::PartitionReassigned(record) if record.eligible.is_empty() => {
                MetadataLevel::CLUSTER
            }
            MetadataRecord::PartitionReassigned(_) | MetadataRecord::PartitionWithEligible(_) => {
                MetadataLevel::ELIGIBLE_REPLICAS
            }
        }
    }

    /// The feature that must be on before this record is written, with its level.
    pub fn feature(&self) -> Option<(&'static str, i16)> {
        match self {
            MetadataRecord::ScramCredential(_) | MetadataRecord::Acl(_) => {
                Some((SECURITY_FEATURE, SECURITY_LEVEL))
            }
            MetadataRecord::DelegationToken(_) | MetadataRecord::RemoveDelegationToken(_) => {
                Some((TOKENS_FEATURE, TOKENS_LEVEL))
            }
            MetadataRecord::Stream(_) | MetadataRecord::Shard(_) | MetadataRecord::Streams(_) => {
                Some((STREAMS_FEATURE, STREAMS_LEVEL))
            }
            MetadataRecord::NodeKey(_) => Some((NODE_KEYS_FEATURE, NODE_KEYS_LEVEL)),
            MetadataRecord::RemoveBroker(_) => Some((REMOVALS_FEATURE, REMOVALS_LEVEL)),
            MetadataRecord::PartitionReassigned(_) => {
                Some((REASSIGNMENTS_FEATURE, REASSIGNMENTS_LEVEL))
            }
            _ => None,
        }
    }
}

/// A topic exists, with no partition yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicRecord {
    /// The topic's name, unused by any other topic.
    pub name: TopicName,
    /// Its id, never used before.
    pub id: TopicId,
}

/// A topic is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveTopicRecord {
    /// Which topic.
    pub id: TopicId,
}

/// The whole state of one partition; replaces what was known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionRecord {
    /// The partition's topic.
    pub topic_id: TopicId,
    /// Its number: that of a known partition, or the next one.
    pub partition: PartitionId,
    /// The brokers that hold it, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// The log directory of each replica, in the same order (KIP-858). Empty, as in version 0,
    /// where no replica has been assigned to one.
    #[serde(default)]
    pub directories: Vec<DirectoryId>,
    /// Those of them that are in sync.
    pub isr: Vec<BrokerId>,
    /// Those of the others that may lead, too (KIP-966): they left the ISR when it had too few for anything to be
    /// committed, so they have all that was. Empty, as in version 1, where nobody has looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eligible: Vec<BrokerId>,
    /// Where it is on its way to, if it is. `None`, as in version 2, where nothing is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reassignment: Option<Reassignment>,
    /// The broker that leads it, if any can.
    pub leader: Option<BrokerId>,
    /// Grows with each new leader.
    pub leader_epoch: LeaderEpoch,
    /// Grows with each change of this record, so that a late request to change it is noticed.
    pub partition_epoch: i32,
}

/// The log directory of a broker's replica; [`DirectoryId::UNASSIGNED`] where nobody has said, or there is no such replica.
pub(crate) fn directory_of(
    replicas: &[BrokerId],
    directories: &[DirectoryId],
    broker: BrokerId,
) -> DirectoryId {
    let index = replicas.iter().position(|replica| *replica == broker);
    let directory = index.and_then(|index| directories.get(index));
    directory.copied().unwrap_or(DirectoryId::UNASSIGNED)
}

/// What a setting is attached to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigResource {
    /// One topic.
    Topic(TopicName),
    /// One broker.
    Broker(BrokerId),
    /// Every broker that does not say otherwise itself (the protocol's broker with an empty name).
    BrokerDefault,
    /// One group, whether it exists or not (KIP-848).
    Group(String),
    /// One subscription to clients' metrics (KIP-714). It exists as long as it has a setting.
    ClientMetrics(String),
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigResource::Topic(name) => write!(f, "topic '{name}'"),
            ConfigResource::Broker(id) => write!(f, "broker {id}"),
            ConfigResource::BrokerDefault => f.write_str("the brokers' defaults"),
            ConfigResource::Group(id) => write!(f, "group '{}'", excerpt(id)),
            ConfigResource::ClientMetrics(name) => {
                write!(f, "client metrics subscription '{}'", excerpt(name))
            }
        }
    }
}

/// A setting of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigRecord {
    /// Whose setting.
    pub resource: ConfigResource,
    /// Its name, as in the tables of [`settings`](crate::settings).
    pub name: String,
    /// The new value as text, or `None` when the override ends.
    pub value: Option<String>,
}

/// A broker of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerRecord {
    /// Its number.
    pub id: BrokerId,
    /// Where clients reach it, or `None` when each client is told the address it came by.
    pub endpoint: Option<Endpoint>,
    /// The failure domain it stands in, if it said.
    pub rack: Option<String>,
    /// The log directories that it can use, in the order of its settings (KIP-858); none in
    /// version 0.
    #[serde(default)]
    pub log_dirs: Vec<DirectoryId>,
}

impl BrokerRecord {
    /// The directory with the metadata, by which the quorum knows the node; `None` where it has told of none.
    pub fn metadata_directory(&self) -> Option<DirectoryId> {
        self.log_dirs.first().copied()
    }
}

/// An address that a broker advertises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// A host name or an IP address.
    pub host: String,
    /// A TCP port.
    pub port: u16,
}

/// Producer ids are given out in blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProducerIdsRecord {
    /// The first id of the next block: all below it may be in use.
    pub next: ProducerId,
}

/// The level of a feature that the whole cluster has agreed on (KIP-584).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureRecord {
    /// The feature's name, e.g. `metadata.version`.
    pub name: String,
    /// Its level; 0 turns the feature off.
    pub level: i16,
}

/// One quota of one entity (KIP-546).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientQuotaRecord {
    /// Whom it binds.
    pub entity: QuotaEntity,
    /// What it limits.
    pub key: QuotaKey,
    /// The new limit, or `None` when the quota ends.
    pub limit: Option<QuotaLimit>,
}

/// What is stored of a user's password for one mechanism (KIP-554).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScramCredentialRecord {
    /// Whose.
    pub user: String,
    /// Of which mechanism.
    pub mechanism: ScramMechanism,
    /// What replaces what was stored, or `None` when the user loses it.
    pub credential: Option<ScramCredential>,
}

/// One entry of an access control list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclRecord {
    /// The entry.
    pub acl: Acl,
    /// Whether it is gone.
    #[serde(default)]
    pub is_removed: bool,
}

/// By what a node is known to the others (see [`FoundNodeKeys`](crate::controller::FoundNodeKeys)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeKeyRecord {
    /// The directory that has the node's place in the quorum.
    pub directory: DirectoryId,
    /// Of its public key.
    pub key: Digest,
    /// The token that it was admitted by, as of then; `None` for the first node.
    pub token: Option<JoinToken>,
}

/// A delegation token is gone: it has expired, or somebody ended it (KIP-48).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveDelegationTokenRecord {
    /// Which one.
    pub id: String,
}

/// Text that is not `host:port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not host:port")]
pub struct NotAnEndpoint;

/// Reads `host:port`, as it is written: the host of an IPv6 address in brackets, which keep its colons apart.
impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Endpoint, NotAnEndpoint> {
        let (host, port) = text.rsplit_once(':').ok_or(NotAnEndpoint)?;
        let port = port.parse().map_err(|_| NotAnEndpoint)?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Ok(Endpoint { host: in_brackets.unwrap_or(host).to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let parts = |text: &str| text.parse().map(|Endpoint { host, port }| (host, port));
        assert_eq!(parts("node-1:9094"), Ok(("node-1".to_owned(), 9094)));
        assert_eq!(parts("[::1]:9094"), Ok(("::1".to_owned(), 9094)));
        for wrong in ["", "node-1", "node-1:", "node-1:70000"] {
            assert_eq!(parts(wrong), Err(NotAnEndpoint), "{wrong}");
        }
    }
}
