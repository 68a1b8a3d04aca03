//! The one place where errors become Kafka's error codes.

use std::io;

use logway_log::LogError;
use logway_log::producer_state::Refusal;
use logway_metadata::controller::ControllerError;
use logway_model::{ErrorCode, PartitionId, TopicPartition, Uuid};
use logway_quorum::{AdmissionRefusal, QuorumError};
use logway_record::{InvalidBatch, RecordError, RefusedRecords};

use crate::replica::EpochEnded;
use crate::topics::Topic;

/// What a client is told when something did not work: Kafka's code, and a sentence that names
/// what was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kafka's code.
    pub code: ErrorCode,
    /// The reason, for a person.
    pub message: String,
    /// The records of a batch that are the reason, if some are.
    pub records: RefusedRecords,
    /// Whether a full disk is the reason.
    pub is_disk_full: bool,
}

impl Failure {
    /// A failure with its reason.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
            records: RefusedRecords::default(),
            is_disk_full: false,
        }
    }

    /// A log that could not be read.
    pub fn of_reading(partition: &TopicPartition, error: &io::Error) -> Failure {
        let message = format!("the log of {partition} cannot be read: {error}");
        Failure::new(ErrorCode::KafkaStorageError, message)
    }

    /// A topic, named by one of its two names, that cannot be served.
    pub fn of_topic(code: ErrorCode, name: &str, id: Uuid) -> Failure {
        match id.is_zero() {
            true => Failure::new(code, format!("topic '{name}' does not exist on this broker")),
            false => Failure::new(code, format!("no topic with id {id} exists on this broker")),
        }
    }

    /// A partition that cannot be served.
    pub fn of_partition(code: ErrorCode, topic: &Topic, id: PartitionId) -> Failure {
        let name = topic.name();
        let message = match code {
            ErrorCode::KafkaStorageError => match topic.offline.get(&id) {
                Some(error) => format!("partition {id} of topic '{name}' is offline: {error}"),
                None => format!("partition {id} of topic '{name}' is offline"),
            },
            ErrorCode::NotLeaderOrFollower => {
                format!("partition {id} of topic '{name}' is led by another broker")
            }
            _ => {
                let count = topic.partitions.len();
                format!("topic '{name}' has {count} partitions; there is no partition {id}")
            }
        };
        Failure::new(code, message)
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Failure {
        let code = match &error {
            LogError::OffsetOutOfRange { .. } | LogError::EndMoved { .. } => {
                ErrorCode::OffsetOutOfRange
            }
            LogError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            LogError::BehindRefused { refusal: Refusal::TooFewInSync, .. } => {
                ErrorCode::NotEnoughReplicas
            }
            LogError::BehindRefused { refusal: Refusal::ShardNotOpen, .. } => {
                ErrorCode::LeaderNotAvailable
            }
            LogError::FencedProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            LogError::TransactionOpen { .. } | LogError::UnverifiedTransaction { .. } => {
                ErrorCode::InvalidTxnState
            }
            // The next try asks the coordinator that has taken over.
            LogError::StaleCoordinator { .. } => ErrorCode::NotEnoughReplicas,
            LogError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
            // The client aborts the transaction, and may try it again.
            LogError::TooManyTransactions { .. } => ErrorCode::PolicyViolation,
            // Deleted or stopping: the client should ask for new metadata.
            LogError::Closed { .. }
            | LogError::EpochOver { .. }
            | LogError::BehindRefused { refusal: Refusal::EpochOver, .. } => {
                ErrorCode::NotLeaderOrFollower
            }
            LogError::QueueFull { .. }
            | LogError::WrongOwner { .. }
            | LogError::InconsistentTopicId { .. }
            | LogError::Io { .. }
            | LogError::Corrupt { .. }
            | LogError::Malformed { .. }
            | LogError::Vanished { .. }
            | LogError::OlderElsewhere { .. }
            | LogError::PerhapsElsewhere { .. }
            | LogError::DirectoryEmptied { .. }
            | LogError::IdentityMissing { .. }
            | LogError::CopyInTheWay { .. }
            | LogError::OffsetNotNext { .. }
            | LogError::BadBatch { .. }
            | LogError::Busy { .. }
            | LogError::EpochOutOfOrder { .. }
            | LogError::Unassigned { .. }
            | LogError::OffsetsExhausted { .. }
            | LogError::DuplicateDirectory { .. }
            | LogError::DirectoryOffline { .. }
            | LogError::Poisoned { .. }
            | LogError::SyncDelayed { .. }
            | LogError::DiskFull { .. }
            | LogError::BehindRefused { refusal: Refusal::Storage, .. }
            | LogError::NoRoomForJournal { .. }
            | LogError::Locked { .. } => ErrorCode::KafkaStorageError,
        };
        let is_disk_full = error.is_disk_full();
        Failure { is_disk_full, ..Failure::new(code, error.to_string()) }
    }
}

impl From<EpochEnded> for Failure {
    /// Clients look for the leader and try again.
    fn from(error: EpochEnded) -> Failure {
        Failure::new(ErrorCode::NotLeaderOrFollower, error.to_string())
    }
}

