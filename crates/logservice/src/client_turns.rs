//! Waiting for memory. Clients take turns, however many of each wait.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_node::access::Principal;
use logway_node::memory::{BudgetShare, MemoryBudget};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::shared::Shared;

/// A user at an address.
pub(crate) type Client = (Principal, IpAddr);

/// How long a client may take nothing of its replies while another waits for their memory. Several that wait share this time.
const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// It is no shorter, however many wait, and so long when somebody has waited for [`PATIENCE_MAX`].
const PATIENCE_MIN: Duration = Duration::from_secs(1);

/// The lines of those who wait: one for each client. The first of each line waits for the budget, which is first come, first served.
/// So before a reply has its turn, each other client has one.
#[derive(Debug, Default)]
pub(crate) struct ClientTurns {
    lines: Shared<Client, AsyncMutex<()>>,
    /// Those who wait, in all lines, by when they have come.
    waiting: Mutex<BTreeSet<(Instant, u64)>>,
    next_number: AtomicU64,
}

impl ClientTurns {
    /// Takes a share of a budget when it is this client's turn.
    pub(crate) async fn take(
        &self,
        client: Client,
        budget: &MemoryBudget,
        bytes: usize,
    ) -> BudgetShare {
        let _waiting = Waiting::enter(self);
        let line = self.lines.at(client);
        let _first = line.lock().await;
        budget.take(bytes).await
    }

    /// How long a client that holds memory may take nothing now.
    pub(crate) fn patience(&self) -> Duration {
        let waiting = self.waiting();
        let count = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        let longest = waiting.first().map_or(Duration::ZERO, |(since, _)| since.elapsed());
        let patience = (PATIENCE_MAX / count.max(1)).min(PATIENCE_MAX.saturating_sub(longest));
        patience.max(PATIENCE_MIN)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<(Instant, u64)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that waits, also if its wait is cancelled.
struct Waiting<'a> {
    turns: &'a ClientTurns,
    place: (Instant, u64),
}

impl Waiting<'_> {
    fn enter(turns: &ClientTurns) -> Waiting<'_> {
        let place = (Instant::now(), turns.next_number.fetch_add(1, Ordering::Relaxed));
        turns.waiting().insert(place);
        Waiting { turns, place }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.waiting().remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use logway_node::memory::Attention;
    use tokio::sync::mpsc;
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    const LIMIT_BYTES: usize = 1 << 20;

    fn client(host: u8) -> Client {
        (Principal::anonymous().clone(), [127, 0, 0, host].into())
    }

    #[tokio::test]
    async fn clients_take_turns_however_many_replies_of_each_wait() {
        let turns = Arc::new(ClientTurns::default());
        let budget = MemoryBudget::new(LIMIT_BYTES, Arc::new(Attention::default()));
        let mut held = Some(turns.take(client(1), &budget, LIMIT_BYTES).await);
        let (had, mut having) = mpsc::unbounded_channel();
        for host in [1, 1, 1, 2, 2, 3] {
            let (own_turns, budget, had) = (Arc::clone(&turns), budget.clone(), had.clone());
            let before = turns.waiting().len();
            tokio::spawn(async move {
                let share = own_turns.take(client(host), &budget, LIMIT_BYTES).await;
                had.send((host, share)).expect("somebody listens");
            });
            while turns.waiting().len() == before {
                yield_now().await;
            }
        }
        let mut order = Vec::new();
        while order.len() < 6 {
            drop(held.take());
            let (host, share) = having.recv().await.expect("comes");
            order.push(host);
            held = Some(share);
        }
        assert_eq!(order, [1, 2, 3, 1, 2, 1]);
        assert!(turns.waiting().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_wait_and_the_longer_the_less_patience_there_is() {
        let turns = ClientTurns::default();
        assert_eq!(turns.patience(), PATIENCE_MAX);
        let first = Waiting::enter(&turns);
        assert_eq!(turns.patience(), PATIENCE_MAX);
        let others: Vec<_> = (1..4).map(|_| Waiting::enter(&turns)).collect();
        assert_eq!(turns.patience(), PATIENCE_MAX / 4);
        drop(others);
        sleep(PATIENCE_MAX * 7 / 10).await;
        assert_eq!(turns.patience(), PATIENCE_MAX * 3 / 10);
        let _late = Waiting::enter(&turns);
        sleep(PATIENCE_MAX).await;
        assert_eq!(turns.patience(), PATIENCE_MIN);
        drop(first);
        assert_eq!(turns.patience(), PATIENCE_MIN, "the late one has waited for long, too");
    }
}
