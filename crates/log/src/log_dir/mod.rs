//! A directory of logs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use logway_model::{DirectoryId, Offset, TopicId, TopicPartition};

use crate::checkpoint::{LeaderEpochCache, PartitionMetadata};
use crate::fs::FileLock;
use crate::log::{Log, LogIdentity};
use crate::producer_state::ProducerStateTable;
use crate::segment::Segment;
use crate::view::{LogPoint, LogView};
use crate::writer::{Command, CommandQueue, Job, JobSender, LogKey, LogTail, OpenedTail};
use crate::{Completion, LogConfig, LogError, LogMetrics, RecoveryReport};
use random::random_bits;

pub use options::LogDirOptions;

mod open;
mod options;
mod random;

/// A directory of logs, the thread that writes them, and the lock that keeps others away.
///
/// Dropping it stops the writer at once, as a crash would; [`LogDir::close`] is the orderly way,
/// after which the next start scans nothing.
///
/// Lock order: `changes`, then `logs` or `running`.
pub struct LogDir {
    options: LogDirOptions,
    directory_id: DirectoryId,
    report: RecoveryReport,
    queue: Arc<CommandQueue>,
    logs: RwLock<BTreeMap<TopicPartition, Arc<Log>>>,
    /// One log is created or deleted at a time.
    changes: Mutex<Changes>,
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
    /// The logs that could not be opened, and why.
    failed: BTreeMap<TopicPartition, LogError>,
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
    /// [`LogError::Locked`] if another process has it open, [`LogError::WrongOwner`] if it is
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

