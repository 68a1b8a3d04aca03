//! How long syncs take.

use std::time::Duration;

/// Up to here a sync costs those whose thread waits for it less than the way to another thread costs those who append.
const QUICK_SYNC: Duration = Duration::from_micros(500);

/// How long the syncs of a round take as a rule: a mean in which the last eight count for two thirds.
#[derive(Debug, Default)]
pub(super) struct SyncTime(Option<Duration>);

impl SyncTime {
    /// Takes note of the syncs of a round.
    pub(super) fn note(&mut self, took: Duration) {
        self.0 = Some(self.0.map_or(took, |mean| (mean * 7 + took) / 8));
    }

    /// Whether a thread that has others to look after may wait for them. Not before there was one.
    pub(super) fn is_quick(&self) -> bool {
        self.0.is_some_and(|mean| mean <= QUICK_SYNC)
    }
}
