//! Looking offsets up, and deleting what lies before one.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, Offset, PartitionId, TimestampMs, TopicName, TopicPartition};
use logway_wire::WireString;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::{DeleteRecordsRequest, ListOffsetsRequest};

use super::{CHANGE_TIMEOUT_MS, by_topic, topics_of};
use crate::error::check;
use crate::{Client, ClientError, Isolation, MissingTopic, TopicSelection};

/// The replica id of everyone who is no broker.
const NO_REPLICA: i32 = -1;

/// Which offset of a partition is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetAt {
    /// That of the first record there is.
    Start,
    /// The one after the last record that consumers may see.
    End,
    /// The same of records whose transactions have ended: the last stable offset.
    StableEnd,
    /// That of the first record with at least this timestamp.
    Timestamp(TimestampMs),
    /// That of the record with the greatest timestamp (KIP-734).
    MaxTimestamp,
}

impl OffsetAt {
    /// Special timestamps stand for the rest (`ListOffsetsRequest`).
    fn to_wire(self) -> i64 {
        match self {
            OffsetAt::Start => -2,
            OffsetAt::End | OffsetAt::StableEnd => -1,
            OffsetAt::Timestamp(timestamp) => timestamp.0,
            OffsetAt::MaxTimestamp => -3,
        }
    }

