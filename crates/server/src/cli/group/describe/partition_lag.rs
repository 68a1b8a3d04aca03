//! How far a group is behind in one partition.

use logway_model::Offset;
use schemars::JsonSchema;
use serde::Serialize;

/// A partition that a group has committed an offset of, or has a member for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct PartitionLag {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// `null` if the group has committed nothing
    pub(super) committed_offset: Option<i64>,
    /// What was committed beside the offset
    pub(super) metadata: String,
    /// `null` if the partition does not exist or has no leader
    pub(super) start_offset: Option<i64>,
    /// `null` if the partition does not exist or has no leader
    pub(super) end_offset: Option<i64>,
    /// Records that are there and have not been read; `null` if it is not known
    pub(super) lag: Option<u64>,
    /// The age of the oldest of them
    pub(super) lag_seconds: Option<f64>,
    /// Of the member that reads it; `null` if there is none
    pub(super) client_id: Option<String>,
    /// Of that member
    pub(super) host: Option<String>,
    /// Of that member
    pub(super) member_id: Option<String>,
}

/// Where a group stands in what a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It will read on at `next`, and `records` are left to read.
    Behind {
        /// The first offset that it has not read and that is still there.
        next: Offset,
        /// How many offsets there are from there.
        records: u64,
    },
    /// It has committed an offset that does not exist yet, as after a topic was created anew.
    BeyondTheEnd,
}

impl Standing {
    /// Compares a committed offset with the first offset there and the one after the last.
    ///
    /// What retention has taken before the group could read it is no lag: it will not be read.
    pub(super) fn new(committed: Offset, start: Offset, end: Offset) -> Standing {
        let next = committed.max(start);
        match u64::try_from(end - next) {
            Ok(records) => Standing::Behind { next, records },
            Err(_) => Standing::BeyondTheEnd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_that_are_there_count() {
        let standing = |committed| Standing::new(Offset(committed), Offset(10), Offset(20));
        for (committed, next, records) in [(0, 10, 10), (10, 10, 10), (15, 15, 5), (20, 20, 0)] {
            let expected = Standing::Behind { next: Offset(next), records };
            assert_eq!(standing(committed), expected, "{committed}");
        }
        assert_eq!(standing(21), Standing::BeyondTheEnd);
    }
}
