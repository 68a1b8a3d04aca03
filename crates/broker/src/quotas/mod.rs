//! What clients may use of the broker, and how long they wait when they use more (KIP-13, KIP-124).
//!
//! A client that used more than its quota is answered at once. The answer says how long to wait, and
//! until then nothing more is read from its connection (KIP-219): its further requests stay in the
//! sockets, where they hold no memory of ours and nobody waits for them.
//!
//! | file | what it is about |
//! |---|---|
//! | `balance` | what one quota has left: arithmetic |
//! | `balances` | the balances of all clients: a bounded map |
//! | `request_charge` | what one request uses up |
//! | `request_timer` | the time that threads spend on a request |

mod balance;
mod balances;
mod request_charge;
mod request_timer;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logway_metadata::MetadataImage;
use logway_metadata::image::ApplicableQuota;
use logway_metadata::quota::QuotaKey;
use logway_metadata::settings::BrokerSettings;

use balance::QuotaWindow;
use balances::Balances;
pub(crate) use request_charge::RequestCharge;

/// Whoever connects without saying who it is: Kafka's name for it.
const ANONYMOUS: &str = "ANONYMOUS";

/// A client, as quotas know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaClient<'a> {
    /// Whom it was authenticated as.
    pub(crate) user: &'a str,
    /// What it calls itself; empty if it does not.
    pub(crate) client_id: &'a str,
}

impl<'a> QuotaClient<'a> {
    /// A client that was not authenticated.
    pub(crate) fn anonymous(client_id: &'a str) -> QuotaClient<'a> {
        QuotaClient { user: ANONYMOUS, client_id }
    }

    fn quota(&self, image: &MetadataImage, key: QuotaKey) -> Option<ApplicableQuota> {
        image.client_quotas().applicable(self.user, self.client_id, key)
    }
}

/// What all clients have used of their quotas.
#[derive(Debug)]
pub struct QuotaUse {
    bytes_window: QuotaWindow,
    time_window: QuotaWindow,
    balances: Mutex<Balances>,
}

impl QuotaUse {
    /// Nobody has used anything.
    pub fn new(settings: &BrokerSettings) -> QuotaUse {
        let (size, count) = (settings.quota_window_size, settings.quota_windows);
        let bytes_window = QuotaWindow::new(size, count);
        // Kafka holds a client up for one window at most that has used too much time.
        let time_window = bytes_window.with_wait_max(size);
        QuotaUse { bytes_window, time_window, balances: Mutex::default() }
    }

    /// How many clients are remembered.
    pub fn client_count(&self) -> usize {
        self.balances().len()
    }

    /// Takes what a request uses from its client's quota; says how long the client has to wait.
    fn charge(
        &self,
        image: &MetadataImage,
        client: QuotaClient<'_>,
        key: QuotaKey,
        amount: f64,
    ) -> Duration {
        let Some(quota) = client.quota(image, key) else { return Duration::ZERO };
        let (rate, window) = match key {
            // Percent of a thread, in seconds per second.
            QuotaKey::RequestPercentage => (quota.limit.get() / 100.0, self.time_window),
            QuotaKey::ProducerByteRate | QuotaKey::ConsumerByteRate => {
                (quota.limit.get(), self.bytes_window)
            }
        };
        self.balances().charge((key, quota.shared_by, client), amount, rate, window, Instant::now())
    }

    /// The most that one answer may take of a client's quota; `None` without a quota. More could
    /// never be saved up.
    fn saved_max(
        &self,
        image: &MetadataImage,
        client: QuotaClient<'_>,
        key: QuotaKey,
    ) -> Option<f64> {
        let quota = client.quota(image, key)?;
        Some(self.bytes_window.saved_max(quota.limit.get()))
    }

    fn balances(&self) -> MutexGuard<'_, Balances> {
        // Each change under the lock is done or not begun.
        self.balances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
