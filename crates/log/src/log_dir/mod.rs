//! A directory of logs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use logway_model::{DirectoryId, TimestampMs, TopicPartition};

use crate::checkpoint::segment_lists::SegmentLists;
use crate::dir_syncs::DirSyncs;
use crate::fs::{FileLock, Fs};
use crate::high_watermarks::HighWatermarks;
use crate::log::Log;
use crate::log_state::LogKey;
use crate::producer_state::ProducerLimits;
use crate::writer::{Command, CommandQueue, JobSender};
use crate::{Completion, LogError, LogMetrics, RecoveryReport};

use cleaning::Cleaning;
pub use cleaning::CompactionPause;
pub(crate) use cleaning::{CleaningProgress, Starved, Visit};
pub use create::NewLog;
use failed::FailedLog;
pub use options::LogDirOptions;
pub use truncate::Truncation;

mod cleaning;
mod copy;
mod create;
mod delete;
mod failed;
mod journalled;
mod open;
mod opened;
mod options;
mod remembered;
mod truncate;

/// A directory of logs, the thread that writes them, and the lock that keeps others away.
///
/// Dropping it stops the writer at once, as a crash would; [`LogDir::close`] is the orderly way,
/// after which the next start scans nothing.
///
/// Lock order: `changes`, then `logs`, `running`, `lists` or the cleaning's own, of which none is taken
/// under another; then that of `root_syncs`.
pub struct LogDir {
    options: LogDirOptions,
    directory_id: DirectoryId,
    report: RecoveryReport,
    queue: Arc<CommandQueue>,
    root_syncs: Arc<DirSyncs>,
    producer_limits: ProducerLimits,
    producer_expiration_ms: Arc<AtomicI64>,
    logs: RwLock<BTreeMap<TopicPartition, Arc<Log>>>,
    /// Logs are made, opened and deleted by one caller at a time, and by none while the directory
    /// closes or later.
    changes: Mutex<Changes>,
    /// The lists of segments as they are on disk; held while they are written.
    lists: Mutex<SegmentLists>,
    high_watermarks: Arc<HighWatermarks>,
    /// What is known of the compaction of logs, and who is at it.
    cleaning: Cleaning,
    /// What ends with the writer; `None` once it has ended.
    running: Mutex<Option<Running>>,
}

/// What a log directory has while it is open.
struct Running {
    writer: JoinHandle<()>,
    jobs: JobSender,
    /// Keeps others away.
    lock: FileLock,
}

/// What whoever creates or deletes a log needs.
#[derive(Debug, Default)]
struct Changes {
    next_key: u64,
    /// The logs that could not be opened or deleted: no other may be made in their place.
    failed: BTreeMap<TopicPartition, FailedLog>,
    /// The directory is closed: its files may be somebody else's by now.
    is_closed: bool,
}

impl Changes {
    fn next_key(&mut self) -> LogKey {
        self.next_key += 1;
        LogKey(self.next_key)
    }
}

impl LogDir {
    /// Opens a directory, which is created if need be, recovers its logs and starts its writer
    /// thread.
    ///
    /// A log that cannot be opened does not keep the others from it: see
    /// [`RecoveryReport::failed`].
    ///
    /// # Errors
    ///
    /// [`LogError::Locked`] if another process has it open, [`LogError::IdentityMissing`] if
    /// `meta.properties` is missing and there are logs, [`LogError::WrongOwner`] if it is
    /// another broker's or cluster's, [`LogError::Malformed`] if `meta.properties` is damaged,
    /// [`LogError::Io`].
    pub fn open(options: LogDirOptions, metrics: LogMetrics) -> Result<LogDir, LogError> {
        open::open(options, metrics)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    /// The id that the directory was given when it was made.
    pub fn directory_id(&self) -> DirectoryId {
        self.directory_id
    }

    /// What opening found and did.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// For how long the writer has been doing the round that it does; zero if it does none. A disk that hangs holds
    /// it up: nothing that was appended since then is in any log yet.
    pub fn in_round_for(&self) -> Duration {
        let began = self.queue.round_began();
        let now = self.options.clock.instant();
        began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }

    /// All logs, in the order of their partitions.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.values().cloned().collect()
    }

