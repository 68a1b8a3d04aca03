//! A cluster without brokers: topics, and what is set for groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use logway_coordinator::{ClusterView, ConsumerOverrides, StreamsOverrides, TopicView};
use logway_model::{TopicId, Uuid};

/// What a shard sees of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestCluster {
    pub(crate) topics: BTreeMap<String, TopicView>,
    /// The rack of each partition's only replica, where there are any.
    pub(crate) racks: BTreeMap<String, Vec<&'static str>>,
    pub(crate) overrides: ConsumerOverrides,
    pub(crate) streams_overrides: StreamsOverrides,
    pub(crate) version: i64,
    ids: u8,
}

impl TestCluster {
    /// Makes a topic, or gives it so many partitions.
    pub(crate) fn set_topic(&mut self, name: &str, partition_count: i32) {
        self.ids += 1;
        let id = TopicId(Uuid([self.ids; 16]));
        let topic = self.topics.entry(name.to_owned());
        topic.or_insert(TopicView { id, partition_count }).partition_count = partition_count;
    }

    /// Its name.
    pub(crate) fn name_of(&self, id: TopicId) -> String {
        let name = self.topics.iter().find(|(_, topic)| topic.id == id);
        name.map_or_else(|| format!("gone{}", id.0.0[0]), |(name, _)| name.clone())
    }
}

impl ClusterView for TestCluster {
    fn topic(&self, name: &str) -> Option<TopicView> {
        self.topics.get(name).copied()
    }

    fn topic_name(&self, id: TopicId) -> Option<Arc<str>> {
        let name = self.topics.iter().find(|(_, topic)| topic.id == id);
        name.map(|(name, _)| name.as_str().into())
    }

    fn visit_topic_names(&self, visit: &mut dyn FnMut(&str)) {
        self.topics.keys().for_each(|name| visit(name));
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn racks(&self, topic: &str) -> Vec<Vec<Arc<str>>> {
        let racks = self.racks.get(topic).into_iter().flatten();
        racks.map(|rack| vec![Arc::from(*rack)]).collect()
    }

    fn overrides(&self, _group: &str) -> ConsumerOverrides {
        self.overrides
    }

    fn streams_overrides(&self, _group: &str) -> StreamsOverrides {
        self.streams_overrides
    }
}
