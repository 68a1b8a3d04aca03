//! Some disk space for the day when there is none.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::LogError;
use crate::fs::{Fs, OpenMode};

/// The name of the file in the log directory.
pub(crate) const RESERVE_FILE: &str = ".reserve";

/// Enough for the checkpoints of thousands of partitions.
pub(super) const RESERVE_BYTES: usize = 1 << 20;

/// What is taken at once. Where less than the whole is left, that is taken: ext4 may refuse a write that
/// is larger than that, and do nothing of it.
const PIECE_BYTES: usize = 16 << 10;

/// A file that holds nothing but space. On a full disk it is given up, so that checkpoints can
/// still be written: the way out of a full disk is to delete records, which needs one.
pub(super) struct Reserve {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    is_kept: bool,
}

impl Reserve {
    /// The reserve of a log directory, not looked at yet.
    pub(super) fn new(fs: Arc<dyn Fs>, dir: &Path) -> Reserve {
        Reserve { fs, path: dir.join(RESERVE_FILE), is_kept: false }
    }

    /// Makes sure that the space is taken, if there is any.
    pub(super) fn keep(&mut self) {
        if self.is_kept {
            return;
        }
        match self.fill() {
            Ok(()) => self.is_kept = true,
            Err(error) => tracing::warn!(%error, "there is no space to keep in reserve"),
        }
    }

    /// Gives the space up.
    pub(super) fn give_up(&mut self) {
        self.is_kept = false;
        if let Err(error) = self.fs.remove_file(&self.path) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot give up the reserve");
        }
    }

    fn fill(&self) -> Result<(), LogError> {
        let path = &self.path;
        let file =
            self.fs.open(path, OpenMode::CreateOrOpen).map_err(LogError::io("create", path))?;
        let mut len_bytes = file.len().map_err(LogError::io("look at", path))?;
        let zeros = [0; PIECE_BYTES];
        while len_bytes < RESERVE_BYTES as u64 {
            file.write_all_at(&[IoSlice::new(&zeros)], len_bytes)
                .map_err(LogError::io("write", path))?;
            len_bytes += PIECE_BYTES as u64;
        }
        Ok(())
    }
}
