//! Offsets that are part of transactions which have not ended.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{PartitionId, ProducerId};
use logway_record::TransactionOutcome;

use crate::ids::{CommittedTopic, GroupId};
use crate::memory::{GroupMemory, HeldMemory};
use crate::record::CommittedOffset;

/// What a pending offset takes beside its texts, with its places.
pub(super) const PENDING_BYTES: usize = 320;

/// What the open transactions of a shard would commit, as the log has it.
///
/// Of what is written about a partition the last counts, in the order of the log and not of the ends of transactions. So
/// an offset that is committed behind a pending one takes its place for good, by itself or by its transaction. Compaction
/// keeps that one, too.
#[derive(Debug)]
pub(super) struct PendingOffsets {
    by_producer: BTreeMap<ProducerId, OfProducer>,
    /// Whose transactions have a pending offset of a partition. An offset that was replaced is still unstable.
    producers: BTreeMap<GroupId, BTreeMap<Place, BTreeSet<ProducerId>>>,
    /// How many have come.
    count: u64,
    memory: GroupMemory,
}

type Place = (CommittedTopic, PartitionId);

#[derive(Debug)]
struct OfProducer {
    /// `None` where the log has something newer.
    offsets: BTreeMap<(GroupId, Place), Option<PendingOffset>>,
    held: HeldMemory,
    held_bytes: usize,
}

#[derive(Debug)]
struct PendingOffset {
    offset: CommittedOffset,
    /// How many had come before.
    position: u64,
}

/// An offset whose transaction has ended.
pub(super) struct EndedOffset {
    pub(super) group: GroupId,
    pub(super) topic: CommittedTopic,
    pub(super) partition: PartitionId,
    /// `None` where nothing changes.
    pub(super) offset: Option<CommittedOffset>,
}

pub(super) fn pending_bytes(group: &GroupId, topic: &CommittedTopic, metadata: &str) -> usize {
    PENDING_BYTES + group.as_str().len() + topic.as_str().len() + metadata.len()
}

impl PendingOffsets {
    pub(super) fn new(memory: &GroupMemory) -> PendingOffsets {
        let (by_producer, producers) = Default::default();
        PendingOffsets { by_producer, producers, count: 0, memory: memory.clone() }
    }

    /// A transaction would commit an offset.
    pub(super) fn insert(
        &mut self,
        producer: ProducerId,
        group: &GroupId,
        topic: &CommittedTopic,
        partition: PartitionId,
        offset: &CommittedOffset,
    ) {
        let place = (topic.clone(), partition);
        let of_group = self.producers.entry(group.clone()).or_default();
        let of_place = of_group.entry(place.clone()).or_default();
        of_place.insert(producer);
        let of_producer = self.by_producer.entry(producer).or_insert_with(|| OfProducer {
            offsets: BTreeMap::new(),
            held: self.memory.hold(0),
            held_bytes: 0,
        });
        let bytes = pending_bytes(group, topic, &offset.metadata);
        let pending = PendingOffset { offset: offset.clone(), position: self.count };
        self.count += 1;
        let replaced = of_producer.offsets.insert((group.clone(), place), Some(pending));
        let replaced = replaced.map(|before| {
            let metadata = before.map(|before| before.offset.metadata).unwrap_or_default();
            pending_bytes(group, topic, &metadata)
        });
        of_producer.held_bytes += bytes;
        of_producer.held_bytes -= replaced.unwrap_or(0).min(of_producer.held_bytes);
        of_producer.held.set(of_producer.held_bytes);
    }

    /// The log has an offset of its own for the partition, behind those that are pending.
    pub(super) fn supersede(
        &mut self,
        group: &GroupId,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) {
        self.supersede_before(self.count, group, &(topic.clone(), partition));
    }

    /// The log has an offset for the partition behind so many that have come.
    fn supersede_before(&mut self, position: u64, group: &GroupId, place: &Place) {
        let producers = self.producers.get(group).and_then(|it| it.get(place));
        for producer in producers.into_iter().flatten() {
            let of_producer = self.by_producer.get_mut(producer);
            let key = (group.clone(), place.clone());
            if let Some(pending) = of_producer.and_then(|it| it.offsets.get_mut(&key)) {
                pending.take_if(|it| it.position < position);
            }
        }
    }

    /// The transaction of a producer has ended: its offsets, which are pending no more.
    pub(super) fn end(
        &mut self,
        producer: ProducerId,
        outcome: TransactionOutcome,
    ) -> Vec<EndedOffset> {
        let Some(ended) = self.by_producer.remove(&producer) else { return Vec::new() };
        let mut offsets = Vec::with_capacity(ended.offsets.len());
        for ((group, place), pending) in ended.offsets {
            if let Some(of_group) = self.producers.get_mut(&group) {
                if let Some(of_place) = of_group.get_mut(&place) {
                    of_place.remove(&producer);
                    if of_place.is_empty() {
                        of_group.remove(&place);
                    }
                }
                if of_group.is_empty() {
                    self.producers.remove(&group);
                }
            }
            let committed = pending.filter(|_| outcome == TransactionOutcome::Commit);
            if let Some(committed) = &committed {
                self.supersede_before(committed.position, &group, &place);
            }
            let offset = committed.map(|it| it.offset);
            let (topic, partition) = place;
            offsets.push(EndedOffset { group, topic, partition, offset });
        }
        offsets
    }

    /// Whether a transaction that has not ended has an offset of the partition.
    pub(super) fn is_unstable(
        &self,
        group: &str,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) -> bool {
        let of_group = self.producers.get(group);
        of_group.is_some_and(|it| it.contains_key(&(topic.clone(), partition)))
    }

    /// Whether the group has any.
    pub(super) fn has_group(&self, group: &GroupId) -> bool {
        self.producers.contains_key(group)
    }

    /// The partitions of a group that have any.
    pub(super) fn partitions_of(
        &self,
        group: &GroupId,
    ) -> impl Iterator<Item = (&CommittedTopic, PartitionId)> {
        let of_group = self.producers.get(group).into_iter().flatten();
        of_group.map(|((topic, partition), _)| (topic, *partition))
    }
}
