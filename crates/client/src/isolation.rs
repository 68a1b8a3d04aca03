//! What readers see of transactions.

use crate::OffsetAt;

/// What a reader sees of transactions (`isolation.level`, KIP-98).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All records, also of transactions that are open or were aborted.
    #[default]
    ReadUncommitted,
    /// No record of a transaction before it is committed; so nothing behind the first that is open.
    ReadCommitted,
}

impl Isolation {
    /// The number in requests.
    pub(crate) fn to_wire(self) -> i8 {
        match self {
            Isolation::ReadUncommitted => 0,
            Isolation::ReadCommitted => 1,
        }
    }

    /// How far a reader can read.
    pub(crate) fn end(self) -> OffsetAt {
        match self {
            Isolation::ReadUncommitted => OffsetAt::End,
            Isolation::ReadCommitted => OffsetAt::StableEnd,
        }
    }
}
