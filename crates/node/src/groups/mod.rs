//! The group coordinator: the shards of `__consumer_offsets` that this node leads.
//!
//! Each partition of the topic has a *shard*, a synchronous state machine of the `coordinator`
//! crate, which a task of its own drives ([`crate::shards`]). So a slow group delays the groups of its
//! own shard at most, and nothing here needs a lock.

mod cluster;
mod unread_age;

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;

pub use logway_coordinator::OFFSETS_TOPIC;
use logway_coordinator::{
    Assignor, Bounded, ConsumerSettings, DeletedTopic, GroupMemory, GroupSettings, GroupShard,
    GroupView, RebalanceCounts, StreamsSettings, partition_of_group,
};
use logway_metadata::MetadataImage;
use logway_metadata::image::TopicsDifference;
use logway_metadata::settings::{BrokerSettings, ConsumerGroupSettings, StreamsGroupSettings};
use logway_model::{BrokerId, PartitionId, TopicName};
use logway_quorum::MetadataIndex;
use logway_record::Compression;
use logway_wire::WireString;
use tokio::sync::oneshot;

use crate::memory::MemoryBudget;
use crate::shards::{self, Command, ShardTable};
use crate::topics::Topic;
use cluster::ClusterImage;
pub use unread_age::UnreadAges;

/// A question to a shard of groups.
pub type Question = shards::Question<GroupShard>;
/// What it says.
pub type GroupOutcome = shards::ShardOutcome<GroupShard>;
/// A reply on its way.
pub type Pending = shards::Pending<GroupShard>;
/// A question whose answer is being measured.
pub type Measuring = shards::Measuring<GroupShard>;
/// A question, and how much memory its answer takes.
pub type Measured = shards::Measured<GroupShard>;

/// A group takes no more than this part of the memory of replies: its leader is told all of it, encoded too, and each
/// member comes with a few hundred bytes.
const GROUP_REPLY_PART: usize = 3;

/// All shards of this broker.
pub struct GroupCoordinator {
    settings: GroupSettings,
    /// `offsets.topic.compression.codec`
    compression: Compression,
    node: BrokerId,
    /// Whether consumer groups (KIP-848) are served.
    pub serves_consumer_protocol: bool,
    /// Whether streams groups (KIP-1071) are served.
    pub serves_streams_protocol: bool,
    /// The cluster as shards see it.
    view: ArcSwap<ClusterImage>,
    /// What all groups take.
    pub(crate) memory: GroupMemory,
    /// How often they were rebalanced.
    pub(crate) rebalances: RebalanceCounts,
    /// What answers take that wait for other members.
    reply_memory: MemoryBudget,
    shards: ShardTable<GroupShard>,
}

impl GroupCoordinator {
    /// Without shards, until [`GroupCoordinator::follow`] is told of partitions.
    ///
    /// Answers that wait for other members take their memory from `reply_memory`.
    pub fn new(settings: &BrokerSettings, reply_memory: MemoryBudget) -> GroupCoordinator {
        GroupCoordinator {
            settings: group_settings(settings, reply_memory.limit_bytes()),
            compression: Compression::from_id(settings.groups.offsets_topic_codec)
                .expect("the setting's bounds are those of the codecs"),
            node: settings.node_id,
            serves_consumer_protocol: settings.groups.consumer.is_served,
            serves_streams_protocol: settings.groups.streams.is_served,
            view: ArcSwap::from_pointee(ClusterImage::new(Arc::default(), 0, settings.node_id)),
            memory: GroupMemory::new(settings.groups.memory_max_bytes),
            rebalances: RebalanceCounts::default(),
            reply_memory,
            shards: ShardTable::new(partition_of_group),
        }
    }

    /// Begins the shards of partitions that are led here now, and ends those of partitions that
    /// are not any more. To be called in a runtime.
    pub(crate) fn follow(&self, offsets_topic: Option<&Arc<Topic>>) {
        self.shards.follow(offsets_topic, |partition, loads| {
            shards::new(
                partition,
                GroupShard::new(self.settings.clone(), self.memory.clone(), self.view.load_full())
                    .counting(self.rebalances.clone()),
                self.compression,
                self.reply_memory.clone(),
                loads,
                Box::new(|never, _| match never {}),
            )
        });
    }

    /// Shows the shards a new image of the metadata, in which these topics have changed.
    pub(crate) fn cluster_changed(
        &self,
        image: &Arc<MetadataImage>,
        index: MetadataIndex,
        difference: &TopicsDifference,
    ) {
        let view = Arc::new(ClusterImage::new(Arc::clone(image), index.0, self.node));
        self.view.store(Arc::clone(&view));
        let changed = difference.gone.iter().chain(&difference.changed);
        let names: Arc<HashSet<TopicName>> =
            Arc::new(changed.map(|topic| topic.name.clone()).collect());
        let has_new = difference.has_new;
        for shard in self.shards.all().iter().flatten() {
            let (view, names) = (Arc::clone(&view), Arc::clone(&names));
            let change = move |shard: &mut GroupShard, now| {
                shard.cluster_changed(now, view, |name| names.contains(name), has_new)
            };
            shard.send(Command::Event(Box::new(change)));
        }
    }

    /// Lets the offsets of deleted topics go.
    pub(crate) fn forget_topics(&self, topics: impl Iterator<Item = DeletedTopic>) {
        let topics: Arc<[DeletedTopic]> = topics.collect();
        if topics.is_empty() {
            return;
        }
        for shard in self.shards.all().iter().flatten() {
            let topics = Arc::clone(&topics);
            let forget = move |shard: &mut GroupShard, now| shard.topics_deleted(now, &topics);
            shard.send(Command::Event(Box::new(forget)));
        }
    }

