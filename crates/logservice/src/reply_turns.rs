//! Waiting for the memory of replies. Clients take turns, however many replies of each wait.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use logway_node::access::Principal;
use logway_node::memory::{BudgetShare, MemoryBudget};
use tokio::sync::Mutex;

use crate::shared::Shared;

/// A user at an address.
pub(crate) type Client = (Principal, IpAddr);

/// The lines of those who wait: one for each client. The first of each line waits for the budget, which is first come, first served.
/// So before a reply has its turn, each other client has one.
#[derive(Debug, Default)]
pub(crate) struct ReplyTurns {
    lines: Shared<Client, Mutex<()>>,
    waiting: AtomicU32,
}

impl ReplyTurns {
    /// Takes a share of `replies` when it is this client's turn.
    pub(crate) async fn take(
        &self,
        client: Client,
        replies: &MemoryBudget,
        bytes: usize,
    ) -> BudgetShare {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        let line = self.lines.at(client);
        let _first = line.lock().await;
        replies.take(bytes).await
    }

    /// How many wait, in all lines.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }
}

/// One that waits, also if its wait is cancelled.
struct Waiting<'a>(&'a AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use logway_node::memory::Attention;
    use tokio::sync::mpsc;
    use tokio::task::yield_now;

    use super::*;

    const LIMIT_BYTES: usize = 1 << 20;

    fn client(host: u8) -> Client {
        (Principal::anonymous().clone(), [127, 0, 0, host].into())
    }

    #[tokio::test]
    async fn clients_take_turns_however_many_replies_of_each_wait() {
        let turns = Arc::new(ReplyTurns::default());
        let budget = MemoryBudget::new(LIMIT_BYTES, Arc::new(Attention::default()));
        let mut held = Some(turns.take(client(1), &budget, LIMIT_BYTES).await);
        let (had, mut having) = mpsc::unbounded_channel();
        for host in [1, 1, 1, 2, 2, 3] {
            let (turns, budget, had) = (Arc::clone(&turns), budget.clone(), had.clone());
            let before = turns.waiting();
            tokio::spawn(async move {
                let share = turns.take(client(host), &budget, LIMIT_BYTES).await;
                had.send((host, share)).expect("somebody listens");
            });
            while turns.waiting() == before {
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
        assert_eq!(turns.waiting(), 0);
    }
}
