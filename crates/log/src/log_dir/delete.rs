//! Taking logs out of service.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use logway_model::TopicPartition;

use super::{Changes, LogDir};
use crate::random::random_bits;
use crate::writer::{Command, Job};
use crate::{Completion, LogConfig, LogError};

/// What the name of a deleted log's directory ends with.
pub(super) const CONDEMNED_SUFFIX: &str = "-delete";

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

/// A log that is out of service: where its files are now, and the settings it had.
struct Taken {
    path: PathBuf,
    config: Arc<LogConfig>,
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
    /// [`LogError::Io`], the first of several; the other logs are deleted all the same.
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
    fn take_away(
        &self,
        partitions: &[TopicPartition],
        suffix: &str,
    ) -> (Vec<Taken>, Result<(), LogError>) {
        let mut changes = self.changes();
        let leaving = self.close_logs(partitions, &mut changes);
        let (fs, root) = (&self.options.fs, &self.options.path);
        let mut taken = Vec::with_capacity(leaving.len());
        let mut result = Ok(());
        for (partition, config) in leaving {
            let path = self.log_path(&partition);
            let renamed = root.join(name_out_of_service(&partition, suffix));
            match fs.rename(&path, &renamed).map_err(LogError::io("rename", &path)) {
                Ok(()) => taken.push(Taken { path: renamed, config }),
                Err(error) => {
                    // Its directory is still there: no other log may be made in it.
                    changes.failed.insert(partition, error.clone());
                    result = result.and(Err(error));
                }
            }
        }
        let synced = fs.sync_dir(root).map_err(LogError::io("sync", root));
        (taken, result.and(synced))
    }

    /// Takes logs away from readers and the writer; returns those that there are, with their
    /// settings.
    ///
    /// It waits until no checkpoint speaks of them, lest a log made later under the same name
    /// inherit a recovery point.
    fn close_logs(
        &self,
        partitions: &[TopicPartition],
        changes: &mut Changes,
    ) -> Vec<(TopicPartition, Arc<LogConfig>)> {
        let mut closed = Vec::new();
        let mut releases = Vec::new();
        for partition in partitions {
            let log = {
                let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
                logs.remove(partition)
            };
            let config = match &log {
                Some(log) => {
                    log.mark_closed();
                    let (done, completion) = Completion::new(log.name());
                    self.queue.push(Command::Release { key: log.key(), done });
                    releases.push(completion);
                    log.config()
                }
                None if changes.failed.remove(partition).is_some() => {
                    Arc::clone(&self.options.default_config)
                }
                None => continue,
            };
            closed.push((partition.clone(), config));
        }
        for release in releases {
            if let Err(error) = release.wait() {
                tracing::warn!(%error, "a deleted log is still in the checkpoints");
            }
        }
        closed
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
