//! What appends leave free on the disk.

use std::path::Path;
use std::time::{Duration, Instant};

use super::reserve::RESERVE_BYTES;
use crate::LogError;
use crate::fs::Fs;

/// Appends leave so much for the checkpoints, without which nothing can be deleted, and for the
/// metadata. It is more than the reserve, so that they do not take that either when it is given up.
pub(super) const LEFT_FREE_BYTES: u64 = 2 * RESERVE_BYTES as u64;

/// Others write to the disk, too, so that a measurement is soon out of date.
const BELIEVED_FOR: Duration = Duration::from_millis(100);

/// The free space of a log directory's disk, as last measured and less what was taken since.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    free_bytes: u64,
    measured_at: Option<Instant>,
}

impl FreeSpace {
    /// Takes space for an append.
    ///
    /// # Errors
    ///
    /// [`LogError::DiskFull`] if too little would be left, as measured now.
    pub(super) fn take(
        &mut self,
        size_bytes: u64,
        (fs, dir): (&dyn Fs, &Path),
        now: Instant,
    ) -> Result<(), LogError> {
        let is_believed = self.measured_at.is_some_and(|then| now - then < BELIEVED_FOR);
        if !is_believed || !self.has_room_for(size_bytes) {
            // A disk that does not tell is written to until it is full.
            self.free_bytes = fs.free_bytes(dir).unwrap_or(u64::MAX);
            self.measured_at = Some(now);
        }
        if !self.has_room_for(size_bytes) {
            return Err(LogError::DiskFull { dir: dir.to_owned(), free_bytes: self.free_bytes });
        }
        self.free_bytes -= size_bytes;
        Ok(())
    }

    fn has_room_for(&self, size_bytes: u64) -> bool {
        self.free_bytes.saturating_sub(size_bytes) >= LEFT_FREE_BYTES
    }
}
