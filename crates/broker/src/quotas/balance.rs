//! What one quota has left.
//!
//! A quota of R per second adds R to the balance each second; what a client uses is taken from it.
//! Below zero, the client waits until the balance is back at zero. So a client that takes all it
//! can gets R per second over any time, without the bursts at the edges of Kafka's windows. The
//! bounds are those that Kafka's windows have:
//!
//! - at first there is what one window is worth,
//! - a client that is idle saves up what all windows but one are worth,
//! - no wait is longer than all windows together; a debt beyond that is forgiven.

use std::time::{Duration, Instant};

/// No client waits longer, whatever the windows are.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// Over how long the use of a quota is averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QuotaWindow {
    first_seconds: f64,
    saved_max_seconds: f64,
    wait_max: Duration,
}

impl QuotaWindow {
    /// `count` windows of `size`, at least one of at least a second.
    pub(super) fn new(size: Duration, count: u32) -> QuotaWindow {
        let size = size.min(WAIT_MAX);
        let all = size.saturating_mul(count).min(WAIT_MAX);
        QuotaWindow {
            first_seconds: size.as_secs_f64(),
            saved_max_seconds: (all - size).max(size).as_secs_f64(),
            wait_max: all,
        }
    }

    /// The same with shorter waits.
    pub(super) fn with_wait_max(self, wait_max: Duration) -> QuotaWindow {
        QuotaWindow { wait_max: wait_max.min(self.wait_max), ..self }
    }

    /// The most that a client of a quota of `rate` per second can have saved up.
    pub(super) fn saved_max(&self, rate: f64) -> f64 {
        rate * self.saved_max_seconds
    }

    /// After so long a balance that nobody used is as good as a new one.
    pub(super) fn memory(&self) -> Duration {
        self.wait_max + Duration::from_secs_f64(self.saved_max_seconds)
    }
}

/// What one quota has left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Balance {
    amount: f64,
    as_of: Instant,
}

impl Balance {
    /// What a client begins with.
    pub(super) fn new(rate: f64, window: QuotaWindow, now: Instant) -> Balance {
        Balance { amount: rate * window.first_seconds, as_of: now }
    }

    /// When it was last used.
    pub(super) fn last_used(&self) -> Instant {
        self.as_of
    }

    /// Takes an amount; says how long to wait before the next.
    pub(super) fn charge(
        &mut self,
        amount: f64,
        rate: f64,
        window: QuotaWindow,
        now: Instant,
    ) -> Duration {
        let elapsed_seconds = now.saturating_duration_since(self.as_of).as_secs_f64();
        self.as_of = now;
        let saved = (self.amount + rate * elapsed_seconds).min(window.saved_max(rate));
        self.amount = (saved - amount).max(-rate * window.wait_max.as_secs_f64());
        match self.amount {
            _ if rate <= 0.0 => window.wait_max,
            debt if debt < 0.0 => Duration::from_secs_f64(-debt / rate).min(window.wait_max),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1_000.0;

    fn window() -> QuotaWindow {
        QuotaWindow::new(Duration::from_secs(1), 11)
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn is_about(wait: Duration, expected_seconds: f64) -> bool {
        (wait.as_secs_f64() - expected_seconds).abs() < 1e-6
    }

    #[test]
    fn a_client_that_takes_all_it_can_gets_its_rate() {
        let start = Instant::now();
        let mut balance = Balance::new(RATE, window(), start);
        let (mut now, mut used) = (start, 0.0);
        // Whatever the sizes of its requests are.
        for amount in [10.0, 700.0, 3.0, 5_000.0].into_iter().cycle() {
            let wait = balance.charge(amount, RATE, window(), now);
            used += amount;
            now += wait;
            if now >= start + seconds(100.0) {
                break;
            }
        }
        let rate = (used - RATE) / now.duration_since(start).as_secs_f64();
        assert!((rate - RATE).abs() < RATE * 0.001, "{rate}");
    }

    #[test]
    fn what_is_within_the_quota_never_waits() {
        let start = Instant::now();
        let mut balance = Balance::new(RATE, window(), start);
        for second in 0..100 {
            let now = start + seconds(f64::from(second));
            assert_eq!(balance.charge(RATE, RATE, window(), now), Duration::ZERO, "{second}");
        }
    }

    #[test]
    fn an_idle_client_saves_up_to_all_windows_but_one() {
        let start = Instant::now();
        let mut balance = Balance::new(RATE, window(), start);
        let now = start + seconds(1_000.0);
        assert_eq!(balance.charge(10.0 * RATE, RATE, window(), now), Duration::ZERO);
        assert!(is_about(balance.charge(RATE, RATE, window(), now), 1.0));
    }

    #[test]
    fn a_wait_is_bounded_and_so_is_the_debt() {
        let start = Instant::now();
        let mut balance = Balance::new(RATE, window(), start);
        assert_eq!(balance.charge(1e12, RATE, window(), start), seconds(11.0));
        assert_eq!(balance.charge(0.0, RATE, window(), start + seconds(11.0)), Duration::ZERO);
        let short = window().with_wait_max(seconds(1.0));
        let mut balance = Balance::new(RATE, short, start);
        assert_eq!(balance.charge(1e12, RATE, short, start), seconds(1.0));
    }

    #[test]
    fn a_quota_of_nothing_always_waits() {
        let start = Instant::now();
        let mut balance = Balance::new(0.0, window(), start);
        assert_eq!(balance.charge(1.0, 0.0, window(), start), seconds(11.0));
        // A later quota is not held up by the time without one.
        assert_eq!(balance.charge(1.0, RATE, window(), start + seconds(1.0)), Duration::ZERO);
    }

    #[test]
    fn settings_of_any_size_make_a_window() {
        for (size, count) in [(1, 1), (1, u32::MAX), (u64::from(u32::MAX), u32::MAX)] {
            let window = QuotaWindow::new(Duration::from_secs(size), count);
            assert!(window.wait_max <= WAIT_MAX && window.saved_max_seconds >= 1.0, "{window:?}");
        }
    }
}
