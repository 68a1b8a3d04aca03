//! What a shard wants done.

use std::convert::Infallible;

use crate::record::GroupRecord;
use crate::request::{Reply as GroupReply, RequestToken};
use crate::transactions::{Producer, TransactionOutcome};
use logway_model::TransactionVersion;

/// The shard's name for records that it wants appended; they rise from append to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommitToken(pub u64);

/// The end of a transaction, as it is written into the log of a partition that the transaction has written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// Whose transaction. The epoch is that of the end, which can be higher than that of the records.
    pub producer: Producer,
    /// How it has ended.
    pub outcome: TransactionOutcome,
    /// The leader epoch of the transaction coordinator: one that is over writes no markers any more.
    pub coordinator_epoch: i32,
    /// The protocol of the transaction.
    pub version: TransactionVersion,
}

/// What records are part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InTransaction {
    /// Whose transaction.
    pub producer: Producer,
    /// Proves that the transaction coordinator was asked, and that the transaction has not ended since; a number of the
    /// driver's. `None` where the log has the transaction open already.
    pub guard: Option<u64>,
}

/// Something for the driver to do, in the order in which the shard says so. Without parameters, of a
/// [`GroupShard`](crate::GroupShard).
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<Reply = GroupReply, Record = GroupRecord, Errand = Infallible> {
    /// Append the records as one batch to the shard's partition, behind those of all earlier tokens, and tell
    /// [`GroupShard::appended`](crate::GroupShard::appended) when they are durable or have failed.
    Append {
        /// To be told with the outcome.
        token: CommitToken,
        /// At least one.
        records: Vec<Record>,
    },
    /// The same for records that count when the transaction of a producer is committed.
    AppendInTransaction {
        /// To be told with the outcome.
        token: CommitToken,
        /// Which.
        part: InTransaction,
        /// At least one.
        records: Vec<Record>,
    },
    /// The same for the end of a transaction.
    AppendMarker {
        /// To be told with the outcome.
        token: CommitToken,
        /// What is written.
        marker: Marker,
    },
    /// Have others do something, and tell the shard when it is done.
    Errand(Errand),
    /// Send the reply; it is the only one to its request.
    Reply {
        /// The request's.
        token: RequestToken,
        /// The answer.
        reply: Reply,
    },
}