    fn isolation(self) -> Isolation {
        match self {
            OffsetAt::StableEnd => Isolation::ReadCommitted,
            _ => Isolation::ReadUncommitted,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; `None` when no record has such a timestamp.
    pub offset: Option<Offset>,
    /// The timestamp of the record there, for look-ups by timestamp.
    pub timestamp: Option<TimestampMs>,
}

/// What was found in each of several partitions, or why nothing was.
#[derive(Debug, Default)]
pub struct ListedOffsets {
    /// Where there was an answer.
    pub found: BTreeMap<TopicPartition, ListedOffset>,
    /// Where there was none.
    pub failed: BTreeMap<TopicPartition, ClientError>,
}

impl Client {
    /// Looks up one offset of each partition.
    ///
    /// # Errors
    ///
    /// That of any partition, after the client's patience if a later attempt may succeed.
    pub async fn list_offsets(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        at: OffsetAt,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        let ListedOffsets { found, failed } = self.list_known_offsets(partitions, at).await;
        failed.into_values().next().map_or(Ok(found), Err)
    }

    /// Looks up one offset of each partition, as far as that is possible within the client's patience.
    pub async fn list_known_offsets(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        at: OffsetAt,
    ) -> ListedOffsets {
        let mut backoff = self.backoff();
        let mut listed = ListedOffsets::default();
        let mut asked = partitions.clone();
        loop {
            self.list_offsets_once(&asked, at, &mut listed).await;
            let may_succeed = |error: &ClientError| error.is_retriable();
            let Some(error) = listed.failed.values().find(|error| may_succeed(error)).cloned()
            else {
                return listed;
            };
            if !backoff.pause(&error).await {
                return listed;
            }
            let failed = listed.failed.iter().filter(|(_, error)| may_succeed(error));
            asked = failed.map(|(partition, _)| partition.clone()).collect();
            let topics = topics_of(&asked);
            let selection = TopicSelection::Named(&topics);
            let refreshed = self.refresh_metadata(selection, MissingTopic::Refuse).await;
            if refreshed.is_err_and(|error| !error.is_retriable()) {
                return listed;
            }
        }
    }

    /// Asks the leader of each partition once. Its answer takes the place of an earlier one.
    async fn list_offsets_once(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        at: OffsetAt,
        listed: &mut ListedOffsets,
    ) {
        let mut by_leader: BTreeMap<BrokerId, Vec<TopicPartition>> = BTreeMap::new();
        for partition in partitions {
            // Unless somebody says otherwise.
            let no_answer = ClientError::NoLeader { partition: partition.clone() };
            listed.failed.insert(partition.clone(), no_answer);
            match self.by_leader([partition.clone()]) {
                Ok(found) => found
                    .into_iter()
                    .for_each(|(leader, led)| by_leader.entry(leader).or_default().extend(led)),
                Err(error) => drop(listed.failed.insert(partition.clone(), error)),
            }
        }
        for (leader, led) in by_leader {
            if let Err(error) = self.list_offsets_of(leader, &led, at, listed).await {
                listed.failed.extend(led.into_iter().map(|partition| (partition, error.clone())));
            }
        }
    }

    /// # Errors
    ///
    /// What keeps the leader from being asked.
    async fn list_offsets_of(
        &self,
        leader: BrokerId,
        partitions: &[TopicPartition],
        at: OffsetAt,
        listed: &mut ListedOffsets,
    ) -> Result<(), ClientError> {
        let partition_at = |index| ListOffsetsPartition {
            partition_index: index,
            timestamp: at.to_wire(),
            ..ListOffsetsPartition::default()
        };
        let by_topic = by_topic(partitions.iter().cloned());
        let topics = by_topic.into_iter().map(|(name, indexes)| ListOffsetsTopic {
            name: WireString::copy_of(name.as_str()),
            partitions: indexes.into_iter().map(partition_at).collect(),
            ..ListOffsetsTopic::default()
        });
        let request = ListOffsetsRequest {
            replica_id: NO_REPLICA,
            isolation_level: at.isolation().to_wire(),
            topics: topics.collect(),
            timeout_ms: CHANGE_TIMEOUT_MS,
            ..ListOffsetsRequest::default()
        };
        let response = self.broker(leader).await?.call(&request).await?;
        for topic in &response.topics {
            let Ok(name) = TopicName::new(&topic.name) else { continue };
            for partition in &topic.partitions {
                let index = PartitionId(partition.partition_index);
                let key = TopicPartition::new(name.clone(), index);
                let what = || format!("look up offsets of {key}");
                if let Err(error) = check(what, partition.error_code, None) {
                    listed.failed.insert(key, error);
                    continue;
                }
                let offset = ListedOffset {
                    offset: (partition.offset >= 0).then_some(Offset(partition.offset)),
                    timestamp: (partition.timestamp >= 0)
                        .then_some(TimestampMs(partition.timestamp)),
                };
                listed.failed.remove(&key);
                listed.found.insert(key, offset);
            }
        }
        Ok(())
    }

    /// Deletes the records of a partition before an offset, or all of them, and returns the first
    /// offset that is left.
    pub async fn delete_records(
        &self,
        partition: &TopicPartition,
        before: Option<Offset>,
    ) -> Result<Offset, ClientError> {
        // -1 stands for the high watermark.
        let deleted = DeleteRecordsPartition {
            partition_index: partition.partition.0,
            offset: before.map_or(-1, |offset| offset.0),
            ..DeleteRecordsPartition::default()
        };
        let topic = DeleteRecordsTopic {
            name: WireString::copy_of(partition.topic.as_str()),
            partitions: vec![deleted],
            ..DeleteRecordsTopic::default()
        };
        let request = DeleteRecordsRequest {
            topics: vec![topic],
            timeout_ms: CHANGE_TIMEOUT_MS,
            ..DeleteRecordsRequest::default()
        };
        let by_leader = self.by_leader([partition.clone()])?;
        let leader = by_leader
            .keys()
            .next()
            .copied()
            .ok_or_else(|| ClientError::NoLeader { partition: partition.clone() })?;
        let connection = self.broker(leader).await?;
        let response = connection.call(&request).await?;
        let result = response.topics.first().and_then(|topic| topic.partitions.first());
        let result = result.ok_or_else(|| ClientError::UnexpectedResponse {
            address: connection.address().clone(),
            api: "DeleteRecords",
            problem: "no partition".to_owned(),
        })?;
        check(|| format!("delete records of {partition}"), result.error_code, None)?;
        Ok(Offset(result.low_watermark))
    }
}
