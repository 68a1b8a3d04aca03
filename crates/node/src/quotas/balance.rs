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
//!
//! Kafka's token bucket (KIP-599) has other bounds: at first, and after a while, there is what all
//! windows are worth, and a debt is never forgiven.

use std::time::{Duration, Instant};

/// No client waits longer, whatever the windows are.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// Over how long the use of a quota is averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QuotaWindow {
    first_seconds: f64,
    saved_max_seconds: f64,
    debt_max_seconds: f64,
    wait_max: Duration,
    /// How long to wait where waiting does not help.
    vain_wait: Duration,
}

impl QuotaWindow {
    /// `count` windows of `size`, at least one of at least a second.
    pub(super) fn new(size: Duration, count: u32) -> QuotaWindow {
        let size = size.min(WAIT_MAX);
        let all = size.saturating_mul(count).min(WAIT_MAX);
        QuotaWindow {
            first_seconds: size.as_secs_f64(),
            saved_max_seconds: (all - size).max(size).as_secs_f64(),
            debt_max_seconds: all.as_secs_f64(),
            wait_max: all,
            vain_wait: all,
        }
    }

    /// The bounds of Kafka's token bucket.
    pub(super) fn token_bucket(size: Duration, count: u32) -> QuotaWindow {
        let all = size.saturating_mul(count).min(WAIT_MAX);
        let all_seconds = all.as_secs_f64();
        QuotaWindow {
            first_seconds: all_seconds,
            saved_max_seconds: all_seconds,
            debt_max_seconds: f64::MAX,
            wait_max: WAIT_MAX,
            vain_wait: all,
        }
    }

    /// The same with shorter waits.
    pub(super) fn with_wait_max(self, wait_max: Duration) -> QuotaWindow {
        let wait_max = wait_max.min(self.wait_max);
        QuotaWindow {
            debt_max_seconds: self.debt_max_seconds.min(wait_max.as_secs_f64()),
            wait_max,
            vain_wait: self.vain_wait.min(wait_max),
            ..self
        }
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
        self.save_up(rate, window, now);
        self.amount = (self.amount - amount).max(-rate * window.debt_max_seconds);
        self.wait(rate, window)
    }

    /// Takes an amount, however large, unless more was taken before than there was: then nothing is
    /// taken, and this says how long that lasts.
    pub(super) fn charge_unless_spent(
        &mut self,
        amount: f64,
        rate: f64,
        window: QuotaWindow,
        now: Instant,
    ) -> Result<(), Duration> {
        match self.charge(0.0, rate, window, now) {
            Duration::ZERO => {
                self.charge(amount, rate, window, now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// Takes an amount in advance, and says when it is there. Takes nothing if that would be longer
    /// than anybody waits.
    pub(super) fn reserve(
        &mut self,
        amount: f64,
        rate: f64,
        window: QuotaWindow,
        now: Instant,
    ) -> Option<Duration> {
        self.save_up(rate, window, now);
        if rate <= 0.0 || self.amount - amount < -rate * window.debt_max_seconds {
            return None;
        }
        self.amount -= amount;
        Some(self.wait(rate, window))
    }

    fn save_up(&mut self, rate: f64, window: QuotaWindow, now: Instant) {
        let elapsed_seconds = now.saturating_duration_since(self.as_of).as_secs_f64();
        self.as_of = now;
        self.amount = (self.amount + rate * elapsed_seconds).min(window.saved_max(rate));
    }

    fn wait(&self, rate: f64, window: QuotaWindow) -> Duration {
        match self.amount {
            _ if rate <= 0.0 => window.vain_wait,
            // A rate may be so low that the time is longer than any that can be told.
            debt if debt < 0.0 => Duration::try_from_secs_f64(-debt / rate)
                .map_or(window.wait_max, |wait| wait.min(window.wait_max)),
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
    fn a_rate_however_low_gives_a_wait() {
        let start = Instant::now();
        let bucket = QuotaWindow::token_bucket(Duration::from_secs(1), 11);
        let mut balance = Balance::new(1e-300, bucket, start);
        let wait = balance.charge(1e9, 1e-300, bucket, start);
        assert_eq!(wait, bucket.wait_max);
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
    fn a_token_bucket_begins_full_and_remembers_what_was_overdrawn() {
        let start = Instant::now();
        let bucket = QuotaWindow::token_bucket(Duration::from_secs(1), 11);
        let mut balance = Balance::new(1.0, bucket, start);
        // However much that is, if there was anything left.
        assert_eq!(balance.charge_unless_spent(111.0, 1.0, bucket, start), Ok(()));
        let refused = balance.charge_unless_spent(1.0, 1.0, bucket, start).expect_err("is spent");
        assert!(is_about(refused, 100.0), "{refused:?}");
        // The refused did not count.
        let later = start + seconds(99.0);
        let refused = balance.charge_unless_spent(1.0, 1.0, bucket, later).expect_err("is spent");
        assert!(is_about(refused, 1.0), "{refused:?}");
        let later = start + seconds(100.0);
        assert_eq!(balance.charge_unless_spent(1.0, 1.0, bucket, later), Ok(()));
        // What is given back counts, and no more than that, however much it was.
        for amount in [1.0, 1e9] {
            balance.charge(amount, 1.0, bucket, later);
            assert_eq!(balance.charge(-amount, 1.0, bucket, later), seconds(1.0));
        }
        let refused =
            balance.charge_unless_spent(1.0, 0.0, bucket, later).expect_err("none at all");
        assert_eq!(refused, seconds(11.0));
    }

    #[test]
    fn reservations_come_at_the_rate_and_not_too_far_ahead() {
        let start = Instant::now();
        let mut balance = Balance::new(10.0, window(), start);
        let mut waits: Vec<f64> = Vec::new();
        while let Some(wait) = balance.reserve(1.0, 10.0, window(), start) {
            waits.push(wait.as_secs_f64());
        }
        // A second's worth at once, eleven seconds' worth to come.
        assert_eq!(waits.len(), 10 + 110);
        let expected = (0..120_i32).map(|number| f64::from((number - 9).max(0)) / 10.0);
        for (wait, expected) in waits.into_iter().zip(expected) {
            assert!((wait - expected).abs() < 1e-6, "{wait} {expected}");
        }
        // Those that come all the time get the rate and no more.
        let mut reserved = 0;
        for millisecond in 0..10_000_u32 {
            let now = start + Duration::from_millis(u64::from(millisecond));
            reserved += u32::from(balance.reserve(1.0, 10.0, window(), now).is_some());
        }
        assert!((99..=100).contains(&reserved), "{reserved}");
        let mut none = Balance::new(0.0, window(), start);
        assert_eq!(none.reserve(1.0, 0.0, window(), start), None);
    }

    #[test]
    fn settings_of_any_size_make_a_window() {
        for (size, count) in [(1, 1), (1, u32::MAX), (u64::from(u32::MAX), u32::MAX)] {
            for make in [QuotaWindow::new, QuotaWindow::token_bucket] {
                let window = make(Duration::from_secs(size), count);
                let is_bounded = window.wait_max <= WAIT_MAX && window.vain_wait <= WAIT_MAX;
                assert!(is_bounded && window.saved_max_seconds >= 1.0, "{window:?}");
            }
        }
    }
}