impl From<RecordError> for Failure {
    /// As Kafka, but for a codec that nobody knows and a length beyond all bounds, which are UNKNOWN_SERVER_ERROR
    /// there. What is cut off is not sent again, as what was damaged on the way would be: it is the same again.
    fn from(error: RecordError) -> Failure {
        let code = match &error {
            RecordError::UnsupportedMagic { magic: 0 | 1, .. }
            | RecordError::InvalidOffsetRange { .. }
            | RecordError::TruncatedHeader { .. }
            | RecordError::TruncatedBatch { .. } => ErrorCode::InvalidRecord,
            RecordError::UnknownCompression { .. } => ErrorCode::UnsupportedCompressionType,
            _ => ErrorCode::CorruptMessage,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<InvalidBatch> for Failure {
    /// As Kafka, with these exceptions. What does not decompress is UNKNOWN_SERVER_ERROR there, of
    /// which no client can tell whose fault it is. What a producer has no say in is taken: the
    /// timestamp type is overwritten, and with a delete horizon the base timestamp is read as that,
    /// by everybody behind; a client that sends either means something that would not happen.
    fn from(error: InvalidBatch) -> Failure {
        let code = match &error {
            InvalidBatch::TooLarge { .. } | InvalidBatch::RecompressedTooLarge { .. } => {
                ErrorCode::MessageTooLarge
            }
            InvalidBatch::BadCrc { .. } => ErrorCode::CorruptMessage,
            InvalidBatch::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            InvalidBatch::UnknownCompression { .. } => ErrorCode::UnsupportedCompressionType,
            InvalidBatch::Records(records) if records.is_timestamp_wrong() => {
                ErrorCode::InvalidTimestamp
            }
            InvalidBatch::LogAppendTimeFromProducer => ErrorCode::InvalidTimestamp,
            InvalidBatch::NonZeroBaseOffset { .. }
            | InvalidBatch::NoRecords { .. }
            | InvalidBatch::RecordCountMismatch { .. }
            | InvalidBatch::ControlBatch
            | InvalidBatch::DeleteHorizon
            | InvalidBatch::InvalidSequence { .. }
            | InvalidBatch::TransactionWithoutProducer
            | InvalidBatch::Records(_)
            | InvalidBatch::Undecodable(_) => ErrorCode::InvalidRecord,
        };
        let message = error.to_string();
        let records = match error {
            InvalidBatch::Records(records) => records,
            _ => RefusedRecords::default(),
        };
        Failure { records, ..Failure::new(code, message) }
    }
}

impl From<ControllerError> for Failure {
    fn from(error: ControllerError) -> Failure {
        Failure::new(error.code, error.message)
    }
}

impl From<QuorumError> for Failure {
    fn from(error: QuorumError) -> Failure {
        match error {
            QuorumError::Refused(refusal) => refusal.into(),
            QuorumError::Admission(refusal) => refusal.into(),
            // Nothing was committed: clients look for the controller, and ask again.
            QuorumError::NotLeader
            | QuorumError::Removed { .. }
            | QuorumError::NoMajority
            | QuorumError::Overtaken
            | QuorumError::Unreachable { .. } => {
                Failure::new(ErrorCode::NotController, error.to_string())
            }
            QuorumError::OutcomeUnknown | QuorumError::Forgotten => {
                Failure::new(ErrorCode::RequestTimedOut, error.to_string())
            }
            // The commit may still happen; the client may ask again.
            error => Failure::new(ErrorCode::KafkaStorageError, error.to_string()),
        }
    }
}

impl From<AdmissionRefusal> for Failure {
    /// As KRaft's, where it has such a refusal (KIP-853). What it does in part, and then cannot go on, is refused here.
    fn from(refusal: AdmissionRefusal) -> Failure {
        let code = match &refusal {
            AdmissionRefusal::Unknown { .. } => ErrorCode::BrokerIdNotRegistered,
            AdmissionRefusal::IsVoter { .. } => ErrorCode::DuplicateVoter,
            AdmissionRefusal::NoVoter { .. } => ErrorCode::VoterNotFound,
            // It may catch up.
            AdmissionRefusal::NotReady { .. } => ErrorCode::RequestTimedOut,
            AdmissionRefusal::NumberTaken { .. }
            | AdmissionRefusal::NotReplaced { .. }
            | AdmissionRefusal::OtherNumber { .. }
            | AdmissionRefusal::Nameless
            | AdmissionRefusal::NoNumber { .. }
            | AdmissionRefusal::Removed { .. }
            | AdmissionRefusal::OtherDirectory { .. }
            | AdmissionRefusal::LastVoter { .. }
            | AdmissionRefusal::NoMajorityLeft { .. } => ErrorCode::InvalidRequest,
        };
        Failure::new(code, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_something_that_clients_try_again_after() {
        let path = || "data/metadata".into();
        for error in [
            QuorumError::DiskFull { path: path(), free_bytes: 7 },
            QuorumError::WaitsForSpace { path: path() },
        ] {
            let failure = Failure::from(error);
            assert!(failure.code.is_retriable(), "{failure:?}");
            assert!(failure.message.contains("disk of data/metadata"), "{failure:?}");
        }
    }
}
