//! The balances of all clients.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use logway_metadata::image::QuotaSharers;
use logway_metadata::quota::QuotaKey;

use super::QuotaClient;
use super::balance::{Balance, QuotaWindow};

/// How many balances are remembered. Client ids are the clients' words: one that makes up new ones
/// makes others, and itself, begin anew.
const BALANCES_MAX: usize = 10_000;

/// What is limited, and for whom.
pub(super) type BalanceKey<'a> = (QuotaKey, QuotaSharers, QuotaClient<'a>);

/// What every quota in use has left.
///
/// Clients are known by hashes of their names with a key that nobody knows, so that long names take
/// no memory. Two clients with the same hash would share a quota; nobody can make that happen.
#[derive(Debug, Default)]
pub(super) struct Balances {
    by_client: HashMap<u64, Balance>,
    names: RandomState,
}

impl Balances {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Takes an amount from a client's quota of `rate` per second; says how long it has to wait.
    pub(super) fn charge(
        &mut self,
        key: BalanceKey<'_>,
        amount: f64,
        rate: f64,
        window: QuotaWindow,
        now: Instant,
    ) -> Duration {
        let name = self.name(key);
        if self.by_client.len() >= BALANCES_MAX && !self.by_client.contains_key(&name) {
            self.make_room(window, now);
        }
        let new = || Balance::new(rate, window, now);
        self.by_client.entry(name).or_insert_with(new).charge(amount, rate, window, now)
    }

    fn name(&self, (key, shared_by, client): BalanceKey<'_>) -> u64 {
        let (user, client_id) = match shared_by {
            QuotaSharers::UserClient => (client.user, client.client_id),
            QuotaSharers::User => (client.user, ""),
            QuotaSharers::ClientId => ("", client.client_id),
        };
        self.names.hash_one((key, shared_by, user, client_id))
    }

    /// Forgets balances that are as good as new, or else those that were not used for the longest.
    fn make_room(&mut self, window: QuotaWindow, now: Instant) {
        self.by_client.retain(|_, balance| {
            now.saturating_duration_since(balance.last_used()) < window.memory()
        });
        let kept = BALANCES_MAX - BALANCES_MAX / 16;
        let Some(excess) = self.by_client.len().checked_sub(kept).filter(|&excess| excess > 0)
        else {
            return;
        };
        let mut by_use: Vec<(Instant, u64)> =
            self.by_client.iter().map(|(&name, balance)| (balance.last_used(), name)).collect();
        by_use.select_nth_unstable(excess - 1);
        for (_, name) in &by_use[..excess] {
            self.by_client.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> QuotaWindow {
        QuotaWindow::new(Duration::from_secs(1), 11)
    }

    fn key<'a>(shared_by: QuotaSharers, user: &'a str, client_id: &'a str) -> BalanceKey<'a> {
        (QuotaKey::ProducerByteRate, shared_by, QuotaClient { user, client_id })
    }

    #[test]
    fn quotas_are_shared_by_those_who_share_the_name() {
        let now = Instant::now();
        let mut balances = Balances::default();
        let mut is_held_up = |shared_by, user, client_id| {
            let key = key(shared_by, user, client_id);
            !balances.charge(key, 1.0, 1.0, window(), now).is_zero()
        };
        for (shared_by, same) in [
            (QuotaSharers::UserClient, ("u", "c")),
            (QuotaSharers::User, ("u", "other")),
            (QuotaSharers::ClientId, ("other", "c")),
        ] {
            assert!(!is_held_up(shared_by, "u", "c"), "{shared_by:?}");
            assert!(is_held_up(shared_by, same.0, same.1), "{shared_by:?}");
            assert!(!is_held_up(shared_by, "third", "third"), "{shared_by:?}");
        }
    }

    #[test]
    fn made_up_names_push_out_the_oldest() {
        let now = Instant::now();
        let mut balances = Balances::default();
        for number in 0..3 * BALANCES_MAX {
            let client_id = number.to_string();
            let then = now + Duration::from_micros(number as u64);
            let key = key(QuotaSharers::ClientId, "", &client_id);
            balances.charge(key, 1.0, 1.0, window(), then);
            assert!(balances.len() <= BALANCES_MAX);
        }
        let newest = (3 * BALANCES_MAX - 1).to_string();
        let newest = balances.name(key(QuotaSharers::ClientId, "", &newest));
        assert!(balances.by_client.contains_key(&newest));
        // All are as good as new after a while.
        let later = now + Duration::from_secs(60);
        balances.make_room(window(), later);
        assert_eq!(balances.len(), 0);
    }
}
