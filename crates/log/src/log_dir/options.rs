//! How to open a log directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use logway_model::{BrokerId, ClusterId, DirectoryId};

use crate::fs::{Fs, RealFs};
use crate::{Clock, FailureListener, LogConfig, SystemClock};

/// How to open a [`LogDir`](crate::LogDir).
#[derive(Clone)]
pub struct LogDirOptions {
    /// The directory; it is created if need be.
    pub path: PathBuf,
    /// The broker; a directory of another one is refused.
    pub node_id: BrokerId,
    /// The cluster; a directory of another one is refused.
    pub cluster_id: ClusterId,
    /// The id for a directory that has none yet; `None` for a random one.
    pub new_directory_id: Option<DirectoryId>,
    /// Told when the directory fails.
    pub failure_listener: Option<FailureListener>,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The settings of logs found in the directory, until
    /// [`Log::set_config`](crate::Log::set_config).
    pub default_config: Arc<LogConfig>,
    /// How many bytes of appends the writer takes from its queue for one round of syncs: what a
    /// waiting append has at most before it.
    pub burst_bytes_max: usize,
    /// How many bytes of appends may wait for the writer; further ones are refused, but for one that
    /// would wait alone. As many may be in its hands.
    pub queue_bytes_max: usize,
    /// `log.flush.offset.checkpoint.interval.ms`: how often recovery points are written down.
    pub checkpoint_interval: Duration,
    /// `replica.high.watermark.checkpoint.interval.ms`: how often high watermarks are written down that
    /// have changed.
    pub high_watermark_interval: Duration,
    /// `log.retention.check.interval.ms`: how often old segments are looked for.
    pub retention_check_interval: Duration,
    /// `producer.id.expiration.ms`: how long an idle idempotent producer is remembered.
    pub producer_expiration_ms: i64,
    /// How many idempotent producers a log remembers.
    pub producers_per_log_max: usize,
    /// How many idempotent producers all logs remember together, each counted once for each log.
    /// One takes 250 to 500 bytes, so that the default is 100 MB at most. When there are more, those
    /// that have not written for the longest are forgotten before their
    /// `producer.id.expiration.ms`; they go on without an error, but a batch that they had sent
    /// before and send again is not known for a duplicate.
    pub producers_max: usize,
    /// How many threads the writer has to sync several logs at the same time.
    pub sync_threads_max: usize,
    /// `logway.journal.bytes`: the size of the journal that synced rounds of several logs share; 0 for
    /// none.
    pub journal_bytes: u64,
    /// The journal is made when so many rounds would have been faster with it, and rounds of one log use
    /// it when so many came in a row.
    pub journal_after_rounds: u32,
    /// A log whose last segment is as large is not synced while it is opened after a crash, but by
    /// [`LogDir::create_logs`](crate::LogDir::create_logs), if its settings want that.
    pub sync_later_bytes: u64,
    /// So many bytes at the end of a segment are checked to the last one also if the process alone
    /// was killed, and the page cache is as it was.
    pub checked_bytes_min: u64,
    /// `num.recovery.threads.per.data.dir`: how many logs are opened at the same time.
    pub recovery_threads: usize,
}

impl LogDirOptions {
    /// Kafka's defaults, on the machine's own file system and clock.
    pub fn new(
        path: impl Into<PathBuf>,
        node_id: BrokerId,
        cluster_id: ClusterId,
    ) -> LogDirOptions {
        LogDirOptions {
            path: path.into(),
            node_id,
            cluster_id,
            new_directory_id: None,
            failure_listener: None,
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock),
            default_config: Arc::new(LogConfig::default()),
            burst_bytes_max: 64 << 20,
            queue_bytes_max: 256 << 20,
            checkpoint_interval: Duration::from_secs(60),
            high_watermark_interval: Duration::from_secs(5),
            retention_check_interval: Duration::from_secs(5 * 60),
            producer_expiration_ms: 24 * 60 * 60 * 1000,
            producers_per_log_max: 100_000,
            producers_max: 200_000,
            sync_threads_max: 16,
            journal_bytes: 0,
            journal_after_rounds: 100,
            sync_later_bytes: 1 << 20,
            checked_bytes_min: 1 << 20,
            recovery_threads: 4,
        }
    }
}
