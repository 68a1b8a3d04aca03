//! What transactions write to.

use logway_coordinator::transactions::TRANSACTIONS_TOPIC;
use logway_metadata::controller::NewTopic;
use logway_metadata::settings::BrokerSettings;
use logway_node::coordinator_topics::{new_offsets_topic, new_transactions_topic};
use logway_node::groups::OFFSETS_TOPIC;

use crate::cluster::oracle::Place;
use crate::cluster::plan::TopicPlan;

/// The topic that transactions write to.
pub(in crate::cluster) const TOPIC: &str = "transactional";

/// That topic.
pub(in crate::cluster) const TOPIC_PLAN: TopicPlan =
    TopicPlan { name: TOPIC, partitions: PARTITIONS, in_sync_min: 2, is_durable: true };

/// The partitions of that topic, and of each topic of coordinators.
pub(in crate::cluster) const PARTITIONS: i32 = 2;

/// Transactional ids. Each has a group of its own.
pub(super) const IDS: usize = 2;

/// The partitions that transactions write to.
pub(super) fn data_places() -> impl Iterator<Item = Place> {
    (0..PARTITIONS).map(|partition| Place { topic: TOPIC, partition })
}

/// All partitions that transactions need.
pub(in crate::cluster) fn places() -> impl Iterator<Item = Place> {
    let topics = [TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC];
    topics
        .into_iter()
        .flat_map(|topic| (0..PARTITIONS).map(move |partition| Place { topic, partition }))
}

/// The topics of coordinators, with replicas enough to lose one. They are not compacted, which each replica would do at a
/// time of its own.
pub(in crate::cluster) fn coordinator_topics(settings: &BrokerSettings) -> [NewTopic; 2] {
    [new_offsets_topic(settings), new_transactions_topic(settings)].map(|topic| {
        let mut configs = topic.configs;
        let own = [("min.insync.replicas", "2"), ("min.compaction.lag.ms", "604800000")];
        configs.extend(own.map(|(name, value)| (name.to_owned(), Some(value.to_owned()))));
        NewTopic { replication_factor: 3, configs, ..topic }
    })
}
