//! A stream within the image of its topic.

use logway_model::PartitionId;

use super::TopicImage;
use crate::record::{HashKey, MetadataRecord, Shard, ShardRecord, StreamRecord, StreamState};

/// A stream and its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamImage {
    /// What it is.
    pub state: StreamState,
    /// Its shards; the index is the partition's number. Partitions without a shard are at the end and on their way
    /// to one within a commit.
    pub shards: Vec<Shard>,
}

/// Whether a partition takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// It does, as all partitions of topics that are no streams.
    Open,
    /// Not yet: a shard that it was made of has not told where it ends.
    NotYet,
    /// Not any more: its shard was split or merged.
    Closed,
}

impl StreamImage {
    /// The shard of a number.
    pub fn shard(&self, partition: PartitionId) -> Option<&Shard> {
        self.shards.get(usize::try_from(partition.0).ok()?)
    }

    /// The shards with their numbers, in order.
    pub fn numbered_shards(&self) -> impl DoubleEndedIterator<Item = (PartitionId, &Shard)> {
        // A stream has fewer shards than one command makes records.
        self.shards.iter().enumerate().map(|(index, shard)| {
            (PartitionId(i32::try_from(index).expect("partitions are numbered by i32")), shard)
        })
    }

    /// The shards that were not split or merged, with their numbers.
    pub fn open_shards(&self) -> impl Iterator<Item = (PartitionId, &Shard)> {
        self.numbered_shards().filter(|(_, shard)| shard.closed.is_none())
    }

    /// The one of them that takes a key.
    pub fn shard_of(&self, key: HashKey) -> Option<(PartitionId, &Shard)> {
        self.open_shards().find(|(_, shard)| shard.range.contains(key))
    }

    /// The shards that were made of one.
    pub fn children(&self, parent: PartitionId) -> impl Iterator<Item = (PartitionId, &Shard)> {
        self.numbered_shards().filter(move |(_, shard)| shard.parents.contains(&parent))
    }

    /// Whether a shard takes records.
    pub fn intake(&self, partition: PartitionId) -> Intake {
        match self.shard(partition) {
            Some(shard) if shard.closed.is_some() => Intake::Closed,
            Some(shard) if self.has_ended_parents(shard) => Intake::Open,
            _ => Intake::NotYet,
        }
    }

    /// Whether it is known where each parent of a shard ends. Then the shard can take records, or be ended itself.
    pub fn has_ended_parents(&self, shard: &Shard) -> bool {
        let has_ended = |parent: &PartitionId| {
            let end = self.shard(*parent).and_then(|parent| parent.closed);
            end.is_some_and(|end| end.offset.is_some())
        };
        shard.parents.iter().all(has_ended)
    }

    /// Whether a closed shard has not told its end yet: the stream changes.
    pub fn is_resharding(&self) -> bool {
        let has_no_end = |shard: &Shard| shard.closed.is_some_and(|end| end.offset.is_none());
        self.shards.iter().any(has_no_end)
    }
}

impl TopicImage {
    /// Whether a partition takes records.
    pub fn intake(&self, partition: PartitionId) -> Intake {
        self.stream.as_ref().map_or(Intake::Open, |stream| stream.intake(partition))
    }

    pub(super) fn set_stream(&mut self, state: &StreamState) {
        let state = state.clone();
        match &mut self.stream {
            Some(stream) => stream.state = state,
            None => self.stream = Some(StreamImage { state, shards: Vec::new() }),
        }
    }

    /// Whether the shard fits: its topic is a stream, and it is known or the next one.
    #[must_use]
    pub(super) fn set_shard(&mut self, partition: PartitionId, shard: &Shard) -> bool {
        let partitions = self.partitions.len();
        let (Some(stream), Ok(index)) = (&mut self.stream, usize::try_from(partition.0)) else {
            return false;
        };
        let next = stream.shards.len();
        match stream.shards.get_mut(index) {
            Some(known) => *known = shard.clone(),
            None if index == next && index < partitions => {
                stream.shards.push(shard.clone());
            }
            None => return false,
        }
        true
    }

    pub(super) fn push_stream(&self, records: &mut Vec<MetadataRecord>) {
        let (topic_id, Some(stream)) = (self.id, &self.stream) else { return };
        let state = stream.state.clone();
        records.push(MetadataRecord::Stream(Box::new(StreamRecord { topic_id, state })));
        records.extend(stream.numbered_shards().map(|(partition, shard)| {
            MetadataRecord::Shard(ShardRecord { topic_id, partition, shard: shard.clone() })
        }));
    }
}
