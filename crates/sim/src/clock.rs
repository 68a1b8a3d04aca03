//! Time that goes on only when the world says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use logway_log::Clock;
use logway_model::TimestampMs;

/// The time at which worlds begin.
const NOW_MS: i64 = 1_700_000_000_000;

/// A clock of a world, for records as for timers; its clones move with it.
#[derive(Debug, Clone)]
pub(crate) struct WorldClock {
    began: Instant,
    elapsed_ms: Arc<AtomicU64>,
}

impl WorldClock {
    /// A clock that stands at the beginning.
    pub(crate) fn new() -> WorldClock {
        WorldClock { began: Instant::now(), elapsed_ms: Arc::default() }
    }

    /// Moves the clock forward.
    pub(crate) fn advance_ms(&self, elapsed_ms: u64) {
        self.elapsed_ms.fetch_add(elapsed_ms, Ordering::SeqCst);
    }

    /// The time since the world began.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms.load(Ordering::SeqCst)
    }
}

impl Clock for WorldClock {
    fn now(&self) -> TimestampMs {
        let elapsed_ms = i64::try_from(self.elapsed_ms()).expect("worlds are short");
        TimestampMs(NOW_MS + elapsed_ms)
    }

    fn instant(&self) -> Instant {
        self.began + Duration::from_millis(self.elapsed_ms())
    }
}
