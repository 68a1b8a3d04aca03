//! Where reading begins and ends.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{Offset, TimestampMs, TopicId, TopicName, TopicPartition};

use super::position::Position;
use super::{ConsumerOptions, FetchEvent};
use crate::admin::topics_of;
use crate::{Client, ClientError, Isolation, ListedOffset, MissingTopic, OffsetAt};

/// Where to begin in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// At the first record there is.
    Start,
    /// After the last record there is.
    End,
    /// At this offset, or the first record there is if that comes later.
    Offset(Offset),
    /// At the first record with at least this timestamp, or after the last record.
    Timestamp(TimestampMs),
    /// This many offsets before the end, or at the first record there is.
    BeforeEnd(u64),
}

/// What a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: Offset,
    /// How far it can be read.
    end: Offset,
    /// How far it will be readable when transactions that are open have ended.
    limit: Offset,
    /// The answer to a look-up by timestamp, if there was one.
    at_timestamp: Option<Offset>,
}

/// Where reading begins.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// In each partition that has a leader.
    pub(super) offsets: BTreeMap<TopicPartition, Offset>,
    /// The topics whose ids are known.
    pub(super) topic_ids: BTreeMap<TopicName, TopicId>,
    /// The partitions without a leader, of which nothing can be known before they have one.
    pub(super) unplaced: BTreeMap<TopicPartition, StartAt>,
    /// The partitions in which there is something to read, now or later.
    pub(super) positions: BTreeMap<TopicPartition, Position>,
    /// The records that are gone although they were asked for.
    pub(super) skipped: Vec<FetchEvent>,
}

/// Finds the place to begin in each partition that has a leader.
pub(super) async fn resolve(
    client: &Client,
    assignment: &BTreeMap<TopicPartition, StartAt>,
    options: &ConsumerOptions,
) -> Result<Starts, ClientError> {
    let mut starts = Starts::default();
    if assignment.is_empty() {
        return Ok(starts);
    }
    let topics = topics_of(assignment.keys());
    let metadata = client.find_topics(&topics, MissingTopic::Refuse).await?;
    let ids = topics.iter().filter_map(|topic| Some((topic.clone(), metadata.topic_id(topic)?)));
    starts.topic_ids = ids.collect();
    // Partitions that do not exist are for the look-up to complain about.
    let is_leaderless = |partition: &TopicPartition| {
        metadata.partition(partition).is_some_and(|p| p.leader.is_none())
    };
    let (unplaced, led): (BTreeMap<_, _>, BTreeMap<_, _>) = assignment
        .iter()
        .map(|(partition, start_at)| (partition.clone(), *start_at))
        .partition(|(partition, _)| is_leaderless(partition));
    starts.unplaced = unplaced;
    let ranges = look_up(client, &led, options.isolation).await?;
    for (partition, &start_at) in &led {
        let (range, topic_id) = (ranges[partition], metadata.topic_id(&partition.topic));
        let next = place(partition, start_at, range)?;
        if let StartAt::Offset(from) = start_at
            && from < next
        {
            starts.skipped.push(FetchEvent::Skipped {
                partition: partition.clone(),
                from,
                to: next,
            });
        }
        let stop = options.stops_at_end.then_some(range.end);
        if stop.is_none_or(|stop| next < stop) {
            starts.positions.insert(partition.clone(), Position::new(next, stop, topic_id));
        }
        starts.offsets.insert(partition.clone(), next);
    }
    Ok(starts)
}

async fn look_up(
    client: &Client,
    assignment: &BTreeMap<TopicPartition, StartAt>,
    isolation: Isolation,
) -> Result<BTreeMap<TopicPartition, Range>, ClientError> {
    let all: BTreeSet<TopicPartition> = assignment.keys().cloned().collect();
    let starts = client.list_offsets(&all, OffsetAt::Start).await?;
    let limits = client.list_offsets(&all, OffsetAt::End).await?;
    let ends = match isolation {
        Isolation::ReadUncommitted => limits.clone(),
        Isolation::ReadCommitted => client.list_offsets(&all, isolation.end()).await?,
    };
    let mut at_timestamps = BTreeMap::new();
    for (partition, start_at) in assignment {
        if let StartAt::Timestamp(timestamp) = *start_at {
            let only = BTreeSet::from([partition.clone()]);
            at_timestamps.extend(client.list_offsets(&only, OffsetAt::Timestamp(timestamp)).await?);
        }
    }
    let offset = |listed: Option<&ListedOffset>| listed.and_then(|listed| listed.offset);
    let range = |partition: TopicPartition| {
        let range = Range {
            start: offset(starts.get(&partition)).unwrap_or(Offset::ZERO),
            end: offset(ends.get(&partition)).unwrap_or(Offset::ZERO),
            limit: offset(limits.get(&partition)).unwrap_or(Offset::ZERO),
            at_timestamp: offset(at_timestamps.get(&partition)),
        };
        (partition, range)
    };
    Ok(all.into_iter().map(range).collect())
}

/// The offset to begin at.
fn place(
    partition: &TopicPartition,
    start_at: StartAt,
    range: Range,
) -> Result<Offset, ClientError> {
    let Range { start, end, limit, at_timestamp } = range;
    match start_at {
        StartAt::Start => Ok(start),
        StartAt::End => Ok(end),
        StartAt::Timestamp(_) => Ok(at_timestamp.unwrap_or(end)),
        StartAt::BeforeEnd(records) => {
            let records = i64::try_from(records).unwrap_or(i64::MAX);
            Ok(Offset(end.0.saturating_sub(records)).max(start))
        }
        StartAt::Offset(offset) if offset <= limit => Ok(offset.max(start)),
        StartAt::Offset(offset) => {
            let partition = partition.clone();
            Err(ClientError::OffsetOutOfRange { partition, offset, start, end: limit })
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{PartitionId, TopicName};

    use super::*;

    #[test]
    fn every_way_to_begin_stays_within_the_partition() {
        let name = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(name, PartitionId(0));
        let range =
            Range { start: Offset(10), end: Offset(20), limit: Offset(22), at_timestamp: None };
        let found = Range { at_timestamp: Some(Offset(15)), ..range };
        for (start_at, range, expected) in [
            (StartAt::Start, range, 10),
            (StartAt::End, range, 20),
            (StartAt::Offset(Offset(3)), range, 10),
            (StartAt::Offset(Offset(12)), range, 12),
            (StartAt::Offset(Offset(20)), range, 20),
            // Behind a transaction that is open.
            (StartAt::Offset(Offset(22)), range, 22),
            (StartAt::BeforeEnd(3), range, 17),
            (StartAt::BeforeEnd(u64::MAX), range, 10),
            (StartAt::Timestamp(TimestampMs(1)), found, 15),
            (StartAt::Timestamp(TimestampMs(1)), range, 20),
        ] {
            let offset = place(&partition, start_at, range).expect("in range");
            assert_eq!(offset, Offset(expected), "{start_at:?}");
        }
        let beyond = place(&partition, StartAt::Offset(Offset(23)), range);
        assert!(matches!(beyond, Err(ClientError::OffsetOutOfRange { .. })));
    }
}
