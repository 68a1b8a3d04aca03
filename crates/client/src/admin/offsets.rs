//! Looking offsets up, and deleting what lies before one.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, Offset, PartitionId, TimestampMs, TopicName, TopicPartition};
use logway_wire::WireString;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::{DeleteRecordsRequest, ListOffsetsRequest};

use super::{CHANGE_TIMEOUT_MS, by_topic, topics_of};
use crate::error::check;
use crate::{Client, ClientError, MissingTopic, TopicSelection};

/// The replica id of everyone who is no broker.
const NO_REPLICA: i32 = -1;

/// Which offset of a partition is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetAt {
    /// That of the first record there is.
    Start,
    /// The one after the last record that consumers may see.
    End,
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
            OffsetAt::End => -1,
            OffsetAt::Timestamp(timestamp) => timestamp.0,
            OffsetAt::MaxTimestamp => -3,
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
        let mut backoff = self.backoff();
        loop {
            let error = match self.list_offsets_once(partitions, at).await {
                Ok(listed) => return Ok(listed),
                Err(error) => error,
            };
            if !error.is_retriable() || !backoff.pause(&error).await {
                return Err(error);
            }
            let topics = topics_of(partitions);
            let selection = TopicSelection::Named(&topics);
            let refreshed = self.refresh_metadata(selection, MissingTopic::Refuse).await;
            if let Some(error) = refreshed.err().filter(|error| !error.is_retriable()) {
                return Err(error);
            }
        }
    }

    async fn list_offsets_once(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        at: OffsetAt,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        let mut found = BTreeMap::new();
        for (leader, partitions) in self.by_leader(partitions.iter().cloned())? {
            self.list_offsets_of(leader, partitions, at, &mut found).await?;
        }
        match partitions.iter().find(|partition| !found.contains_key(partition)) {
            None => Ok(found),
            // The broker left it out, which no broker should.
            Some(missing) => Err(ClientError::NoLeader { partition: missing.clone() }),
        }
    }

    async fn list_offsets_of(
        &self,
        leader: BrokerId,
        partitions: Vec<TopicPartition>,
        at: OffsetAt,
        found: &mut BTreeMap<TopicPartition, ListedOffset>,
    ) -> Result<(), ClientError> {
        let partition_at = |index| ListOffsetsPartition {
            partition_index: index,
            timestamp: at.to_wire(),
            ..ListOffsetsPartition::default()
        };
        let topics = by_topic(partitions).into_iter().map(|(name, indexes)| ListOffsetsTopic {
            name: WireString::copy_of(name.as_str()),
            partitions: indexes.into_iter().map(partition_at).collect(),
            ..ListOffsetsTopic::default()
        });
        let request = ListOffsetsRequest {
            replica_id: NO_REPLICA,
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
                check(|| format!("look up offsets of {key}"), partition.error_code, None)?;
                let listed = ListedOffset {
                    offset: (partition.offset >= 0).then_some(Offset(partition.offset)),
                    timestamp: (partition.timestamp >= 0)
                        .then_some(TimestampMs(partition.timestamp)),
                };
                found.insert(key, listed);
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
