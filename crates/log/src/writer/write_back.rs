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
use super::write_back_job::{PartOfWriteBack, WriteBack, WriteBackLog};
use crate::log_state::LogKey;
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
        let part = PartOfWriteBack::new(log, Arc::clone(&self.is_part_under_way));
        background.send(Job::PartOfWriteBack(part));
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
