//! Names that are made again.
//!
//! After a failed sync of a directory, names in it may be in the cache and not on the disk, and
//! count as clean all the same, so that no later sync writes them. Given away and back, they are
//! changes again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::LogError;
use crate::fs::Fs;

/// What a name ends with while it is given away. A crash can leave it so.
pub(super) const HALF_NAMED_SUFFIX: &str = ".renamed";

/// Makes the names of all files in a log's directory again. They are on stable storage on return.
pub(super) fn make_again(fs: &dyn Fs, dir: &Path) -> Result<(), LogError> {
    for entry in fs.read_dir(dir).map_err(LogError::io("list", dir))? {
        if entry.is_dir {
            continue;
        }
        let path = dir.join(&entry.name);
        let mut half = OsString::from(&path);
        half.push(HALF_NAMED_SUFFIX);
        let half = PathBuf::from(half);
        fs.rename(&path, &half).map_err(LogError::io("rename", &path))?;
        fs.rename(&half, &path).map_err(LogError::io("rename to", &path))?;
    }
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))
}

/// Gives files their names back that a crash has left without.
pub(super) fn give_back(fs: &dyn Fs, half_named: &[PathBuf]) -> Result<(), LogError> {
    for half in half_named {
        let path = half.with_extension("");
        let is_taken = fs.exists(&path).map_err(LogError::io("look for", &path))?;
        // What has the name is newer.
        let done = match is_taken {
            true => fs.remove_file(half),
            false => fs.rename(half, &path),
        };
        done.map_err(LogError::io("rename to", &path))?;
    }
    Ok(())
}