    /// The log of a partition.
    pub fn log(&self, partition: &TopicPartition) -> Option<Arc<Log>> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.get(partition).cloned()
    }

    /// Why the log of a partition is offline that the directory has or should have; `None` if it
    /// is open, or the directory knows nothing of it.
    pub fn failed_log(&self, partition: &TopicPartition) -> Option<LogError> {
        self.changes().failed.get(partition).map(|failed| failed.error.clone())
    }

    /// How many logs there are, with those that could not be opened.
    pub fn log_count(&self) -> usize {
        let failed = self.changes().failed.len();
        failed + self.logs.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many idempotent producers all logs remember together, each counted once for each log.
    pub fn producer_count(&self) -> usize {
        self.producer_limits.known()
    }

    /// Changes how long idle idempotent producers are remembered, from
    /// [`LogDirOptions::producer_expiration_ms`].
    pub fn set_producer_expiration_ms(&self, expiration_ms: i64) {
        self.producer_expiration_ms.store(expiration_ms, Ordering::Relaxed);
    }

    /// Whether the writer thread works; without it nothing can be appended.
    pub fn is_running(&self) -> bool {
        self.running().as_ref().is_some_and(|running| !running.writer.is_finished())
    }

    /// Deletes what is past its retention in all logs now, as the timer does every
    /// [`LogDirOptions::retention_check_interval`]; answers when the new log starts are on stable
    /// storage.
    pub fn enforce_retention(&self) -> Completion<()> {
        let (done, completion) = Completion::new(&self.name());
        self.queue.push(Command::EnforceRetention { done });
        completion
    }

    /// Answers what waits, flushes all logs, writes all checkpoints and the mark of a clean
    /// shutdown, stops the writer, and lets others open the directory. Logs that are being made,
    /// opened or deleted are waited for. Appends and changes that come later get
    /// [`LogError::Closed`]; reads go on.
    ///
    /// An error means that the next start has to scan.
    pub fn close(&self) -> Result<(), LogError> {
        // To the end: a log that came meanwhile would be unknown to what the close writes down,
        // and one that came later would be in a directory that others may have opened.
        let mut changes = self.changes();
        self.check_open(&changes)?;
        changes.is_closed = true;
        self.cleaning.close();
        self.cleaning.wait_until_left();
        let (done, completion) = Completion::new(&self.name());
        self.queue.push(Command::Close { done });
        let result = completion.wait();
        self.stop();
        result
    }

    /// Stops the writer at once, as a crash would, and lets others open the directory: for one
    /// whose disk has failed. Appends that wait, and those that come later, get
    /// [`LogError::Closed`].
    pub fn abort(&self) {
        self.cleaning.close();
        // At once: a disk that has failed may not answer those who read it for long.
        self.queue.push(Command::Abort);
        // The lock is not released before: the files would be somebody else's.
        self.cleaning.wait_until_left();
        self.stop();
    }

    /// Waits until the writer has ended, and releases the lock.
    fn stop(&self) {
        let Some(Running { writer, jobs, lock }) = self.running().take() else { return };
        drop(jobs);
        if writer.join().is_err() {
            tracing::error!(dir = %self.options.path.display(), "the writer has panicked");
        }
        drop(lock);
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file system that the directory is on.
    pub(crate) fn fs(&self) -> &Arc<dyn Fs> {
        &self.options.fs
    }

    /// The time, as the writer sees it.
    pub(crate) fn now(&self) -> TimestampMs {
        self.options.clock.now()
    }

    /// Hands commands to the writer, with none of others between them.
    pub(crate) fn push_all(&self, commands: Vec<Command>) {
        self.queue.push_all(commands);
    }

    /// Whether a log is written by the writer of this directory.
    pub(crate) fn is_writer_of(&self, log: &Log) -> bool {
        log.is_of(&self.queue)
    }

    fn log_path(&self, partition: &TopicPartition) -> PathBuf {
        self.options.path.join(partition.to_string())
    }

    fn name(&self) -> Arc<str> {
        self.options.path.display().to_string().into()
    }

    /// [`LogError::Closed`] if the directory is closed.
    fn check_open(&self, changes: &Changes) -> Result<(), LogError> {
        match changes.is_closed {
            true => Err(LogError::Closed { what: self.name().to_string() }),
            false => Ok(()),
        }
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        // What it guards is right after each single step.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for LogDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogDir").field("path", &self.options.path).finish_non_exhaustive()
    }
}