    /// Makes the log of a partition, on stable storage; or returns the one that exists, with the
    /// settings that it has.
    ///
    /// # Errors
    ///
    /// [`LogError::InconsistentTopicId`] if the one that exists is of another topic,
    /// [`LogError::Io`]; the error of the log that could not be opened.
    pub fn create_log(
        &self,
        partition: TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<Arc<Log>, LogError> {
        let mut changes = self.changes();
        if let Some(error) = changes.failed.get(&partition) {
            return Err(error.clone());
        }
        if let Some(log) = self.log(&partition) {
            let found = log.topic_id();
            if found != topic_id {
                return Err(LogError::InconsistentTopicId { partition, found, wanted: topic_id });
            }
            return Ok(log);
        }
        let dir: Arc<Path> = self.log_path(&partition).into();
        let segment = self.create_files(&dir, topic_id)?;
        let point = LogPoint { offset: Offset::ZERO, segment: Offset::ZERO, position: 0 };
        let view = LogView {
            segments: Arc::new([Arc::new(segment)]),
            log_start: Offset::ZERO,
            end: point,
            flushed: point,
            epochs: Arc::new(LeaderEpochCache::default()),
        };
        let key = changes.next_key();
        let queue = Arc::clone(&self.queue);
        let identity = LogIdentity { key, partition: partition.clone(), topic_id, queue };
        let log = Arc::new(Log::new(identity, config, view.clone()));
        let producers_max = self.options.producers_per_log_max;
        let tail = LogTail::new(OpenedTail {
            log: Arc::clone(&log),
            fs: Arc::clone(&self.options.fs),
            dir,
            view,
            producers: ProducerStateTable::new(partition.clone(), producers_max),
            is_changed: false,
            needs_dir_sync: false,
            now: self.options.clock.now(),
        });
        self.queue.push(Command::Adopt(Box::new(tail)));
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        logs.insert(partition, Arc::clone(&log));
        Ok(log)
    }

    /// Deletes the log of a partition; success if there is none. It is gone when this returns,
    /// and its files are removed `file.delete.delay.ms` later.
    ///
    /// Appends that wait get [`LogError::Closed`]. Ranges that were read stay readable.
    pub fn delete_log(&self, partition: &TopicPartition) -> Result<(), LogError> {
        let Some((condemned, config)) = self.take_away(partition, CONDEMNED_SUFFIX)? else {
            return Ok(());
        };
        let delay = config.file_delete_delay();
        if let Some(running) = &*self.running() {
            running.jobs.send(Job::DeleteDir { path: condemned, delay });
        }
        Ok(())
    }

    /// Takes a log out of service and keeps its files, in a directory that is named so that it is
    /// no partition's any more; returns that directory. For a log that nobody knows of: it may be
    /// all that is left of somebody's data.
    pub fn set_aside(&self, partition: &TopicPartition) -> Result<Option<PathBuf>, LogError> {
        Ok(self.take_away(partition, STRAY_SUFFIX)?.map(|(path, _)| path))
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
    /// shutdown, stops the writer, and lets others open the directory. Appends that come later
    /// get [`LogError::Closed`]; reads go on.
    ///
    /// An error means that the next start has to scan.
    pub fn close(&self) -> Result<(), LogError> {
        let (done, completion) = Completion::new(&self.name());
        self.queue.push(Command::Close { done });
        let result = completion.wait();
        self.stop();
        result
    }

    /// Closes a log and renames its directory; returns the new name and the log's settings, or
    /// `None` if there is no such log.
    fn take_away(
        &self,
        partition: &TopicPartition,
        suffix: &str,
    ) -> Result<Option<(PathBuf, Arc<LogConfig>)>, LogError> {
        let mut changes = self.changes();
        let log = {
            let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
            logs.remove(partition)
        };
        let config = match &log {
            Some(log) => {
                self.release(log);
                log.config()
            }
            None if changes.failed.remove(partition).is_some() => {
                Arc::clone(&self.options.default_config)
            }
            None => return Ok(None),
        };
        let (fs, root) = (&self.options.fs, &self.options.path);
        let path = self.log_path(partition);
        let renamed = root.join(name_out_of_service(partition, suffix));
        if let Err(error) = fs.rename(&path, &renamed).map_err(LogError::io("rename", &path)) {
            // Its directory is still there: no other log may be made in it.
            changes.failed.insert(partition.clone(), error.clone());
            return Err(error);
        }
        fs.sync_dir(root).map_err(LogError::io("sync", root))?;
        Ok(Some((renamed, config)))
    }

    /// Takes a log away from the writer. It waits until no checkpoint speaks of the log, lest a
    /// log made later under the same name inherit its recovery point.
    fn release(&self, log: &Log) {
        log.mark_closed();
        let (done, completion) = Completion::new(log.name());
        self.queue.push(Command::Release { key: log.key(), done });
        if let Err(error) = completion.wait() {
            let partition = log.name();
            tracing::warn!(%partition, %error, "a deleted log is still in the checkpoints");
        }
    }

    /// Makes the directory of a log with an empty segment, durably.
    fn create_files(&self, dir: &Path, topic_id: TopicId) -> Result<Segment, LogError> {
        let (fs, root) = (&self.options.fs, &self.options.path);
        fs.create_dir_all(dir).map_err(LogError::io("create", dir))?;
        let segment = Segment::create(fs, dir, Offset::ZERO)?;
        // This syncs the directory, and so the segment's name.
        let metadata = PartitionMetadata { topic_id };
        metadata.write(&**fs, &dir.join(PartitionMetadata::FILE))?;
        fs.sync_dir(root).map_err(LogError::io("sync", root))?;
        Ok(segment)
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

    fn log_path(&self, partition: &TopicPartition) -> PathBuf {
        self.options.path.join(partition.to_string())
    }

    fn name(&self) -> Arc<str> {
        self.options.path.display().to_string().into()
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        // What it guards is right after each single step.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        self.queue.push(Command::Abort);
        self.stop();
    }
}

impl fmt::Debug for LogDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogDir").field("path", &self.options.path).finish_non_exhaustive()
    }
}

/// What the name of a deleted log's directory ends with.
const CONDEMNED_SUFFIX: &str = "-delete";

/// What the name of the directory of a log that was set aside ends with.
const STRAY_SUFFIX: &str = "-stray";

/// A name for the directory of a log out of service, as Kafka makes it:
/// `topic-0.0123…cdef-delete`, with the beginning cut so that it is a file name.
fn name_out_of_service(partition: &TopicPartition, suffix: &str) -> String {
    const NAME_MAX_BYTES: usize = 255;
    let unique = u128::from_be_bytes(random_bits());
    let suffix = format!(".{unique:032x}{suffix}");
    let mut name = partition.to_string();
    name.truncate(NAME_MAX_BYTES - suffix.len());
    name + &suffix
}

#[cfg(test)]
mod tests {
    use logway_model::{PartitionId, TopicName};

    use super::*;

    #[test]
    fn the_name_of_a_deleted_log_fits_and_is_no_partitions() {
        let topic = TopicName::new(&"x".repeat(249)).expect("a good name");
        let name = name_out_of_service(
            &TopicPartition::new(topic, PartitionId(1_000_000)),
            CONDEMNED_SUFFIX,
        );
        assert_eq!(name.len(), 255);
        assert!(name.ends_with(CONDEMNED_SUFFIX));
        assert_eq!(TopicPartition::from_dir_name(&name), None);
    }
}
