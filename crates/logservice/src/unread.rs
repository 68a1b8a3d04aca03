//! Replies that a client has not taken: they hold memory, and others may wait for some.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_node::memory::{BudgetShare, MemoryBudget, hold_with};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::client_turns::ClientTurns;
use crate::grpc::outbound::Reply;

/// How long a client may take over what was on its way when others began to wait.
const WHOLE_MAX: Duration = Duration::from_secs(30);

const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A client that has taken so much is one that reads.
const PIECE_BYTES: usize = 128 << 10;

/// The replies of a call, from when they are made until the socket has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(Arc<watch::Sender<OnTheWay>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct OnTheWay {
    /// Pieces that were made since the call began.
    made: u64,
    /// Those of them that have left.
    taken: u64,
}

/// A piece, until it has left.
struct Piece(Arc<watch::Sender<OnTheWay>>);

impl Drop for Piece {
    fn drop(&mut self) {
        self.0.send_modify(|on_the_way| on_the_way.taken += 1);
    }
}

impl Unread {
    /// A reply that is not counted.
    pub(crate) fn reply(&self, message: Bytes) -> Reply {
        Reply::Message(self.pieces(message, None))
    }

    /// The same bytes, which hold a share until the client has taken the last of them. In pieces, so that it is seen how far they are.
    pub(crate) fn pieces(&self, bytes: Bytes, share: Option<BudgetShare>) -> Vec<Bytes> {
        let mut left = match share {
            Some(share) => share.around(bytes),
            None => bytes,
        };
        let mut pieces = Vec::with_capacity(left.len().div_ceil(PIECE_BYTES));
        while !left.is_empty() {
            let piece = left.split_to(left.len().min(PIECE_BYTES));
            self.0.send_modify(|on_the_way| on_the_way.made += 1);
            pieces.push(hold_with(piece, Piece(Arc::clone(&self.0))));
        }
        pieces
    }

    /// Ends when all have left.
    pub(crate) async fn all_taken(&self) {
        // Who could be waited for is here.
        _ = self.0.subscribe().wait_for(|on_the_way| on_the_way.made == on_the_way.taken).await;
    }

    /// Ends when the client has taken nothing for too long, or too little, while others wait for the memory.
    pub(crate) async fn is_given_up(&self, replies: &MemoryBudget, turns: &ClientTurns) {
        let mut pace = Pace::default();
        loop {
            _ = self.0.subscribe().wait_for(|on_the_way| on_the_way.made > on_the_way.taken).await;
            sleep(LOOK_INTERVAL).await;
            let is_wanted = replies.is_contended() || replies.is_refusing();
            if pace.is_too_slow(*self.0.borrow(), is_wanted, turns.patience()) {
                return;
            }
        }
    }
}

/// How a client takes what is on its way while others wait.
#[derive(Debug, Default)]
struct Pace {
    taken: u64,
    /// How long nothing was taken.
    idle: Duration,
    /// What was made when `late` began to count.
    due: u64,
    /// How long not all of that was taken.
    late: Duration,
}

impl Pace {
    /// Notes how far a client is after another [`LOOK_INTERVAL`].
    fn is_too_slow(&mut self, now: OnTheWay, is_wanted: bool, patience: Duration) -> bool {
        let OnTheWay { made, taken } = now;
        let owes = is_wanted && made > taken;
        self.idle = match owes && taken == self.taken {
            true => self.idle + LOOK_INTERVAL,
            false => Duration::ZERO,
        };
        if owes && taken < self.due {
            self.late += LOOK_INTERVAL;
        } else {
            (self.due, self.late) = (made, Duration::ZERO);
        }
        self.taken = taken;
        self.idle >= patience || self.late >= WHOLE_MAX
    }
}

#[cfg(test)]
mod tests {
    use logway_node::memory::Attention;
    use tokio::time::{Instant, timeout};

    use super::*;

    const LIMIT_BYTES: usize = 8 << 20;

    const UNREAD_MAX: Duration = Duration::from_secs(10);

    /// A budget, and a reply of three pieces that has most of it.
    fn replied(unread: &Unread) -> (MemoryBudget, Vec<Bytes>) {
        let budget = MemoryBudget::new(LIMIT_BYTES, Arc::new(Attention::default()));
        let share = budget.try_take(LIMIT_BYTES).expect("all of it");
        let pieces = unread.pieces(vec![7; 2 * PIECE_BYTES + 1].into(), Some(share));
        assert_eq!(
            pieces.iter().map(Bytes::len).collect::<Vec<_>>(),
            [PIECE_BYTES, PIECE_BYTES, 1]
        );
        (budget, pieces)
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_while_others_wait_is_given_up() {
        let (unread, turns) = (Unread::default(), ClientTurns::default());
        let (budget, mut pieces) = replied(&unread);
        let given_up = unread.is_given_up(&budget, &turns);
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
        let turns = ClientTurns::default();
        let given_up = unread.is_given_up(&budget, &turns);
        timeout(2 * UNREAD_MAX, given_up).await.expect("is given up");
    }

    /// Looks until a client is given up that takes a piece in so many intervals, of a reply of so many pieces or of ever new ones.
    fn looks_at(intervals: u64, reply_pieces: u64, is_endless: bool) -> Option<u64> {
        let mut pace = Pace::default();
        (1..1_000).find(|look| {
            let taken = look / intervals;
            let made = if is_endless { taken + reply_pieces } else { reply_pieces };
            pace.is_too_slow(OnTheWay { made, taken }, true, UNREAD_MAX)
        })
    }

    #[test]
    fn a_client_has_a_time_for_what_it_holds_and_goes_on_if_it_keeps_to_that() {
        let whole = WHOLE_MAX.as_secs();
        assert_eq!(looks_at(9, 60, false), Some(whole + 1), "a piece now and then is too little");
        assert_eq!(looks_at(1, 60, false), Some(whole + 1));
        assert_eq!(looks_at(1, whole - 2, false), None, "it has all in time");
        assert_eq!(looks_at(9, 2, true), None, "what it gets meanwhile has a time of its own");
        assert_eq!(looks_at(11, 2, true), Some(UNREAD_MAX.as_secs()));
    }
}
