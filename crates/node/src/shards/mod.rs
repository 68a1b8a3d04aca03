//! Drives the shards of coordinators: of groups, and of whatever else is a [`StateMachine`].
//!
//! A shard is the coordinator of one partition in one leader epoch. One task owns it: requests, timeouts
//! and finished appends go in, appends and replies come out. It begins when this node begins to lead the
//! partition and its log is read from the start; until then its clients are told to wait. It ends when the
//! epoch does.
//!
//! | file | idea |
//! |---|---|
//! | [`table`] | which shards there are |
//! | [`driver`] | the task, and the handle by which others reach it |
//! | [`pending`] | questions to shards, and their answers on the way |
//! | [`loading`] | reading a shard's records back |
//! | [`appends`], [`batches`] | what a shard writes down |
//! | [`waiting`] | who waits for a shard's replies |
//! | [`clock`] | the time by which a shard judges its clients |
//!
//! [`StateMachine`]: logway_coordinator::StateMachine

mod appends;
mod batches;
mod clock;
mod driver;
mod loading;
mod pending;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use driver::{Command, WeakShardHandle, new};
pub use pending::{Measured, Measuring, Pending, Question, ShardOutcome};
pub(crate) use table::ShardTable;
