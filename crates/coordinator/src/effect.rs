//! What a shard wants done.

use crate::record::GroupRecord;
use crate::request::{Reply as GroupReply, RequestToken};

/// The shard's name for records that it wants appended; they rise from append to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommitToken(pub u64);

/// Something for the driver to do, in the order in which the shard says so. Without parameters, of a
/// [`GroupShard`](crate::GroupShard).
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<Reply = GroupReply, Record = GroupRecord> {
    /// Append the records as one batch to the shard's partition, behind those of all earlier tokens, and tell
    /// [`GroupShard::appended`](crate::GroupShard::appended) when they are durable or have failed.
    Append {
        /// To be told with the outcome.
        token: CommitToken,
        /// At least one.
        records: Vec<Record>,
    },
    /// Send the reply; it is the only one to its request.
    Reply {
        /// The request's.
        token: RequestToken,
        /// The answer.
        reply: Reply,
    },
}
