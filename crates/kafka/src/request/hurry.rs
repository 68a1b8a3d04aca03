//! Asking requests that wait to answer with what they have.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// One connection's word to its waiting requests.
///
/// A Fetch may wait for records as long as its client likes. That ends early when the client has
/// gone, when the broker stops, and when the connection holds memory that others wait for.
#[derive(Debug, Default)]
pub(crate) struct Hurry {
    asked: AtomicBool,
    changed: Notify,
}

impl Hurry {
    /// Requests should answer now.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Requests may wait again.
    pub(crate) fn withdraw(&self) {
        self.asked.store(false, Ordering::SeqCst);
    }

    /// Ends when requests should answer.
    pub(crate) async fn asked(&self) {
        loop {
            // Subscribed before the look, so that no asking is missed.
            let changed = self.changed.notified();
            if self.asked.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}
