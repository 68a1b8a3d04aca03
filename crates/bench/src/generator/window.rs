//! When to look, and when to stop.

use std::time::{Duration, Instant};

/// The measured part of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// What comes before this is not counted.
    pub(crate) from: Instant,
    /// What comes after this is not counted, and nothing is sent any more.
    pub(crate) to: Instant,
}

impl Window {
    /// One that opens after the warm-up.
    pub(crate) fn starting_now(warm_up: Duration, measured: Duration) -> Window {
        Window::starting_at(Instant::now(), warm_up, measured)
    }

    /// The same, where the warm-up begins at `start`.
    pub(crate) fn starting_at(start: Instant, warm_up: Duration, measured: Duration) -> Window {
        let from = start + warm_up;
        Window { from, to: from + measured }
    }

    /// One of the same length that opens at a moment.
    pub(crate) fn moved_to(&self, from: Instant) -> Window {
        Window { from, to: from + self.length() }
    }

    pub(crate) fn contains(&self, moment: Instant) -> bool {
        self.from <= moment && moment < self.to
    }

    pub(crate) fn length(&self) -> Duration {
        self.to - self.from
    }
}
