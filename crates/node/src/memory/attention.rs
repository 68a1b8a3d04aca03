//! Calling the connections: the broker stops, or somebody waits for memory that they hold.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Calls connections. Each registers once, when it opens, and is called by a signal of its own, so
/// that busy connections meet at no common lock.
///
/// A call says nothing: who is called looks for itself what there is to do.
#[derive(Debug, Default)]
pub struct Attention {
    is_stopping: AtomicBool,
    next_number: AtomicU64,
    bells: Mutex<HashMap<u64, Arc<Bell>>>,
}

/// Rings for one connection.
#[derive(Debug, Default)]
pub struct Bell {
    call: Notify,
    /// Whether it holds memory that others could wait for.
    is_holder: AtomicBool,
}

impl Bell {
    /// Ends when the connection is called, also if that was before.
    ///
    /// Cancel safe.
    pub async fn called(&self) {
        self.call.notified().await;
    }
}

impl Attention {
    /// Registers a connection, until what this returns is dropped.
    pub fn listen(self: &Arc<Self>) -> Attendant {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let bell = Arc::new(Bell::default());
        self.bells().insert(number, Arc::clone(&bell));
        Attendant { attention: Arc::clone(self), number, bell }
    }

    /// Tells all connections, and those that come, that the broker stops.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.bells().values().for_each(|bell| bell.call.notify_one());
    }

    /// Whether the broker stops.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Calls the connections that hold memory: somebody begins to wait for some.
    pub fn call_holders(&self) {
        for bell in self.bells().values() {
            if bell.is_holder.load(Ordering::SeqCst) {
                bell.call.notify_one();
            }
        }
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<u64, Arc<Bell>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that can be called, until this is dropped.
#[derive(Debug)]
pub struct Attendant {
    attention: Arc<Attention>,
    number: u64,
    bell: Arc<Bell>,
}

impl Attendant {
    /// What rings when the connection is called.
    pub fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    /// Says whether the connection is to be called when somebody waits for memory. It looks whether
    /// somebody does *after* this, so that no beginning is missed.
    pub fn set_holder(&self, is_holder: bool) {
        if self.bell.is_holder.load(Ordering::Relaxed) != is_holder {
            self.bell.is_holder.store(is_holder, Ordering::SeqCst);
        }
    }

    /// Whether the broker stops.
    pub fn is_stopping(&self) -> bool {
        self.attention.is_stopping()
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.attention.bells().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_called(listener: &Attendant) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(listener.bell.called()).poll(&mut cx) == Poll::Ready(())
    }

    #[test]
    fn holders_are_called_once_and_the_others_are_not() {
        let attention = Arc::new(Attention::default());
        let (holder, other) = (attention.listen(), attention.listen());
        holder.set_holder(true);
        attention.call_holders();
        assert!(is_called(&holder) && !is_called(&holder), "once");
        assert!(!is_called(&other));
        holder.set_holder(false);
        attention.call_holders();
        assert!(!is_called(&holder));
    }

    #[test]
    fn a_stop_is_heard_by_all_and_by_those_that_come_later() {
        let attention = Arc::new(Attention::default());
        let early = attention.listen();
        attention.stop();
        assert!(is_called(&early));
        assert!(attention.listen().is_stopping());
    }

    #[test]
    fn who_has_gone_leaves_nothing_behind() {
        let attention = Arc::new(Attention::default());
        drop(attention.listen());
        assert!(attention.bells().is_empty());
    }
}
