//! Syncs of a log directory itself, by whoever makes names in it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::LogError;
use crate::fs::Fs;

/// The syncs of one log directory: made one at a time, because the kernel tells of a failure once,
/// whoever's names are lost with it.
///
/// Whoever makes names, and has them synced here, gets the error of any sync that failed since
/// then, also of one that somebody else made for names of their own.
#[derive(Debug)]
pub(crate) struct RootSyncs {
    root: PathBuf,
    failures: AtomicU64,
    /// The last failure. Held while somebody syncs, so that a failure is counted before another
    /// sync can succeed.
    last: Mutex<Option<LogError>>,
}

/// A moment, before names were made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeforeNames(u64);

impl RootSyncs {
    /// Of the log directory `root`.
    pub(crate) fn new(root: PathBuf) -> RootSyncs {
        RootSyncs { root, failures: AtomicU64::new(0), last: Mutex::default() }
    }

    /// To be asked for before names are made.
    pub(crate) fn before_names(&self) -> BeforeNames {
        BeforeNames(self.failures.load(Ordering::SeqCst))
    }

    /// Puts the names that were made since on stable storage.
    pub(crate) fn sync(&self, fs: &dyn Fs, since: BeforeNames) -> Result<(), LogError> {
        let sync = || fs.sync_dir(&self.root).map_err(LogError::io("sync", &self.root));
        self.run(since, sync)
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
            && error.is_failed_sync_of(&self.root)
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
