//! Lines of the log that do not come too often.

use std::time::{Duration, Instant};

/// Lets something be told once in a while, however often it happens.
#[derive(Debug, Default)]
pub(super) struct Rarely {
    next: Option<Instant>,
}

impl Rarely {
    const INTERVAL: Duration = Duration::from_secs(10);

    /// Whether it may be told now; if so, it may not for the next 10 seconds.
    pub(super) fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let is_time = self.next.is_none_or(|next| next <= now);
        if is_time {
            self.next = Some(now + Rarely::INTERVAL);
        }
        is_time
    }
}
