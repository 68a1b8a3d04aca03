//! The identity of an idempotent producer (KIP-98), and the protocol of its transactions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names a producer session; given out by InitProducerId, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProducerId(pub i64);

impl ProducerId {
    /// What batches of producers without idempotence carry.
    pub const NONE: ProducerId = ProducerId(-1);

    /// Whether this names a producer.
    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Fences earlier incarnations of a producer id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(pub i16);

impl ProducerEpoch {
    /// What batches of producers without idempotence carry.
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
}

impl fmt::Display for ProducerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The protocol of a transaction: `transaction.version` (KIP-890).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionVersion(pub i16);

impl TransactionVersion {
    /// That of clients which end transactions by EndTxn below version 5: their epoch stays.
    pub const CLASSIC: TransactionVersion = TransactionVersion(0);

    /// Each end of a transaction raises the epoch, and Produce adds partitions.
    pub const EPOCH_BUMP: TransactionVersion = TransactionVersion(2);

    /// Whether each end of a transaction raises the epoch.
    pub fn bumps_epoch(self) -> bool {
        self >= TransactionVersion::EPOCH_BUMP
    }
}

/// The number of a record within one producer epoch and partition: 0 first, and after
/// `i32::MAX` 0 again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence(pub i32);

impl Sequence {
    /// What batches of producers without idempotence carry.
    pub const NONE: Sequence = Sequence(-1);

    /// The sequence `records` further on, wrapped as Kafka wraps it.
    ///
    /// Both must be non-negative.
    #[must_use]
    pub fn advance(self, records: i32) -> Sequence {
        debug_assert!(self.0 >= 0 && records >= 0);
        let sum = i64::from(self.0) + i64::from(records);
        let wrapped = sum % (i64::from(i32::MAX) + 1);
        Sequence(i32::try_from(wrapped).expect("a remainder by 2^31 fits"))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Sequence;

    #[test]
    fn a_sequence_wraps_to_zero_after_its_maximum() {
        assert_eq!(Sequence(0).advance(5), Sequence(5));
        assert_eq!(Sequence(i32::MAX).advance(1), Sequence(0));
        assert_eq!(Sequence(i32::MAX - 1).advance(3), Sequence(1));
    }
}
