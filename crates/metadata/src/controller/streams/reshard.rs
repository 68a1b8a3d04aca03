//! Parents are closed and children made, in one commit.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{ErrorCode, PartitionId, TopicId, TopicName};
use serde::{Deserialize, Serialize};

use super::super::placement::{NewPartitions, place_replicas};
use super::super::{COMMAND_RECORDS_MAX, Command, ControllerError, Decision, too_many_records};
use super::{check_shard_limit, check_stream_size, stream_of};
use crate::image::{MetadataImage, StreamImage, TopicImage};
use crate::record::{
    HashKey, HashRange, MetadataRecord, Shard, ShardEnd, ShardRecord, StreamPhase, StreamRecord,
};
use crate::settings::BrokerSettings;

/// Splits and merges shards of a stream.
///
/// Errors: `UNKNOWN_TOPIC_ID`; `POLICY_VIOLATION` for too many shards; `INVALID_REQUEST` for shards that cannot be split
/// or merged so; `REASSIGNMENT_IN_PROGRESS` while an earlier resharding is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reshard {
    /// The stream's topic.
    pub topic_id: TopicId,
    /// What to do.
    pub resharding: Resharding,
    /// How many open shards all streams may have together.
    pub shards_max: Option<u32>,
    /// The time, in ms since 1970.
    pub now_ms: i64,
}

/// What becomes of a stream's open shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resharding {
    /// One becomes two.
    Split {
        /// The one.
        shard: PartitionId,
        /// The first key of the second of the two.
        at: HashKey,
    },
    /// Two become one.
    Merge {
        /// The one with the lower keys.
        first: PartitionId,
        /// The one whose keys come next.
        second: PartitionId,
    },
    /// There are to be so many, of equal ranges.
    Count(u32),
}

impl Command for Reshard {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let (topic, stream) = stream_of(image, self.topic_id)?;
        if stream.is_resharding() || stream.state.phase == StreamPhase::Deleting {
            let message = format!("Stream '{}' is changing.", topic.name);
            return Err(ControllerError::new(ErrorCode::ReassignmentInProgress, message));
        }
        let open = |shards: &[Shard]| shards.iter().filter(|shard| shard.closed.is_none()).count();
        let open_before = open(&stream.shards);
        if let Resharding::Count(count) = self.resharding {
            // Before anything is made of so large a number.
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            check_stream_size(&topic.name, count)?;
            let more = count.saturating_sub(open_before);
            check_shard_limit(image, more, self.shards_max.filter(|_| more > 0))?;
        }
        let (shards, before) = (stream.shards.clone(), stream.shards.len());
        let mut draft = Draft { name: &topic.name, shards, before, now_ms: self.now_ms };
        match self.resharding {
            Resharding::Split { shard, at } => draft.split(shard, at)?,
            Resharding::Merge { first, second } => draft.merge(first, second)?,
            Resharding::Count(count) => draft.reach(count)?,
        }
        let more = open(&draft.shards).saturating_sub(open_before);
        check_shard_limit(image, more, self.shards_max.filter(|_| more > 0))?;
        draft.check_size()?;
        let records = draft.records(image, topic, stream)?;
        Ok(Decision { records, reply: () })
    }
}

/// A stream's shards on their way.
struct Draft<'a> {
    name: &'a TopicName,
    shards: Vec<Shard>,
    /// How many there were.
    before: usize,
    now_ms: i64,
}

