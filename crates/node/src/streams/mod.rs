//! What streams need of a node beyond topics: the ends of closed shards, and partitions wherever they are led.
//!
//! | file | idea |
//! |---|---|
//! | [`shard_ends`] | the leader of a closed shard tells where it ends |
//! | [`anywhere`] | appending to, reading and searching a partition, here or by way of its leader |
//! | [`message`] | what nodes say to each other about that, in bytes |

pub mod anywhere;
mod message;
mod shard_ends;

pub(crate) use shard_ends::ShardEnds;
