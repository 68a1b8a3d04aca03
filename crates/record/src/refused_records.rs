//! Records for which a leader refuses a batch that is sound otherwise.

use std::fmt;

use logway_model::TimestampMs;

/// All records of a batch that break a rule of the topic, each by itself (KIP-467).
///
/// A batch can have very many of them: the first ones are listed, and all are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedRecords {
    listed: Vec<RefusedRecord>,
    count: usize,
    is_timestamp_wrong: bool,
}

/// One such record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedRecord {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub fault: RecordFault,
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// Compaction keeps the last record of each key, so that there must be one.
    #[error("it has no key, and the topic is compacted")]
    MissingKey,

    /// Outside what `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms` allow.
    #[error("its timestamp {timestamp} is not within {earliest} and {latest}")]
    TimestampOutOfRange {
        /// The timestamp that is.
        timestamp: TimestampMs,
        /// The earliest that is allowed.
        earliest: TimestampMs,
        /// The latest that is allowed.
        latest: TimestampMs,
    },
}

impl RefusedRecords {
    /// How many are listed.
    pub const LISTED_MAX: usize = 400;

    pub(crate) fn add(&mut self, index: usize, fault: RecordFault) {
        self.count += 1;
        self.is_timestamp_wrong |= matches!(fault, RecordFault::TimestampOutOfRange { .. });
        if self.listed.len() < RefusedRecords::LISTED_MAX {
            self.listed.push(RefusedRecord { index, fault });
        }
    }

    /// Gives up the list but for its first `max`.
    pub fn shorten_list(&mut self, max: usize) {
        self.listed.truncate(max);
        self.listed.shrink_to_fit();
    }

    /// The first ones, in their order.
    pub fn listed(&self) -> &[RefusedRecord] {
        &self.listed
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether one of them, listed or not, has a timestamp that is not allowed.
    pub fn is_timestamp_wrong(&self) -> bool {
        self.is_timestamp_wrong
    }
}

impl fmt::Display for RefusedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(RefusedRecord { index, fault }) = self.listed.first() else {
            return f.write_str("no record is refused");
        };
        match self.count {
            1 => write!(f, "record {index} of the batch is refused: {fault}"),
            count => write!(
                f,
                "{count} records of the batch are refused; the first of them is record {index}: \
                 {fault}"
            ),
        }
    }
}
