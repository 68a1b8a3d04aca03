//! The bound on memory that requests may hold, over all connections together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::attention::Attention;

/// What one permit of the semaphore stands for: a frame is charged in steps of this size.
const UNIT_BYTES: usize = 1024;

/// Counts the bytes of requests that were read and not yet answered.
///
/// A request is charged whole before its body is read, so no two half-read requests can wait for
/// each other's memory. Waiting is first come, first served. Whoever holds memory and depends on a
/// client to go on must look at [`MemoryBudget::is_contended`] and give way.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    units: Arc<Semaphore>,
    limit_units: usize,
    waiting: AtomicUsize,
    /// Calls those that hold memory when somebody begins to wait.
    attention: Arc<Attention>,
}

/// A share of the budget; it goes back when this is dropped.
#[derive(Debug)]
pub struct BudgetShare {
    permit: OwnedSemaphorePermit,
}

impl BudgetShare {
    /// How much it is, rounded up.
    pub fn bytes(&self) -> usize {
        self.permit.num_permits() * UNIT_BYTES
    }
}

impl MemoryBudget {
    /// A budget of `limit_bytes`, at least one unit. When somebody begins to wait, the connections
    /// that hold memory are called by `attention`.
    pub fn new(limit_bytes: usize, attention: Arc<Attention>) -> MemoryBudget {
        let limit_units = (limit_bytes / UNIT_BYTES).clamp(1, u32::MAX as usize);
        let units = Arc::new(Semaphore::new(limit_units));
        let waiting = AtomicUsize::new(0);
        MemoryBudget { inner: Arc::new(Inner { units, limit_units, waiting, attention }) }
    }

    /// Takes a share, waiting while others hold too much.
    ///
    /// A request larger than the whole budget takes all of it: it runs alone rather than never.
    pub async fn take(&self, bytes: usize) -> BudgetShare {
        let units = self.units_of(bytes);
        if let Ok(permit) = self.inner.units.clone().try_acquire_many_owned(units) {
            return BudgetShare { permit };
        }
        let _waiting = Waiting::enter(&self.inner);
        let permit = self.inner.units.clone().acquire_many_owned(units).await;
        BudgetShare { permit: permit.expect("the budget's semaphore is never closed") }
    }

    /// Takes a share if it can be had at once.
    pub fn try_take(&self, bytes: usize) -> Option<BudgetShare> {
        let permit = self.inner.units.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        Some(BudgetShare { permit })
    }

    /// Whether more than half is in use.
    pub fn is_tight(&self) -> bool {
        self.used_bytes() > self.limit_bytes() / 2
    }

    /// Whether somebody waits for memory right now.
    pub fn is_contended(&self) -> bool {
        self.inner.waiting.load(Ordering::SeqCst) > 0
    }

    /// The bytes that requests hold now, rounded up per request.
    pub fn used_bytes(&self) -> usize {
        (self.inner.limit_units - self.inner.units.available_permits()) * UNIT_BYTES
    }

    /// The most that requests may hold.
    pub fn limit_bytes(&self) -> usize {
        self.inner.limit_units * UNIT_BYTES
    }

    fn units_of(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT_BYTES).clamp(1, self.inner.limit_units);
        u32::try_from(units).expect("the limit fits u32")
    }
}

/// Counts a waiter for as long as it lives, also when its wait is cancelled.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(budget: &'a Inner) -> Waiting<'a> {
        let others = budget.waiting.fetch_add(1, Ordering::SeqCst);
        // Who comes to hold memory while somebody waits already finds that out by itself.
        if others == 0 {
            budget.attention.call_holders();
        }
        Waiting(&budget.waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_share_comes_back_when_dropped_and_the_next_in_line_gets_it() {
        let budget = MemoryBudget::new(8 * UNIT_BYTES, Arc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let first = match pin!(budget.take(8 * UNIT_BYTES)).poll(&mut cx) {
            Poll::Ready(share) => share,
            Poll::Pending => panic!("an empty budget must give at once"),
        };
        assert_eq!(budget.used_bytes(), budget.limit_bytes());

        let mut second = pin!(budget.take(1));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(budget.is_contended());
        drop(first);
        assert!(second.as_mut().poll(&mut cx).is_ready());
        assert!(!budget.is_contended());
    }

    #[test]
    fn a_request_larger_than_the_budget_runs_alone() {
        let budget = MemoryBudget::new(2 * UNIT_BYTES, Arc::default());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(budget.take(100 * UNIT_BYTES)).poll(&mut cx).is_ready());
    }
}
