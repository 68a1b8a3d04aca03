//! Taking logs out of service.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use logway_model::TopicPartition;

use super::failed::FailedLog;
use super::remembered::RememberedLog;
use super::{Changes, LogDir};
use crate::checkpoint::segment_lists::{self, SEGMENT_LISTS_FILE};
use crate::random::random_bits;
use crate::writer::{Command, Job};
use crate::{Completion, LogConfig, LogError};

/// What the name of a deleted log's directory ends with.
pub(super) const CONDEMNED_SUFFIX: &str = "-delete";

/// What the name of the directory of a log that was set aside ends with.
pub(super) const STRAY_SUFFIX: &str = "-stray";

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

/// A log that is out of service: where its files are now, and the settings it had.
struct Taken {
    path: PathBuf,
    config: Arc<LogConfig>,
}

/// A log on its way out of service.
struct Leaving {
    partition: TopicPartition,
    config: Arc<LogConfig>,
    remembered: RememberedLog,
    /// Completes when no checkpoint speaks of it any more; `None` if they are to go on.
    forgotten: Option<Completion<()>>,
}

impl LogDir {
    /// Deletes the log of a partition; see [`LogDir::delete_logs`].
    pub fn delete_log(&self, partition: &TopicPartition) -> Result<(), LogError> {
        self.delete_logs(std::slice::from_ref(partition))
    }

    /// Deletes the logs of partitions, passing over those that have none. They are gone when this
    /// returns, and their files are removed `file.delete.delay.ms` later. Many cost little more
    /// than one.
    ///
    /// Appends that wait get [`LogError::Closed`]. Ranges that were read stay readable.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`], the first of several; the other logs are deleted all the same. A log that
    /// could not be deleted is out of service, and [`LogDir::try_again`] gets it out of the way.
    /// [`LogError::Closed`], with nothing done, once the directory is closed.
    pub fn delete_logs(&self, partitions: &[TopicPartition]) -> Result<(), LogError> {
        let (taken, result) = self.take_away(partitions, CONDEMNED_SUFFIX);
        if let Some(running) = &*self.running() {
            for Taken { path, config } in taken {
                running.jobs.send(Job::DeleteDir { path, delay: config.file_delete_delay() });
            }
        }
        result
    }

    /// Takes a log out of service and keeps its files, in a directory that is named so that it is
    /// no partition's any more; returns that directory. For a log that nobody knows of: it may be
    /// all that is left of somebody's data.
    pub fn set_aside(&self, partition: &TopicPartition) -> Result<Option<PathBuf>, LogError> {
        let (mut taken, result) = self.take_away(std::slice::from_ref(partition), STRAY_SUFFIX);
        result.map(|()| taken.pop().map(|taken| taken.path))
    }

    /// Closes logs and renames their directories; returns those, and the first error.
    ///
    /// A directory keeps its name until no checkpoint speaks of the log any more, lest a log made
    /// later under the same name inherit its recovery point or its start.
    fn take_away(
        &self,
        partitions: &[TopicPartition],
        suffix: &str,
    ) -> (Vec<Taken>, Result<(), LogError>) {
        let mut changes = self.changes();
        if let Err(closed) = self.check_open(&changes) {
            return (Vec::new(), Err(closed));
        }
        let unlisted = self.unlist(partitions);
        let leaving: Vec<Leaving> = partitions
            .iter()
            .filter_map(|partition| self.close_log(partition, unlisted.is_err(), &mut changes))
            .collect();
        let unlisted = unlisted.and(self.forget_cleaned(partitions));
        let unlisted = unlisted.and(self.forget_high_watermarks(partitions));
        let unlisted = partitions
            .iter()
            .fold(unlisted, |result, partition| result.and(self.forget_journalled(partition)));
        let before = self.root_syncs.before_names();
        let mut taken = Vec::with_capacity(leaving.len());
        let mut result = Ok(());
        for Leaving { partition, config, remembered, forgotten } in leaving {
            let forgotten = forgotten.map_or(Ok(()), Completion::wait).and(unlisted.clone());
            match forgotten.and_then(|()| self.rename(&partition, suffix)) {
                Ok(Some(path)) => taken.push(Taken { path, config }),
                Ok(None) => {}
                Err(error) => {
                    let is_deleted = suffix == CONDEMNED_SUFFIX;
                    let failed = FailedLog { error: error.clone(), remembered, is_deleted };
                    changes.failed.insert(partition, failed);
                    result = result.and(Err(error));
                }
            }
        }
        let synced = self.root_syncs.sync(&*self.options.fs, before);
        (taken, result.and(synced))
    }

