//! Positions in a log and in time.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// The position of a record in a partition: 0 for the first, without gaps as appended.
///
/// An end offset (log end, high watermark, flushed offset) is exclusive: it is the offset that
/// the next record has or would have.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Offset(pub i64);

impl Offset {
    /// The first offset of a new log.
    pub const ZERO: Offset = Offset(0);

    /// No log gets here: at a billion records a second that takes 146 years. Whatever is read from
    /// a disk and says so is damaged; refused, it leaves room for all arithmetic.
    pub const LIMIT: Offset = Offset(1 << 62);

    /// The offset after this one.
    #[must_use]
    pub fn next(self) -> Offset {
        Offset(self.0 + 1)
    }
}

impl Add<i64> for Offset {
    type Output = Offset;

    fn add(self, records: i64) -> Offset {
        Offset(self.0 + records)
    }
}

impl Sub for Offset {
    type Output = i64;

    fn sub(self, earlier: Offset) -> i64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the leaders a partition has had (KIP-101); stamped into each batch by the leader.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct LeaderEpoch(pub i32);

impl LeaderEpoch {
    /// What clients and old batches send when they know no epoch.
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since the Unix epoch, as records carry them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct TimestampMs(pub i64);

impl TimestampMs {
    /// A record without a timestamp.
    pub const NONE: TimestampMs = TimestampMs(-1);
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
