//! Files that others may replace at any time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Files, and how they were when they were looked at last, whether they could be used or not.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    paths: Vec<PathBuf>,
    looked_at: Mutex<Vec<Option<FileState>>>,
}

/// How one sees that a file is another one than before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    modified: Option<SystemTime>,
    len_bytes: u64,
    number: u64,
}

impl WatchedFiles {
    /// Looks at the files. To be done before they are read: what changes in between is seen later.
    pub(crate) fn new(paths: Vec<PathBuf>) -> WatchedFiles {
        let looked_at = Mutex::new(states(&paths));
        WatchedFiles { paths, looked_at }
    }

    /// Whether they are others than at the last look.
    pub(crate) fn have_changed(&self) -> bool {
        let states = states(&self.paths);
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let have_changed = *looked_at != states;
        *looked_at = states;
        have_changed
    }
}

fn states(paths: &[PathBuf]) -> Vec<Option<FileState>> {
    let state = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok();
        Some(FileState { modified, len_bytes: metadata.len(), number: metadata.ino() })
    };
    paths.iter().map(state).collect()
}
