//! Puts into optional channels: they do not hold up their source.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::{Delivery, Share};

/// How often it is told that optional channels do not take events.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// How long a source waits for a channel on a disk or in a topic, so that one which works gets everything. A put that takes
/// longer goes on beside the source, and what comes meanwhile is not put.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many batches may be on their way into one channel.
const PUTS_MAX: usize = 16;

/// What optional channels did not take since that was told last.
#[derive(Debug, Default)]
pub(super) struct Untold {
    events: usize,
    told: Option<Instant>,
}

/// Puts into a channel that run beside the source.
#[derive(Debug)]
pub(super) struct Beside {
    permits: Arc<Semaphore>,
    /// How many of them take longer than [`PATIENCE`].
    slow: AtomicUsize,
}

impl Default for Beside {
    fn default() -> Beside {
        Beside { permits: Arc::new(Semaphore::new(PUTS_MAX)), slow: AtomicUsize::new(0) }
    }
}

impl Delivery {
    /// Puts a share without waiting for room.
    pub(super) async fn try_optional(&self, share: Share) {
        // In memory a put does not wait.
        if !self.0.channels[share.channel].is_durable() {
            return self.put_optional(share).await;
        }
        let (channel, count) = (share.channel, share.events.len());
        let Beside { permits, slow } = &self.0.beside[channel];
        if slow.load(Ordering::Relaxed) > 0 {
            return self.leave_out(count, &"an earlier batch is still on its way");
        }
        let Ok(Ok(permit)) = timeout(PATIENCE, Arc::clone(permits).acquire_owned()).await else {
            return self.leave_out(count, &"many batches are on their way");
        };
        let delivery = self.clone();
        let (wait, waited) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let slow = &delivery.0.beside[channel].slow;
            let mut put = std::pin::pin!(delivery.put_optional(share));
            if timeout(PATIENCE, put.as_mut()).await.is_err() {
                slow.fetch_add(1, Ordering::Relaxed);
                drop(wait);
                put.await;
                slow.fetch_sub(1, Ordering::Relaxed);
            }
            drop(permit);
        });
        // Nothing is sent: it is dropped when the put has ended, or is found to be slow.
        let _ = waited.await;
    }

    async fn put_optional(&self, share: Share) {
        let count = share.events.len();
        let put = match self.0.channels[share.channel].reserve_now(&share.events).await {
            Ok(reservation) => reservation.put(share.events).await,
            Err(error) => Err(error),
        };
        if let Err(error) = put {
            self.leave_out(count, &error);
        }
    }

    /// Counts what an optional channel did not take, and tells of it now and then.
    fn leave_out(&self, count: usize, error: &dyn Display) {
        self.0.counters.optional_failures.add(count);
        let mut untold = self.0.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.events += count;
        if untold.told.is_none_or(|told| told.elapsed() >= TELL_INTERVAL) {
            let events = std::mem::take(&mut untold.events);
            untold.told = Some(Instant::now());
            tracing::warn!(source = self.0.source, events, %error, "an optional channel did not take events");
        }
    }
}
