//! Logs that are copies, while a replica moves here from another log directory.

use std::sync::Arc;

use logway_model::{DirectoryId, Offset};

use super::{LogDir, NewLog};
use crate::LogError;
use crate::checkpoint::{MoveState, ReplicaMove, remove_file};
use crate::log::Log;
use crate::segment::Segment;

impl LogDir {
    /// Makes a log that begins at `start`, to be filled by
    /// [`append_copied`](Log::append_copied) from the one in the log directory `from`. It is not the
    /// partition's until [`LogDir::set_replica_move`] says so.
    ///
    /// # Errors
    ///
    /// [`LogError::CopyInTheWay`] if there is a log of the partition, [`LogError::Io`]; the error of
    /// the log that could not be opened or deleted.
    pub fn create_copy(
        &self,
        new: &NewLog,
        start: Offset,
        from: DirectoryId,
    ) -> Result<Arc<Log>, LogError> {
        let mut changes = self.changes();
        self.check_open(&changes)?;
        if changes.failed.get(&new.partition).is_some_and(|failed| failed.is_deleted) {
            self.finish_deletion(&new.partition)?;
            changes.failed.remove(&new.partition);
        }
        if let Some(existing) = self.existing(new, &changes) {
            existing?;
            let (dir, partition) = (self.options.path.clone(), new.partition.clone());
            return Err(LogError::CopyInTheWay { dir, partition });
        }
        let copying = ReplicaMove { state: MoveState::Copying, from };
        match self.create_files_of_copy(new, start, copying) {
            Ok(segment) => Ok(self.adopt(new, segment, Some(copying), &mut changes)),
            Err(error) => Err(self.note_not_created(new, error, &mut changes)),
        }
    }

    fn create_files_of_copy(
        &self,
        new: &NewLog,
        start: Offset,
        copying: ReplicaMove,
    ) -> Result<Segment, LogError> {
        self.check_place()?;
        let fs = &*self.options.fs;
        let before = self.root_syncs.before_names();
        let dir = self.log_path(&new.partition);
        fs.create_dir_all(&dir).map_err(LogError::io("create", &dir))?;
        // First: nothing may take what is made now for the log of the partition.
        copying.write(fs, &dir.join(ReplicaMove::FILE))?;
        let segment = self.create_files(new, start)?;
        self.root_syncs.sync(fs, before)?;
        self.check_place()?;
        Ok(segment)
    }

    /// Writes down what a log has to do with a move to this directory; `None` for nothing. It is on
    /// stable storage on return. After an error nobody knows which of the two the disk says.
    ///
    /// # Errors
    ///
    /// [`LogError::Closed`] if the log was deleted, [`LogError::Io`].
    pub fn set_replica_move(
        &self,
        log: &Arc<Log>,
        replica_move: Option<ReplicaMove>,
    ) -> Result<(), LogError> {
        // No other log of the name is made meanwhile.
        let _changes = self.changes();
        let partition = log.topic_partition();
        if !self.log(partition).is_some_and(|known| Arc::ptr_eq(&known, log)) {
            return Err(LogError::Closed { what: partition.to_string() });
        }
        let fs = &*self.options.fs;
        let dir = self.log_path(partition);
        let path = dir.join(ReplicaMove::FILE);
        let written = log.state().dir_syncs().work(|| match replica_move {
            Some(replica_move) => replica_move.write(fs, &path),
            None => remove_file(fs, &path),
        });
        if let Err(error) = &written
            && error.is_failed_sync_of(&dir)
        {
            log.note_failed_sync(error.clone());
        }
        written?;
        log.state().note_replica_move(replica_move);
        Ok(())
    }
}
