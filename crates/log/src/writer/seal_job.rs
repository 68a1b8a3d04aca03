//! Putting full segments on stable storage, by the background thread.

use std::sync::Arc;

use logway_model::Offset;

use super::snapshot_room::WaitingSnapshot;
use crate::LogError;
use crate::file_names::{SNAPSHOT_EXTENSION, file_path};
use crate::fs::{Fs, OpenMode};
use crate::log_state::LogState;
use crate::segment::Segment;

/// Full segments of one log that are to be put on stable storage.
#[derive(Debug)]
pub(crate) struct SealJob {
    /// The log.
    pub(super) log: Arc<LogState>,
    /// The oldest first; at least one.
    pub(super) segments: Vec<Arc<Segment>>,
    /// The offset before which they end.
    pub(super) end: Offset,
    /// The producers as of that offset; `None` if there was no room for them.
    pub(super) snapshot: Option<WaitingSnapshot>,
    pub(super) index_interval_bytes: u32,
}

/// What became of full segments.
#[derive(Debug)]
pub(crate) enum SealOutcome {
    /// They are on stable storage, with their indexes and a snapshot of the producers.
    Sealed,
    /// Something that can be made again is missing; worth another try.
    NotYet(LogError),
    /// Nobody knows what of a segment, or which names in the directory, are on the disk.
    SyncFailed(LogError),
}

impl SealJob {
    /// Does it.
    pub(super) fn run(&self, fs: &dyn Fs) -> SealOutcome {
        for segment in &self.segments {
            let path = segment.path();
            // A handle of its own: the system reports a failed write-back once to each open
            // file, and the writer's sync must not miss it.
            let file = match fs.open(path, OpenMode::ReadWrite) {
                Ok(file) => file,
                Err(error) => return SealOutcome::NotYet(LogError::io("open", path)(error)),
            };
            if let Err(error) = file.sync_data() {
                return SealOutcome::SyncFailed(LogError::io("sync", path)(error));
            }
        }
        match self.seal_companions(fs) {
            Ok(()) => SealOutcome::Sealed,
            // The writer's own sync of the directory, which must vouch for the name of the next
            // segment, would find nothing wrong any more.
            Err(error) if error.is_failed_sync_of(self.log.dir_syncs().dir()) => {
                SealOutcome::SyncFailed(error)
            }
            Err(error) => SealOutcome::NotYet(error),
        }
    }

    fn seal_companions(&self, fs: &dyn Fs) -> Result<(), LogError> {
        for segment in &self.segments {
            if let Err(error) = segment.sync_indexes() {
                let path = segment.path().display();
                tracing::warn!(segment = %path, %error, "the indexes are made anew");
                segment.rebuild_indexes(self.index_interval_bytes)?;
                segment.sync_indexes()?;
            }
        }
        // Recovery takes the snapshot for a sign that the indexes are there.
        let syncs = self.log.dir_syncs();
        syncs.sync_all(fs)?;
        let Some(WaitingSnapshot { snapshot, .. }) = &self.snapshot else { return Ok(()) };
        let path = file_path(syncs.dir(), self.end, SNAPSHOT_EXTENSION);
        syncs.work(|| snapshot.write(fs, &path))
    }
}
