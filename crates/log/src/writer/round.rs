//! What all logs share while the writer does a round.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use logway_model::TimestampMs;

use super::background::Background;
use super::free_space::FreeSpace;
use super::round_pieces::RoundPieces;
use super::snapshot_room::SnapshotRoom;
use super::staging::Staging;
use crate::fs::Fs;
use crate::log_state::LogKey;
use crate::{LogConfig, LogError, LogMetrics};

/// One turn of the writer: what it took from its queue is written, synced and answered. The
/// writer has one and uses it again for each turn.
pub(super) struct Round {
    /// The settings of the log whose turn it is.
    pub(super) config: Arc<LogConfig>,
    pub(super) staging: Staging,
    /// What may go into the journal.
    pub(super) pieces: RoundPieces,
    /// The logs that have full segments to be sealed.
    pub(super) rolled: Vec<LogKey>,
    /// For the snapshots of their producers.
    pub(super) snapshots: SnapshotRoom,
    pub(super) background: Background,
    pub(super) metrics: LogMetrics,
    pub(super) free_space: FreeSpace,
    /// An append was refused because the disk is full.
    pub(super) is_disk_full: bool,
    pub(super) fs: Arc<dyn Fs>,
    /// The log directory.
    pub(super) dir: PathBuf,
    /// The time of the turn, for the records.
    pub(super) now: TimestampMs,
    /// The time of the turn, for timers.
    pub(super) started: Instant,
}

impl Round {
    /// Takes space on the disk for an append, or says that it is full.
    pub(super) fn take_space(&mut self, size_bytes: u64) -> Result<(), LogError> {
        self.free_space.take(size_bytes, (&*self.fs, &self.dir), self.started)
    }

    /// The error as its callers want to see it: a full disk with the space that is left.
    pub(super) fn described(&self, error: LogError) -> LogError {
        if !error.is_disk_full() {
            return error;
        }
        let free_bytes = self.fs.free_bytes(&self.dir).unwrap_or(0);
        LogError::DiskFull { dir: self.dir.clone(), free_bytes }
    }
}
