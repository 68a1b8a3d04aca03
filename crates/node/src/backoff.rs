//! Trying again, less and less often.

use std::time::Duration;

const PAUSE_MIN: Duration = Duration::from_secs(1);

const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The pauses between the tries of something that fails: a second at first, then longer and longer
/// while that does not help, up to a minute.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    /// Where it begins anew when a try has helped.
    min: Duration,
    max: Duration,
}

impl Backoff {
    /// The first pause is yet to come.
    pub(crate) fn new() -> Backoff {
        Backoff::starting_at(PAUSE_MIN)
    }

    /// With another first pause.
    pub(crate) fn starting_at(first: Duration) -> Backoff {
        Backoff { next: first, min: PAUSE_MIN, max: PAUSE_MAX }
    }

    /// Pauses between these two.
    pub(crate) fn between(min: Duration, max: Duration) -> Backoff {
        Backoff { next: min, min, max }
    }

    /// How long to wait before the next try.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.max.min(pause * 2);
        pause
    }

    /// A try has helped.
    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_until_a_try_helps() {
        let mut backoff = Backoff::new();
        let pauses = [0; 8].map(|_| backoff.pause().as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.pause(), PAUSE_MIN);
    }
}
