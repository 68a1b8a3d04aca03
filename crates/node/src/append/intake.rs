//! Whether a partition takes records, as far as it is a shard of a stream.

use logway_metadata::Intake;
use logway_model::{ErrorCode, TopicPartition};

use crate::failure::Failure;
use crate::replica::Replica;

/// A shard takes no record, and has taken none of what was to be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Clients try again, and find it open.
    #[error(
        "shard {number} of stream '{topic}' takes records when the shards that it was made of have ended",
        number = .0.partition, topic = .0.topic
    )]
    Yet(TopicPartition),
    /// It never will again: clients must not try again.
    #[error(
        "partition {number} of topic '{topic}' is a closed shard: it was split or merged, and its keys belong to other \
         partitions now; choose partitions by the stream's hash ranges",
        number = .0.partition, topic = .0.topic
    )]
    Closed(TopicPartition),
}

impl NotTaken {
    /// Why a partition with this intake takes nothing; `None` if it takes records.
    pub(crate) fn of(intake: Intake, partition: &TopicPartition) -> Option<NotTaken> {
        match intake {
            Intake::Open => None,
            Intake::NotYet => Some(NotTaken::Yet(partition.clone())),
            Intake::Closed => Some(NotTaken::Closed(partition.clone())),
        }
    }
}

impl From<NotTaken> for Failure {
    fn from(not_taken: NotTaken) -> Failure {
        let code = match not_taken {
            NotTaken::Yet(_) => ErrorCode::LeaderNotAvailable,
            NotTaken::Closed(_) => ErrorCode::PolicyViolation,
        };
        Failure::new(code, not_taken.to_string())
    }
}

/// Refuses what is for a shard that takes no records.
pub(super) fn check_intake(replica: &Replica) -> Result<(), NotTaken> {
    NotTaken::of(replica.intake(), replica.topic_partition()).map_or(Ok(()), Err)
}
