//! Who unpacks compressed records, and when, so that nobody's take the processors or the memory of
//! all.
//!
//! To unpack takes the memory of a codec ([`Batch::walk`]) and time, of which a client can ask for
//! much with few bytes: 33 KB can be 1 GiB of zeros. So it is tried with little time first, in one
//! of a few places. What takes longer gives its place up, waits for a place of the next kind, holding
//! nothing of what it unpacked, and begins anew. So a client's large batches delay only other large
//! ones.
//!
//! [`Batch::walk`]: logway_record::Batch::walk

use std::future::{Future, ready};
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use logway_model::ErrorCode;
use logway_record::{DecodeLimit, InvalidBatch};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::failure::Failure;
use crate::tasks::off_worker;

/// What a batch may unpack to in a short place: some milliseconds, with any codec.
const SHORT_MAX: DecodeLimit = DecodeLimit::new(4 << 20);

/// How many may wait for the long place; they hold what they are to unpack.
const LONG_WAITING_MAX: usize = 16;

/// The places at which batches are unpacked for one purpose, in steps: from those for what is done
/// soonest to the one for what takes longest.
pub struct UnpackingPlaces<const STEPS: usize = 2> {
    steps: [Semaphore; STEPS],
    /// Who has the place of the last step, or waits for it.
    last_queue: Semaphore,
    last_waiting_max: usize,
}

impl UnpackingPlaces {
    /// As many short places as there are processors, and one for what takes long.
    pub(crate) fn new() -> UnpackingPlaces {
        UnpackingPlaces::with_waiting_max(LONG_WAITING_MAX)
    }

    /// Does `work`, which may unpack as much as it is told; and once more with a larger limit, if
    /// `is_cut_short` by the first. The worker's other connections are handed to another thread.
    ///
    /// `KAFKA_STORAGE_ERROR`, at which clients try again, if too many wait with large batches.
    pub async fn run<T>(
        &self,
        work: impl Fn(DecodeLimit) -> T,
        is_cut_short: impl Fn(&T) -> bool,
    ) -> Result<T, Failure> {
        let work = |limit, ()| work(limit);
        let limits = [SHORT_MAX, DecodeLimit::BATCH_MAX];
        self.run_with(limits, |_, _| ready(()), work, is_cut_short).await
    }
}

impl<const STEPS: usize> UnpackingPlaces<STEPS> {
    /// As many places as there are processors for each step but the last, and one for that. So many
    /// may wait for it.
    pub(crate) fn with_waiting_max(last_waiting_max: usize) -> UnpackingPlaces<STEPS> {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        let places = |step| if step + 1 < STEPS { processors } else { 1 };
        UnpackingPlaces {
            steps: std::array::from_fn(|step| Semaphore::new(places(step))),
            last_queue: Semaphore::new(1 + last_waiting_max),
            last_waiting_max,
        }
    }

    #[cfg(test)]
    pub(crate) fn steps(&self) -> &[Semaphore; STEPS] {
        &self.steps
    }

    /// As [`UnpackingPlaces::run`], but for limits of its own, one for each step, and what the work takes
    /// at a step: it is asked for at the place, so that those who wait for one hold nothing.
    ///
    /// So who takes at one step must not wait for what is held at a later one.
    pub(crate) async fn run_with<T, R, F: Future<Output = R>>(
        &self,
        limits: [DecodeLimit; STEPS],
        take: impl Fn(usize, DecodeLimit) -> F,
        work: impl Fn(DecodeLimit, R) -> T,
        is_cut_short: impl Fn(&T) -> bool,
    ) -> Result<T, Failure> {
        let at_step = async |step: usize| {
            let limit = limits[step];
            let _place = place(&self.steps[step]).await;
            let taken = take(step, limit).await;
            off_worker(|| work(limit, taken))
        };
        for step in 0..STEPS - 1 {
            let outcome = at_step(step).await;
            if !is_cut_short(&outcome) {
                return Ok(outcome);
            }
        }
        let Ok(_queued) = self.last_queue.try_acquire() else {
            let message = format!(
                "{} batches that take long to unpack or compress wait already",
                self.last_waiting_max,
            );
            return Err(Failure::new(ErrorCode::KafkaStorageError, message));
        };
        Ok(at_step(STEPS - 1).await)
    }
}

/// Whether a batch was refused only because it unpacks to more than it may at this place.
pub fn is_cut_short<T>(outcome: &Result<T, InvalidBatch>) -> bool {
    matches!(outcome, Err(InvalidBatch::Undecodable(error)) if error.is_over_limit())
}

/// Places are given in the order in which they are asked for.
async fn place(places: &Semaphore) -> SemaphorePermit<'_> {
    places.acquire().await.expect("places are never closed")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_takes_long_waits_for_nobody_but_its_like() {
        let places = UnpackingPlaces::new();
        let _long = places.steps[1].acquire().await.expect("is open");
        assert_eq!(places.run(|limit| limit, |_| false).await, Ok(SHORT_MAX));

        let _queue = places.last_queue.acquire_many(1 + LONG_WAITING_MAX as u32).await;
        let refused = places.run(|limit| limit, |_| true).await.expect_err("too many wait");
        assert!(refused.code.is_retriable(), "{refused:?}");
        assert_eq!(places.run(|limit| limit, |_| false).await, Ok(SHORT_MAX));
    }

    #[tokio::test]
    async fn what_was_cut_short_is_done_anew_with_more() {
        let places = UnpackingPlaces::new();
        let limits = RefCell::new(Vec::new());
        let work = |limit| limits.borrow_mut().push(limit);
        places.run(work, |()| true).await.expect("nobody waits");
        assert_eq!(*limits.borrow(), [SHORT_MAX, DecodeLimit::BATCH_MAX]);
        assert_eq!(places.last_queue.available_permits(), 1 + LONG_WAITING_MAX);
    }

    /// On the only worker there is, so that whoever blocks it blocks everybody.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_connections_go_on_while_a_batch_is_unpacked() {
        let (begins, has_begun) = std::sync::mpsc::channel();
        let (serve, is_served) = std::sync::mpsc::channel();
        let is_served = Mutex::new(is_served);
        let unpacking = tokio::spawn(async move {
            let places = UnpackingPlaces::new();
            let work = |_| {
                begins.send(()).expect("is waited for");
                // Not with tokio's clock, which would stand still with the worker.
                let is_served = is_served.lock().expect("nobody panicked");
                is_served.recv_timeout(Duration::from_secs(20))
            };
            places.run(work, |_| false).await
        });
        has_begun.recv_timeout(Duration::from_secs(20)).expect("in time");
        // The worker now unpacks; this needs a worker too.
        tokio::spawn(async move { serve.send(()).expect("is waited for") });
        assert_eq!(unpacking.await.expect("no panic"), Ok(Ok(())));
    }
}
