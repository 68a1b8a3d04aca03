//! Replication state machines: an event in, a decision out; no sockets, files, clocks or tasks.

mod leader;

pub use leader::{LeaderState, LocalTail, ReplicaProgress};
