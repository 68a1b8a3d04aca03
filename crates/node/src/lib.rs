//! One node of a cluster: what every front door stands on.
//!
//! A front door decodes, asks here, and encodes. What the log demands of an append or a read is in here once: [`append`]
//! is the one way in, [`read`] the one way out. [`streams`] leads to both on whatever node a partition is led.
//! Sockets are accepted here. There are no frames, and no request or response of any protocol, but for those of
//! groups, which the coordinator speaks.
//!
//! | module | what it is about |
//! |---|---|
//! | [`replica`], [`rising_offset`] | a replica with its role, and who waits for it |
//! | [`cluster`] | this node among others: who it is, whom it hears |
//! | [`replication`] | records on their way from leaders to followers |
//! | [`append`], [`read`], `search` | the way in, the way out, and where to begin |
//! | [`near`] | which replica a reader is sent to |
//! | [`topics`], [`log_dirs`], [`replica_moves`] | what is served, and from where |
//! | [`reconcile`] | brings it in line with the metadata |
//! | [`shards`], [`coordinator_topics`] | what drives any coordinator, and where it keeps its state |
//! | [`groups`], [`group_lag`], [`transactions`], [`producer_ids`] | the coordinators |
//! | `coordinator_counts`, `sampled` | what they look after; numbers that are measured when they are read |
//! | [`streams`] | appending and reading wherever a partition is led; ends of closed shards |
//! | [`listener`], [`accept`], [`handshake`] | where clients connect; their connections, as many as there may be |
//! | [`http_callers`], [`key_server`] | who asks over HTTP; public keys of who signs tokens, from a server |
//! | [`access`], `users`, [`delegation_tokens`], `sealing` | who may do what, whose password is checked, what programs log in with; seals of tokens |
//! | [`memory`], [`quotas`], [`heavy_work`] | bounds on what clients take |
//! | [`metrics`], [`events`], [`disk_space`], [`log_levels`], [`failure`] | what is told |

pub mod accept;
pub mod access;
pub mod append;
pub mod audit;
mod backoff;
pub mod cluster;
mod coordinator_counts;
pub mod coordinator_topics;
pub mod delegation_tokens;
pub mod disk_space;
pub mod events;
pub mod failure;
pub mod group_lag;
pub mod groups;
pub mod handshake;
pub mod heavy_work;
pub mod http_callers;
pub mod key_server;
pub mod listener;
pub mod listener_files;
pub mod log_dirs;
pub mod log_levels;
pub mod memory;
pub mod metrics;
pub mod near;
mod node;
pub mod producer_ids;
pub mod quotas;
pub mod read;
mod reconcile;
pub mod replica;
pub mod replica_moves;
mod replication;
pub mod rising_offset;
mod sampled;
mod sealing;
mod search;
pub mod shards;
pub mod start;
pub mod streams;
pub mod tasks;
pub mod topics;
pub mod transactions;
mod users;

pub use failure::Failure;
pub use node::Node;
pub use start::NodeError;

/// The target of lines about what clients can cause at will, which are limited in number.
pub const CLIENTS: &str = "logway_node::clients";

/// The target of what the audit log tells, and no other log.
pub const AUDIT: &str = "logway_audit";
