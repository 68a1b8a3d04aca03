//! The balances of all who share a kind of quota.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Instant;

use super::balance::{Balance, QuotaWindow};

/// How many balances of a kind are remembered. Client ids are the clients' words: one that makes up
/// new ones makes others, and itself, begin anew.
const BALANCES_MAX: usize = 10_000;

/// What every quota in use has left.
///
/// Clients are known by hashes of their names with a key that nobody knows, so that long names take
/// no memory. Two clients with the same hash would share a quota; nobody can make that happen.
#[derive(Debug, Default)]
pub(super) struct Balances {
    by_name: HashMap<u64, Balance>,
    names: RandomState,
}

impl Balances {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The balance of a name; a new one of a quota of `rate` per second if there is none yet.
    pub(super) fn of(
        &mut self,
        name: impl Hash,
        rate: f64,
        window: QuotaWindow,
        now: Instant,
    ) -> &mut Balance {
        let name = self.names.hash_one(name);
        if self.by_name.len() >= BALANCES_MAX && !self.by_name.contains_key(&name) {
            self.make_room(window, now);
        }
        self.by_name.entry(name).or_insert_with(|| Balance::new(rate, window, now))
    }

    /// Forgets balances that are as good as new, or else those that were not used for the longest.
    fn make_room(&mut self, window: QuotaWindow, now: Instant) {
        self.by_name.retain(|_, balance| {
            now.saturating_duration_since(balance.last_used()) < window.memory()
        });
        let kept = BALANCES_MAX - BALANCES_MAX / 16;
        let Some(excess) = self.by_name.len().checked_sub(kept).filter(|&excess| excess > 0) else {
            return;
        };
        let mut by_use: Vec<(Instant, u64)> =
            self.by_name.iter().map(|(&name, balance)| (balance.last_used(), name)).collect();
        by_use.select_nth_unstable(excess - 1);
        for (_, name) in &by_use[..excess] {
            self.by_name.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn window() -> QuotaWindow {
        QuotaWindow::new(Duration::from_secs(1), 11)
    }

    #[test]
    fn each_name_has_its_own() {
        let now = Instant::now();
        let mut balances = Balances::default();
        let mut charge =
            |name| balances.of(name, 1.0, window(), now).charge(1.0, 1.0, window(), now);
        assert!(charge("a").is_zero() && charge("b").is_zero() && !charge("a").is_zero());
    }

    #[test]
    fn made_up_names_push_out_the_oldest() {
        let now = Instant::now();
        let mut balances = Balances::default();
        for number in 0..3 * BALANCES_MAX {
            let then = now + Duration::from_micros(number as u64);
            balances.of(number, 1.0, window(), then).charge(1.0, 1.0, window(), then);
            assert!(balances.len() <= BALANCES_MAX);
        }
        let newest = balances.names.hash_one(3 * BALANCES_MAX - 1);
        assert!(balances.by_name.contains_key(&newest));
        // All are as good as new after a while.
        let later = now + Duration::from_secs(60);
        balances.make_room(window(), later);
        assert_eq!(balances.len(), 0);
    }
}
