//! Putting a log on stable storage.

use std::time::{Duration, Instant};

use logway_model::Offset;

use super::log_tail::LogTail;
use super::round::Round;
use crate::config::NEVER_MS;
use crate::fs::File;
use crate::view::LogPoint;
use crate::{LogConfig, LogError, LogMetrics};

impl LogTail {
    /// Whether the log's settings want a sync now: `flush.messages` are unflushed, or `flush.ms`
    /// have passed.
    pub(super) fn must_sync(&self, round: &Round) -> bool {
        let unflushed = self.unflushed_records();
        let is_due = || self.flush_due(&round.config).is_some_and(|due| due <= round.started);
        self.poison.is_none()
            && unflushed > 0
            && (unflushed >= round.config.flush_messages || is_due())
    }

    /// When `flush.ms` have passed; `None` if nothing is unflushed, or the time never comes.
    pub(super) fn flush_due(&self, config: &LogConfig) -> Option<Instant> {
        let counts = config.flush_ms < NEVER_MS && self.poison.is_none();
        let since = self.unflushed_since.filter(|_| counts)?;
        since.checked_add(Duration::from_millis(config.flush_ms))
    }

    /// Puts everything that is written on stable storage. The new flushed offset is not
    /// published yet.
    ///
    /// After a failure nobody knows what is on the disk (the kernel may have dropped the pages and
    /// will report success the next time), so the log is poisoned.
    pub(super) fn sync(&mut self, round: &Round) {
        if self.poison.is_some() || self.unflushed_records() == 0 {
            return;
        }
        match self.sync_files(&round.metrics) {
            Ok(()) => {
                self.unsynced.clear();
                self.needs_dir_sync = false;
                self.set_flushed(self.view.end);
            }
            Err(error) => self.poison(&error),
        }
    }

    fn sync_files(&mut self, metrics: &LogMetrics) -> Result<(), LogError> {
        for segment in &self.unsynced {
            timed_sync(&*segment.file()?, metrics)
                .map_err(LogError::io("sync", segment.path()))?;
        }
        if self.view.end.position > 0 {
            let file = self.active_file()?;
            timed_sync(&*file, metrics)
                .map_err(LogError::io("sync", self.view.active().path()))?;
        }
        if self.needs_dir_sync {
            self.fs.sync_dir(&self.dir).map_err(LogError::io("sync", &self.dir))?;
        }
        Ok(())
    }

    /// The background thread has put the segments before `end`, which begins one, on stable
    /// storage.
    pub(super) fn note_synced_before(&mut self, end: Offset) {
        self.unsynced.retain(|segment| segment.base_offset() >= end);
        if end > self.view.flushed.offset {
            self.set_flushed(LogPoint { offset: end, segment: end, position: 0 });
        }
    }
}

fn timed_sync(file: &dyn File, metrics: &LogMetrics) -> std::io::Result<()> {
    let started = Instant::now();
    file.sync_data()?;
    metrics.sync_seconds.observe(started.elapsed().as_secs_f64());
    metrics.syncs.inc();
    Ok(())
}
