//! The committed offsets of all groups of a shard.

use std::collections::BTreeMap;

use logway_model::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId};

use crate::ids::CommittedTopic;
use crate::interner::{Interned, Interner};
use crate::record::CommittedOffset;

/// What the offsets of a shard have in common: the names and the ids of topics.
#[derive(Debug)]
pub(crate) struct OffsetTopics {
    names: Interner<CommittedTopic>,
    ids: Interner<TopicId>,
}

/// The offsets of one group, as the log has them.
///
/// A million of them must be cheap: an entry is 40 bytes, and names and ids of topics are kept once for a shard. What
/// few offsets have is kept apart.
#[derive(Debug, Default)]
pub(crate) struct GroupOffsets {
    by_partition: BTreeMap<(Interned, PartitionId), StoredOffset>,
    /// The length of all texts.
    metadata_bytes: usize,
    /// How many offsets have what is rare.
    rare: usize,
}

/// What an offset takes, with its place in a tree that is not full.
pub(crate) const OFFSET_BYTES: usize = 88;

/// What it takes beside, if it has a text or expires.
pub(crate) const RARE_BYTES: usize = 64;

/// What the name or the id of a topic takes, with its places.
const TOPIC_BYTES: usize = 384;

#[derive(Debug)]
struct StoredOffset {
    offset: i64,
    commit_timestamp: i64,
    leader_epoch: i32,
    topic_id: Interned,
    rare: Option<Box<Rare>>,
}

/// What most commits do not have.
#[derive(Debug)]
struct Rare {
    metadata: Box<str>,
    expire_timestamp: Option<TimestampMs>,
}

impl OffsetTopics {
    pub(crate) fn new() -> OffsetTopics {
        OffsetTopics { names: Interner::new(), ids: Interner::new() }
    }

    /// The memory that names and ids take.
    pub(crate) fn held_bytes(&self) -> usize {
        (self.names.len() + self.ids.len()) * TOPIC_BYTES
    }
}

impl GroupOffsets {
    /// How many partitions have an offset.
    pub(crate) fn len(&self) -> usize {
        self.by_partition.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_partition.is_empty()
    }

    /// Stores or replaces an offset.
    pub(crate) fn insert(
        &mut self,
        topics: &mut OffsetTopics,
        topic: &CommittedTopic,
        partition: PartitionId,
        offset: &CommittedOffset,
    ) {
        // Held before the old ones are released, so that what stays the same keeps its place.
        let name = topics.names.hold(topic);
        let stored = StoredOffset::new(offset, topics.ids.hold(&offset.topic_id));
        self.metadata_bytes += stored.metadata_len();
        self.rare += usize::from(stored.rare.is_some());
        if let Some(old) = self.by_partition.insert((name, partition), stored) {
            self.release(topics, name, &old);
        }
    }

    /// Forgets an offset.
    pub(crate) fn remove(
        &mut self,
        topics: &mut OffsetTopics,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) {
        let Some(name) = topics.names.find(topic) else { return };
        if let Some(old) = self.by_partition.remove(&(name, partition)) {
            self.release(topics, name, &old);
        }
    }

    fn release(&mut self, topics: &mut OffsetTopics, name: Interned, old: &StoredOffset) {
        self.metadata_bytes -= old.metadata_len();
        self.rare -= usize::from(old.rare.is_some());
        topics.names.release(name);
        topics.ids.release(old.topic_id);
    }

