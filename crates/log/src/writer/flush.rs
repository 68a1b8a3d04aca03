//! Putting a log on stable storage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use logway_model::Offset;

use super::log_tail::LogTail;
use super::sync_pool::SyncPlan;
use crate::checkpoint::replace_file;
use crate::config::NEVER_MS;
use crate::file_names::FAILED_SYNC_FILE;
use crate::view::LogPoint;
use crate::{LogConfig, LogError};

impl LogTail {
    /// Whether the log's settings want a sync now: `flush.messages` are unflushed, or `flush.ms`
    /// have passed; or whether an append waits for one, which it may from the time of other
    /// settings. A sync that could not be begun is wanted when its next try is due.
    pub(super) fn must_sync(&self, config: &LogConfig, now: Instant) -> bool {
        if self.poison.is_some() {
            return false;
        }
        if let Some(delay) = &self.sync_delay {
            // What only the journal vouches for is flushed already.
            return self.unsynced_records() > 0 && delay.next_try() <= now;
        }
        let unflushed = self.unflushed_records();
        let is_due = self.flush_due(config).is_some_and(|due| due <= now);
        unflushed > 0 && (is_due || unflushed >= config.flush_messages || !self.waiting.is_empty())
    }

    /// When the next sync is due by the clock: when `flush.ms` have passed, or when a sync that
    /// could not be begun is tried again; `None` if that time never comes.
    pub(super) fn sync_due(&self, config: &LogConfig) -> Option<Instant> {
        match &self.sync_delay {
            Some(delay) => Some(delay.next_try()),
            None => self.flush_due(config),
        }
    }

    /// When `flush.ms` have passed; `None` if nothing is unflushed, or the time never comes.
    fn flush_due(&self, config: &LogConfig) -> Option<Instant> {
        let counts = config.flush_ms < NEVER_MS && self.poison.is_none();
        let since = self.unflushed_since.filter(|_| counts)?;
        since.checked_add(Duration::from_millis(config.flush_ms))
    }

    /// What must be synced; `None` if there is nothing, or the log is poisoned. After an error no
    /// sync was tried, and nothing is lost.
    pub(super) fn begin_sync(&mut self) -> Result<Option<SyncPlan>, LogError> {
        if self.poison.is_some() || self.unsynced_records() == 0 {
            return Ok(None);
        }
        self.plan_sync().map(Some)
    }

    /// Takes note of a sync of all that is written.
    pub(super) fn finish_sync(&mut self) {
        self.unsynced.clear();
        self.needs_dir_sync = false;
        self.set_synced(self.view.end);
    }

    /// Poisons the log because a sync of it failed.
    ///
    /// Nobody knows what is on the disk (the kernel may have dropped the pages and will report
    /// success the next time), so a mark on the disk tells the next start.
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
        let names_of = self.needs_dir_sync.then(|| Arc::clone(&self.log));
        Ok(SyncPlan { fs: Arc::clone(&self.fs), files, names_of })
    }

    /// The background thread has put the segments before `end`, which begins one, on stable
    /// storage.
    pub(super) fn note_synced_before(&mut self, end: Offset) {
        // A sync that failed is reported once; one that came later may have seen nothing wrong.
        if self.poison.is_some() {
            return;
        }
        self.unsynced.retain(|segment| segment.base_offset() >= end);
        if end > self.synced.offset {
            self.set_synced(LogPoint { offset: end, segment: end, position: 0 });
        }
    }
}
