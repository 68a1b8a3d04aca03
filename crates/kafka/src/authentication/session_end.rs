//! When a client has to say again who it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A moment that can be moved; none at first.
#[derive(Debug)]
pub(super) struct SessionEnd {
    opened: Instant,
    /// Microseconds since then; 0 for none.
    at_us: AtomicU64,
}

impl Default for SessionEnd {
    fn default() -> SessionEnd {
        SessionEnd { opened: Instant::now(), at_us: AtomicU64::new(0) }
    }
}

impl SessionEnd {
    /// The session ends when so much time has passed from now on, or never.
    pub(super) fn set(&self, left: Option<Duration>) {
        let at = left.map(|left| self.opened.elapsed().saturating_add(left).as_micros());
        let at_us = at.map_or(0, |at| u64::try_from(at).unwrap_or(u64::MAX).max(1));
        self.at_us.store(at_us, Ordering::Relaxed);
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        match self.at_us.load(Ordering::Relaxed) {
            0 => false,
            at_us => self.opened.elapsed() >= Duration::from_micros(at_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_in_its_time_or_never() {
        let end = SessionEnd::default();
        assert!(!end.is_over());
        end.set(Some(Duration::ZERO));
        while !end.is_over() {}
        end.set(Some(Duration::MAX));
        assert!(!end.is_over());
        end.set(Some(Duration::ZERO));
        end.set(None);
        assert!(!end.is_over());
    }
}
