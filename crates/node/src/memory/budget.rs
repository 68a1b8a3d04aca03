//! A bound on memory, over all connections together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::attention::Attention;

/// What one permit of the semaphore stands for: a frame is charged in steps of this size.
const UNIT_BYTES: usize = 1024;

/// Counts bytes that requests or their answers hold.
///
/// Waiting is first come, first served: who must not queue behind larger ones needs a budget of its
/// own, as in [`RequestMemory`](super::RequestMemory). Whoever holds memory and depends on a
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
    /// The most that was refused and would still not fit.
    refused_units: AtomicUsize,
    /// Whether holders were called because it is short.
    is_short: AtomicBool,
    /// Calls those that hold memory when somebody begins to wait.
    attention: Arc<Attention>,
}

/// A share of the budget; it goes back when this is dropped.
#[derive(Debug)]
pub struct BudgetShare {
    permit: OwnedSemaphorePermit,
}

/// Memory that goes back when the last of those who hold it drops it; `None` for what is not counted.
pub type Held = Option<Arc<BudgetShare>>;

impl BudgetShare {
    /// How much it is, rounded up.
    pub fn bytes(&self) -> usize {
        self.permit.num_permits() * UNIT_BYTES
    }

    /// The same bytes, which hold the share until the last of them is dropped.
    pub fn around(self, bytes: Bytes) -> Bytes {
        hold_with(bytes, self)
    }

    /// The same share, of no more than `bytes`: the rest goes back.
    pub fn cut_to(mut self, bytes: usize) -> BudgetShare {
        let rest_units = self.permit.num_permits().saturating_sub(bytes.div_ceil(UNIT_BYTES));
        drop(self.permit.split(rest_units));
        self
    }
}

/// The same bytes, which keep something until the last of them is dropped.
pub fn hold_with<T: Send + 'static>(bytes: Bytes, kept: T) -> Bytes {
    struct Holding<T> {
        bytes: Bytes,
        _kept: T,
    }
    impl<T> AsRef<[u8]> for Holding<T> {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Holding { bytes, _kept: kept })
}

impl MemoryBudget {
    /// A budget of `limit_bytes`, at least one unit. When somebody begins to wait, the connections
    /// that hold memory are called by `attention`.
    pub fn new(limit_bytes: usize, attention: Arc<Attention>) -> MemoryBudget {
        let limit_units = (limit_bytes / UNIT_BYTES).clamp(1, u32::MAX as usize);
        let units = Arc::new(Semaphore::new(limit_units));
        let inner = Inner {
            units,
            limit_units,
            waiting: AtomicUsize::new(0),
            refused_units: AtomicUsize::new(0),
            is_short: AtomicBool::new(false),
            attention,
        };
        MemoryBudget { inner: Arc::new(inner) }
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

    /// Takes a share at once or not at all, for what cannot wait.
    ///
    /// Nobody is seen to wait then. So those that hold memory are called when it becomes short.
    pub fn take_now(&self, bytes: usize) -> Option<BudgetShare> {
        let share = self.try_take(bytes);
        if share.is_none() {
            let units = self.units_of(bytes) as usize;
            self.inner.refused_units.fetch_max(units, Ordering::SeqCst);
        }
        if self.is_short() && !self.inner.is_short.swap(true, Ordering::SeqCst) {
            self.inner.attention.call_holders();
        }
        share
    }

    /// Whether more than half is in use, or what was refused would be refused again.
    pub fn is_short(&self) -> bool {
        let is_refusing = self.is_refusing();
        let is_short =
            is_refusing || self.inner.units.available_permits() < self.inner.limit_units / 2;
        if !is_short {
            self.inner.is_short.store(false, Ordering::SeqCst);
        }
        is_short
    }

    /// Whether what [`MemoryBudget::take_now`] has refused would be refused again.
    pub fn is_refusing(&self) -> bool {
        let refused_units = self.inner.refused_units.load(Ordering::SeqCst);
        let is_refusing = self.inner.units.available_permits() < refused_units;
        if !is_refusing && refused_units > 0 {
            let refused = &self.inner.refused_units;
            // One that was refused meanwhile stays.
            _ = refused.compare_exchange(refused_units, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
        is_refusing
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
    fn who_is_refused_is_waited_for_although_it_does_not_wait() {
        let budget = MemoryBudget::new(8 * UNIT_BYTES, Arc::default());
        let held = budget.take_now(3 * UNIT_BYTES).expect("there is room");
        assert!(!budget.is_short());
        assert!(budget.take_now(6 * UNIT_BYTES).is_none() && budget.is_short());
        drop(held);
        assert!(!budget.is_short(), "there would be room for it now");
        let _most = budget.take_now(5 * UNIT_BYTES).expect("there is room");
        assert!(budget.is_short(), "little is left");
    }

    #[test]
    fn what_is_cut_off_a_share_goes_back() {
        let budget = MemoryBudget::new(8 * UNIT_BYTES, Arc::default());
        let share = budget.try_take(5 * UNIT_BYTES).expect("there is room").cut_to(UNIT_BYTES + 1);
        assert_eq!((share.bytes(), budget.used_bytes()), (2 * UNIT_BYTES, 2 * UNIT_BYTES));
        assert_eq!(share.cut_to(usize::MAX).bytes(), 2 * UNIT_BYTES);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_request_larger_than_the_budget_runs_alone() {
        let budget = MemoryBudget::new(2 * UNIT_BYTES, Arc::default());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(budget.take(100 * UNIT_BYTES)).poll(&mut cx).is_ready());
    }
}