    /// Takes a log away from readers and the writer; `None` if there is none. The checkpoints remember one
    /// that the lists of segments still speak of.
    fn close_log(
        &self,
        partition: &TopicPartition,
        is_listed: bool,
        changes: &mut Changes,
    ) -> Option<Leaving> {
        let log = {
            let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
            logs.remove(partition)
        };
        let partition = partition.clone();
        if let Some(log) = log {
            let state = log.state();
            state.mark_closed();
            let (done, forgotten) = Completion::new(state.name());
            self.queue.push(Command::Release { key: state.key(), is_listed, done });
            let log_start = log.log_start_offset();
            let (recovery_point, list, was_in_use, journalled) = (None, None, false, None);
            let remembered =
                RememberedLog { recovery_point, log_start, list, was_in_use, journalled };
            let (config, forgotten) = (log.config(), Some(forgotten));
            return Some(Leaving { partition, config, remembered, forgotten });
        }
        let FailedLog { remembered, .. } = changes.failed.remove(&partition)?;
        let config = Arc::clone(&self.options.default_config);
        let forgotten = (!is_listed).then(|| self.forget(&partition));
        Some(Leaving { partition, config, remembered, forgotten })
    }

    /// Has the checkpoints written without a log that has no handle.
    pub(super) fn forget(&self, partition: &TopicPartition) -> Completion<()> {
        let (done, forgotten) = Completion::new(&partition.to_string().into());
        self.queue.push(Command::Forget { partition: partition.clone(), done });
        forgotten
    }

    /// Has the lists of segments written without those of logs. To be done before the checkpoints
    /// forget them: a start that finds a list and no log start takes deleted segments for lost ones.
    pub(crate) fn unlist(&self, partitions: &[TopicPartition]) -> Result<(), LogError> {
        // What it guards is right after each single step.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if !partitions.iter().any(|partition| lists.contains_key(partition)) {
            return Ok(());
        }
        let unlisted: BTreeSet<&TopicPartition> = partitions.iter().collect();
        let mut kept = lists.clone();
        kept.retain(|listed, _| !unlisted.contains(listed));
        let path = self.options.path.join(SEGMENT_LISTS_FILE);
        self.root_syncs.work(|| segment_lists::write(&*self.options.fs, &path, &kept))?;
        *lists = kept;
        Ok(())
    }

    fn forget_high_watermarks(&self, partitions: &[TopicPartition]) -> Result<(), LogError> {
        self.high_watermarks.forget(&*self.options.fs, &self.root_syncs, partitions)
    }

    /// Whether the lists of segments say something of a log.
    pub(crate) fn is_listed(&self, partition: &TopicPartition) -> bool {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.contains_key(partition)
    }

    /// Does what is left to do of a deletion that failed.
    pub(super) fn finish_deletion(&self, partition: &TopicPartition) -> Result<(), LogError> {
        let renamed = self.vacate(partition, CONDEMNED_SUFFIX)?;
        if let (Some(path), Some(running)) = (renamed, &*self.running()) {
            running.jobs.send(Job::DeleteDir { path, delay: Duration::ZERO });
        }
        Ok(())
    }

    /// Frees the name of a log that has no handle: has the lists and checkpoints forget it, and
    /// gives its directory, if there is one, a name out of service, which it returns.
    pub(super) fn vacate(
        &self,
        partition: &TopicPartition,
        suffix: &str,
    ) -> Result<Option<PathBuf>, LogError> {
        self.forget_cleaned(std::slice::from_ref(partition))?;
        self.forget_high_watermarks(std::slice::from_ref(partition))?;
        self.unlist(std::slice::from_ref(partition))?;
        self.forget(partition).wait()?;
        self.forget_journalled(partition)?;
        let before = self.root_syncs.before_names();
        let renamed = self.rename(partition, suffix)?;
        self.root_syncs.sync(&*self.options.fs, before)?;
        Ok(renamed)
    }

    /// Gives the directory of a log a name out of service; `None` if there is no directory.
    fn rename(
        &self,
        partition: &TopicPartition,
        suffix: &str,
    ) -> Result<Option<PathBuf>, LogError> {
        let path = self.log_path(partition);
        let renamed = self.options.path.join(name_out_of_service(partition, suffix));
        match self.options.fs.rename(&path, &renamed) {
            Ok(()) => Ok(Some(renamed)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LogError::io("rename", &path)(error)),
        }
    }
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
