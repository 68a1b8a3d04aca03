//! The time, as the storage engine sees it.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use logway_model::TimestampMs;

/// Where the storage engine takes the time from: wall-clock time, as records carry it.
///
/// It decides what is old (retention, rolling, `LogAppendTime`) and what is due, never how long a
/// thread sleeps.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> TimestampMs;

    /// The time that the writer's timers go by, which does not jump. A simulation has its own.
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> TimestampMs {
        since_epoch(SystemTime::now())
    }
}

/// A time of the machine. One before 1970 is as good as one there.
pub(crate) fn since_epoch(time: SystemTime) -> TimestampMs {
    let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// A clock that moves only when it is told to; for tests and simulations.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now_ms: Arc<AtomicI64>,
    /// Timers go by the machine's clock, unless this is set.
    instant: Arc<OnceLock<Instant>>,
}

impl ManualClock {
    /// A clock that stands at `now`; its clones move with it.
    pub fn new(now: TimestampMs) -> ManualClock {
        ManualClock { now_ms: Arc::new(AtomicI64::new(now.0)), instant: Arc::default() }
    }

    /// Has no timer become due any more, however long a test is kept waiting by the machine.
    pub fn stop_timers(&self) {
        self.instant.get_or_init(Instant::now);
    }

    /// Moves the clock forward.
    pub fn advance(&self, elapsed_ms: i64) {
        self.now_ms.fetch_add(elapsed_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> TimestampMs {
        TimestampMs(self.now_ms.load(Ordering::SeqCst))
    }

    fn instant(&self) -> Instant {
        self.instant.get().copied().unwrap_or_else(Instant::now)
    }
}
