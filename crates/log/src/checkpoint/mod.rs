//! The small text files beside the data, most of them in Kafka's own formats.
//!
//! | file | where | content |
//! |---|---|---|
//! | `meta.properties` | log directory | [`MetaProperties`] |
//! | `recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `cleaner-offset-checkpoint`, `replication-offset-checkpoint` | log directory | [`offset_checkpoint`] |
//! | `segment-lists` | log directory | [`segment_lists`] |
//! | `known-log-dirs`, `given-up-log-dirs` | first log directory | [`known_dirs`] |
//! | `joining` | first log directory | [`joining`] |
//! | `.kafka_cleanshutdown` | log directory | [`clean_shutdown`] |
//! | `.page-cache` | log directory | [`cache_life`] |
//! | `partition.metadata` | partition | [`PartitionMetadata`] |
//! | `replica-move` | partition | [`ReplicaMove`] |
//! | `leader-epoch-checkpoint` | partition | [`leader_epoch`], [`LeaderEpochCache`] |
//!
//! Each but the last of the directory's is replaced as a whole: a temporary file is written and synced, renamed over the old
//! one, and the directory is synced. So a crash leaves the old content or the new, and a file
//! that does not parse is damage, which is reported with its line and never taken for an empty
//! one.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::LogError;
use crate::fs::{Fs, OpenMode, read_to_end};

pub use leader_epoch_cache::{Divergence, EpochEnd, EpochEntry, LeaderEpochCache, TruncationPoint};
pub use meta_properties::MetaProperties;
pub use partition_metadata::PartitionMetadata;
pub use replica_move::{MoveState, ReplicaMove};

pub mod cache_life;
pub mod clean_shutdown;
mod entry_list;
pub mod joining;
pub mod known_dirs;
pub mod leader_epoch;
mod leader_epoch_cache;
mod meta_properties;
pub mod offset_checkpoint;
mod partition_metadata;
mod replica_move;
pub mod segment_lists;

/// What the name of a file that is being written ends with; leftovers may be removed at start.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// Replaces a file so that after a crash it has its old content or this one.
///
/// When this returns, the content is on stable storage. The directory must exist.
pub fn replace_file(fs: &dyn Fs, path: &Path, content: &[u8]) -> Result<(), LogError> {
    let temporary = temporary_path(path);
    let file = fs
        .open(&temporary, OpenMode::CreateTruncate)
        .map_err(LogError::io("create", &temporary))?;
    file.write_all_at(&[IoSlice::new(content)], 0).map_err(LogError::io("write", &temporary))?;
    file.sync_data().map_err(LogError::io("sync", &temporary))?;
    drop(file);
    fs.rename(&temporary, path).map_err(LogError::io("rename to", path))?;
    sync_parent(fs, path)
}

/// Removes a file if it exists, durably.
pub fn remove_file(fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
    match fs.remove_file(path) {
        Ok(()) => sync_parent(fs, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(LogError::io("remove", path)(error)),
    }
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(TEMPORARY_SUFFIX);
    PathBuf::from(name)
}

fn sync_parent(fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))
}

/// Reads a text file; `None` if it does not exist.
pub(crate) fn read_text(
    fs: &dyn Fs,
    path: &Path,
    cap_bytes: usize,
) -> Result<Option<String>, LogError> {
    let file = match fs.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io("open", path)(error)),
    };
    let content = read_to_end(&*file, cap_bytes).map_err(LogError::io("read", path))?;
    match String::from_utf8(content) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
            Err(malformed(path, line, "it is not UTF-8"))
        }
    }
}

fn malformed(path: &Path, line: usize, reason: impl Into<String>) -> LogError {
    LogError::Malformed { path: path.to_owned(), line, reason: reason.into() }
}

/// A piece of a bad line, short enough for an error message.
fn excerpt(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("'{}…'", &text[..end]),
        None => format!("'{text}'"),
    }
}
