//! How work gets on the threads of the runtime, and the time.

use std::future::{Future, pending, poll_fn};
use std::sync::OnceLock;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use logway_model::TimestampMs;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, JoinHandle, block_in_place, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// Ends at this time, if there is one.
pub async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// The time of day.
pub fn wall_clock() -> TimestampMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Does work that must not be given up halfway: it goes on when nobody waits for it any more.
pub async fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    result_of(tokio::spawn(work)).await
}

/// Runs work that may wait for the disk where no connection has to wait with it.
pub async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    result_of(spawn_blocking(work)).await
}

/// Waits for a task, whose panic goes on here. One that the end of the runtime has cancelled has no result, and this
/// is about to be dropped as well.
async fn result_of<T>(task: JoinHandle<T>) -> T {
    match task.await.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_cancelled)) => pending().await,
    }
}

/// Runs work that takes long where it is, and hands the worker's other connections to another
/// thread meanwhile. A runtime of one thread, as in tests, has no other.
pub fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => work(),
    }
}

/// The time that replicas judge each other by: it never jumps. Since the process asked for it first.
pub fn steady_time() -> Duration {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    ZERO.get_or_init(Instant::now).elapsed()
}

/// Does all of these side by side, within the caller: dropped, it does none of them any more. The outputs are in the order
/// of the futures.
pub async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut under_way: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = under_way.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in under_way.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        match outputs.iter().all(Option::is_some) {
            true => Poll::Ready(outputs.iter_mut().filter_map(Option::take).collect()),
            false => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_joined_is_done_side_by_side_and_keeps_its_order() {
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        let slept = [3, 1, 2].map(|count| async move {
            sleep(count * second).await;
            count
        });
        assert_eq!(join_all(slept.into()).await, [3, 1, 2]);
        assert_eq!(begun.elapsed(), 3 * second);
        assert!(join_all(Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }
}
