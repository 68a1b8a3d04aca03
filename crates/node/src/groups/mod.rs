//! The group coordinator: the shards of `__consumer_offsets` that this node leads.
//!
//! Each partition of the topic has a *shard*, a synchronous state machine of the `coordinator`
//! crate, which a task of its own drives ([`crate::shards`]). So a slow group delays the groups of its
//! own shard at most, and nothing here needs a lock.

mod cluster;
mod offsets_topic;
mod unread_age;

use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
pub use logway_coordinator::OFFSETS_TOPIC;
use logway_coordinator::{
    Assignor, Bounded, ConsumerSettings, DeletedTopic, GroupMemory, GroupSettings, GroupShard,
    GroupView, partition_of_group,
};
use logway_metadata::MetadataImage;
use logway_metadata::image::TopicsDifference;
use logway_metadata::settings::{BrokerSettings, ConsumerGroupSettings};
use logway_model::{BrokerId, DirectoryId, PartitionId, TopicName};
use logway_quorum::MetadataIndex;
use logway_record::Compression;
use logway_wire::WireString;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::memory::MemoryBudget;
use crate::replica::Replica;
use crate::shards::{self, Command};
use crate::topics::Topic;
use cluster::ClusterImage;
pub use offsets_topic::{ensure_offsets_topic, new_offsets_topic};
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

type ShardHandle = shards::ShardHandle<GroupShard>;

/// How many shards load from a log directory at once, if there are not more cores than that. A load waits for the disk
/// and for threads, so a few more than there are cores make it faster; but each leaves memory behind
/// in the heap of the thread that read for it.
const LOADS_MAX_LEAST: usize = 8;

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
    /// The cluster as shards see it.
    view: ArcSwap<ClusterImage>,
    /// What all groups take.
    pub(crate) memory: GroupMemory,
    /// What answers take that wait for other members.
    reply_memory: MemoryBudget,
    /// For each log directory, a permit for each shard that may load from it at once: a slow disk holds up no groups
    /// that are on another.
    loads: Mutex<HashMap<DirectoryId, Arc<Semaphore>>>,
    shards: ArcSwap<Vec<Option<ShardHandle>>>,
    /// `None` once the shards are to end. Held while shards change: none begins or stays after that.
    drivers: Mutex<Option<JoinSet<()>>>,
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
            view: ArcSwap::from_pointee(ClusterImage::new(Arc::default(), 0, settings.node_id)),
            memory: GroupMemory::new(settings.groups.memory_max_bytes),
            reply_memory,
            loads: Mutex::default(),
            shards: ArcSwap::default(),
            drivers: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Begins the shards of partitions that are led here now, and ends those of partitions that
    /// are not any more. To be called in a runtime.
    pub(crate) fn follow(&self, offsets_topic: Option<&Arc<Topic>>) {
        let mut drivers = self.drivers();
        let Some(drivers) = &mut *drivers else { return };
        let before = self.shards.load_full();
        let partitions = offsets_topic.map_or(&[][..], |topic| &topic.partitions);
        let running = |number: usize, partition: &Arc<Replica>| {
            let shard = before.get(number)?.as_ref()?;
            shard.drives(partition).then(|| shard.clone())
        };
        let led = |partition: &Option<Arc<Replica>>| {
            partition.clone().filter(|partition| partition.is_leading())
        };
        let partitions: Vec<Option<Arc<Replica>>> = partitions.iter().map(led).collect();
        let is_as_before = before.len() == partitions.len()
            && partitions.iter().enumerate().all(|(number, partition)| match partition {
                Some(partition) => running(number, partition).is_some(),
                None => before[number].is_none(),
            });
        if is_as_before {
            return;
        }
        let shards = partitions.iter().enumerate().map(|(number, partition)| {
            let partition = partition.as_ref()?;
            running(number, partition).or_else(|| Some(self.start_shard(partition, drivers)))
        });
        self.shards.store(Arc::new(shards.collect()));
    }

    fn drivers(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        // What it guards is right after each step.
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_shard(&self, partition: &Arc<Replica>, drivers: &mut JoinSet<()>) -> ShardHandle {
        let loads = self.loads_from(partition.directory());
        // Those that have ended are forgotten here, or their results would pile up.
        while drivers.try_join_next().is_some() {}
        let (shard, driver) = shards::new(
            Arc::clone(partition),
            GroupShard::new(self.settings.clone(), self.memory.clone(), self.view.load_full()),
            self.compression,
            self.reply_memory.clone(),
            loads,
        );
        drivers.spawn(driver.run());
        shard
    }

    /// What bounds the shards that load from a log directory at once.
    fn loads_from(&self, directory: DirectoryId) -> Arc<Semaphore> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let loads = loads.entry(directory).or_insert_with(|| {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            Arc::new(Semaphore::new(LOADS_MAX_LEAST.max(cores)))
        });
        Arc::clone(loads)
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
        for shard in self.shards.load().iter().flatten() {
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
        for shard in self.shards.load().iter().flatten() {
            let topics = Arc::clone(&topics);
            let forget = move |shard: &mut GroupShard, now| shard.topics_deleted(now, &topics);
            shard.send(Command::Event(Box::new(forget)));
        }
    }

    /// The partition of `__consumer_offsets` that a group belongs to; `None` if there are none.
    pub fn place_of(&self, group: &str) -> Option<PartitionId> {
        let place = place_among(&self.shards.load(), group)?;
        i32::try_from(place).ok().map(PartitionId)
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
        let shards = self.shards.load();
        Pending::of(place_among(&shards, group).and_then(|place| shards[place].as_ref()), question)
    }

    /// Asks the shards of several groups, each once, with its groups.
    pub fn ask_of_groups(
        &self,
        groups: Vec<WireString>,
        question: impl Fn(Vec<WireString>) -> Question,
    ) -> Vec<(Vec<WireString>, Pending)> {
        let shards = self.shards.load();
        let mut by_place: HashMap<Option<usize>, Vec<WireString>> = HashMap::new();
        for group in groups {
            by_place.entry(place_among(&shards, &group)).or_default().push(group);
        }
        let ask = |(place, groups): (Option<usize>, Vec<WireString>)| {
            let shard = place.and_then(|place: usize| shards[place].as_ref());
            (groups.clone(), Pending::of(shard, question(groups)))
        };
        by_place.into_iter().map(ask).collect()
    }

    /// Asks the shard of a group how large its answer would be.
    pub fn measure(&self, group: &str, question: Question) -> Measuring {
        let shards = self.shards.load();
        let shard = place_among(&shards, group).and_then(|place| shards[place].as_ref());
        Measuring::of(shard, question)
    }

    /// Asks every shard there is how large its answer would be.
    pub fn measure_all(&self, question: impl Fn() -> Question) -> Vec<Measuring> {
        let shards = self.shards.load();
        shards.iter().flatten().map(|shard| Measuring::of(Some(shard), question())).collect()
    }

    /// Ends all shards, and waits until what they have begun to write is written.
    pub(crate) async fn stop(&self) {
        let drivers = {
            let mut drivers = self.drivers();
            self.shards.store(Arc::default());
            drivers.take()
        };
        let Some(mut drivers) = drivers else { return };
        while drivers.join_next().await.is_some() {}
    }
}

