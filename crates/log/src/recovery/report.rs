//! What opening a log directory found and did.

use std::path::PathBuf;
use std::time::Duration;

use logway_model::{Offset, TopicPartition};

use crate::LogError;

/// What opening a log directory found and did.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    /// Whether the directory had been closed in good order, so that nothing had to be scanned.
    pub was_clean: bool,
    /// How many logs were opened.
    pub opened_logs: usize,
    /// How many logs were scanned.
    pub scanned_logs: usize,
    /// How many bytes of batches were scanned.
    pub scanned_bytes: u64,
    /// How long it all took.
    pub elapsed: Duration,
    /// What was out of order.
    pub findings: Vec<Finding>,
    /// The logs that could not be opened; their directories are as they were.
    pub failed: Vec<(TopicPartition, LogError)>,
}

/// Something out of order in a log directory.
#[derive(Debug, Clone)]
pub enum Finding {
    /// The end of a log was no whole batch: a write that a crash cut off, which nobody was told
    /// had succeeded. It was removed.
    TailTruncated {
        /// The segment.
        path: PathBuf,
        /// What remains of it, in bytes.
        kept_bytes: u64,
        /// What was removed, in bytes.
        removed_bytes: u64,
        /// Why the first of the removed batches is none.
        reason: String,
    },
    /// A segment behind a truncated end was removed: it continued what is no longer there.
    SegmentRemoved {
        /// The segment.
        path: PathBuf,
        /// Its size.
        removed_bytes: u64,
    },
    /// Bytes that had been on stable storage, or that good batches follow, are not the batches
    /// that were written. They stay where they are, and what comes behind them can be read.
    Corruption {
        /// The segment.
        path: PathBuf,
        /// Where the damage begins, in bytes from the file's start.
        position: u64,
        /// Where the next good batch begins, or the file ends.
        resumed_position: u64,
        /// The first offset that cannot be read.
        offset: Offset,
        /// What is wrong with the first bad batch.
        reason: String,
    },
    /// Records that had been on stable storage are not there any more: a segment was removed,
    /// emptied or cut short. Readers get on with what comes behind them.
    Missing {
        /// The segment.
        path: PathBuf,
        /// The first offset that is missing.
        from: Offset,
        /// The offset after the last one.
        to: Offset,
    },
    /// The checkpoint has the log start behind the log's end. It is not believed: the log starts
    /// where its first segment does.
    ImpossibleLogStart {
        /// The log start in the checkpoint.
        claimed: Offset,
        /// The end of what is there.
        end: Offset,
    },
    /// A file that can be made again from the batches, and was.
    Rebuilt {
        /// What was wrong with it.
        error: LogError,
    },
}
