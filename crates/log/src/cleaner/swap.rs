//! Putting a cleaned segment in the place of those that it was made from.
//!
//! The cleaned segment has the base offset A of the first of them; the files of the others are
//! those of B. As in Apache Kafka, names say how far it has come:
//!
//! | step | on the disk | a crash now |
//! |---|---|---|
//! | 1 | `A.log.cleaned` and its indexes are written and synced | the log is as it was, they are removed |
//! | 2 | `A.log.cleaned` becomes `A.log.swap`; the directory is synced | from here on the swap counts, and a start finishes it |
//! | 3 | the files of B are removed, the indexes of A replaced; the directory is synced | |
//! | 4 | `A.log.swap` becomes `A.log`; the directory is synced | |
//!
//! Every step of 3 and 4 can be done again. Apache Kafka removes the old segments last, and so has
//! to tell at a start what belongs to whom; here the one name `A.log.swap` says all.
//!
//! What the swap file covers says its last batch: of several segments, it ends just where the segment
//! behind them begins. The last batch of the last one keeps its place for that, or an empty batch
//! takes it.

use std::io;
use std::path::{Path, PathBuf};

use logway_model::Offset;

use crate::LogError;
use crate::dir_syncs::DirSyncs;
use crate::file_names::{
    INDEX_EXTENSION, LOG_EXTENSION, SNAPSHOT_EXTENSION, TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION,
    file_path,
};
use crate::fs::{Fs, OpenMode};
use crate::scan::HeaderScan;

/// What the name of a file of a cleaned segment ends with before the swap.
pub(crate) const CLEANED_SUFFIX: &str = ".cleaned";
/// What the name of a cleaned segment ends with during the swap.
pub(crate) const SWAP_SUFFIX: &str = ".swap";

/// The indexes of a segment.
const INDEXES: [&str; 3] = [INDEX_EXTENSION, TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION];

/// The path of a segment's file before the swap.
pub(crate) fn cleaned_path(dir: &Path, base_offset: Offset, extension: &str) -> PathBuf {
    file_path(dir, base_offset, &format!("{extension}{CLEANED_SUFFIX}"))
}

/// The path of a cleaned segment during the swap.
pub(crate) fn swap_path(dir: &Path, base_offset: Offset) -> PathBuf {
    file_path(dir, base_offset, &format!("{LOG_EXTENSION}{SWAP_SUFFIX}"))
}

/// The first half of step 2: from the return on, the swap counts, unless the power fails before the
/// directory is synced. After an error the name is not there.
pub(crate) fn name(fs: &dyn Fs, dir: &Path, base_offset: Offset) -> Result<(), LogError> {
    let cleaned = cleaned_path(dir, base_offset, LOG_EXTENSION);
    let swap = swap_path(dir, base_offset);
    match fs.rename(&cleaned, &swap) {
        Err(error) if !fs.exists(&swap).unwrap_or(true) => {
            Err(LogError::io("rename", &cleaned)(error))
        }
        // It was done, whatever else is said of it.
        _ => Ok(()),
    }
}

/// Steps 3 and 4, or what is missing of them; `others` are the base offsets of B.
pub(crate) fn finish(
    fs: &dyn Fs,
    syncs: &DirSyncs,
    base_offset: Offset,
    others: &[Offset],
) -> Result<(), LogError> {
    let dir = syncs.dir();
    for &other in others {
        // A snapshot of the producers as of the beginning of a segment that is no more.
        for extension in [LOG_EXTENSION, SNAPSHOT_EXTENSION].into_iter().chain(INDEXES) {
            let path = file_path(dir, other, extension);
            unless_missing(fs.remove_file(&path)).map_err(LogError::io("remove", &path))?;
        }
    }
    for extension in INDEXES {
        let to = file_path(dir, base_offset, extension);
        // Apache Kafka gives the indexes the name of the swap, too, and may have begun it.
        let of_kafka = file_path(dir, base_offset, &format!("{extension}{SWAP_SUFFIX}"));
        for from in [cleaned_path(dir, base_offset, extension), of_kafka] {
            unless_missing(fs.rename(&from, &to)).map_err(LogError::io("rename", &from))?;
        }
    }
    syncs.sync_all(fs)?;
    let (from, to) = (swap_path(dir, base_offset), file_path(dir, base_offset, LOG_EXTENSION));
    unless_missing(fs.rename(&from, &to)).map_err(LogError::io("rename", &from))?;
    syncs.sync_all(fs)
}

/// Where the segment behind a cleaned one begins: at the end of its last batch.
///
/// [`LogError::Corrupt`] if it cannot be read.
pub(crate) fn end_of(fs: &dyn Fs, path: &Path) -> Result<Offset, LogError> {
    let file = fs.open(path, OpenMode::Read).map_err(LogError::io("open", path))?;
    let size_bytes = file.len().map_err(LogError::io("look at", path))?;
    let mut headers = HeaderScan::new(file, path, 0, size_bytes);
    let mut end = None;
    while let Some(batch) = headers.next()? {
        end = Some(batch.header.next_offset());
    }
    end.ok_or_else(|| LogError::Corrupt {
        path: path.to_owned(),
        position: 0,
        reason: "a cleaned segment has at least one batch".to_owned(),
    })
}

/// Removes what an attempt has left of which step 2 was never begun; at best, as the next start does
/// it, too.
pub(crate) fn discard(fs: &dyn Fs, dir: &Path, base_offset: Offset) {
    for extension in [LOG_EXTENSION].into_iter().chain(INDEXES) {
        let path = cleaned_path(dir, base_offset, extension);
        if let Err(error) = unless_missing(fs.remove_file(&path)) {
            tracing::warn!(path = %path.display(), %error, "cannot remove it; the next start tries again");
        }
    }
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
