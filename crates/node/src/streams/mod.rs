//! What streams need of a node beyond topics: the ends of closed shards, and partitions wherever they are led.
//!
//! | file | idea |
//! |---|---|
//! | [`shard_ends`] | the leader of a closed shard tells where it ends |
//! | [`deletions`] | streams that are to be deleted, when their time is over |
//! | [`anywhere`] | appending to, reading and searching a partition, here or by way of its leader |
//! | [`shard_meters`] | what clients of streams may do with a shard in a second |
//! | [`committed`] | what readers get who know nothing of transactions |
//! | [`message`] | what nodes say to each other about that, in bytes |

pub mod anywhere;
mod committed;
mod deletions;
mod message;
mod shard_ends;
mod shard_meters;

pub(crate) use deletions::delete_streams;
pub(crate) use shard_ends::ShardEnds;
pub use shard_meters::Demand;
pub(crate) use shard_meters::ShardMeters;
