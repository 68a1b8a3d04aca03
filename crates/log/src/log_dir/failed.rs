//! Logs that could not be opened, and another try.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use logway_model::{Offset, TopicId, TopicPartition};

use super::create::sync_ends;
use super::delete::STRAY_SUFFIX;
use super::opened::start_log;
use super::remembered::RememberedLog;
use super::{Changes, LogDir, NewLog};
use crate::LogError;
use crate::checkpoint::{PartitionMetadata, remove_file};
use crate::file_names::ACCEPT_LOSS_FILE;
use crate::fs::Fs;
use crate::log::Log;
use crate::log_state::LogIdentity;
use crate::recovery::{RecoveryOptions, accept_loss, recover_log};
use crate::writer::Command;

/// A log that has no handle: it could not be opened, or not made or deleted whole.
#[derive(Debug)]
pub(super) struct FailedLog {
    /// Why.
    pub(super) error: LogError,
    /// What its next opening must know.
    pub(super) remembered: RememberedLog,
    /// What is there has to be deleted before there can be another.
    pub(super) is_deleted: bool,
}

impl FailedLog {
    /// One that never came to be.
    pub(super) fn unfinished(error: LogError) -> FailedLog {
        let (log_start, recovery_point) = (Offset::ZERO, Some(Offset::ZERO));
        let (list, was_in_use, journalled) = (None, false, None);
        let remembered = RememberedLog { recovery_point, log_start, list, was_in_use, journalled };
        FailedLog { error, remembered, is_deleted: true }
    }
}

impl LogDir {
    /// Tries again to open the log of a partition that [`RecoveryReport::failed`] names, or that
    /// could not be deleted; any other it makes or finds as [`LogDir::create_log`] does. Other
    /// logs cannot be made or deleted meanwhile.
    ///
    /// A log whose directory has vanished is opened when the directory is back. If it is there
    /// and holds nothing but an empty file `accept-loss`, the log begins anew, at the offset at
    /// which it ended: no offset is given twice.
    ///
    /// A log of another topic than the wanted one is of a former topic of that name. It is set
    /// aside as [`LogDir::set_aside`] does, and gives way to a new one.
    ///
    /// [`RecoveryReport::failed`]: crate::RecoveryReport::failed
    ///
    /// # Errors
    ///
    /// Why it cannot be opened now, and as [`LogDir::create_logs`].
    pub fn try_again(&self, wanted: &NewLog) -> Result<Arc<Log>, LogError> {
        let mut changes = self.changes();
        self.check_open(&changes)?;
        if let Some(mut failed) = changes.failed.remove(&wanted.partition)
            && let Err(error) = self.reopen(wanted, &failed, &mut changes)
        {
            failed.error = error.clone();
            changes.failed.insert(wanted.partition.clone(), failed);
            return Err(error);
        }
        let wanted = std::slice::from_ref(wanted);
        let mut logs = self.create_missing(wanted, &mut changes);
        drop(changes);
        sync_ends(wanted, &mut logs);
        logs.pop().expect("there is a result for each log")
    }

    /// Whether an operator has put a file `accept-loss` into the directory of a partition.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`].
    pub fn is_loss_accepted(&self, partition: &TopicPartition) -> Result<bool, LogError> {
        let word = self.log_path(partition).join(ACCEPT_LOSS_FILE);
        self.options.fs.exists(&word).map_err(LogError::io("look for", &word))
    }

    /// Removes the file `accept-loss` from the directory of a partition: it was taken note of.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`].
    pub fn forget_accepted_loss(&self, partition: &TopicPartition) -> Result<(), LogError> {
        remove_file(&*self.options.fs, &self.log_path(partition).join(ACCEPT_LOSS_FILE))
    }

    /// Opens a log that could not be opened; if there is none to open, the way is clear for a new
    /// one afterwards.
    fn reopen(
        &self,
        wanted: &NewLog,
        failed: &FailedLog,
        changes: &mut Changes,
    ) -> Result<(), LogError> {
        let FailedLog { remembered, is_deleted, .. } = failed;
        let (fs, partition) = (&self.options.fs, &wanted.partition);
        let dir = self.log_path(partition);
        if *is_deleted {
            return self.finish_deletion(partition);
        }
        if !fs.exists(&dir).map_err(LogError::io("look for", &dir))? {
            let is_of_other_topic = remembered.is_of_other_topic(wanted.topic_id);
            if is_of_other_topic || !remembered.may_have_records() {
                return self.vacate(partition, STRAY_SUFFIX).map(drop);
            }
            return Err(remembered.expected().vanished(&dir));
        }
        if is_of_other_topic(&**fs, &dir, wanted.topic_id) {
            let path = self.vacate(partition, STRAY_SUFFIX)?;
            tracing::warn!(%partition, ?path, "a log that could not be opened belongs to a former \
                topic of that name: it is set aside; remove it if it is not needed");
            return Ok(());
        }
        accept_loss(&**fs, &dir, wanted.topic_id)?;
        let journalled = self.journalled_of(partition)?;
        let recovered = recover_log(&RecoveryOptions {
            fs,
            partition,
            dir: &dir,
            is_clean: false,
            is_same_cache: false,
            expected: remembered.expected(),
            index_interval_bytes: self.options.default_config.index_interval_bytes,
            sync_later_bytes: self.options.sync_later_bytes,
            checked_bytes_min: self.options.checked_bytes_min,
            producer_limits: &self.producer_limits,
            journalled: &journalled,
            high_watermark: self.high_watermarks.of(partition),
        })?;
        self.forget_journalled(partition)?;
        let Some(recovered) = recovered else { return self.forget(partition).wait() };
        let identity = LogIdentity {
            key: changes.next_key(),
            dir: dir.as_path().into(),
            partition: partition.clone(),
            topic_id: recovered.topic_id,
            high_watermarks: Arc::clone(&self.high_watermarks),
            failure_listener: self.options.failure_listener.clone(),
            replica_move: recovered.replica_move,
        };
        let (state, tail) = start_log(&self.options, identity, recovered, false);
        self.queue.push(Command::Adopt(Box::new(tail)));
        tracing::info!(%partition, "a log that could not be opened is open now");
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        logs.insert(partition.clone(), Arc::new(Log::new(state, Arc::clone(&self.queue))));
        Ok(())
    }
}

/// Whether a partition's directory says that it belongs to another topic. One that does not say
/// whose it is keeps its name.
fn is_of_other_topic(fs: &dyn Fs, dir: &Path, wanted: TopicId) -> bool {
    let metadata = PartitionMetadata::read(fs, &dir.join(PartitionMetadata::FILE));
    metadata.is_ok_and(|found| found.is_some_and(|found| found.topic_id != wanted))
}
