//! What a coordinator sees of the cluster: its topics, and the settings of groups.

use std::fmt;
use std::sync::Arc;

use logway_model::TopicId;

/// The cluster's metadata as of one moment.
///
/// The coordinator reads no metadata itself: the driver hands it a view, and a newer one after each change
/// ([`GroupShard::cluster_changed`](crate::GroupShard::cluster_changed)).
pub trait ClusterView: fmt::Debug + Send + Sync {
    /// The topic of a name.
    fn topic(&self, name: &str) -> Option<TopicView>;

    /// The name of a topic.
    fn topic_name(&self, id: TopicId) -> Option<Arc<str>>;

    /// Calls `visit` with the name of every topic, in the order of the names.
    fn visit_topic_names(&self, visit: &mut dyn FnMut(&str));

    /// Grows with every change of the metadata.
    fn version(&self) -> i64;

    /// For each partition of a topic in order, the racks of the brokers that hold it, sorted. Empty if there is no such
    /// topic.
    fn racks(&self, topic: &str) -> Vec<Vec<Arc<str>>>;

    /// What is set for a consumer group of that name.
    fn overrides(&self, group: &str) -> ConsumerOverrides;

    /// What is set for a streams group of that name.
    fn streams_overrides(&self, group: &str) -> StreamsOverrides;
}

/// A topic, as a group needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicView {
    /// Its id.
    pub id: TopicId,
    /// How many partitions it has.
    pub partition_count: i32,
}

/// The settings of a group that are set for it alone; the others are the broker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsumerOverrides {
    /// `consumer.session.timeout.ms`
    pub session_timeout_ms: Option<u32>,
    /// `consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: Option<u32>,
    /// `consumer.assignment.interval.ms`
    pub assignment_interval_ms: Option<u32>,
}

/// The settings of a streams group that are set for it alone; the others are the broker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamsOverrides {
    /// `streams.session.timeout.ms`
    pub session_timeout_ms: Option<u32>,
    /// `streams.heartbeat.interval.ms`
    pub heartbeat_interval_ms: Option<u32>,
    /// `streams.assignment.interval.ms`
    pub assignment_interval_ms: Option<u32>,
    /// `streams.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: Option<u32>,
    /// `streams.num.standby.replicas`
    pub standby_replicas: Option<u32>,
}

/// A cluster without topics.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyCluster;

impl ClusterView for EmptyCluster {
    fn topic(&self, _name: &str) -> Option<TopicView> {
        None
    }

    fn topic_name(&self, _id: TopicId) -> Option<Arc<str>> {
        None
    }

    fn visit_topic_names(&self, _visit: &mut dyn FnMut(&str)) {}

    fn version(&self) -> i64 {
        0
    }

    fn racks(&self, _topic: &str) -> Vec<Vec<Arc<str>>> {
        Vec::new()
    }

    fn overrides(&self, _group: &str) -> ConsumerOverrides {
        ConsumerOverrides::default()
    }

    fn streams_overrides(&self, _group: &str) -> StreamsOverrides {
        StreamsOverrides::default()
    }
}
