//! The settings of one log.

use std::time::Duration;

use logway_record::{TargetCompression, TimestampType};

/// The settings of one log, named and defaulted as Kafka's topic settings are.
///
/// One default differs: [`LogConfig::flush_messages`] is 1, so that an acknowledgement means that
/// the records are on stable storage. The bounds are the broker's business, which reads the
/// settings; here every value is taken as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment that would grow past this is rolled before the append.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment whose first record is older than this is rolled.
    pub segment_ms: u64,
    /// `segment.jitter.ms`: at most this is taken off [`LogConfig::segment_ms`], by a different
    /// amount for each log, so that the logs of a broker do not all roll at once.
    pub segment_jitter_ms: u64,
    /// `segment.index.bytes`: a segment whose offset or time index would grow past this is rolled.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: at least this much of a segment lies between two index entries.
    pub index_interval_bytes: u32,
    /// `cleanup.policy`: what happens to old records.
    pub cleanup: CleanupPolicy,
    /// `min.compaction.lag.ms`: compaction leaves segments alone that have younger records.
    pub min_compaction_lag_ms: u64,
    /// `max.compaction.lag.ms`: records are compacted at the latest when they are so old.
    pub max_compaction_lag_ms: u64,
    /// `min.cleanable.dirty.ratio`: how much of a log, from 0 to 1, must be new before it is
    /// compacted.
    pub min_cleanable_dirty_ratio: f64,
    /// `delete.retention.ms`: how long a tombstone stays after compaction has first seen it.
    pub delete_retention_ms: u64,
    /// `retention.ms`: a segment whose newest record is older than this is deleted; `None` keeps
    /// records for ever.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`: the oldest segments are deleted while what would remain is at least this
    /// big; `None` is no limit.
    pub retention_bytes: Option<u64>,
    /// `flush.messages`: sync after this many records; 1 makes the topic durable: each append is
    /// on stable storage before it completes.
    pub flush_messages: u64,
    /// `flush.ms`: sync at the latest so long after an append.
    pub flush_ms: u64,
    /// `max.message.bytes`: the longest batch that is accepted.
    pub max_message_bytes: u32,
    /// `compression.type`, with its level: what appended batches of another codec are compressed
    /// with anew; `None` keeps each as it was sent.
    pub compression: Option<TargetCompression>,
    /// `message.timestamp.type`: whose time the records carry.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far in the past a record's `CreateTime` may lie.
    pub timestamp_before_max_ms: u64,
    /// `message.timestamp.after.max.ms`: how far in the future a record's `CreateTime` may lie.
    pub timestamp_after_max_ms: u64,
    /// `file.delete.delay.ms`: how long the files of deleted segments and logs stay on disk.
    pub file_delete_delay_ms: u64,
}

/// `cleanup.policy`: what happens to old records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CleanupPolicy {
    /// Segments past the retention limits are deleted.
    #[default]
    Delete,
    /// The newest record of each key is kept.
    Compact,
    /// Both.
    CompactAndDelete,
}

/// Stands for "never" in the settings that Kafka lets default to its largest number.
pub(crate) const NEVER_MS: u64 = i64::MAX as u64;

const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: WEEK_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            cleanup: CleanupPolicy::Delete,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: NEVER_MS,
            min_cleanable_dirty_ratio: 0.5,
            delete_retention_ms: 24 * 60 * 60 * 1000,
            retention_ms: Some(WEEK_MS),
            retention_bytes: None,
            flush_messages: 1,
            flush_ms: NEVER_MS,
            max_message_bytes: 1024 * 1024 + 12,
            compression: None,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: NEVER_MS,
            timestamp_after_max_ms: 60 * 60 * 1000,
            file_delete_delay_ms: 60_000,
        }
    }
}

impl LogConfig {
    /// Whether an append completes only when it is on stable storage.
    pub fn is_durable(&self) -> bool {
        self.flush_messages <= 1
    }

    /// Whether records need keys, because the newest of each key is kept.
    pub fn is_compacted(&self) -> bool {
        matches!(self.cleanup, CleanupPolicy::Compact | CleanupPolicy::CompactAndDelete)
    }

    /// Whether segments past the retention limits are deleted.
    pub fn deletes_old_segments(&self) -> bool {
        matches!(self.cleanup, CleanupPolicy::Delete | CleanupPolicy::CompactAndDelete)
    }

    /// How long the files of deleted segments and logs stay on disk.
    pub(crate) fn file_delete_delay(&self) -> Duration {
        Duration::from_millis(self.file_delete_delay_ms)
    }
}
