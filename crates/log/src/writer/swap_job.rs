//! Putting a cleaned segment in the place of others on the disk, by the background thread.

use std::sync::Arc;

use logway_model::Offset;

use crate::LogError;
use crate::cleaner::{discard_cleaned, finish_swap, name_swap};
use crate::completion::Completer;
use crate::fs::Fs;
use crate::log_state::{LogKey, LogState};
use crate::segment::Segment;

/// A replacement on the disk, as far as it has come.
#[derive(Debug)]
pub(crate) struct SwapJob {
    /// The log.
    pub(super) key: LogKey,
    pub(super) log: Arc<LogState>,
    /// The segments to be replaced, the oldest first; at least one.
    pub(super) segments: Vec<Arc<Segment>>,
    /// Where they end.
    pub(super) end: Offset,
    /// Where the log began when they were cleaned, or later: what is before counted as gone.
    pub(super) log_start: Offset,
    /// The length of the one that replaces them.
    pub(super) size_bytes: u64,
    /// It has the name by which it counts.
    pub(super) is_named: bool,
    /// The name is on the disk.
    pub(super) is_committed: bool,
}

/// What became of a replacement.
#[derive(Debug)]
pub(crate) enum SwapOutcome {
    /// The cleaned segment is in its place, for good.
    Swapped,
    /// The log is as it was, and not ready for it.
    TooEarly,
    /// The log is as it was.
    NotBegun(LogError),
    /// It counts, but is to be tried again until it is done.
    Unfinished(LogError),
    /// Nobody knows which names in the directory are on the disk.
    SyncFailed(LogError),
}

/// The replacement of segments of a log, as the writer sees it.
#[derive(Debug)]
pub(super) struct Swapping {
    /// Where the first of them begins.
    pub(super) base_offset: Offset,
    /// Who waits for it.
    pub(super) done: Option<Completer<bool>>,
    /// To be tried again.
    pub(super) unfinished: Option<SwapJob>,
}

impl SwapJob {
    /// Does what is left to do.
    pub(super) fn run(&mut self, fs: &dyn Fs) -> SwapOutcome {
        let log = Arc::clone(&self.log);
        let (syncs, base_offset) = (log.dir_syncs(), self.segments[0].base_offset());
        if !self.is_named && !self.is_written_down() {
            discard_cleaned(fs, syncs.dir(), base_offset);
            return SwapOutcome::TooEarly;
        }
        if !self.is_named
            && let Err(error) = self.name(fs, base_offset)
        {
            self.segments.iter().for_each(|segment| segment.unpin());
            discard_cleaned(fs, syncs.dir(), base_offset);
            return SwapOutcome::NotBegun(error);
        }
        self.is_named = true;
        if !self.is_committed {
            // A start would finish it, whatever the log has become since: there is no way back.
            match syncs.sync_all(fs) {
                Ok(()) => self.is_committed = true,
                Err(error) if error.is_failed_sync_of(syncs.dir()) => {
                    return SwapOutcome::SyncFailed(error);
                }
                Err(error) => return SwapOutcome::Unfinished(error),
            }
        }
        let others: Vec<Offset> =
            self.segments[1..].iter().map(|segment| segment.base_offset()).collect();
        match finish_swap(fs, syncs, base_offset, &others) {
            Ok(()) => SwapOutcome::Swapped,
            Err(error) if error.is_failed_sync_of(syncs.dir()) => SwapOutcome::SyncFailed(error),
            Err(error) => SwapOutcome::Unfinished(error),
        }
    }

    /// Whether the disk knows of what the swap builds upon. The checkpoints that were sent before this
    /// job are written, but one of them may have been made before the last of the segments was sealed,
    /// and so have put the recovery point back to where that begins; or before the log start moved:
    /// after a crash what lies before would be back, and what had superseded it gone.
    fn is_written_down(&self) -> bool {
        self.end <= self.log.written_recovery_point()
            && self.log_start <= self.log.written_log_start()
    }

    fn name(&self, fs: &dyn Fs, base_offset: Offset) -> Result<(), LogError> {
        self.segments.iter().try_for_each(|segment| segment.pin())?;
        name_swap(fs, self.log.dir_syncs().dir(), base_offset)
    }
}
