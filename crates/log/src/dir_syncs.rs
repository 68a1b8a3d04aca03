//! Syncs of a directory, by whoever makes names in it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::LogError;
use crate::fs::Fs;

/// The syncs of one directory, of a partition or the log directory itself: made one at a time, because
/// the kernel tells of a failure once, whoever's names are lost with it.
///
/// Whoever makes names, and has them synced here, gets the error of any sync that failed since
/// then, also of one that somebody else made for names of their own. In a log directory that costs
/// the one change its success; a partition's log takes no more appends after any such failure, so
/// that nobody need remember when its names were made: see [`DirSyncs::sync_all`].
#[derive(Debug)]
pub(crate) struct DirSyncs {
    dir: Arc<Path>,
    failures: AtomicU64,
    /// The last failure. Held while somebody syncs, so that a failure is counted before another
    /// sync can succeed.
    last: Mutex<Option<LogError>>,
}

/// A moment, before names were made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeforeNames(u64);

impl BeforeNames {
    /// Before all names that were made since the directory was opened.
    const OPENED: BeforeNames = BeforeNames(0);
}

impl DirSyncs {
    /// Of the directory `dir`.
    pub(crate) fn new(dir: impl Into<Arc<Path>>) -> DirSyncs {
        DirSyncs { dir: dir.into(), failures: AtomicU64::new(0), last: Mutex::default() }
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Arc<Path> {
        &self.dir
    }

    /// To be asked for before names are made.
    pub(crate) fn before_names(&self) -> BeforeNames {
        BeforeNames(self.failures.load(Ordering::SeqCst))
    }

    /// Puts the names that were made since on stable storage.
    pub(crate) fn sync(&self, fs: &dyn Fs, since: BeforeNames) -> Result<(), LogError> {
        let sync = || fs.sync_dir(&self.dir).map_err(LogError::io("sync", &self.dir));
        self.run(since, sync)
    }

    /// Puts all names that were made since the directory was opened on stable storage. Fails for
    /// good once any sync of it has failed.
    pub(crate) fn sync_all(&self, fs: &dyn Fs) -> Result<(), LogError> {
        self.sync(fs, BeforeNames::OPENED)
    }

    /// Does what makes names and syncs them.
    pub(crate) fn work<T>(
        &self,
        work: impl FnOnce() -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        // Names that are made before the lock is taken are none.
        self.run(self.before_names(), work)
    }

    fn run<T>(
        &self,
        since: BeforeNames,
        work: impl FnOnce() -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        // It guards a value that is right at any time.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work();
        if let Err(error) = &result
            && error.is_failed_sync_of(&self.dir)
        {
            self.failures.fetch_add(1, Ordering::SeqCst);
            *last = Some(error.clone());
        }
        match &*last {
            Some(error) if self.before_names().0 > since.0 => Err(error.clone()),
            _ => result,
        }
    }
}
