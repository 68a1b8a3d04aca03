//! How fast the cleaner works, and how it is stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The bytes that all threads of a cleaner may read and write in a second.
///
/// What was used is waited for afterwards: a thread that has used the bytes of two seconds waits for
/// two seconds.
#[derive(Debug)]
pub(super) struct Throttle {
    state: Mutex<ThrottleState>,
}

#[derive(Debug)]
struct ThrottleState {
    bytes_per_second: f64,
    /// When all that was used is paid for.
    paid_at: Instant,
}

/// Tells those who clean a log to leave it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel {
    shared: Arc<CancelState>,
}

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

/// What a round of cleaning goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace<'a> {
    pub(super) throttle: &'a Throttle,
    pub(super) cancel: &'a Cancel,
}

/// The round was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cancelled;

impl Throttle {
    pub(super) fn new(bytes_per_second: f64) -> Throttle {
        let state = ThrottleState { bytes_per_second, paid_at: Instant::now() };
        Throttle { state: Mutex::new(state) }
    }

    /// Changes the rate, for what is used from now on.
    pub(super) fn set_rate(&self, bytes_per_second: f64) {
        self.state().bytes_per_second = bytes_per_second;
    }

    /// Uses bytes; returns how long to wait for them.
    fn charge(&self, bytes: u64) -> Duration {
        /// A rate that was raised must not find a wait of hours.
        const WAIT_MAX: Duration = Duration::from_secs(10);
        let now = Instant::now();
        let mut state = self.state();
        let cost = bytes as f64 / state.bytes_per_second.max(1.0);
        let cost = Duration::try_from_secs_f64(cost).unwrap_or(WAIT_MAX).min(WAIT_MAX);
        state.paid_at = state.paid_at.max(now) + cost;
        state.paid_at = state.paid_at.min(now + WAIT_MAX);
        state.paid_at - now
    }

    /// No code panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, ThrottleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cancel {
    /// Tells them; nobody is told otherwise again.
    pub(crate) fn cancel(&self) {
        self.shared.is_cancelled.store(true, Ordering::Release);
        drop(self.lock());
        self.shared.changed.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Ordering::Acquire)
    }

    /// Waits for so long, unless it is cancelled meanwhile.
    pub(crate) fn sleep(&self, wait: Duration) {
        let is_waiting = |(): &mut ()| !self.is_cancelled();
        let waited = self.shared.changed.wait_timeout_while(self.lock(), wait, is_waiting);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pace<'_> {
    /// Uses bytes of the disk, and waits for them.
    pub(super) fn use_disk(&self, bytes: u64) -> Result<(), Cancelled> {
        let wait = self.throttle.charge(bytes);
        // Shorter waits add up to the next one.
        const WORTH_IT: Duration = Duration::from_millis(5);
        if wait >= WORTH_IT {
            self.cancel.sleep(wait);
        }
        if self.cancel.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_many_small_uses() {
        let throttle = Throttle::new(1_000_000.0);
        let waits: Vec<Duration> = (0..100).map(|_| throttle.charge(10_000)).collect();
        let last = waits[99];
        assert!(last > Duration::from_millis(900) && last <= Duration::from_secs(1), "{last:?}");
    }

    #[test]
    fn a_wait_has_a_bound_and_an_end() {
        let throttle = Throttle::new(0.0);
        assert!(throttle.charge(u64::MAX) <= Duration::from_secs(10));
        let cancel = Cancel::default();
        cancel.cancel();
        let pace = Pace { throttle: &throttle, cancel: &cancel };
        assert_eq!(pace.use_disk(1), Err(Cancelled));
    }
}
