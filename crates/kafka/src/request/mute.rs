//! A connection that is not read for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Until when nothing is read from a connection, because its client has used more than its quota
/// allows (KIP-219).
#[derive(Debug)]
pub(crate) struct Mute {
    opened: Instant,
    /// Microseconds since then; 0 for a connection that was never muted.
    until_us: AtomicU64,
}

impl Default for Mute {
    fn default() -> Mute {
        Mute { opened: Instant::now(), until_us: AtomicU64::new(0) }
    }
}

impl Mute {
    /// Reads nothing for `wait` from now on, or for longer if that was said before.
    pub(crate) fn extend(&self, wait: Duration) {
        if !wait.is_zero() {
            let until = self.opened.elapsed().saturating_add(wait);
            let until_us = u64::try_from(until.as_micros()).unwrap_or(u64::MAX);
            self.until_us.fetch_max(until_us, Ordering::Relaxed);
        }
    }

    /// Whether nothing should be read now.
    pub(crate) fn is_on(&self) -> bool {
        !self.left().is_zero()
    }

    /// Ends when reading may go on.
    pub(crate) async fn over(&self) {
        while self.is_on() {
            sleep(self.left()).await;
        }
    }

    fn left(&self) -> Duration {
        match self.until_us.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            until_us => Duration::from_micros(until_us).saturating_sub(self.opened.elapsed()),
        }
    }
}
