//! Who appends.

use logway_model::{Offset, TransactionVersion};

use super::verification::VerificationGuard;

/// Who appends batches, which says what is asked of those that are part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AppendOrigin {
    /// A client. Its batches go on with a transaction that is open here, or are part of none.
    #[default]
    Client,
    /// A client that has read all up to an offset. Its batches are appended if the log ends there, else not at all.
    ClientAt(Offset),
    /// A client, and the transaction coordinator was asked: the partition is part of the producer's open transaction. See
    /// [`Log::begin_verification`](crate::Log::begin_verification).
    Verified(VerificationGuard),
    /// A coordinator of this node, which knows what it does.
    Coordinator,
    /// The transaction coordinator, which ends transactions of this version. All batches are markers.
    Markers(TransactionVersion),
}
