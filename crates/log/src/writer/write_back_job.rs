//! Syncing files that the journal vouches for, by the background thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sync_pool::NotSynced;
use crate::LogError;
use crate::fs::{Fs, OpenMode};
use crate::log_state::LogKey;
use crate::segment::Segment;
use crate::view::LogPoint;

/// Files to be synced, because the journal is to do without what they hold.
#[derive(Debug)]
pub(crate) struct WriteBack {
    pub(super) logs: Vec<WriteBackLog>,
}

/// The files of one log.
#[derive(Debug)]
pub(super) struct WriteBackLog {
    pub(super) key: LogKey,
    pub(super) segments: Vec<Arc<Segment>>,
    /// Before this everything was written when it was planned, in these segments or others that are
    /// synced.
    pub(super) to: LogPoint,
}

impl WriteBack {
    /// Does it; `finish` is told of each log.
    pub(super) fn run(
        &self,
        fs: &dyn Fs,
        mut finish: impl FnMut(LogKey, LogPoint, Result<(), NotSynced>),
    ) {
        for log in &self.logs {
            finish(log.key, log.to, log.sync(fs));
        }
    }
}

/// A part of what the next [`WriteBack`] would have to do. That it is done nobody needs to know: the writer's
/// thread may sleep on.
#[derive(Debug)]
pub(crate) struct PartOfWriteBack {
    log: WriteBackLog,
    _under_way: PartUnderWay,
}

/// A part is under way until this is dropped.
#[derive(Debug)]
struct PartUnderWay(Arc<AtomicBool>);

impl Drop for PartUnderWay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl PartOfWriteBack {
    /// That of a log; `is_under_way` is unset when it is done or given up.
    pub(super) fn new(log: WriteBackLog, is_under_way: Arc<AtomicBool>) -> PartOfWriteBack {
        PartOfWriteBack { log, _under_way: PartUnderWay(is_under_way) }
    }

    /// Which log it is of.
    pub(super) fn key(&self) -> LogKey {
        self.log.key
    }

    /// Does it. A failure has to be noted: the system tells it once.
    pub(super) fn run(&self, fs: &dyn Fs) -> Result<(), NotSynced> {
        self.log.sync(fs)
    }
}

impl WriteBackLog {
    fn sync(&self, fs: &dyn Fs) -> Result<(), NotSynced> {
        self.segments.iter().try_for_each(|segment| sync(fs, segment))
    }
}

/// Syncs a segment through a handle of its own: the system reports a failed write-back once to each
/// open file, and the writer's sync must not miss it.
fn sync(fs: &dyn Fs, segment: &Segment) -> Result<(), NotSynced> {
    let path = segment.path();
    let file = fs.open(path, OpenMode::ReadWrite).map_err(LogError::io("open", path));
    let file = file.map_err(NotSynced::NotBegun)?;
    file.sync_data().map_err(LogError::io("sync", path)).map_err(NotSynced::Failed)
}
