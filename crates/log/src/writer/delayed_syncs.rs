//! What happens when a sync cannot be begun.
//!
//! A file may have to be opened to be synced, and the process may have too many open. A sync that
//! did not begin is not one that failed: the records are in the page cache as before. So the
//! appends that wait for it go on waiting, because an error would make a producer that is not
//! idempotent write them again; it is tried again until it begins, and until then the log refuses
//! further appends with an error that asks for a retry. How long a client waits is its own
//! request timeout's matter.

use std::sync::Arc;
use std::time::Instant;

use super::Writer;
use super::log_tail::LogTail;
use super::sync_delay::SyncDelay;
use crate::LogError;
use crate::log_state::LogKey;

impl Writer {
    /// Takes note of syncs that could not be begun.
    pub(super) fn delay_syncs(&mut self, delayed: Vec<(LogKey, LogError)>) {
        let Some((_, error)) = delayed.first() else { return };
        self.are_syncs_delayed = true;
        let now = self.clock.instant();
        self.round.metrics.delayed_syncs.inc_by(delayed.len() as u64);
        if self.delay_reports.is_time() {
            let (logs, dir) = (delayed.len(), self.round.dir.display());
            tracing::error!(%dir, logs, %error, "logs cannot be synced now and refuse appends");
        }
        for (key, error) in delayed {
            if let Some(tail) = self.tails.get_mut(&key) {
                tail.delay_sync(&error, now);
                self.lagging.insert(key);
            }
        }
    }
}

impl LogTail {
    /// Why the log takes no appends, if a sync of it is delayed.
    pub(super) fn delayed(&self) -> Option<LogError> {
        self.sync_delay.as_ref().map(|delay| LogError::SyncDelayed {
            partition: self.log.topic_partition().clone(),
            cause: Arc::clone(delay.cause()),
        })
    }

    fn delay_sync(&mut self, error: &LogError, now: Instant) {
        self.sync_delay = Some(SyncDelay::after(self.sync_delay.as_ref(), error, now));
    }
}
