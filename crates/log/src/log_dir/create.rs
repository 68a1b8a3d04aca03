//! Making logs.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use logway_model::{Offset, TopicId, TopicPartition};

use super::failed::FailedLog;
use super::{Changes, LogDir};
use crate::checkpoint::{LeaderEpochCache, MetaProperties, PartitionMetadata, ReplicaMove};
use crate::completion::Completion;
use crate::log::Log;
use crate::log_state::{LogIdentity, LogState};
use crate::producer_state::ProducerStateTable;
use crate::segment::Segment;
use crate::view::{LogPoint, LogView};
use crate::writer::{Command, LogTail, OpenedTail};
use crate::{LogConfig, LogError};

/// A log to be made.
#[derive(Debug, Clone)]
pub struct NewLog {
    /// Its partition.
    pub partition: TopicPartition,
    /// The id of its topic.
    pub topic_id: TopicId,
    /// Its settings.
    pub config: Arc<LogConfig>,
}

/// Logs are made by so many threads: what each waits for, the file system commits for all at once.
const CREATE_THREADS_MAX: usize = 8;

impl LogDir {
    /// Makes the log of a partition; see [`LogDir::create_logs`].
    pub fn create_log(
        &self,
        partition: TopicPartition,
        topic_id: TopicId,
        config: Arc<LogConfig>,
    ) -> Result<Arc<Log>, LogError> {
        let mut logs = self.create_logs(&[NewLog { partition, topic_id, config }]);
        logs.pop().expect("there is a result for each log")
    }

    /// Makes the logs of partitions, on stable storage; of those that exist it returns the
    /// existing ones, with the settings that they have. The results are in the order asked.
    ///
    /// All that a start after a crash has found in logs whose settings ask for syncs is on stable storage
    /// afterwards, so that it may be shown.
    ///
    /// # Errors
    ///
    /// [`LogError::InconsistentTopicId`] if the one that exists is of another topic,
    /// [`LogError::DirectoryEmptied`] if the log directory is not there any more,
    /// [`LogError::Io`]; the error of the log that could not be opened, made or deleted, for which
    /// there is [`LogDir::try_again`]; [`LogError::Closed`] once the directory is closed.
    pub fn create_logs(&self, wanted: &[NewLog]) -> Vec<Result<Arc<Log>, LogError>> {
        let mut changes = self.changes();
        if let Err(closed) = self.check_open(&changes) {
            return wanted.iter().map(|_| Err(closed.clone())).collect();
        }
        let mut logs = self.create_missing(wanted, &mut changes);
        drop(changes);
        sync_ends(wanted, &mut logs);
        logs
    }

    /// See [`LogDir::create_logs`].
    pub(super) fn create_missing(
        &self,
        wanted: &[NewLog],
        changes: &mut Changes,
    ) -> Vec<Result<Arc<Log>, LogError>> {
        let known: Vec<_> = wanted.iter().map(|new| self.existing(new, changes)).collect();
        let missing = wanted.iter().zip(&known).filter(|(_, known)| known.is_none());
        let missing: Vec<&NewLog> = missing.map(|(new, _)| new).collect();
        let mut segments = self.create_all_files(&missing).into_iter();
        let results = wanted.iter().zip(known).map(|(new, known)| match known {
            Some(known) => known,
            None => {
                let segment = segments.next().expect("there is a result for each missing log");
                match segment {
                    Ok(segment) => Ok(self.adopt(new, segment, None, changes)),
                    Err(error) => Err(self.note_not_created(new, error, changes)),
                }
            }
        });
        results.collect()
    }

    /// The log that exists, or why there is none and none may be made; `None` if one may.
    pub(super) fn existing(
        &self,
        new: &NewLog,
        changes: &Changes,
    ) -> Option<Result<Arc<Log>, LogError>> {
        let partition = &new.partition;
        if let Some(failed) = changes.failed.get(partition) {
            return Some(Err(failed.error.clone()));
        }
        let log = self.log(partition)?;
        let (found, wanted) = (log.topic_id(), new.topic_id);
        if found != wanted {
            let partition = partition.clone();
            return Some(Err(LogError::InconsistentTopicId { partition, found, wanted }));
        }
        Some(Ok(log))
    }

