//! Work on large requests, which must not hold up the small ones of other connections.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use crate::tasks::off_worker;

/// Runs the work on large requests one at a time, while the worker's other connections are handed
/// to another thread. So a million names, which take a core for a second, take one core and not
/// all, and what decoding and answering them takes for a moment is there once.
///
/// The turn is held while there is something to compute, never while a request waits.
#[derive(Debug, Default)]
pub struct HeavyWork {
    turn: Mutex<()>,
}

impl HeavyWork {
    /// Does some work.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        off_worker(|| {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            work()
        })
    }

    /// Does work that waits in between.
    pub async fn run_async<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| self.run(|| work.as_mut().poll(cx))).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_only_worker_goes_on_while_there_is_heavy_work() {
        let heavy = Arc::new(HeavyWork::default());
        let (finish, finished) = mpsc::channel();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let working = Arc::clone(&heavy);
        let long = tokio::spawn(async move {
            working.run(|| {
                begins.send(()).expect("is waited for");
                finished.recv_timeout(PATIENCE).expect("others go on meanwhile");
            });
        });
        begun.await.expect("begins");
        let next = tokio::spawn(async move { heavy.run_async(async { 1 }).await });
        tokio::spawn(async move { finish.send(()).expect("is waited for") }).await.expect("runs");
        long.await.expect("no panic");
        assert_eq!(next.await.expect("no panic"), 1);
    }
}
