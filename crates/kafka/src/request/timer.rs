//! The time that threads spend on one request.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Adds up the times at which a request is worked on; the times at which it waits do not count.
///
/// One thread at a time works on a request, and the next sees what the last has written.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    begun: Instant,
    spent_ns: AtomicU64,
    /// When the work that goes on was taken up, since `begun`.
    working_since_ns: AtomicU64,
}

impl RequestTimer {
    /// Nothing was spent yet.
    pub(crate) fn new() -> RequestTimer {
        let begun = Instant::now();
        RequestTimer { begun, spent_ns: AtomicU64::new(0), working_since_ns: AtomicU64::new(0) }
    }

    /// Counts a piece of work.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        self.working_since_ns.store(self.now_ns(), Ordering::Relaxed);
        let result = work();
        self.spent_ns.store(self.total_ns(), Ordering::Relaxed);
        result
    }

    /// What was spent so far; to be asked within the work.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.total_ns())
    }

    fn total_ns(&self) -> u64 {
        let working_ns = self.now_ns() - self.working_since_ns.load(Ordering::Relaxed);
        self.spent_ns.load(Ordering::Relaxed) + working_ns
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Work on a request, whose time is counted.
pub(crate) struct Timed<F: ?Sized, T> {
    pub(crate) work: Pin<Box<F>>,
    pub(crate) timer: T,
}

impl<F: Future + ?Sized, T: AsRef<RequestTimer> + Unpin> Future for Timed<F, T> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Timed { work, timer } = &mut *self;
        timer.as_ref().time(|| work.as_mut().poll(cx))
    }
}
