//! Putting a log on stable storage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use logway_model::Offset;

use super::log_tail::LogTail;
use super::round::Round;
use super::sync_pool::SyncPlan;
use crate::checkpoint::replace_file;
use crate::config::NEVER_MS;
use crate::segment::FAILED_SYNC_FILE;
use crate::view::LogPoint;
use crate::{LogConfig, LogError};

impl LogTail {
    /// Whether the log's settings want a sync now: `flush.messages` are unflushed, or `flush.ms`
    /// have passed; or whether an append waits for one, which it may from the time of other
    /// settings.
    pub(super) fn must_sync(&self, round: &Round) -> bool {
        let unflushed = self.unflushed_records();
        let is_due = || self.flush_due(&round.config).is_some_and(|due| due <= round.started);
        self.poison.is_none()
            && unflushed > 0
            && (unflushed >= round.config.flush_messages || is_due() || !self.waiting.is_empty())
    }

    /// When `flush.ms` have passed; `None` if nothing is unflushed, or the time never comes.
    pub(super) fn flush_due(&self, config: &LogConfig) -> Option<Instant> {
        let counts = config.flush_ms < NEVER_MS && self.poison.is_none();
        let since = self.unflushed_since.filter(|_| counts)?;
        since.checked_add(Duration::from_millis(config.flush_ms))
    }

    /// What must be synced; `None` if there is nothing, or the log is poisoned.
    pub(super) fn begin_sync(&mut self) -> Option<SyncPlan> {
        if self.poison.is_some() || self.unflushed_records() == 0 {
            return None;
        }
        match self.plan_sync() {
            Ok(plan) => Some(plan),
            Err(error) => {
                // No sync was tried, so nothing is lost: descriptors may be short, or the disk
                // gone. Who waits is told to try again, and the next append asks for a sync again.
                let partition = self.log.name();
                tracing::error!(%partition, %error, "a log cannot be synced now");
                self.fail_waiting(&error);
                None
            }
        }
    }

    /// Takes note of a sync of all that is written.
    ///
    /// After a failure nobody knows what is on the disk (the kernel may have dropped the pages and
    /// will report success the next time), so the log is poisoned, and a mark on the disk tells
    /// the next start.
    pub(super) fn finish_sync(&mut self, result: Result<(), LogError>) {
        match result {
            Ok(()) => {
                self.unsynced.clear();
                self.needs_dir_sync = false;
                self.set_flushed(self.view.end);
            }
            Err(error) => self.fail_sync(&error),
        }
    }

    /// Poisons the log because a sync of it failed.
    pub(super) fn fail_sync(&mut self, error: &LogError) {
        self.poison(error);
        let mark = self.dir.join(FAILED_SYNC_FILE);
        if let Err(error) = replace_file(&*self.fs, &mark, b"") {
            let partition = self.log.name();
            tracing::error!(%partition, %error, "cannot note down that a sync has failed");
        }
    }

    fn plan_sync(&mut self) -> Result<SyncPlan, LogError> {
        let mut files = Vec::with_capacity(self.unsynced.len() + 1);
        for segment in &self.unsynced {
            files.push((Arc::clone(segment), segment.file()?));
        }
        if self.view.end.position > 0 {
            files.push((Arc::clone(self.view.active()), self.active_file()?));
        }
        let dir = self.needs_dir_sync.then(|| Arc::clone(&self.dir));
        Ok(SyncPlan { fs: Arc::clone(&self.fs), files, dir })
    }

    /// The background thread has put the segments before `end`, which begins one, on stable
    /// storage.
    pub(super) fn note_synced_before(&mut self, end: Offset) {
        // A sync that failed is reported once; one that came later may have seen nothing wrong.
        if self.poison.is_some() {
            return;
        }
        self.unsynced.retain(|segment| segment.base_offset() >= end);
        if end > self.view.flushed.offset {
            self.set_flushed(LogPoint { offset: end, segment: end, position: 0 });
        }
    }
}
