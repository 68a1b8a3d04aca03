//! Replication state machines: an event in, a decision out; no sockets, files, clocks or tasks.
//!
//! One replica of a partition *leads* in a leader epoch, the others *follow* it. The metadata says who does
//! what; the rules in between are here, so that the same code runs in a node and in a simulation.
//!
//! | file | idea |
//! |---|---|
//! | [`leader`] | how far the in-sync replicas are, and the high watermark that follows from it |
//! | [`isr`] | the in-sync replicas: as committed, and as proposed (KIP-497, KIP-841, KIP-903) |
//! | [`follower`] | what a follower does with what its leader says (KIP-101, KIP-279, KIP-595) |
//! | [`message`] | what the two say, in bytes |
//!
//! Time comes in as an argument: a [`Duration`](std::time::Duration) since any fixed moment.

mod follower;
mod isr;
mod leader;
pub mod message;

pub use follower::{FollowerStep, LeaderAnswer, after_answer};
pub use isr::{IsrProposal, ProposedReplica};
pub use leader::{
    FollowerFetch, FollowerLimits, Leader, LeaderStart, LocalTail, Membership, ReadableFollower,
};
