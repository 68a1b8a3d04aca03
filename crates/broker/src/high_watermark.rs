//! A partition's high watermark, and those who wait for it to rise.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use logway_model::Offset;
use tokio::sync::Notify;

/// The exclusive end of what consumers may read.
///
/// Readers load it without a lock. It is raised by whoever holds the partition's leader state, so
/// that it never goes back.
#[derive(Debug)]
pub struct HighWatermark {
    value: AtomicI64,
    /// Spares the writer thread the lock while nobody waits.
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Arc<Notify>>>,
}

impl HighWatermark {
    /// A watermark that starts at `offset`.
    pub fn new(offset: Offset) -> HighWatermark {
        HighWatermark {
            value: AtomicI64::new(offset.0),
            has_waiters: AtomicBool::new(false),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// Where it stands.
    pub fn get(&self) -> Offset {
        Offset(self.value.load(Ordering::SeqCst))
    }

    /// Raises it and wakes everyone who waits.
    pub fn raise(&self, offset: Offset) {
        debug_assert!(offset >= self.get(), "the high watermark went back");
        self.value.store(offset.0, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes everyone who waits, to look again: the partition changed in another way.
    pub fn wake(&self) {
        if !self.has_waiters.load(Ordering::SeqCst) {
            return;
        }
        let woken = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            self.has_waiters.store(false, Ordering::SeqCst);
            std::mem::take(&mut *waiters)
        };
        for waiter in woken {
            waiter.notify_one();
        }
    }

    /// Asks to be notified at the next change. Look at [`HighWatermark::get`] *after* this, so
    /// that no change falls in between.
    pub fn subscribe(&self, waiter: &Arc<Notify>) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.push(Arc::clone(waiter));
        self.has_waiters.store(true, Ordering::SeqCst);
    }

    /// Takes a subscription back, so that waits that end in a timeout leave nothing behind.
    pub fn unsubscribe(&self, waiter: &Arc<Notify>) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|other| !Arc::ptr_eq(other, waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rise_wakes_each_waiter_once() {
        let watermark = HighWatermark::new(Offset(5));
        let waiter = Arc::new(Notify::new());
        watermark.subscribe(&waiter);
        watermark.raise(Offset(6));
        waiter.notified().await;
        assert_eq!(watermark.get(), Offset(6));
        assert!(watermark.waiters.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn a_wait_that_ends_leaves_nothing_behind() {
        let watermark = HighWatermark::new(Offset(0));
        let (one, other) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        watermark.subscribe(&one);
        watermark.subscribe(&other);
        watermark.unsubscribe(&one);
        assert_eq!(watermark.waiters.lock().expect("not poisoned").len(), 1);
    }
}
