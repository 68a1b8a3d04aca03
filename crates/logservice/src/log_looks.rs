//! What there is to tell of a log, looked up once for all who ask at the same time: a log may have thousands of partitions, and many
//! who watch it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A look takes a part of the time at most: the next one waits so many times as long as the last one took.
const REST_FACTOR: u32 = 10;

/// But no longer: a look that waits for a node that is away costs little.
const REST_MAX: Duration = Duration::from_secs(2);

/// What was seen of a log.
#[derive(Debug)]
pub(crate) struct Look<T> {
    begun_at: Instant,
    took: Duration,
    pub(crate) seen: T,
}

/// Looks at one log. `T` is what a look sees.
#[derive(Debug)]
pub(crate) struct LogLooks<T>(watch::Sender<Looking<T>>);

#[derive(Debug)]
struct Looking<T> {
    last: Option<Arc<Look<T>>>,
    is_under_way: bool,
}

impl<T> Default for LogLooks<T> {
    fn default() -> LogLooks<T> {
        LogLooks(watch::Sender::new(Looking { last: None, is_under_way: false }))
    }
}

impl<T: Send + Sync + 'static> LogLooks<T> {
    /// What is seen from now on.
    pub(crate) async fn fresh<F: Future<Output = T> + Send + 'static>(
        self: &Arc<Self>,
        look: impl Fn() -> F,
    ) -> Arc<Look<T>> {
        self.since(Instant::now(), look).await
    }

    /// What was seen at most so long ago, or longer ago where a look takes long.
    pub(crate) async fn recent<F: Future<Output = T> + Send + 'static>(
        self: &Arc<Self>,
        age_max: Duration,
        look: impl Fn() -> F,
    ) -> Arc<Look<T>> {
        let took = self.0.borrow().last.as_ref().map_or(Duration::ZERO, |last| last.took);
        let rest = took.saturating_mul(REST_FACTOR).min(REST_MAX);
        let now = Instant::now();
        self.since(now.checked_sub(age_max.max(rest)).unwrap_or(now), look).await
    }

    /// A look that was begun at this time or later. One at a time is under way, and who asks meanwhile waits for it.
    async fn since<F: Future<Output = T> + Send + 'static>(
        self: &Arc<Self>,
        time: Instant,
        look: impl Fn() -> F,
    ) -> Arc<Look<T>> {
        let mut changes = self.0.subscribe();
        loop {
            let mut begins = false;
            let mut found = None;
            self.0.send_if_modified(|looking| {
                found = looking.last.clone().filter(|last| last.begun_at >= time);
                begins = found.is_none() && !looking.is_under_way;
                looking.is_under_way |= begins;
                false
            });
            if let Some(found) = found {
                return found;
            }
            if begins {
                let (under_way, look) = (UnderWay(Arc::clone(self)), look());
                // A task of its own: others wait for it, too, when this call is over.
                tokio::spawn(async move {
                    let begun_at = Instant::now();
                    let seen = look.await;
                    let look = Look { begun_at, took: begun_at.elapsed(), seen };
                    under_way.0.0.send_modify(|looking| looking.last = Some(Arc::new(look)));
                });
            }
            // The sender is here.
            _ = changes.changed().await;
        }
    }
}

/// A look under way, however it ends.
struct UnderWay<T>(Arc<LogLooks<T>>);

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        self.0.0.send_modify(|looking| looking.is_under_way = false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    const LOOK_TIME: Duration = Duration::from_millis(20);

    /// Looks that tell how many there were before.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicU64>);

    impl Counting {
        fn look(&self) -> impl Future<Output = u64> + Send + use<> {
            let count = self.0.fetch_add(1, Ordering::SeqCst);
            async move {
                sleep(LOOK_TIME).await;
                count
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_watch_share_looks_which_take_a_part_of_the_time() {
        const WATCHERS: u64 = 120;
        const PERIOD: Duration = Duration::from_millis(100);
        const ROUNDS: u64 = 40;
        let (looks, counting) = (Arc::new(LogLooks::default()), Counting::default());
        let mut watchers = JoinSet::new();
        for number in 0..WATCHERS {
            let (looks, counting) = (Arc::clone(&looks), counting.clone());
            watchers.spawn(async move {
                sleep(Duration::from_micros(700 * number)).await;
                for _ in 0..ROUNDS {
                    looks.recent(PERIOD, || counting.look()).await;
                    sleep(PERIOD).await;
                }
            });
        }
        let begun = Instant::now();
        while watchers.join_next().await.is_some() {}
        let count = counting.0.load(Ordering::SeqCst);
        let most = begun.elapsed().as_millis() / (LOOK_TIME * REST_FACTOR).as_millis() + 2;
        assert!(count > ROUNDS / 4 && u128::from(count) <= most, "{count} looks, {most} allowed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fresh_look_is_begun_after_it_was_asked_for() {
        let (looks, counting) = (Arc::new(LogLooks::default()), Counting::default());
        let first = tokio::spawn({
            let (looks, counting) = (Arc::clone(&looks), counting.clone());
            async move { looks.fresh(|| counting.look()).await.seen }
        });
        sleep(LOOK_TIME / 2).await;
        let second = looks.fresh(|| counting.look()).await;
        assert_eq!((first.await.expect("ends"), second.seen), (0, 1));
        let third = looks.recent(Duration::from_secs(1), || counting.look()).await;
        assert_eq!(third.seen, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_whose_caller_has_gone_is_there_for_others() {
        let (looks, counting) = (Arc::new(LogLooks::default()), Counting::default());
        let gone = tokio::time::timeout(LOOK_TIME / 2, looks.fresh(|| counting.look())).await;
        assert!(gone.is_err());
        let age = Duration::from_secs(1);
        assert_eq!(looks.recent(age, || counting.look()).await.seen, 0);
    }
}
