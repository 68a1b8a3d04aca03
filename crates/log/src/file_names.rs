//! The names of the files in the directory of a log.

use std::path::{Path, PathBuf};

use logway_model::Offset;

/// The extension of the files that hold batches.
pub(crate) const LOG_EXTENSION: &str = "log";
/// The extension of offset indexes.
pub(crate) const INDEX_EXTENSION: &str = "index";
/// The extension of time indexes.
pub(crate) const TIME_INDEX_EXTENSION: &str = "timeindex";
/// The extension of indexes of aborted transactions.
pub(crate) const TXN_INDEX_EXTENSION: &str = "txnindex";
/// The extension of producer state snapshots.
pub(crate) const SNAPSHOT_EXTENSION: &str = "snapshot";
/// The file in a partition's directory that says that a sync of its segments has failed.
pub(crate) const FAILED_SYNC_FILE: &str = "failed-sync";
/// The file that an operator puts into the empty directory of a partition to go on without the
/// records that were in it.
pub const ACCEPT_LOSS_FILE: &str = "accept-loss";
/// What the name of a file that awaits its removal ends with.
pub(crate) const DELETED_SUFFIX: &str = ".deleted";

/// A file of a partition that is named after an offset: 20 digits and an extension.
pub(crate) fn file_path(dir: &Path, offset: Offset, extension: &str) -> PathBuf {
    dir.join(format!("{:020}.{extension}", offset.0))
}

/// Reads a file's name back: its offset and extension.
pub(crate) fn parse_file_name(name: &str) -> Option<(Offset, &str)> {
    let (digits, extension) = name.split_once('.')?;
    let is_offset = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let offset =
        digits.parse().ok().map(Offset).filter(|&offset| is_offset && offset < Offset::LIMIT);
    Some((offset?, extension))
}
