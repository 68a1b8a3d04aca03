//! What the coordinators of groups see of the cluster.

use std::sync::Arc;

use logway_coordinator::{ClusterView, ConsumerOverrides, StreamsOverrides, TopicView};
use logway_metadata::MetadataImage;
use logway_metadata::record::ConfigResource;
use logway_metadata::settings::consumer_groups::GROUP_ASSIGNMENT_INTERVAL_SETTING;
use logway_metadata::settings::group::{
    CONSUMER_ASSIGNMENT_SETTING, CONSUMER_HEARTBEAT_SETTING, CONSUMER_SESSION_SETTING,
    STREAMS_ASSIGNMENT_SETTING, STREAMS_HEARTBEAT_SETTING, STREAMS_INITIAL_DELAY_SETTING,
    STREAMS_SESSION_SETTING, STREAMS_STANDBYS_SETTING,
};
use logway_metadata::settings::streams_groups::STREAMS_ASSIGNMENT_INTERVAL_SETTING;
use logway_model::{BrokerId, TopicId};

/// One image of the metadata.
#[derive(Debug)]
pub(super) struct ClusterImage {
    image: Arc<MetadataImage>,
    version: i64,
    node: BrokerId,
}

impl ClusterImage {
    /// The image at an index of the metadata, as this node sees it.
    pub(super) fn new(image: Arc<MetadataImage>, index: u64, node: BrokerId) -> ClusterImage {
        ClusterImage { image, version: i64::try_from(index).unwrap_or(i64::MAX), node }
    }

    /// A setting of a group.
    fn group_setting(&self, group: &str, name: &str) -> Option<u32> {
        self.image.overrides(&ConfigResource::Group(group.to_owned()))?.get(name)?.parse().ok()
    }

    /// A setting of this node that was changed while it runs.
    fn changed_setting(&self, name: &str) -> Option<u32> {
        let resources = [ConfigResource::Broker(self.node), ConfigResource::BrokerDefault];
        let set = |resource| self.image.overrides(resource)?.get(name)?.parse().ok();
        resources.iter().find_map(set)
    }
}

impl ClusterView for ClusterImage {
    fn topic(&self, name: &str) -> Option<TopicView> {
        let topic = self.image.topic(name)?;
        Some(TopicView { id: topic.id, partition_count: topic.partition_count() })
    }

    fn topic_name(&self, id: TopicId) -> Option<Arc<str>> {
        self.image.topic_by_id(id).map(|topic| topic.name.as_str().into())
    }

    fn visit_topic_names(&self, visit: &mut dyn FnMut(&str)) {
        self.image.topics().for_each(|topic| visit(topic.name.as_str()));
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn racks(&self, topic: &str) -> Vec<Vec<Arc<str>>> {
        let Some(topic) = self.image.topic(topic) else { return Vec::new() };
        let rack = |id: &BrokerId| self.image.broker(*id)?.rack.as_deref().map(Arc::from);
        let partitions = topic.partitions.iter().map(|partition| {
            let mut racks: Vec<Arc<str>> = partition.replicas.iter().filter_map(rack).collect();
            racks.sort();
            racks
        });
        partitions.collect()
    }

    fn overrides(&self, group: &str) -> ConsumerOverrides {
        let set = |name: &str| self.group_setting(group, name);
        ConsumerOverrides {
            session_timeout_ms: set(CONSUMER_SESSION_SETTING),
            heartbeat_interval_ms: set(CONSUMER_HEARTBEAT_SETTING),
            assignment_interval_ms: set(CONSUMER_ASSIGNMENT_SETTING)
                .or_else(|| self.changed_setting(GROUP_ASSIGNMENT_INTERVAL_SETTING)),
        }
    }

    fn streams_overrides(&self, group: &str) -> StreamsOverrides {
        let set = |name: &str| self.group_setting(group, name);
        StreamsOverrides {
            session_timeout_ms: set(STREAMS_SESSION_SETTING),
            heartbeat_interval_ms: set(STREAMS_HEARTBEAT_SETTING),
            assignment_interval_ms: set(STREAMS_ASSIGNMENT_SETTING)
                .or_else(|| self.changed_setting(STREAMS_ASSIGNMENT_INTERVAL_SETTING)),
            initial_rebalance_delay_ms: set(STREAMS_INITIAL_DELAY_SETTING),
            standby_replicas: set(STREAMS_STANDBYS_SETTING),
        }
    }
}
