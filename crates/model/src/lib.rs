//! The words of the system as types: offsets, epochs, topic names and ids, error codes; and dates.
//!
//! Nothing here does I/O or knows a wire format; every other crate may depend on this one.

pub mod calendar;
mod error_code;
mod group_type;
mod ids;
mod offset;
mod producer;
mod topic;

pub use error_code::ErrorCode;
pub use group_type::GroupType;
pub use ids::{BrokerId, ClusterId, DirectoryId, TopicId, Uuid};
pub use offset::{LeaderEpoch, Offset, TimestampMs};
pub use producer::{ProducerEpoch, ProducerId, Sequence, TransactionVersion};
pub use topic::{InvalidTopicName, PartitionId, TopicName, TopicPartition};