/// The names of a shard's groups, with how many partitions each has offsets of.
pub(crate) fn offset_counts(shard: &GroupShard) -> Vec<(WireString, usize)> {
    let count =
        |group: GroupView<'_>| (WireString::copy_of(group.id().as_str()), group.offset_count());
    shard.groups().map(count).collect()
}

/// The index of the shard that a group belongs to; `None` if there are no shards.
fn place_among(shards: &[Option<ShardHandle>], group: &str) -> Option<usize> {
    let count = u32::try_from(shards.len()).ok().filter(|&count| count > 0)?;
    usize::try_from(partition_of_group(group, count)).ok()
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
        ..defaults
    }
}

fn consumer_settings(given: &ConsumerGroupSettings) -> ConsumerSettings {
    let bounded = |[default_ms, min_ms, max_ms]: [u32; 3]| Bounded { default_ms, min_ms, max_ms };
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
    use logway_model::Uuid;

    use super::*;

    #[test]
    fn shards_that_load_from_a_slow_disk_hold_up_none_that_load_from_another() {
        let node = BrokerSettings::new([("log.dirs".to_owned(), "/a,/b".to_owned())]);
        let replies = MemoryBudget::new(1 << 20, Arc::default());
        let groups = GroupCoordinator::new(&node.expect("are valid"), replies);
        let directory = |number| DirectoryId(Uuid([number; 16]));
        let slow = groups.loads_from(directory(1));
        slow.forget_permits(slow.available_permits());
        assert_eq!(groups.loads_from(directory(1)).available_permits(), 0);
        assert!(groups.loads_from(directory(2)).available_permits() >= LOADS_MAX_LEAST);
    }

    #[test]
    fn a_group_is_no_larger_than_its_leader_can_be_told() {
        let node = BrokerSettings::new([("log.dirs".to_owned(), "/nowhere".to_owned())]);
        let node = node.expect("are valid");
        assert_eq!(group_settings(&node, 6 << 20).group_bytes_max, 2 << 20);
        let most = GroupSettings::default().group_bytes_max;
        assert_eq!(group_settings(&node, usize::MAX).group_bytes_max, most);
    }
}
