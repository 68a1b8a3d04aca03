//! The files of what is in the journal are synced behind it, in the background.
//!
//! That has to be done before a half of the journal is used again. Of a log that grows fast, 32 MiB would then go
//! to the disk at once, and the appends of that time would wait for it with their syncs: 17 ms instead of
//! 0.2. So such a log's file is synced in parts while the half fills, and there is little left to do.
//! RocksDB (`bytes_per_sync`) and PostgreSQL (`checkpoint_flush_after`) have come to the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Writer;
use super::background::{Background, Job};
use super::log_tail::LogTail;
use super::sync_pool::NotSynced;
use crate::LogError;
use crate::fs::{Fs, OpenMode};
use crate::log_state::LogKey;
use crate::segment::Segment;
use crate::view::LogPoint;

/// A part of so much holds the syncs of others up for half a millisecond, and costs a thread a wake-up.
const PART_BYTES: u64 = 1 << 20;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct WriteBacks {
    is_whole_under_way: bool,
    is_part_under_way: Arc<AtomicBool>,
}

impl WriteBacks {
    /// Has a log's file synced, unless the thread is still busy with such a one: then the next has more to do.
    pub(super) fn begin_part(&mut self, log: WriteBackLog, background: &Background) {
        if self.is_whole_under_way || self.is_part_under_way.swap(true, Ordering::Relaxed) {
            return;
        }
        let under_way = PartUnderWay(Arc::clone(&self.is_part_under_way));
        background.send(Job::PartOfWriteBack(PartOfWriteBack { log, _under_way: under_way }));
    }
}

impl Writer {
    /// Has the files of all logs synced that only the journal vouches for, in the background.
    pub(super) fn write_back(&mut self) {
        if self.journal.write_backs.is_whole_under_way {
            return;
        }
        let logs: Vec<WriteBackLog> =
            self.tails.values().filter_map(LogTail::plan_write_back).collect();
        if !logs.is_empty() {
            self.journal.write_backs.is_whole_under_way = true;
            self.round.background.send(Job::WriteBack(WriteBack { logs }));
        }
    }

    /// The background thread has synced files, or not.
    pub(super) fn note_written_back(&mut self, results: Vec<(LogKey, LogPoint)>) {
        self.journal.write_backs.is_whole_under_way = false;
        for (key, point) in results {
            let Some(tail) = self.tails.get_mut(&key) else { continue };
            // A sync that failed is reported once; one that came later may have seen nothing wrong.
            if tail.poison.is_none() {
                tail.set_synced(point);
                tail.publish();
            }
        }
    }
}

impl LogTail {
    fn plan_write_back(&self) -> Option<WriteBackLog> {
        (self.is_journalled() && self.poison.is_none()).then(|| WriteBackLog {
            key: self.log.key(),
            segments: self.unsynced.iter().chain([self.view.active()]).cloned().collect(),
            to: self.view.flushed,
        })
    }

    /// The active segment, if so much of it is only in the journal that it should be on its way to the disk.
    pub(super) fn plan_part_of_write_back(&mut self) -> Option<WriteBackLog> {
        let end = self.view.flushed;
        let begun = [self.synced, self.write_back_begun].into_iter();
        let begun = begun.filter(|point| point.segment == end.segment).map(|point| point.position);
        if end.position - begun.max().unwrap_or(0) < PART_BYTES {
            return None;
        }
        self.write_back_begun = end;
        let segments = vec![Arc::clone(self.view.active())];
        Some(WriteBackLog { key: self.log.key(), segments, to: end })
    }
}

/// Files to be synced, because the journal is to do without what they hold.
#[derive(Debug)]
pub(crate) struct WriteBack {
    logs: Vec<WriteBackLog>,
}

#[derive(Debug)]
pub(super) struct WriteBackLog {
    key: LogKey,
    segments: Vec<Arc<Segment>>,
    /// Before this everything was written when it was planned, in these segments or others that are
    /// synced.
    to: LogPoint,
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

#[derive(Debug)]
struct PartUnderWay(Arc<AtomicBool>);

impl Drop for PartUnderWay {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl PartOfWriteBack {
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