    fn create_all_files(&self, missing: &[&NewLog]) -> Vec<Result<Segment, LogError>> {
        if missing.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.check_place() {
            return missing.iter().map(|_| Err(error.clone())).collect();
        }
        let before = self.root_syncs.before_names();
        let created: Vec<_> = missing.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(new) = missing.get(index) else { return };
                let result = self.create_files(new, Offset::ZERO);
                *created[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            }
        };
        thread::scope(|scope| {
            for _ in 1..CREATE_THREADS_MAX.min(missing.len()) {
                scope.spawn(work);
            }
            work();
        });
        let synced = self.root_syncs.sync(&*self.options.fs, before);
        let synced = synced.and_then(|()| self.check_place());
        let results = created.into_iter().map(|result| {
            let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
            let result = result.expect("every log was somebody's work");
            result.and_then(|segment| synced.clone().map(|()| segment))
        });
        results.collect()
    }

    /// Whether at the path of the log directory there is still the one that was opened. Its disk may
    /// have been unmounted, and what is made there would be on another one. To be asked before
    /// something is made, and after: only then it is certain where it is.
    pub(super) fn check_place(&self) -> Result<(), LogError> {
        let (root, id) = (&self.options.path, self.directory_id);
        match MetaProperties::read(&*self.options.fs, &root.join(MetaProperties::FILE))? {
            Some(found) if found.directory_id == id => Ok(()),
            _ => Err(LogError::DirectoryEmptied { dir: root.clone(), id }),
        }
    }

    /// Makes the directory of a log with an empty segment. Its name is on stable storage only
    /// after a sync of the log directory.
    pub(super) fn create_files(&self, new: &NewLog, start: Offset) -> Result<Segment, LogError> {
        let fs = &self.options.fs;
        let dir = self.log_path(&new.partition);
        fs.create_dir_all(&dir).map_err(LogError::io("create", &dir))?;
        let segment = Segment::create(fs, &dir, start)?;
        // This syncs the directory, and so the segment's name.
        let metadata = PartitionMetadata { topic_id: new.topic_id };
        metadata.write(&**fs, &dir.join(PartitionMetadata::FILE))?;
        Ok(segment)
    }

    /// Keeps the name from other logs if a sync failed that was to make it or those in it durable:
    /// they have to be made anew, and what is there has to go first.
    pub(super) fn note_not_created(
        &self,
        new: &NewLog,
        error: LogError,
        changes: &mut Changes,
    ) -> LogError {
        let NewLog { partition, .. } = new;
        let dirs = [&self.options.path, &self.log_path(partition)];
        if dirs.into_iter().any(|dir| error.is_failed_sync_of(dir)) {
            let failed = FailedLog::unfinished(error.clone());
            changes.failed.insert(partition.clone(), failed);
        }
        error
    }

    /// Gives a new log to readers and to the writer.
    pub(super) fn adopt(
        &self,
        new: &NewLog,
        segment: Segment,
        replica_move: Option<ReplicaMove>,
        changes: &mut Changes,
    ) -> Arc<Log> {
        let NewLog { partition, topic_id, config } = new.clone();
        let dir: Arc<Path> = self.log_path(&partition).into();
        let start = segment.base_offset();
        let point = LogPoint { offset: start, segment: start, position: 0 };
        let view = LogView {
            segments: Arc::new([Arc::new(segment)]),
            log_start: start,
            end: point,
            flushed: point,
            recovery_point: start,
            epochs: Arc::new(LeaderEpochCache::default()),
        };
        let key = changes.next_key();
        let identity = LogIdentity {
            key,
            dir: Arc::clone(&dir),
            partition: partition.clone(),
            topic_id,
            high_watermarks: Arc::clone(&self.high_watermarks),
            failure_listener: self.options.failure_listener.clone(),
            replica_move,
        };
        let state = Arc::new(LogState::new(identity, config, view.clone()));
        let limits = self.producer_limits.clone();
        let tail = LogTail::new(OpenedTail {
            log: Arc::clone(&state),
            fs: Arc::clone(&self.options.fs),
            dir,
            view,
            producers: ProducerStateTable::new(partition.clone(), limits),
            unsealed: Vec::new(),
            unsynced: Vec::new(),
            snapshot: None,
            is_changed: false,
            epochs_changed: false,
            needs_dir_sync: false,
            now: self.options.clock.now(),
            started: self.options.clock.instant(),
        });
        self.queue.push(Command::Adopt(Box::new(tail)));
        let log = Arc::new(Log::new(state, Arc::clone(&self.queue)));
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        logs.insert(partition, Arc::clone(&log));
        log
    }
}

/// Syncs what a start has left unsynced, of logs whose records are not shown before.
pub(super) fn sync_ends(wanted: &[NewLog], logs: &mut [Result<Arc<Log>, LogError>]) {
    let is_unsynced = |log: &Log| log.flushed_offset() < log.log_end_offset();
    let begun: Vec<Option<Completion<Offset>>> = wanted
        .iter()
        .zip(&*logs)
        .map(|(new, log)| {
            let durable = log.as_ref().ok().filter(|_| new.config.is_durable());
            durable.filter(|log| is_unsynced(log)).map(|log| log.flush())
        })
        .collect();
    for (log, begun) in logs.iter_mut().zip(begun) {
        if let Some(Err(error)) = begun.map(Completion::wait) {
            *log = Err(error);
        }
    }
}
