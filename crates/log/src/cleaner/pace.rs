//! How fast the cleaner works, and how it is stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The bytes that all threads of a cleaner may read and write in a second.
///
/// What was used is waited for afterwards: a thread that has used the bytes of two seconds waits for
/// two seconds, and for what others had used before it.
#[derive(Debug)]
pub(super) struct Throttle {
    state: Mutex<ThrottleState>,
}

#[derive(Debug)]
struct ThrottleState {
    bytes_per_second: f64,
    /// The bytes that were used so far.
    used_bytes: f64,
    /// Those of them that were waited for until `paid_at`.
    paid_bytes: f64,
    paid_at: Instant,
}

/// What a thread has to wait for: that so many bytes are paid.
#[derive(Debug, Clone, Copy)]
struct Bill {
    bytes: f64,
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

/// A rate that is raised must not find a wait of hours.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Throttle {
    pub(super) fn new(bytes_per_second: f64) -> Throttle {
        let (used_bytes, paid_bytes, paid_at) = (0.0, 0.0, Instant::now());
        let state = ThrottleState { bytes_per_second, used_bytes, paid_bytes, paid_at };
        Throttle { state: Mutex::new(state) }
    }

    /// Changes the rate, also for what was used and is not paid.
    pub(super) fn set_rate(&self, bytes_per_second: f64) {
        let mut state = self.state();
        state.pay(Instant::now());
        state.bytes_per_second = bytes_per_second;
    }

    /// Uses bytes.
    fn charge(&self, bytes: u64) -> Bill {
        let mut state = self.state();
        state.pay(Instant::now());
        state.used_bytes += bytes as f64;
        Bill { bytes: state.used_bytes }
    }

    /// How long to wait until a bill is paid, or until it is to be asked again.
    fn wait_for(&self, bill: Bill) -> Duration {
        let mut state = self.state();
        state.pay(Instant::now());
        let seconds = (bill.bytes - state.paid_bytes).max(0.0) / state.bytes_per_second.max(1.0);
        Duration::try_from_secs_f64(seconds).unwrap_or(WAIT_MAX).min(WAIT_MAX)
    }

    /// No code panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, ThrottleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThrottleState {
    /// The time until `now` pays for what was used before, and for nothing that is yet to come.
    fn pay(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.paid_at).as_secs_f64();
        let paid_bytes = self.paid_bytes + elapsed * self.bytes_per_second.max(1.0);
        self.paid_bytes = paid_bytes.min(self.used_bytes);
        self.paid_at = now;
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
        // Shorter waits add up to the next one.
        const WORTH_IT: Duration = Duration::from_millis(5);
        let bill = self.throttle.charge(bytes);
        loop {
            if self.cancel.is_cancelled() {
                return Err(Cancelled);
            }
            let wait = self.throttle.wait_for(bill);
            if wait < WORTH_IT {
                return Ok(());
            }
            self.cancel.sleep(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_many_small_uses() {
        let throttle = Throttle::new(1_000_000.0);
        let bills: Vec<Bill> = (0..100).map(|_| throttle.charge(10_000)).collect();
        let last = throttle.wait_for(bills[99]);
        assert!(last > Duration::from_millis(900) && last <= Duration::from_secs(1), "{last:?}");
        assert!(throttle.wait_for(bills[0]) <= Duration::from_millis(10), "others come later");
    }

    #[test]
    fn a_wait_has_a_bound_and_an_end() {
        let throttle = Throttle::new(0.0);
        assert!(throttle.wait_for(throttle.charge(u64::MAX)) <= WAIT_MAX);
        let cancel = Cancel::default();
        cancel.cancel();
        let pace = Pace { throttle: &throttle, cancel: &cancel };
        assert_eq!(pace.use_disk(1), Err(Cancelled));
    }

    #[test]
    fn what_takes_longer_than_one_wait_is_not_forgotten() {
        let throttle = Throttle::new(1000.0);
        let bill = throttle.charge(100_000);
        assert_eq!(throttle.wait_for(bill), WAIT_MAX);
        throttle.set_rate(5000.0);
        let wait = throttle.wait_for(bill);
        assert_eq!(wait, WAIT_MAX, "20 seconds are left");
        throttle.set_rate(50_000.0);
        let wait = throttle.wait_for(bill);
        assert!(wait > Duration::from_secs(1) && wait < Duration::from_secs(3), "{wait:?}");
    }
}
