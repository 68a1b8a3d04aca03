//! Threads of a part. A task can be cut off, and a thread that waits for a disk cannot: it has to be known when it ends.

use std::future::Future;
use std::sync::{Arc, Weak};

tokio::task_local! {
    static OF_PART: Weak<()>;
}

/// Knows whether threads of a part run.
#[derive(Debug, Default)]
pub(crate) struct Threads(Arc<()>);

/// Held by a thread for as long as it runs.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "that it is there counts")] Option<Arc<()>>);

impl Threads {
    /// What a part does, whose threads are known here.
    pub(crate) fn of<F: Future>(&self, running: F) -> impl Future<Output = F::Output> + use<F> {
        OF_PART.scope(Arc::downgrade(&self.0), running)
    }

    /// Whether one of them runs, or is about to.
    pub(crate) fn run(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Held {
    /// For a thread that the part which runs here is about to start.
    pub(crate) fn new() -> Held {
        Held(OF_PART.try_with(Weak::upgrade).ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_thread_of_a_part_that_was_cut_off_is_known() {
        let threads = Threads::default();
        assert!(!threads.run());
        // Dropped, also if the test fails, it lets the thread end.
        let (end, its_end) = std::sync::mpsc::channel::<()>();
        let part = tokio::spawn(threads.of(async move {
            let held = Held::new();
            let run = move || {
                let _ = its_end.recv();
                drop(held);
            };
            tokio::task::spawn_blocking(run).await.expect("no panic");
        }));
        while !threads.run() {
            tokio::task::yield_now().await;
        }
        part.abort();
        assert!(part.await.is_err_and(|error| error.is_cancelled()));
        assert!(threads.run(), "the thread waits");
        drop(end);
        let ended = async {
            while threads.run() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("has ended");
    }
}
