//! What is about the whole cluster, or about this node.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use logway_log::LogDir;
use logway_metadata::{MetadataImage, MetadataLevel};
use logway_model::{ErrorCode, PartitionId};
use logway_node::access::{Operation, Resource};
use logway_node::cluster::LevelRefusal;
use logway_node::events::ClusterEvents;
use logway_node::log_dirs::LogDirs;
use logway_node::log_levels::LogLevels;
use logway_node::topics::TopicTable;
use logway_node::{Failure, Node};
use logway_quorum::{MembersChange, QuorumDescription, QuorumError};

use super::TopicGrant;
use crate::request::RequestContext;

/// The cluster, for a requester who may do what it has asked for.
#[derive(Clone)]
pub(crate) struct Cluster(Arc<Node>);

impl RequestContext {
    /// The cluster, to do an operation with. Fails with `CLUSTER_AUTHORIZATION_FAILED`.
    pub(crate) fn cluster(&self, operation: Operation) -> Result<Cluster, ErrorCode> {
        self.check(operation, Resource::Cluster)?;
        Ok(Cluster(Arc::clone(self.node())))
    }

    /// The same, for a requester who may do one of two things with it.
    pub(crate) fn cluster_for_either(
        &self,
        first: Operation,
        second: Operation,
    ) -> Result<Cluster, ErrorCode> {
        let operation = if self.would_allow(first, Resource::Cluster) { first } else { second };
        self.cluster(operation)
    }
}

impl Cluster {
    /// Every topic.
    pub(crate) fn all_topics(&self) -> TopicGrant {
        TopicGrant::ALL
    }

    /// The metadata.
    pub(crate) fn metadata(&self) -> Arc<MetadataImage> {
        self.0.image()
    }

    /// The topics that this node serves.
    pub(crate) fn served(&self) -> Guard<Arc<TopicTable>> {
        self.0.topics()
    }

    /// How the quorum is by its leader's word, if one is found in time.
    pub(crate) async fn quorum_by_leader(
        &self,
        patience: Duration,
    ) -> Result<QuorumDescription, QuorumError> {
        self.0.quorum.describe(patience).await
    }

    /// How the quorum is as far as this node knows.
    pub(crate) fn quorum_seen_here(&self) -> QuorumDescription {
        self.0.quorum.own_description()
    }

    /// Waits until the metadata here has everything that was committed before, on whichever node.
    pub(crate) async fn until_current(&self, time_max: Duration) -> Result<(), Failure> {
        self.0.until_current(time_max).await
    }

    /// Changes who belongs to the quorum and who votes, while the memory of a request is held.
    pub(crate) async fn change_members(
        &self,
        context: &RequestContext,
        change: MembersChange,
        time_max: Option<Duration>,
    ) -> Result<(), Failure> {
        self.0.change_members(change, time_max, context.building.clone()).await
    }

    /// Whether every node knows a level of the metadata.
    pub(crate) async fn check_metadata_level(
        &self,
        level: MetadataLevel,
    ) -> Result<(), LevelRefusal> {
        self.0.check_metadata_level(level).await
    }

    /// The log directories of this node.
    pub(crate) fn log_dirs(&self) -> &LogDirs {
        &self.0.log_dirs
    }

    /// The last changes of the cluster.
    pub(crate) fn events(&self) -> &ClusterEvents {
        &self.0.events
    }

    /// The levels of this node's log.
    pub(crate) fn log_levels(&self) -> &LogLevels {
        &self.0.log_levels
    }

    /// Begins to move a replica to a log directory.
    pub(crate) async fn move_replica(
        &self,
        topic: &str,
        partition: PartitionId,
        target: &Arc<LogDir>,
    ) -> Result<(), ErrorCode> {
        self.0.move_replica(topic, partition, target).await
    }
}
