//! The leader epoch checkpoint: where in the log each leader epoch starts (KIP-101).
//!
//! The file is a list of `EPOCH START_OFFSET` lines, both strictly increasing.

use std::path::Path;

use logway_model::LeaderEpoch;

use super::leader_epoch_cache::{EpochEntry, LeaderEpochCache};
use super::{entry_list, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// The name of the file in the partition's directory.
pub const LEADER_EPOCH_FILE: &str = "leader-epoch-checkpoint";

/// A million leader changes within the retention of one log.
const FILE_MAX_BYTES: usize = 16 << 20;

/// Replaces the checkpoint file at `path`; it is durable on return.
pub fn write(fs: &dyn Fs, path: &Path, epochs: &LeaderEpochCache) -> Result<(), LogError> {
    let lines =
        epochs.entries().iter().map(|entry| format!("{} {}", entry.epoch, entry.start_offset));
    replace_file(fs, path, entry_list::encode(lines).as_bytes())
}

/// Reads a checkpoint file; one that does not exist is empty.
pub fn read(fs: &dyn Fs, path: &Path) -> Result<LeaderEpochCache, LogError> {
    let text = read_text(fs, path, FILE_MAX_BYTES)?.unwrap_or_default();
    let mut last: Option<EpochEntry> = None;
    let entries = entry_list::decode(path, &text, |fields| {
        let &[epoch, start_offset] = fields else {
            return Err("an epoch and its start offset are expected".to_owned());
        };
        let entry = EpochEntry {
            epoch: LeaderEpoch(entry_list::number(epoch, "epoch")?),
            start_offset: entry_list::offset(start_offset, "start offset")?,
        };
        if last.is_some_and(|last| !last.is_before(entry)) {
            return Err("epochs and start offsets must increase".to_owned());
        }
        last = Some(entry);
        Ok(entry)
    })?;
    Ok(LeaderEpochCache::from_increasing(entries))
}
