//! Streams groups (KIP-1071): the members are threads of a stream-processing application, and the coordinator gives them
//! its *tasks*.
//!
//! An application is a *topology*: a few subtopologies, each with the topics that it reads, repartitions by and keeps its
//! state in. A task is one partition of a subtopology. It is *active* where it processes records, and a *standby* where
//! it only follows the state. All of it is kept in the log and worked on as in a [consumer group](crate::consumer), with
//! the same three epochs: a member first gives up what it shall not have, says so, and gets what is free.
//!
//! What Apache Kafka 4.3 does not serve is refused as there: static members, warm-up tasks, regular expressions as
//! sources, and another topology while there is one.
//!
//! | file | idea |
//! |---|---|
//! | [`requests`] | which requests and timers work on a group, one after the other |
//! | [`check`] | whether a heartbeat is one that a member can make |
//! | [`heartbeat`], [`departure`] | joining, staying, leaving, timeouts |
//! | [`topology`] | what an application is made of |
//! | [`configured`] | how many partitions its topics have, and which are missing |
//! | [`target`], [`assignor`] | who shall have which task |
//! | [`reconcile`] | one member's step towards that |
//! | [`describe`], [`endpoints`] | what clients are told of a group |
//! | [`group`], [`member`], [`tasks`], [`record`] | the state |

mod assignor;
mod check;
mod commit;
mod configured;
mod departure;
mod describe;
mod endpoints;
mod group;
mod heartbeat;
mod member;
mod reconcile;
mod record;
mod requests;
mod target;
mod tasks;
mod topology;

pub use configured::InternalTopic;
pub(crate) use endpoints::{ENDPOINT_BYTES, TOPIC_BYTES};
pub(crate) use group::StreamsGroup;
pub(crate) use heartbeat::refusal as heartbeat_refusal;
pub use member::{CurrentTasks, Endpoint, StreamsMember};
pub use record::{StreamsRecord, StreamsVersion};
pub use tasks::{OwnedTasks, TargetTasks, TaskId, Tasks, TasksSince};
pub use topology::Topology;
