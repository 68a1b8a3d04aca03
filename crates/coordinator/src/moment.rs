//! The time, as the driver tells it.

use std::fmt;

use logway_model::TimestampMs;

/// Milliseconds on a clock that never goes back or jumps, from any beginning.
///
/// Timeouts go by it: a wall clock that is set would throw every member out at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ElapsedMs(pub u64);

impl ElapsedMs {
    /// So much later.
    #[must_use]
    pub fn after_ms(self, delay_ms: u64) -> ElapsedMs {
        ElapsedMs(self.0.saturating_add(delay_ms))
    }
}

impl fmt::Display for ElapsedMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// For timeouts.
    pub elapsed: ElapsedMs,
    /// For what is written into records, and for the age of offsets.
    pub wall: TimestampMs,
}