impl Draft<'_> {
    /// An open shard.
    fn open(&self, number: PartitionId) -> Result<&Shard, ControllerError> {
        let shard = usize::try_from(number.0).ok().and_then(|index| self.shards.get(index));
        shard
            .filter(|shard| shard.closed.is_none())
            .ok_or_else(|| refused(format!("There is no open shard {number}.")))
    }

    fn split(&mut self, number: PartitionId, at: HashKey) -> Result<(), ControllerError> {
        let HashRange { start, end } = self.open(number)?.range;
        if !(start < at && at <= end) {
            return Err(refused(format!("Shard {number} cannot be split at {at}.")));
        }
        self.close(number);
        self.add(HashRange { start, end: HashKey(at.0 - 1) }, vec![number]);
        self.add(HashRange { start: at, end }, vec![number]);
        Ok(())
    }

    fn merge(&mut self, first: PartitionId, second: PartitionId) -> Result<(), ControllerError> {
        let (of_first, of_second) = (self.open(first)?.range, self.open(second)?.range);
        if of_first.end.0.checked_add(1) != Some(of_second.start.0) {
            return Err(refused(format!("Shards {first} and {second} are not adjacent.")));
        }
        self.close(first);
        self.close(second);
        let range = HashRange { start: of_first.start, end: of_second.end };
        self.add(range, vec![first, second]);
        Ok(())
    }

    /// Splits where ranges have to begin, and merges where none has to.
    fn reach(&mut self, count: u32) -> Result<(), ControllerError> {
        let wanted = HashRange::evenly(usize::try_from(count).unwrap_or(usize::MAX));
        let wanted: BTreeSet<HashKey> = wanted.into_iter().map(|range| range.start).collect();
        let mut open = self.open_by_key();
        for start in &wanted {
            let Some((at, number)) = open.range(..=*start).next_back() else { continue };
            if at != start {
                let (at, number) = (*at, *number);
                self.split(number, *start)?;
                self.check_size()?;
                let last = self.last();
                open.insert(at, PartitionId(last.0 - 1));
                open.insert(*start, last);
            }
        }
        // From below: each shard that begins where none has to goes into the one before it.
        let mut before = None;
        for (start, number) in open {
            before = Some(match before {
                Some(before) if !wanted.contains(&start) => {
                    self.merge(before, number)?;
                    self.check_size()?;
                    self.last()
                }
                _ => number,
            });
        }
        Ok(())
    }

    /// Whether the stream may have so many shards, and one command make those that are new: a partition and a shard each.
    fn check_size(&self) -> Result<(), ControllerError> {
        check_stream_size(self.name, self.shards.len())?;
        match 2 * (self.shards.len() - self.before) < COMMAND_RECORDS_MAX {
            true => Ok(()),
            false => Err(too_many_records(COMMAND_RECORDS_MAX)),
        }
    }

    /// The open shards by the first of their keys.
    fn open_by_key(&self) -> BTreeMap<HashKey, PartitionId> {
        let open = (0..).map(PartitionId).zip(&self.shards);
        let open = open.filter(|(_, shard)| shard.closed.is_none());
        open.map(|(number, shard)| (shard.range.start, number)).collect()
    }

    fn close(&mut self, number: PartitionId) {
        let shard = usize::try_from(number.0).ok().and_then(|index| self.shards.get_mut(index));
        let shard = shard.expect("it was just looked at");
        shard.closed = Some(ShardEnd { at_ms: self.now_ms, offset: None });
    }

    /// Adds a shard that is younger than its parents by a second at least, and so in its sequence numbers.
    fn add(&mut self, range: HashRange, parents: Vec<PartitionId>) {
        let created = |parent: &PartitionId| {
            self.shards[usize::try_from(parent.0).expect("it was just looked at")].created_s
        };
        let eldest = parents.iter().map(created).fold(self.now_ms.div_euclid(1_000), i64::max);
        self.shards.push(Shard { range, parents, created_s: eldest + 1, closed: None });
    }

    fn last(&self) -> PartitionId {
        let count = i32::try_from(self.shards.len()).expect("partitions are numbered by i32");
        PartitionId(count - 1)
    }

    fn records(
        self,
        image: &MetadataImage,
        topic: &TopicImage,
        stream: &StreamImage,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        let (topic_id, before) = (topic.id, topic.partitions.len());
        let new = before..self.shards.len();
        let changed = (0..)
            .map(PartitionId)
            .zip(self.shards)
            .filter(|(number, shard)| stream.shard(*number).is_none_or(|known| known != shard));
        let changed: Vec<_> = changed.collect();
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        if 1 + new.len() + changed.len() > COMMAND_RECORDS_MAX {
            return Err(too_many_records(COMMAND_RECORDS_MAX));
        }
        let factor = topic.partitions.first().map_or(1, |first| first.target().len());
        let replicas = place_replicas(image, topic_id, new, factor)?;
        let mut partitions = NewPartitions::new(image);
        let numbered = (topic.partition_count()..).map(PartitionId).zip(replicas);
        let mut state = stream.state.clone();
        (state.phase, state.phase_since_ms) = (StreamPhase::Changed, self.now_ms);
        let mut records = vec![MetadataRecord::Stream(Box::new(StreamRecord { topic_id, state }))];
        records.extend(numbered.map(|(number, replicas)| {
            MetadataRecord::partition(partitions.record(topic_id, number, replicas))
        }));
        records.extend(changed.into_iter().map(|(partition, shard)| {
            MetadataRecord::Shard(ShardRecord { topic_id, partition, shard })
        }));
        Ok(records)
    }
}

fn refused(message: String) -> ControllerError {
    ControllerError::new(ErrorCode::InvalidRequest, message)
}
