//! The level of the metadata: which records every node of the cluster can read (KIP-584).
//!
//! A node refuses a record that it does not know, because it must not run on metadata that it understood
//! in part. In a rolling upgrade some nodes are older. So a record is written only when the cluster has
//! *finalised* the level that it needs, which is itself a record: the feature [`METADATA_FEATURE`].
//!
//! | level | what it allows |
//! |-------|----------------|
//! | 0     | every record of a cluster of one node |
//! | 1     | several nodes: sessions of brokers; batches that name the image they were judged against, and the commands that they follow from |
//! | 2     | eligible leader replicas of partitions (KIP-966) |
//!
//! Users and ACLs are a feature of their own, and so are delegation tokens and streams, [`STREAMS_FEATURE`]: a node that is
//! alone can have them, and a higher level would also bring it the sessions of brokers, which it does not have. A feature is
//! on or off. Removed
//! brokers and moves of partitions are such, too: those clusters that have none keep the way back to an older version.
//!
//! A kind of record that gets another layout keeps the older one: a record is written in the oldest layout
//! that can hold it, and [`MetadataRecord::level`](crate::MetadataRecord::level) says which level that is of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of the feature whose level is that of the metadata.
pub const METADATA_FEATURE: &str = "metadata";

/// The feature of clusters that have users or ACLs. The first of these turns it on: by then every node has to know
/// them, since one that does not stops at the record.
pub(crate) const SECURITY_FEATURE: &str = "security";

/// Its only level.
pub(crate) const SECURITY_LEVEL: i16 = 1;

/// The feature of clusters that have delegation tokens. The first of these turns it on.
pub(crate) const TOKENS_FEATURE: &str = "delegation_tokens";

/// Its only level.
pub(crate) const TOKENS_LEVEL: i16 = 1;

/// The name of the feature that allows streams and shards.
pub const STREAMS_FEATURE: &str = "streams";

/// The only level of [`STREAMS_FEATURE`] but 0.
pub const STREAMS_LEVEL: i16 = 1;

/// The feature of clusters whose nodes are known by their keys, and talk by TLS.
pub(crate) const NODE_KEYS_FEATURE: &str = "node_keys";

/// Its only level.
pub(crate) const NODE_KEYS_LEVEL: i16 = 1;

/// The feature of clusters that have removed a broker. The first removal turns it on.
pub(crate) const REMOVALS_FEATURE: &str = "removals";

/// The only level of [`REMOVALS_FEATURE`] but 0.
pub(crate) const REMOVALS_LEVEL: i16 = 1;

/// The feature of clusters that have moved partitions to other nodes. The first move turns it on.
pub(crate) const REASSIGNMENTS_FEATURE: &str = "reassignments";

/// Its only level.
pub(crate) const REASSIGNMENTS_LEVEL: i16 = 1;

/// A level of the metadata.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MetadataLevel(pub i16);

impl MetadataLevel {
    /// A cluster of one node.
    pub const ONE_NODE: MetadataLevel = MetadataLevel(0);

    /// A cluster of several nodes.
    pub const CLUSTER: MetadataLevel = MetadataLevel(1);

    /// Partitions have eligible leader replicas.
    pub const ELIGIBLE_REPLICAS: MetadataLevel = MetadataLevel(2);

    /// The newest one that this version reads and writes.
    pub const NEWEST: MetadataLevel = MetadataLevel::ELIGIBLE_REPLICAS;

    /// What the level brings beside those below it, for people; `None` of a level that this version does not know.
    pub fn brings(self) -> Option<&'static str> {
        match self {
            MetadataLevel::ONE_NODE => Some("one node"),
            MetadataLevel::CLUSTER => Some("several nodes"),
            MetadataLevel::ELIGIBLE_REPLICAS => Some("eligible leader replicas (KIP-966)"),
            _ => None,
        }
    }
}

impl fmt::Display for MetadataLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
