//! How long a sync waits that could not be begun: see [`delayed_syncs`](super::delayed_syncs).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::LogError;

/// The wait before the second try; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_millis(10);

const DELAY_MAX: Duration = Duration::from_secs(1);

/// A sync that could not be begun and is to be tried again.
#[derive(Debug)]
pub(super) struct SyncDelay {
    /// Why the last try did not begin.
    cause: Arc<str>,
    delay: Duration,
    next_try: Instant,
}

impl SyncDelay {
    /// Of a sync that could not be begun at `now`, after the delay before if that was not the first try.
    pub(super) fn after(before: Option<&SyncDelay>, error: &LogError, now: Instant) -> SyncDelay {
        let delay = before.map_or(FIRST_DELAY, |before| (before.delay * 2).min(DELAY_MAX));
        SyncDelay { cause: error.to_string().into(), delay, next_try: now + delay }
    }

    /// Why the last try did not begin.
    pub(super) fn cause(&self) -> &Arc<str> {
        &self.cause
    }

    /// When the sync is tried again.
    pub(super) fn next_try(&self) -> Instant {
        self.next_try
    }
}
