//! How long something is waited for.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Between two looks whether something has come about.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A look that takes longer counts as so long: the machine had others to serve. What the nodes do would be late, too, and
/// that is no fault of theirs.
const LOOK_MAX: Duration = Duration::from_millis(20);

/// Time that passes only while the machine lets the simulation run.
pub(super) struct Patience {
    left: Duration,
    looked_at: Instant,
}

impl Patience {
    pub(super) fn new(time_max: Duration) -> Patience {
        Patience { left: time_max, looked_at: Instant::now() }
    }

    /// Lets a moment pass; whether there is patience left.
    pub(super) async fn wait(&mut self) -> bool {
        sleep(LOOK_INTERVAL).await;
        let now = Instant::now();
        self.left = self.left.saturating_sub((now - self.looked_at).min(LOOK_MAX));
        self.looked_at = now;
        !self.left.is_zero()
    }
}
