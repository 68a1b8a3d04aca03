//! Syncs that are under way while the scan reads.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use logway_model::Offset;

use super::{RecoveryOptions, note_failed_sync};
use crate::LogError;
use crate::fs::File;
use crate::segment::Segment;

/// A segment of fewer bytes is synced when it has been read: a thread costs more than that.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// What a process that was killed has left in the page cache takes longer to reach the disk than to
/// be read. So large segments are being synced from the beginning of the scan on, by a thread.
///
/// Such a sync counts for the bytes that were there when it began, and the scan changes none; what is
/// cut off afterwards is synced anew. A sync that fails is told of once and its pages count as clean
/// from then on, so that [`finish`](EarlySyncs::finish) must be called however the scan ends.
#[derive(Debug, Default)]
pub(super) struct EarlySyncs {
    /// The first offsets of the segments.
    segments: Vec<Offset>,
    thread: Option<JoinHandle<Result<(), LogError>>>,
}

impl EarlySyncs {
    /// Begins the syncs of those that are large. Where there can be no thread, none begins.
    pub(super) fn begin(
        options: &RecoveryOptions<'_>,
        segments: &[Arc<Segment>],
    ) -> Result<EarlySyncs, LogError> {
        let large = || segments.iter().filter(|segment| segment.size_bytes() >= SEGMENT_BYTES_MIN);
        if large().next().is_none() {
            return Ok(EarlySyncs::default());
        }
        // The scan may take the names of some away.
        let open = |segment: &Arc<Segment>| Ok((segment.file()?, segment.path().to_owned()));
        let files: Vec<(Arc<dyn File>, PathBuf)> = large().map(open).collect::<Result<_, _>>()?;
        let (fs, dir) = (Arc::clone(options.fs), options.dir.to_owned());
        let sync = move || {
            let mut files = files.iter();
            let synced = files
                .try_for_each(|(file, path)| file.sync_data().map_err(LogError::io("sync", path)));
            // The process may be gone before the scan is over.
            synced.inspect_err(|_| note_failed_sync(&*fs, &dir))
        };
        match thread::Builder::new().name("log-start-sync".to_owned()).spawn(sync) {
            Ok(thread) => {
                let segments = large().map(|segment| segment.base_offset()).collect();
                Ok(EarlySyncs { segments, thread: Some(thread) })
            }
            Err(error) => {
                tracing::warn!(%error, "segments are synced after they are read");
                Ok(EarlySyncs::default())
            }
        }
    }

    /// Whether a segment that has not changed since the beginning is on stable storage after
    /// [`finish`](EarlySyncs::finish).
    pub(super) fn have(&self, segment: &Segment) -> bool {
        self.segments.contains(&segment.base_offset())
    }

    /// Waits for all of them; fails if one of them did, and then at the first call alone.
    pub(super) fn finish(&mut self) -> Result<(), LogError> {
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Ok(()),
        }
    }
}