    /// The memory that the offsets take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.len() * OFFSET_BYTES + self.rare * RARE_BYTES + self.metadata_bytes
    }

    /// The length of all texts that were committed.
    pub(crate) fn metadata_bytes(&self) -> usize {
        self.metadata_bytes
    }

    /// The length of a partition's text; 0 if it has no offset.
    pub(crate) fn metadata_len(
        &self,
        topics: &OffsetTopics,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) -> usize {
        let Some(name) = topics.names.find(topic) else { return 0 };
        self.by_partition.get(&(name, partition)).map_or(0, StoredOffset::metadata_len)
    }

    /// The topics that have an offset, each once.
    pub(crate) fn topics<'a>(
        &'a self,
        topics: &'a OffsetTopics,
    ) -> impl Iterator<Item = &'a CommittedTopic> {
        let mut last = None;
        let names = self.by_partition.keys().map(|(name, _)| *name);
        names
            .filter(move |&name| last.replace(name) != Some(name))
            .map(|name| topics.names.get(name))
    }

    /// The offset of a partition.
    pub(crate) fn get(
        &self,
        topics: &OffsetTopics,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) -> Option<CommittedOffset> {
        let name = topics.names.find(topic)?;
        self.by_partition.get(&(name, partition)).map(|stored| stored.load(topics))
    }

    /// Whether the partition has an offset.
    pub(crate) fn contains(
        &self,
        topics: &OffsetTopics,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) -> bool {
        let name = topics.names.find(topic);
        name.is_some_and(|name| self.by_partition.contains_key(&(name, partition)))
    }

    /// All offsets; those of a topic follow each other.
    pub(crate) fn iter<'a>(
        &'a self,
        topics: &'a OffsetTopics,
    ) -> impl Iterator<Item = (&'a CommittedTopic, PartitionId, CommittedOffset)> {
        self.by_partition.iter().map(|(&(name, partition), stored)| {
            (topics.names.get(name), partition, stored.load(topics))
        })
    }

    /// The partitions of a topic that have an offset, each with the topic's id at that time.
    pub(crate) fn partitions_of(
        &self,
        topics: &OffsetTopics,
        topic: &CommittedTopic,
    ) -> Vec<(PartitionId, TopicId)> {
        let Some(name) = topics.names.find(topic) else { return Vec::new() };
        let all = (name, PartitionId(i32::MIN))..=(name, PartitionId(i32::MAX));
        let found = self.by_partition.range(all);
        found
            .map(|(&(_, partition), stored)| (partition, *topics.ids.get(stored.topic_id)))
            .collect()
    }
}

impl StoredOffset {
    fn new(offset: &CommittedOffset, topic_id: Interned) -> StoredOffset {
        let CommittedOffset { metadata, expire_timestamp, .. } = offset;
        let is_plain = metadata.is_empty() && expire_timestamp.is_none();
        let rare = (!is_plain)
            .then(|| Rare { metadata: metadata.clone(), expire_timestamp: *expire_timestamp });
        StoredOffset {
            offset: offset.offset.0,
            commit_timestamp: offset.commit_timestamp.0,
            leader_epoch: offset.leader_epoch.0,
            topic_id,
            rare: rare.map(Box::new),
        }
    }

    fn metadata_len(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.metadata.len())
    }

    fn load(&self, topics: &OffsetTopics) -> CommittedOffset {
        let rare = self.rare.as_deref();
        CommittedOffset {
            offset: Offset(self.offset),
            leader_epoch: LeaderEpoch(self.leader_epoch),
            metadata: rare.map(|rare| rare.metadata.clone()).unwrap_or_default(),
            commit_timestamp: TimestampMs(self.commit_timestamp),
            expire_timestamp: rare.and_then(|rare| rare.expire_timestamp),
            topic_id: *topics.ids.get(self.topic_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(number: i64, metadata: &str) -> CommittedOffset {
        CommittedOffset {
            offset: Offset(number),
            leader_epoch: LeaderEpoch(4),
            metadata: metadata.into(),
            commit_timestamp: TimestampMs(1000 + number),
            expire_timestamp: None,
            topic_id: TopicId::default(),
        }
    }

    #[test]
    fn offsets_come_back_as_they_were() {
        let (mut topics, mut group) = (OffsetTopics::new(), GroupOffsets::default());
        let (a, b) = (CommittedTopic::from("a"), CommittedTopic::from("b"));
        let expiring =
            CommittedOffset { expire_timestamp: Some(TimestampMs(9)), ..offset(3, "note") };
        group.insert(&mut topics, &a, PartitionId(0), &offset(1, ""));
        group.insert(&mut topics, &b, PartitionId(0), &expiring);
        group.insert(&mut topics, &a, PartitionId(0), &offset(2, ""));
        assert_eq!(group.len(), 2);
        assert_eq!(group.get(&topics, &a, PartitionId(0)), Some(offset(2, "")));
        assert_eq!(group.get(&topics, &b, PartitionId(0)), Some(expiring));
        assert_eq!(group.get(&topics, &a, PartitionId(1)), None);
        group.remove(&mut topics, &a, PartitionId(0));
        assert!(topics.names.find(&a).is_none(), "a name that nobody uses is forgotten");
        group.remove(&mut topics, &b, PartitionId(0));
        assert!(group.is_empty() && topics.ids.find(&TopicId::default()).is_none());
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<((Interned, PartitionId), StoredOffset)>(), 40);
    }
}
