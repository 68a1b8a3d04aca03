//! Waiting between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use crate::ClientError;
use crate::delay::{Attempts, DelayObserver};

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Growing pauses with jitter, up to a deadline.
///
/// The jitter keeps the clients of a broker that comes back from calling all at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    deadline: Instant,
    attempts: Attempts,
}

impl Backoff {
    /// Attempts may go on for `patience`.
    pub(crate) fn within(patience: Duration, observer: &DelayObserver) -> Backoff {
        let attempts = Attempts::new(observer.clone());
        Backoff { failures: 0, deadline: Instant::now() + patience, attempts }
    }

    /// Attempts something until it succeeds, until an error says that no later attempt may, or until the deadline.
    pub(crate) async fn repeat<T, F: Future<Output = Result<T, ClientError>>>(
        mut self,
        attempt: impl Fn() -> F,
    ) -> Result<T, ClientError> {
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if !error.is_retriable() || !self.pause(&error).await {
                return Err(error);
            }
        }
    }

    /// Waits before the next attempt, after `error`; false, at once, when it would come after the
    /// deadline.
    pub(crate) async fn pause(&mut self, error: &ClientError) -> bool {
        let pause = pause_after(self.failures);
        self.failures += 1;
        if Instant::now() + pause > self.deadline {
            return false;
        }
        self.attempts.failed(error);
        tokio::time::sleep(pause).await;
        true
    }
}

/// How long to wait after that many failures before: 75 to 100 percent of the full pause.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let full = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
    // The standard library has no random numbers, but its hash seeds are random.
    let random_percent = RandomState::new().hash_one(failures) % 26;
    full * (75 + random_percent as u32) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        for failures in 0..100 {
            let pause = pause_after(failures);
            assert!(
                pause <= LONGEST_PAUSE && pause >= FIRST_PAUSE * 3 / 4,
                "{failures}: {pause:?}"
            );
        }
        assert!(pause_after(10) > pause_after(0));
    }
}
