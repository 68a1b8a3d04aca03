//! Numbers that are measured when somebody asks for the metrics.
//!
//! So a broker whose metrics nobody reads measures nothing, and what is read is new. One measurement is in work at a time, in a
//! task of its own. It takes a tenth of the time at most. Who asks meanwhile gets the numbers of the last one.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// Numbers that are no older are not measured anew.
const FRESH_MAX: Duration = Duration::from_secs(5);

/// After a measurement none is begun for this many times the time that it took.
const REST_FACTOR: u32 = 9;

/// Who reads the metrics waits no longer for new numbers.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// The latest measurement of something. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Sampled<T> {
    latest: Arc<ArcSwap<T>>,
    /// When the next measurement may begin; held while one is in work.
    due: Arc<Mutex<Instant>>,
}

impl<T: Default> Default for Sampled<T> {
    /// Nothing was measured yet.
    fn default() -> Sampled<T> {
        let latest = Arc::new(ArcSwap::from_pointee(T::default()));
        Sampled { latest, due: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl<T: Send + Sync + 'static> Sampled<T> {
    /// What was measured last.
    pub(crate) fn latest(&self) -> Guard<Arc<T>> {
        self.latest.load()
    }

    /// Measures anew, unless that was just done. Ends soon, whether that is done or not.
    pub(crate) async fn refresh(&self, measure: impl Future<Output = T> + Send + 'static) {
        let until = Instant::now() + WAIT_MAX;
        let Ok(mut due) = timeout_at(until, Arc::clone(&self.due).lock_owned()).await else {
            return;
        };
        let began = Instant::now();
        if began < *due {
            return;
        }
        let latest = Arc::clone(&self.latest);
        let work = tokio::spawn(async move {
            latest.store(Arc::new(measure.await));
            *due = Instant::now() + FRESH_MAX.max(began.elapsed() * REST_FACTOR);
        });
        // One that is late goes on; one that failed has said so.
        let _ = timeout_at(until, work).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_does_not_wait_for_a_measurement_that_takes_long() {
        let sampled = Sampled::<u32>::default();
        let began = Instant::now();
        sampled.refresh(pending()).await;
        sampled.refresh(async { 7 }).await;
        assert_eq!(began.elapsed().as_millis(), 2 * WAIT_MAX.as_millis());
        assert_eq!(**sampled.latest(), 0, "the first one is still in work");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_just_measured_is_not_measured_again() {
        let sampled = Sampled::<u32>::default();
        sampled.refresh(async { 1 }).await;
        sampled.refresh(async { 2 }).await;
        assert_eq!(**sampled.latest(), 1);
        tokio::time::advance(FRESH_MAX).await;
        sampled.refresh(async { 3 }).await;
        assert_eq!(**sampled.latest(), 3);
    }
}
