//! Large replies that a client has not taken: they hold memory that others may wait for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_node::memory::{BudgetShare, MemoryBudget, hold_with};
use tokio::sync::watch;
use tokio::time::sleep;

/// How long a client may take nothing while others wait for the memory of replies.
const UNREAD_MAX: Duration = Duration::from_secs(10);

const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A client that has taken so much is one that reads.
const PIECE_BYTES: usize = 1 << 20;

/// The counted replies of a call, from when they are made until the socket has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(Arc<watch::Sender<OnTheWay>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct OnTheWay {
    pieces: usize,
    /// Pieces that have left since the call began.
    taken: u64,
}

/// A piece, until it has left.
struct Piece(Arc<watch::Sender<OnTheWay>>);

impl Drop for Piece {
    fn drop(&mut self) {
        self.0.send_modify(|on_the_way| {
            on_the_way.pieces -= 1;
            on_the_way.taken += 1;
        });
    }
}

impl Unread {
    /// The same bytes, which hold a share until the client has taken the last of them. In pieces, so that it is seen how far they are.
    pub(crate) fn pieces(&self, bytes: Bytes, share: BudgetShare) -> Vec<Bytes> {
        let mut left = share.around(bytes);
        let mut pieces = Vec::with_capacity(left.len().div_ceil(PIECE_BYTES));
        while !left.is_empty() {
            let piece = left.split_to(left.len().min(PIECE_BYTES));
            self.0.send_modify(|on_the_way| on_the_way.pieces += 1);
            pieces.push(hold_with(piece, Piece(Arc::clone(&self.0))));
        }
        pieces
    }

    /// Ends when all have left.
    pub(crate) async fn all_taken(&self) {
        // Who could be waited for is here.
        _ = self.0.subscribe().wait_for(|on_the_way| on_the_way.pieces == 0).await;
    }

    /// Ends when the client has taken nothing for too long, while others wait for the memory.
    pub(crate) async fn is_given_up(&self, replies: &MemoryBudget) {
        let (mut idle, mut taken) = (Duration::ZERO, 0);
        loop {
            _ = self.0.subscribe().wait_for(|on_the_way| on_the_way.pieces > 0).await;
            sleep(LOOK_INTERVAL).await;
            let now = *self.0.borrow();
            let is_wanted = replies.is_contended() || replies.is_refusing();
            idle = match is_wanted && now.pieces > 0 && now.taken == taken {
                true => idle + LOOK_INTERVAL,
                false => Duration::ZERO,
            };
            taken = now.taken;
            if idle >= UNREAD_MAX {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_node::memory::Attention;
    use tokio::time::{Instant, timeout};

    use super::*;

    const LIMIT_BYTES: usize = 8 << 20;

    /// A budget, and a reply of three pieces that has most of it.
    fn replied(unread: &Unread) -> (MemoryBudget, Vec<Bytes>) {
        let budget = MemoryBudget::new(LIMIT_BYTES, Arc::new(Attention::default()));
        let share = budget.try_take(LIMIT_BYTES).expect("all of it");
        let pieces = unread.pieces(vec![7; 2 * PIECE_BYTES + 1].into(), share);
        assert_eq!(
            pieces.iter().map(Bytes::len).collect::<Vec<_>>(),
            [PIECE_BYTES, PIECE_BYTES, 1]
        );
        (budget, pieces)
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_while_others_wait_is_given_up() {
        let unread = Unread::default();
        let (budget, mut pieces) = replied(&unread);
        let given_up = unread.is_given_up(&budget);
        tokio::pin!(given_up);
        let day = Duration::from_secs(86_400);
        assert!(timeout(day, &mut given_up).await.is_err(), "nobody waits for the memory");

        let waiting = budget.take(1);
        tokio::pin!(waiting);
        assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
        for _ in 0..2 {
            assert!(timeout(UNREAD_MAX / 2, &mut given_up).await.is_err());
            pieces.pop();
        }
        let begun = Instant::now();
        given_up.await;
        assert!(begun.elapsed() >= UNREAD_MAX, "each piece that left counts");
        // The share is one: it goes back with the last piece.
        assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
        drop(pieces);
        waiting.await;
        unread.all_taken().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_counts_as_waiting() {
        let unread = Unread::default();
        let (budget, _pieces) = replied(&unread);
        assert!(budget.take_now(1).is_none());
        timeout(2 * UNREAD_MAX, unread.is_given_up(&budget)).await.expect("is given up");
    }
}
