//! The leader of a closed shard tells where it ends.

use logway_model::{ErrorCode, LeaderEpoch, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::super::{Command, ControllerError, Decision};
use super::stream_of;
use crate::image::MetadataImage;
use crate::record::{MetadataRecord, ShardRecord};
use crate::settings::BrokerSettings;

/// Notes where closed shards end, each by itself. An end that is known already stays.
///
/// Errors: `UNKNOWN_TOPIC_ID`, `FENCED_LEADER_EPOCH` where another leader has to tell it, and `INVALID_REQUEST` for a
/// shard that is not closed or has a parent without an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndShards {
    /// The shards.
    pub shards: Vec<EndedShard>,
}

/// A shard that gets no record any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedShard {
    /// The stream's topic.
    pub topic_id: TopicId,
    /// The shard.
    pub partition: PartitionId,
    /// The epoch in which the partition is led. Its leader takes no append.
    pub leader_epoch: LeaderEpoch,
    /// The exclusive end of its records, all of them committed.
    pub offset: i64,
}

impl Command for EndShards {
    type Reply = Vec<Result<(), ControllerError>>;

    /// What waits for it may be what makes space.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let mut records = Vec::new();
        let reply = self.shards.into_iter().map(|ended| {
            records.extend(end(ended, image)?);
            Ok(())
        });
        let reply = reply.collect();
        Ok(Decision { records, reply })
    }
}

fn end(
    ended: EndedShard,
    image: &MetadataImage,
) -> Result<Option<MetadataRecord>, ControllerError> {
    let EndedShard { topic_id, partition, leader_epoch, offset } = ended;
    let (topic, stream) = stream_of(image, topic_id)?;
    let refused = |code, reason: &str| {
        let message = format!("Shard {partition} of stream '{}': {reason}.", topic.name);
        Err(ControllerError::new(code, message))
    };
    let Some(mut shard) = stream.shard(partition).cloned() else {
        return refused(ErrorCode::UnknownTopicOrPartition, "there is no such shard");
    };
    let has_ended_parents = stream.has_ended_parents(&shard);
    match &mut shard.closed {
        None => return refused(ErrorCode::InvalidRequest, "it is not closed"),
        Some(closed) if closed.offset.is_some() => return Ok(None),
        Some(closed) => closed.offset = Some(offset),
    }
    if !has_ended_parents {
        return refused(ErrorCode::InvalidRequest, "a shard that it was made of has not ended");
    }
    let known = topic.partition(partition).map(|partition| partition.leader_epoch);
    if known != Some(leader_epoch) {
        return refused(ErrorCode::FencedLeaderEpoch, "another leader has to tell its end");
    }
    Ok(Some(MetadataRecord::Shard(ShardRecord { topic_id, partition, shard })))
}
