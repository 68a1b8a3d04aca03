//! The coordinators of consumer groups and of transactions, as state machines. Those of transactions are in
//! [`transactions`]; the rest of this page is about groups.
//!
//! A [`GroupShard`] has the groups of one partition of `__consumer_offsets`: who is a member, how far a rebalance is,
//! what offsets are committed. It speaks Kafka's group protocol as Kafka 4.3's coordinator does (KIP-62, 134, 211,
//! 345, 389, 394, 429, 447, 496, 814, 848), and keeps its state as records of Kafka's own format. It is synchronous and
//! knows no sockets, files, clocks, tasks or randomness: events come in, [`Effect`]s come out, so the same code runs
//! in a broker and in a simulation.
//!
//! # How to drive a shard
//!
//! One task owns one shard and calls it with everything that happens, one after the other; a call takes microseconds.
//! After each call it does the effects, *in their order*, and sleeps until the next event or
//! [`GroupShard::next_deadline`].
//!
//! 1. **Load.** When the broker begins to lead the partition, make a [`GroupShard::new`], read the log from its start
//!    to its end, decode each record with [`GroupRecord::decode`] (skipping those that are `None`, and warning of
//!    those that are errors), and [`GroupShard::replay`] it. Then call [`GroupShard::loaded`]. Requests may be passed
//!    on meanwhile; they are told that the shard is loading.
//! 2. **Requests.** The broker decodes a request, finds the partition of its group with [`partition_of_group`], and
//!    sends the task a [`Request`] with a token of its own and a way to reply. The task calls
//!    [`GroupShard::request`]. The reply comes with some [`Effect::Reply`], at once or much later. Requests about
//!    several groups are sent to each shard in part: see [`RequestBody`] and [`offset_fetch_groups`].
//!    What is the broker's own: FindCoordinator, authorisation, topics that do not exist, ids for topics' names and
//!    back, encoding at the request's version, throttle times.
//! 3. **Appends.** For [`Effect::Append`], encode each record with [`GroupRecord::encode`], make one batch of them
//!    (the wall clock's time as timestamps), and append it with the partition's leader epoch. Appends of a shard are
//!    started in the order of their effects, and need not wait for each other. When one is durable (below the high
//!    watermark), call [`GroupShard::appended`]. If it failed without a trace, call it with the error. If the log is
//!    not to be trusted any more (a failed sync, an epoch that is over), call [`GroupShard::unload`] instead.
//! 4. **Time.** At [`GroupShard::next_deadline`] call [`GroupShard::tick`]. Late is harmless, early does nothing. Time
//!    in which the task does not run should not count: members are judged by it, and nobody hears them meanwhile.
//! 5. **Topics that are deleted.** Tell every shard with [`GroupShard::topics_deleted`]. Show it each new state of the
//!    metadata with [`GroupShard::cluster_changed`].
//! 6. **Unload.** When the broker no longer leads the partition, or stops, call [`GroupShard::unload`] and send the
//!    replies.
//!
//! A reply for a client that is gone is dropped by the driver; the shard finds out by its session timeouts.
//!
//! # What is durable when
//!
//! [`GroupShard::replay`] is the only thing that changes what the log holds, while loading and after each append, so
//! a shard that is loaded from the log knows what the one before it had made durable. What a client is told is durable
//! first: committed offsets, assignments, the new id of a static member, the end of a group. A rebalance itself is
//! not kept: after a load, groups go on with their last stable generation, and members that were joining are asked to
//! join again.
//!
//! All of that is about classic groups. [Consumer groups](crate::consumer) (KIP-848) and [streams groups](crate::streams)
//! (KIP-1071) are kept in the log as a whole.
//!
//! Unlike Kafka's, this coordinator does not write a record for a group that nobody has been a member of yet.

mod cluster_view;
mod consumer;
mod effect;
mod error;
mod fan_out;
mod groups;
mod ids;
mod interner;
mod machine;
mod member;
mod membership;
mod memory;
mod moment;
mod offsets;
mod outbox;
mod rebalance_counts;
mod record;
mod request;
mod settings;
mod shard;
mod streams;
mod subscription;
mod timers;
pub mod transactions;
mod turn;

pub use cluster_view::{ClusterView, ConsumerOverrides, EmptyCluster, StreamsOverrides, TopicView};
pub use consumer::{
    Assignor, ClassicMember, ConsumerRecord, CurrentAssignment, GroupEpoch, GroupVersion,
    MemberState, OwnedPartitions, Partitions, ResolvedPattern, Subscription, TargetVersion,
    TopicSight,
};
pub use effect::{CommitToken, Effect, InTransaction, Marker};
pub use error::RecordError;
pub use fan_out::{offset_fetch_groups, offset_fetch_response};
pub use groups::{DeletedTopic, GroupView};
pub use ids::{
    CommittedTopic, GroupId, InstanceId, MemberId, ProtocolName, TransactionalId,
    partition_of_group, partition_of_transactional_id,
};
pub use machine::{EffectsOf, StateMachine};
pub use memory::GroupMemory;
pub use moment::{ElapsedMs, Moment};
pub use rebalance_counts::RebalanceCounts;
pub use record::{CommittedOffset, GroupMetadata, GroupRecord, MemberMetadata, OFFSETS_TOPIC};
pub use request::{Client, Reply, Request, RequestBody, RequestToken, TxnOffsetCommit};
pub use settings::{Bounded, ConsumerSettings, GroupSettings, StreamsSettings};
pub use shard::GroupShard;
pub use streams::{
    CurrentTasks, Endpoint, InternalTopic, OwnedTasks, StreamsMember, StreamsRecord,
    StreamsVersion, TargetTasks, TaskId, Tasks, TasksSince, Topology,
};
