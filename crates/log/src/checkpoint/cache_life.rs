//! `.page-cache`: in which life of the page cache a log directory was last whole.
//!
//! ```text
//! 8a5c1d2e-0b5f-4d6a-9f43-6f0e3c1b7a90 4294967511 917512
//! ```
//!
//! What a process has written is in the page cache when its system call returns, and outlives the process.
//! It is lost with the machine alone, or with the mount. So a start that finds the mark of the
//! life in which it is itself knows that its predecessor was killed and nothing else happened: every
//! write that was ended is there as it was made, and one that was not is there up to some byte.
//! Such a start need not compute the CRC of what it finds, and passes over it from header to header.
//!
//! The mark is not synced: it means nothing after the events that could lose it. It is written when each
//! log of the directory has been scanned, so that it never speaks of what a power cut has left.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use super::read_text;
use crate::LogError;
use crate::fs::{Fs, OpenMode};

/// The name of the file in the log directory.
pub const CACHE_LIFE_FILE: &str = ".page-cache";

const FILE_MAX_BYTES: usize = 4096;

/// The mark of a log directory.
#[derive(Debug)]
pub struct CacheLife {
    path: PathBuf,
    is_same: bool,
}

impl CacheLife {
    /// Compares the mark in a log directory with the present.
    pub fn find(fs: &dyn Fs, dir: &Path) -> CacheLife {
        let path = dir.join(CACHE_LIFE_FILE);
        // Whatever is wrong with it, all is scanned then.
        let found = read_text(fs, &path, FILE_MAX_BYTES).ok().flatten();
        let present = fs.cache_life(&path).ok().flatten();
        let is_same = found.is_some() && found == present;
        CacheLife { path, is_same }
    }

    /// Whether all that was written by those who had the directory before is there as they wrote it,
    /// up to where the last write was cut off.
    pub fn is_same(&self) -> bool {
        self.is_same
    }

    /// Marks the directory, all logs of which are whole. Without the mark the next start takes longer.
    pub fn keep(&self, fs: &dyn Fs) {
        if self.is_same {
            return;
        }
        if let Err(error) = self.write(fs) {
            let path = self.path.display();
            tracing::debug!(%path, %error, "the life of the page cache cannot be written down");
        }
    }

    /// Removes the mark, because a log has yet to be scanned.
    ///
    /// # Errors
    ///
    /// The mark is still there.
    pub fn forget(&self, fs: &dyn Fs) -> Result<(), LogError> {
        match fs.remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LogError::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, fs: &dyn Fs) -> io::Result<()> {
        let file = fs.open(&self.path, OpenMode::CreateTruncate)?;
        let Some(life) = fs.cache_life(&self.path)? else { return Ok(()) };
        file.write_all_at(&[IoSlice::new(life.as_bytes())], 0)
    }
}
