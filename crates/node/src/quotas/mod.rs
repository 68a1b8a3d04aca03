//! What clients may use of the broker, and how long they wait when they use more (KIP-13, KIP-124,
//! KIP-599, KIP-612).
//!
//! A client that used more than its quota is answered at once. The answer says how long to wait, and
//! until then nothing more is read from its connection (KIP-219): its further requests stay in the
//! sockets, where they hold no memory of ours and nobody waits for them.
//!
//! | file | what it is about |
//! |---|---|
//! | `balance` | what one quota has left: arithmetic |
//! | `balances` | the balances of all who share a kind of quota: a bounded map |
//! | `connection_rates` | how many connections are opened |
//! | `admission` | whether a connection may be opened, and when it is served |
//! | `per_address` | how many are open from each address |

mod admission;
mod balance;
mod balances;
mod connection_rates;
mod per_address;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logway_metadata::MetadataImage;
use logway_metadata::image::{ApplicableQuota, QuotaSharers};
use logway_metadata::quota::QuotaKey;
use logway_metadata::settings::BrokerSettings;

use crate::access::Principal;
pub(crate) use admission::ConnectionSeats;
pub use admission::{Admission, Admitted, ListenerLimits};
use balance::{Balance, QuotaWindow};
use balances::Balances;
pub use connection_rates::{ConnectionRates, Rated};
pub use per_address::{AddressCounts, AddressSeat};

/// A client, as quotas know it.
#[derive(Debug, Clone, Copy)]
pub struct QuotaClient<'a> {
    /// Whom it was authenticated as.
    pub user: &'a str,
    /// What it calls itself; empty if it does not.
    pub client_id: &'a str,
}

impl<'a> QuotaClient<'a> {
    /// The client of a principal.
    pub fn of(principal: &'a Principal, client_id: &'a str) -> QuotaClient<'a> {
        QuotaClient { user: principal.name(), client_id }
    }

    fn quota(&self, image: &MetadataImage, key: QuotaKey) -> Option<ApplicableQuota> {
        image.client_quotas().applicable(self.user, self.client_id, key)
    }

    /// User and client id, but for what does not tell apart those who share a quota.
    fn among(&self, shared_by: QuotaSharers) -> (&'a str, &'a str) {
        match shared_by {
            QuotaSharers::UserClient => (self.user, self.client_id),
            QuotaSharers::User => (self.user, ""),
            QuotaSharers::ClientId => ("", self.client_id),
        }
    }
}

/// What all clients have used of their quotas.
#[derive(Debug)]
pub struct QuotaUse {
    bytes_window: QuotaWindow,
    time_window: QuotaWindow,
    requests: Mutex<Balances>,
    mutation_window: QuotaWindow,
    /// Apart from the others: their debts last longer, and no flood of names is to end them.
    mutations: Mutex<Balances>,
}

impl QuotaUse {
    /// Nobody has used anything.
    pub fn new(settings: &BrokerSettings) -> QuotaUse {
        let (size, count) = (settings.quota_window_size, settings.quota_windows);
        let bytes_window = QuotaWindow::new(size, count);
        QuotaUse {
            bytes_window,
            // Kafka holds a client up for one window at most that has used too much time.
            time_window: bytes_window.with_wait_max(size),
            requests: Mutex::default(),
            mutation_window: QuotaWindow::token_bucket(
                settings.controller_quota_window_size,
                settings.controller_quota_windows,
            ),
            mutations: Mutex::default(),
        }
    }

    /// How many clients are remembered.
    pub fn client_count(&self) -> usize {
        locked(&self.requests).len() + locked(&self.mutations).len()
    }

    /// Takes an amount of what a request uses from its client's quota; says how long the client has
    /// to wait.
    pub fn charge(
        &self,
        image: &MetadataImage,
        client: QuotaClient<'_>,
        key: QuotaKey,
        amount: f64,
    ) -> Duration {
        let charge = |balance: &mut Balance, rate, window, now| -> Duration {
            balance.charge(amount, rate, window, now)
        };
        self.with_balance(image, client, key, charge).unwrap_or(Duration::ZERO)
    }

    /// Takes an amount from a client's quota, unless that is overdrawn; then nothing is taken, and
    /// the error says for how long it is.
    pub fn charge_unless_spent(
        &self,
        image: &MetadataImage,
        client: QuotaClient<'_>,
        key: QuotaKey,
        amount: f64,
    ) -> Result<(), Duration> {
        let charge = |balance: &mut Balance, rate, window, now| {
            balance.charge_unless_spent(amount, rate, window, now)
        };
        self.with_balance(image, client, key, charge).unwrap_or(Ok(()))
    }

    /// Lets `work` have the balance of a client's quota with its rate and bounds; `None` without a
    /// quota.
    fn with_balance<T>(
        &self,
        image: &MetadataImage,
        client: QuotaClient<'_>,
        key: QuotaKey,
        work: impl FnOnce(&mut Balance, f64, QuotaWindow, Instant) -> T,
    ) -> Option<T> {
        let quota = client.quota(image, key)?;
        let limit = quota.limit.get();
        let (balances, rate, window) = match key {
            // Percent of a thread, in seconds per second.
            QuotaKey::RequestPercentage => (&self.requests, limit / 100.0, self.time_window),
            QuotaKey::ControllerMutationRate => (&self.mutations, limit, self.mutation_window),
            _ => (&self.requests, limit, self.bytes_window),
        };
        let name = (key, quota.shared_by, client.among(quota.shared_by));
        let now = Instant::now();
        Some(work(locked(balances).of(name, rate, window, now), rate, window, now))
    }

    /// The most that one answer may take of a client's quota; `None` without a quota. More could
    /// never be saved up.
    pub fn saved_max(
        &self,
        image: &MetadataImage,
        client: QuotaClient<'_>,
        key: QuotaKey,
    ) -> Option<f64> {
        let quota = client.quota(image, key)?;
        Some(self.bytes_window.saved_max(quota.limit.get()))
    }
}

fn locked<T>(balances: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change under the lock is done or not begun.
    balances.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_shared_by_those_who_share_the_name() {
        let client = QuotaClient { user: "u", client_id: "c" };
        assert_eq!(client.among(QuotaSharers::UserClient), ("u", "c"));
        assert_eq!(client.among(QuotaSharers::User), ("u", ""));
        assert_eq!(client.among(QuotaSharers::ClientId), ("", "c"));
    }
}
