//! `.kafka_cleanshutdown`: the marker of a log directory that was closed in order.
//!
//! ```text
//! {"version":0,"brokerEpoch":17}
//! ```
//!
//! Apache Kafka writes it last at shutdown (KIP-966) and removes it first at start. Where it is,
//! the recovery points are the log ends and nothing needs a scan.

use std::path::Path;

use super::{remove_file, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// The name of the file in the log directory.
pub const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";

/// Marks the log directory as closed in order; durable on return.
///
/// Everything in the directory must be on stable storage before. `broker_epoch` is the epoch
/// that the controller gave to this run of the broker, -1 if it gave none.
pub fn mark(fs: &dyn Fs, path: &Path, broker_epoch: i64) -> Result<(), LogError> {
    let text = format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}");
    replace_file(fs, path, text.as_bytes())
}

/// Whether the log directory was closed in order.
pub fn is_marked(fs: &dyn Fs, path: &Path) -> Result<bool, LogError> {
    fs.exists(path).map_err(LogError::io("look for", path))
}

/// Removes the mark, durably: from here on a crash is one.
pub fn unmark(fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
    remove_file(fs, path)
}
