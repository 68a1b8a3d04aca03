//! The quorum's directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::fs::{FileLock, Fs, create_dir_durably};
use tokio::sync::watch;

use crate::error::QuorumError;
use crate::space::SpaceWait;

/// The name of the file whose lock says that the directory is in use.
const LOCK_FILE: &str = ".lock";

/// The name of the log's file.
pub(crate) const LOG_FILE: &str = "log.redb";

/// The name of the snapshot's file.
pub(crate) const SNAPSHOT_FILE: &str = "snapshot.json";

/// With less space than this left, nothing is committed that does not make space.
const FREE_MIN_BYTES: u64 = 16 << 20;

/// A directory that nobody else uses, for as long as this lives.
///
/// ```text
/// metadata/
///   .lock             locked while the quorum is open
///   log.redb          the Raft log, the vote and what was purged
///   snapshot.json     the newest snapshot
/// ```
pub(crate) struct Directory {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) path: PathBuf,
    /// What does not fit on the disk waits here.
    pub(crate) space: Arc<SpaceWait>,
    _lock: FileLock,
    /// Its receivers learn when this is dropped.
    _open: watch::Sender<()>,
}

impl Directory {
    /// Opens a directory, which is created if need be. The receiver's sender goes when the
    /// directory is closed.
    pub(crate) fn open(
        fs: Arc<dyn Fs>,
        path: &Path,
    ) -> Result<(Arc<Directory>, watch::Receiver<()>), QuorumError> {
        let log = path.join(LOG_FILE);
        if !fs.exists(&log).map_err(QuorumError::io("look for", &log))? {
            create_dir_durably(&*fs, path, |action, path, error| {
                QuorumError::io(action, path)(error)
            })?;
        }
        let lock = fs.lock(&path.join(LOCK_FILE)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => QuorumError::InUse { path: path.to_owned() },
            _ => QuorumError::io("lock", path)(error),
        })?;
        let (open, closed) = watch::channel(());
        let (path, space) = (path.to_owned(), Arc::new(SpaceWait::new()));
        let directory = Directory { fs, path, space, _lock: lock, _open: open };
        // What a killed process has named last may be in the page cache alone, and what a snapshot knows is
        // purged from the log.
        directory.sync()?;
        Ok((Arc::new(directory), closed))
    }

    /// Fails where a commit could use up the last of the disk.
    pub(crate) fn check_space(&self) -> Result<(), QuorumError> {
        let free = self.fs.free_bytes(&self.path);
        match free.map_err(QuorumError::io("measure the free space of", &self.path))? {
            free_bytes if free_bytes < FREE_MIN_BYTES => {
                Err(QuorumError::DiskFull { path: self.path.clone(), free_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is a file of this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool, QuorumError> {
        let path = self.path.join(name);
        self.fs.exists(&path).map_err(QuorumError::io("look for", &path))
    }

    /// Puts the names in the directory on stable storage.
    pub(crate) fn sync(&self) -> Result<(), QuorumError> {
        self.fs.sync_dir(&self.path).map_err(QuorumError::io("sync", &self.path))
    }
}
