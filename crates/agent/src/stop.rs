//! Telling what runs that it is to end.

use std::time::Duration;

use tokio::sync::watch;

/// Ends all that has a [`Stop`] of it.
#[derive(Debug)]
pub(crate) struct Stopper(watch::Sender<bool>);

/// Knows when to end. It has come to its end also when its [`Stopper`] is gone.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stopper {
    pub(crate) fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits for the end. Cancel safe.
    pub(crate) async fn wait(&self) {
        let mut receiver = self.0.clone();
        // An error says that the stopper is gone.
        let _ = receiver.wait_for(|is_set| *is_set).await;
    }

    /// Waits for the end, and then so much longer. Cancel safe.
    pub(crate) async fn wait_and(&self, time: Duration) {
        self.wait().await;
        tokio::time::sleep(time).await;
    }

    /// Sleeps, unless the end comes before; then it is `true`.
    pub(crate) async fn sleep(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.wait()).await.is_ok()
    }
}
