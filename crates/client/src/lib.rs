//! A small Kafka client: for the command line, the benchmarks and the tests.
//!
//! It works with Logway and with Apache Kafka alike. From the bottom up:
//!
//! - [`RawConnection`] is a socket with frames after the version negotiation, [`Connection`] adds
//!   pipelining and typed calls.
//! - [`Client`] knows the cluster's brokers and topics and whom to ask what; the calls that
//!   administer a cluster are its methods.
//! - [`Producer`] writes one topic, by default without duplicates, and by transactions if asked to (KIP-98).
//! - [`Consumer`] reads a set of partitions from given places, [`GroupConsumer`] what falls to it
//!   as a member of a group.

mod address;
mod admin;
mod api_versions;
#[cfg(feature = "cli")]
pub mod cli;
mod client;
mod cluster;
mod connection;
mod consumer;
mod coordinator;
mod credentials;
mod delay;
mod error;
mod frame;
mod group;
mod in_flight;
mod isolation;
mod partitioner;
mod producer;
mod raw_connection;
mod retry;
mod stream;

pub use address::{BrokerAddress, DEFAULT_PORT, InvalidAddress};
pub use admin::{
    ClusterChange, ClusterDescription, ConfigChange, ConfigEntry, ConfigKind, ConfigResource,
    ConfigSource, CreatedTopic, DescribedBroker, DescribedToken, DescribedTransaction,
    DescribedUser, FeatureLevels, ListedOffset, ListedOffsets, ListedTransaction, LogDir, NewToken,
    NewTopic, OffsetAt, OngoingMove, OpenTransaction, Placement, QuorumDescription, QuorumNode,
    QuorumReplica, TopicOutcomes, TransactionFilter, knows_no_changes,
};
pub use api_versions::ApiVersions;
pub use client::{Client, ClientOptions, MissingTopic, TopicSelection};
pub use cluster::{BrokerInfo, ClusterMetadata, PartitionMetadata, TopicMetadata};
pub use connection::{Connection, PendingCall, PendingResponse};
pub use consumer::{Consumer, ConsumerOptions, FetchEvent, FetchedRecords, StartAt};
pub use coordinator::Coordinator;
pub use credentials::{Password, Security};
pub use delay::{Delay, DelayObserver};
pub use error::{ClientError, ConnectionFailure};
pub use frame::{FrameReader, FrameWriter};
pub use group::{
    CommitOutcomes, CommittedOffset, GroupConsumer, GroupDescription, GroupEpochs, GroupEvent,
    GroupMember, GroupOptions, ListedGroup, Processing, StreamsTopology, Subtopology, Tasks,
};
pub use isolation::Isolation;
pub use logway_wire::UnreadAge;
pub use partitioner::{Partitioner, murmur2};
pub use producer::{
    Acks, CommittedTransactions, NewRecord, PartitionSummary, ProduceSummary, Producer,
    ProducerOptions, TransactionOptions, Unacknowledged,
};
pub use raw_connection::{ConnectionOptions, RawConnection, open_stream};
