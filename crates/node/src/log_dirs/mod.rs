//! The log directories of this broker: several disks, each with its own logs and its own fate
//! (KIP-112, KIP-858).
//!
//! | file | idea |
//! |---|---|
//! | [`mod@open`] | opening them, all at the same time |
//! | [`placement`] | in which of them the log of a partition is, or will be |
//! | [`failure`] | what becomes of a broker that loses one |

mod failure;
mod open;
mod placement;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use logway_log::checkpoint::known_dirs::KnownDirs;
use logway_log::{Log, LogDir, LogError};
use logway_model::{DirectoryId, TopicPartition};

use crate::replica::Replica;

pub(crate) use failure::FailureReports;
pub use failure::LostDirectories;
pub(crate) use open::{OpenedDirs, Opening};
pub use placement::LocatedLog;
pub(crate) use placement::WantedLog;

/// The log directories of this broker, in the order of `log.dirs`.
///
/// Each has its own lock, writer thread and checkpoints, so that a slow disk holds up the logs on
/// it alone. One that fails, at the start or later, is offline until the broker is started again,
/// with the partitions in it and no others. The first also holds the metadata, without which there
/// is no broker.
pub struct LogDirs {
    dirs: Vec<ConfiguredDir>,
    /// Those that were in use and that `log.dirs` does not name any more: remembered until somebody
    /// gives them up.
    missing: KnownDirs,
    /// Those that somebody has given up: what was in them is made anew.
    given_up: KnownDirs,
    reports: FailureReports,
}

/// A directory of `log.dirs`.
pub struct ConfiguredDir {
    path: PathBuf,
    state: RwLock<DirState>,
}

/// Whether a log directory can be used.
#[derive(Clone)]
pub enum DirState {
    /// It can.
    Online(Arc<LogDir>),
    /// It cannot, since the start or since it failed.
    Offline {
        /// Its id, if that is known.
        id: Option<DirectoryId>,
        /// What happened to it.
        error: LogError,
    },
}

impl LogDirs {
    /// Every directory, in the order of `log.dirs`.
    pub fn all(&self) -> &[ConfiguredDir] {
        &self.dirs
    }

    /// Those that can be used.
    pub fn online(&self) -> impl Iterator<Item = Arc<LogDir>> {
        self.dirs.iter().filter_map(ConfiguredDir::online)
    }

    /// The directory of an id, if it can be used.
    pub fn by_id(&self, id: DirectoryId) -> Option<Arc<LogDir>> {
        self.online().find(|dir| dir.directory_id() == id)
    }

    /// Whether the directory of a partition's log can be used.
    pub(crate) fn has(&self, partition: &Replica) -> bool {
        self.by_id(partition.directory()).is_some()
    }

    /// The ids of those that can be used.
    pub fn online_ids(&self) -> Vec<DirectoryId> {
        self.online().map(|dir| dir.directory_id()).collect()
    }

    /// Whether all of them were closed in good order before they were opened.
    pub fn were_clean(&self) -> bool {
        self.offline_count() == 0 && self.online().all(|dir| dir.recovery_report().was_clean)
    }

    /// How many cannot be used, with those that are missing from `log.dirs`.
    pub fn offline_count(&self) -> usize {
        self.dirs.len() - self.online().count() + self.missing.len()
    }

    /// The directories that cannot be used, with their paths and, as far as they are known, their
    /// ids: those of `log.dirs`, then those that are missing from it.
    pub(crate) fn absent(&self) -> impl Iterator<Item = (&Path, Option<DirectoryId>)> {
        let offline = self.dirs.iter().filter(|dir| dir.online().is_none());
        let offline = offline.map(|dir| (&*dir.path, dir.id()));
        offline.chain(self.missing.iter().map(|(path, id)| (&**path, Some(*id))))
    }

    /// Why a directory of `log.dirs` cannot be used, if that is because it is empty now.
    pub(crate) fn emptied(&self, path: &Path) -> Option<LogError> {
        match self.dirs.iter().find(|dir| dir.path() == path)?.state() {
            DirState::Offline { error: error @ LogError::DirectoryEmptied { .. }, .. } => {
                Some(error)
            }
            _ => None,
        }
    }

    /// The paths of those that are missing from `log.dirs`.
    pub fn missing_paths(&self) -> impl Iterator<Item = &Path> {
        self.missing.keys().map(|path| &**path)
    }

    /// Whether somebody has given a directory up.
    pub(crate) fn is_given_up(&self, id: DirectoryId) -> bool {
        self.given_up.values().any(|given_up| *given_up == id)
    }

    /// The id of the directory that holds the metadata.
    pub fn metadata_directory_id(&self) -> DirectoryId {
        match self.dirs[0].state() {
            DirState::Online(dir) => dir.directory_id(),
            DirState::Offline { id, .. } => id.unwrap_or(DirectoryId::UNASSIGNED),
        }
    }

    /// Whether the directory of the metadata can be used, without which the broker cannot go on.
    pub fn is_running(&self) -> bool {
        self.dirs[0].online().is_some_and(|dir| dir.is_running())
    }

    /// All logs that are open.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        self.logs_where_assigned().map(|(_, log)| log).collect()
    }

    /// The same, each with the directory that it is in.
    pub(crate) fn logs_where_assigned(&self) -> impl Iterator<Item = (Arc<LogDir>, Arc<Log>)> {
        self.online().flat_map(|dir| dir.logs().into_iter().map(move |log| (Arc::clone(&dir), log)))
    }

    /// How many idempotent producers all logs remember together, each counted once for each log.
    pub fn producer_count(&self) -> usize {
        self.online().map(|dir| dir.producer_count()).sum()
    }

    /// Whether a directory has the log of a partition, or should have it.
    pub(crate) fn has_log(&self, partition: &TopicPartition) -> bool {
        self.online().any(|dir| knows(&dir, partition))
    }

    /// Deletes the logs of partitions, wherever they are; as [`LogDir::delete_logs`]. What is in a
    /// directory that is offline is set aside when it is back.
    pub(crate) fn delete_logs(&self, partitions: &[TopicPartition]) -> Result<(), LogError> {
        let mut result = Ok(());
        for dir in self.online() {
            let here: Vec<TopicPartition> =
                partitions.iter().filter(|partition| knows(&dir, partition)).cloned().collect();
            if !here.is_empty() {
                result = result.and(dir.delete_logs(&here));
            }
        }
        result
    }

    /// Closes all directories in good order, at the same time; the first error of several.
    pub(crate) fn close(&self) -> Result<(), LogError> {
        thread::scope(|scope| {
            let closing: Vec<_> =
                self.online().map(|dir| scope.spawn(move || dir.close())).collect();
            let mut result = Ok(());
            // Each is waited for, whatever became of the others.
            for closed in closing {
                let closed = closed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(closed);
            }
            result
        })
    }
}

impl ConfiguredDir {
    /// Its path, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is now.
    pub fn state(&self) -> DirState {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The directory, if it can be used.
    pub fn online(&self) -> Option<Arc<LogDir>> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            DirState::Online(dir) => Some(Arc::clone(dir)),
            DirState::Offline { .. } => None,
        }
    }

    fn id(&self) -> Option<DirectoryId> {
        match self.state() {
            DirState::Online(dir) => Some(dir.directory_id()),
            DirState::Offline { id, .. } => id,
        }
    }
}

/// Whether a directory has the log of a partition, or should have it.
fn knows(dir: &LogDir, partition: &TopicPartition) -> bool {
    dir.log(partition).is_some() || dir.failed_log(partition).is_some()
}
