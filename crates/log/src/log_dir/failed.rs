//! Logs that could not be opened, and another try.

use std::sync::{Arc, PoisonError};

use logway_model::Offset;

use super::opened::start_log;
use super::remembered::RememberedLog;
use super::{Changes, LogDir, NewLog};
use crate::LogError;
use crate::log::{Log, LogIdentity};
use crate::recovery::{RecoveryOptions, accept_loss, recover_log};
use crate::writer::Command;

/// A log that has no handle: it could not be opened, or not deleted.
#[derive(Debug)]
pub(super) struct FailedLog {
    /// Why.
    pub(super) error: LogError,
    /// What its next opening must know.
    pub(super) remembered: RememberedLog,
    /// Its deletion has begun.
    pub(super) is_deleted: bool,
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
    /// [`RecoveryReport::failed`]: crate::RecoveryReport::failed
    ///
    /// # Errors
    ///
    /// Why it cannot be opened now, and as [`LogDir::create_logs`].
    pub fn try_again(&self, wanted: &NewLog) -> Result<Arc<Log>, LogError> {
        let mut changes = self.changes();
        if let Some(mut failed) = changes.failed.remove(&wanted.partition)
            && let Err(error) = self.reopen(wanted, &failed, &mut changes)
        {
            failed.error = error.clone();
            changes.failed.insert(wanted.partition.clone(), failed);
            return Err(error);
        }
        drop(changes);
        let NewLog { partition, topic_id, config } = wanted.clone();
        self.create_log(partition, topic_id, config)
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
            return self.finish_deletion(partition, changes);
        }
        if !fs.exists(&dir).map_err(LogError::io("look for", &dir))? {
            let is_of_other_topic =
                remembered.list.as_ref().is_some_and(|list| list.topic_id != wanted.topic_id);
            if is_of_other_topic || remembered.expected().end() == Offset::ZERO {
                self.forget(partition).wait()?;
                return self.unlist(std::slice::from_ref(partition), changes);
            }
            return Err(remembered.expected().vanished(&dir));
        }
        accept_loss(&**fs, &dir, wanted.topic_id)?;
        let recovered = recover_log(&RecoveryOptions {
            fs,
            partition,
            dir: &dir,
            is_clean: false,
            expected: remembered.expected(),
            index_interval_bytes: self.options.default_config.index_interval_bytes,
            producer_limits: &self.producer_limits,
        })?;
        let Some(recovered) = recovered else { return self.forget(partition).wait() };
        let identity = LogIdentity {
            key: changes.next_key(),
            partition: partition.clone(),
            topic_id: recovered.topic_id,
            queue: Arc::clone(&self.queue),
            replica_move: recovered.replica_move,
        };
        let (log, tail) = start_log(&self.options, identity, recovered, false);
        self.queue.push(Command::Adopt(Box::new(tail)));
        tracing::info!(%partition, "a log that could not be opened is open now");
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        logs.insert(partition.clone(), log);
        Ok(())
    }
}