    /// The partition of `__consumer_offsets` that a group belongs to; `None` if there are none.
    pub fn place_of(&self, group: &str) -> Option<PartitionId> {
        self.shards.partition_of(group)
    }

    /// What the records about so many offsets of a group take at most, with such texts together.
    pub fn record_bytes(&self, group: &str, offsets: usize, texts_bytes: usize) -> usize {
        // With the name of the topic, which has 249 characters at most.
        const RECORD_BYTES: usize = 384;
        let each = group.len() + RECORD_BYTES;
        (offsets.saturating_mul(each) + texts_bytes).min(self.settings.commit_bytes_max)
    }

    /// Asks the shard of a group. The order of calls is the order in which the shard is asked;
    /// the answer is waited for afterwards.
    pub fn ask(&self, group: &str, question: Question) -> Pending {
        self.shards.ask(group, question)
    }

    /// Asks the shard of a partition of `__consumer_offsets`.
    pub(crate) fn ask_partition(&self, partition: PartitionId, question: Question) -> Pending {
        self.shards.ask_partition(partition, question)
    }

    /// Asks the shards of several groups, each once, with its groups.
    pub fn ask_of_groups(
        &self,
        groups: Vec<WireString>,
        question: impl Fn(Vec<WireString>) -> Question,
    ) -> Vec<(Vec<WireString>, Pending)> {
        self.shards.ask_of_names(groups, question)
    }

    /// Asks the shard of a group how large its answer would be.
    pub fn measure(&self, group: &str, question: Question) -> Measuring {
        self.shards.measure(group, question)
    }

    /// Asks every shard there is how large its answer would be.
    pub fn measure_all(&self, question: impl Fn() -> Question) -> Vec<Measuring> {
        self.shards.measure_all(question)
    }

    /// What every shard there is has to show.
    pub(crate) fn look_at_all<T: Send + 'static>(
        &self,
        look: fn(&GroupShard) -> T,
    ) -> Vec<oneshot::Receiver<T>> {
        self.shards.look_at_all(look)
    }

    /// Ends all shards, and waits until what they have begun to write is written.
    pub(crate) async fn stop(&self) {
        self.shards.stop().await;
    }
}

/// The names of a shard's groups, with how many partitions each has offsets of.
pub(crate) fn offset_counts(shard: &GroupShard) -> Vec<(WireString, usize)> {
    let count =
        |group: GroupView<'_>| (WireString::copy_of(group.id().as_str()), group.offset_count());
    shard.groups().map(count).collect()
}

fn group_settings(node: &BrokerSettings, replies_max_bytes: usize) -> GroupSettings {
    let ms =
        |duration: std::time::Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    let groups = &node.groups;
    let defaults = GroupSettings::default();
    GroupSettings {
        session_timeout_min_ms: groups.session_timeout_min_ms,
        session_timeout_max_ms: groups.session_timeout_max_ms,
        initial_rebalance_delay_ms: ms(groups.initial_rebalance_delay),
        group_size_max: groups.group_size_max,
        group_bytes_max: defaults.group_bytes_max.min(replies_max_bytes / GROUP_REPLY_PART),
        offset_metadata_max_units: groups.offset_metadata_max_units,
        offsets_retention_ms: i64::try_from(groups.offsets_retention.as_millis())
            .unwrap_or(i64::MAX),
        offsets_retention_check_interval_ms: ms(groups.offsets_retention_check_interval),
        consumer: consumer_settings(&groups.consumer),
        streams: streams_settings(&groups.streams),
        ..defaults
    }
}

fn bounded([default_ms, min_ms, max_ms]: [u32; 3]) -> Bounded {
    Bounded { default_ms, min_ms, max_ms }
}

fn streams_settings(given: &StreamsGroupSettings) -> StreamsSettings {
    StreamsSettings {
        session_timeout: bounded(given.session_timeout_ms),
        heartbeat_interval: bounded(given.heartbeat_interval_ms),
        assignment_interval: bounded(given.assignment_interval_ms),
        initial_rebalance_delay_ms: given.initial_rebalance_delay_ms,
        standby_replicas: given.standby_replicas,
        standby_replicas_max: given.standby_replicas_max,
        size_max: given.size_max,
        ..StreamsSettings::default()
    }
}

fn consumer_settings(given: &ConsumerGroupSettings) -> ConsumerSettings {
    ConsumerSettings {
        session_timeout: bounded(given.session_timeout_ms),
        heartbeat_interval: bounded(given.heartbeat_interval_ms),
        assignment_interval: bounded(given.assignment_interval_ms),
        size_max: given.size_max,
        assignors: given.assignors.iter().filter_map(|name| Assignor::named(name)).collect(),
        pattern_refresh_interval_ms: given.pattern_refresh_interval_ms,
        upgrades: given.upgrades,
        downgrades: given.downgrades,
        ..ConsumerSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_no_larger_than_its_leader_can_be_told() {
        let node = BrokerSettings::new([("log.dirs".to_owned(), "/nowhere".to_owned())]);
        let node = node.expect("are valid");
        assert_eq!(group_settings(&node, 6 << 20).group_bytes_max, 2 << 20);
        let most = GroupSettings::default().group_bytes_max;
        assert_eq!(group_settings(&node, usize::MAX).group_bytes_max, most);
    }
}
