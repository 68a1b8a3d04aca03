//! What readers see of a log's transactions.
//!
//! The *last stable offset* is where `read_committed` readers stop: the high watermark, or before that where the first
//! transaction begins that is unstable. Unstable is one that is open, and one whose marker is not below the high watermark:
//! until then another leader may end it otherwise.
//!
//! The writer notes what batches did to transactions after they are written and before it publishes the new log end. So no
//! high watermark passes a batch whose transaction is not noted, and the last stable offset never goes back.
//!
//! A log without transactions costs those who ask one load.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use logway_model::{Offset, ProducerEpoch, ProducerId, TransactionVersion};

use crate::producer_state::{
    EndedTransaction, Marker, OpenTransactions, TransactionStep, Verification, VerificationGuard,
    Verifications,
};

/// Of those whose markers are not committed, so many are told apart. With more, several count as one: that holds the last
/// stable offset back until all of them are committed.
const UNCOMMITTED_MAX: usize = 1024;

/// What is known of the transactions of one log.
#[derive(Debug, Default)]
pub(crate) struct LogTransactions {
    /// Whether any transaction is unstable. It spares readers the lock.
    has_unstable: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: OpenTransactions,
    /// Those that have their markers, and may not be committed yet: by marker, and by their beginnings, ascending. One that
    /// begins behind another, whose marker comes later, is left out: it bounds nothing.
    uncommitted: VecDeque<Uncommitted>,
    /// What a start knew nothing of: it counts like a transaction until all of it is committed.
    unknown: Option<Uncommitted>,
    verifications: Verifications,
}

/// The transactions of a log that may not be committed yet, as far as a start knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndedLately {
    /// Those whose markers are not known to be committed.
    pub(crate) ended: Vec<EndedTransaction>,
    /// A part of the log that may be committed or not: nobody knows yet.
    pub(crate) unknown: Option<Range<Offset>>,
}

#[derive(Debug, Clone, Copy)]
struct Uncommitted {
    first: Offset,
    marker: Offset,
}

impl LogTransactions {
    /// The last stable offset, where everything before `high_watermark` is committed. It never goes back, as the high
    /// watermark does not.
    pub(crate) fn last_stable(&self, high_watermark: Offset) -> Offset {
        if !self.has_unstable() {
            return high_watermark;
        }
        let mut state = self.state();
        while state.uncommitted.front().is_some_and(|first| first.marker < high_watermark) {
            state.uncommitted.pop_front();
        }
        state.unknown.take_if(|unknown| unknown.marker < high_watermark);
        let uncommitted = state.uncommitted.front().map(|first| first.first);
        let unknown = state.unknown.map(|unknown| unknown.first);
        let first = [state.open.first(), uncommitted, unknown].into_iter().flatten().min();
        self.note_unstable(&state);
        first.map_or(high_watermark, |first| first.min(high_watermark))
    }

    /// Whether any transaction is unstable, as far as anybody has looked.
    pub(crate) fn has_unstable(&self) -> bool {
        self.has_unstable.load(Ordering::Acquire)
    }

    /// Takes note of what batches did that are written and not published yet.
    pub(crate) fn note(&self, steps: &[TransactionStep]) {
        if steps.is_empty() {
            return;
        }
        let mut state = self.state();
        for step in steps {
            match *step {
                TransactionStep::Open { producer_id, open } => {
                    state.open.set(producer_id, Some(open));
                    state.verifications.end(producer_id);
                }
                TransactionStep::End(ended) => state.end(ended),
            }
        }
        self.note_unstable(&state);
    }

    /// Begins with a log that was opened.
    pub(crate) fn begin(&self, open: &OpenTransactions, lately: EndedLately) {
        let mut state = self.state();
        state.set_open(open);
        lately.ended.into_iter().for_each(|ended| state.add_uncommitted(ended));
        state.unknown = lately
            .unknown
            .map(|unknown| Uncommitted { first: unknown.start, marker: Offset(unknown.end.0 - 1) });
        self.note_unstable(&state);
    }

    /// Goes on with a log that was cut off at `end`, where these are open.
    pub(crate) fn cut(&self, open: &OpenTransactions, end: Offset) {
        let mut state = self.state();
        state.set_open(open);
        // The others are open again.
        state.uncommitted.retain(|uncommitted| uncommitted.marker < end);
        state.unknown.take_if(|unknown| unknown.first >= end);
        if let Some(unknown) = &mut state.unknown {
            unknown.marker = unknown.marker.min(Offset(end.0 - 1));
        }
        self.note_unstable(&state);
    }

    /// Whether a producer has an open transaction in this epoch.
    pub(crate) fn is_open(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.has_unstable() && {
            let open = self.state().open.get(producer_id);
            open.is_some_and(|open| open.epoch == epoch)
        }
    }

    /// What the coordinator is asked about.
    pub(crate) fn with_verifications<T>(&self, ask: impl FnOnce(&mut Verifications) -> T) -> T {
        ask(&mut self.state().verifications)
    }

    /// What is known of a producer that was verified, if its guard is still good.
    pub(crate) fn verified(
        &self,
        producer_id: ProducerId,
        guard: VerificationGuard,
    ) -> Option<Verification> {
        self.state().verifications.get(producer_id, guard)
    }

    /// A marker of a producer is about to be in the log: what was verified before is not good any more, also if no
    /// transaction is open here yet.
    pub(crate) fn void_verification(&self, marker: &Marker, version: TransactionVersion) {
        let verifications = &mut self.state().verifications;
        match version.bumps_epoch() {
            true => verifications.end_before(marker.producer_id, marker.epoch),
            false => verifications.end(marker.producer_id),
        }
    }

    fn note_unstable(&self, state: &State) {
        let has_unstable =
            state.open.len() > 0 || !state.uncommitted.is_empty() || state.unknown.is_some();
        self.has_unstable.store(has_unstable, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it guards is right after each step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_open(&mut self, open: &OpenTransactions) {
        self.open = OpenTransactions::default();
        for (producer_id, open) in open.iter() {
            self.open.set(producer_id, Some(open));
        }
    }

    fn end(&mut self, ended: EndedTransaction) {
        self.open.set(ended.producer_id, None);
        self.add_uncommitted(ended);
    }

    fn add_uncommitted(&mut self, EndedTransaction { first, marker, .. }: EndedTransaction) {
        while self.uncommitted.back().is_some_and(|last| last.first >= first) {
            self.uncommitted.pop_back();
        }
        self.uncommitted.push_back(Uncommitted { first, marker });
        if self.uncommitted.len() > UNCOMMITTED_MAX {
            let joined = self.uncommitted.pop_front().expect("there are many");
            let next = self.uncommitted.front_mut().expect("there are many");
            next.first = joined.first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producer_state::OpenTransaction;

    fn open(id: i64, first: i64) -> TransactionStep {
        let open = OpenTransaction { first: Offset(first), epoch: ProducerEpoch(0) };
        TransactionStep::Open { producer_id: ProducerId(id), open }
    }

    fn end(id: i64, first: i64, marker: i64) -> TransactionStep {
        let (first, marker) = (Offset(first), Offset(marker));
        let producer_id = ProducerId(id);
        TransactionStep::End(EndedTransaction { producer_id, first, marker, aborted: None })
    }

    fn stable(transactions: &LogTransactions, high_watermark: i64) -> i64 {
        transactions.last_stable(Offset(high_watermark)).0
    }

    #[test]
    fn an_open_transaction_holds_readers_back_until_its_marker_is_committed() {
        let transactions = LogTransactions::default();
        assert_eq!(stable(&transactions, 7), 7);
        transactions.note(&[open(1, 10), open(2, 20)]);
        assert_eq!(stable(&transactions, 8), 8, "it begins behind");
        assert_eq!(stable(&transactions, 30), 10);
        transactions.note(&[end(1, 10, 30)]);
        assert_eq!(stable(&transactions, 30), 10, "the marker is not committed");
        assert_eq!(stable(&transactions, 31), 20, "the other one is open");
        transactions.note(&[end(2, 20, 31), open(3, 40)]);
        assert_eq!(stable(&transactions, 31), 20);
        assert_eq!(stable(&transactions, 32), 32);
        assert_eq!(stable(&transactions, 50), 40);
        transactions.note(&[end(3, 40, 50)]);
        assert_eq!(stable(&transactions, 51), 51);
        assert!(!transactions.has_unstable());
    }

    #[test]
    fn of_those_that_are_not_committed_the_first_beginning_counts() {
        let transactions = LogTransactions::default();
        transactions.note(&[open(1, 10), open(2, 20), end(2, 20, 30), end(1, 10, 31)]);
        assert_eq!(stable(&transactions, 31), 10, "it ends later and begins earlier");
        assert_eq!(stable(&transactions, 32), 32);
    }

    #[test]
    fn what_was_cut_off_is_open_again() {
        let transactions = LogTransactions::default();
        transactions.note(&[open(1, 10), end(1, 10, 20), open(2, 30), end(2, 30, 40)]);
        let mut left = OpenTransactions::default();
        let again = OpenTransaction { first: Offset(30), epoch: ProducerEpoch(0) };
        left.set(ProducerId(2), Some(again));
        transactions.cut(&left, Offset(40));
        assert!(transactions.is_open(ProducerId(2), ProducerEpoch(0)));
        assert!(!transactions.is_open(ProducerId(2), ProducerEpoch(1)));
        assert_eq!(stable(&transactions, 15), 10, "the marker at 20 is there");
        assert_eq!(stable(&transactions, 40), 30);
    }

    #[test]
    fn what_a_start_knew_nothing_of_is_held_back_until_all_of_it_is_committed() {
        let transactions = LogTransactions::default();
        let unknown = Some(Offset(5)..Offset(40));
        let lately = EndedLately { unknown, ..EndedLately::default() };
        transactions.begin(&OpenTransactions::default(), lately);
        assert_eq!(stable(&transactions, 30), 5);
        transactions.cut(&OpenTransactions::default(), Offset(35));
        assert_eq!(stable(&transactions, 34), 5);
        assert_eq!(stable(&transactions, 35), 35);
        assert!(!transactions.has_unstable());
    }

    #[test]
    fn very_many_that_are_not_committed_take_little_memory_and_show_too_little() {
        let transactions = LogTransactions::default();
        let many = 3 * UNCOMMITTED_MAX as i64;
        for number in 0..many {
            let (first, marker) = (10 * number, 10 * number + 5);
            transactions.note(&[open(number, first), end(number, first, marker)]);
        }
        assert_eq!(transactions.state().uncommitted.len(), UNCOMMITTED_MAX);
        assert_eq!(stable(&transactions, 1), 0);
        let joined_to = 10 * (many - UNCOMMITTED_MAX as i64) + 5;
        assert_eq!(stable(&transactions, joined_to), 0, "they count as one");
        assert_eq!(stable(&transactions, joined_to + 1), joined_to + 1);
        assert_eq!(stable(&transactions, 10 * many), 10 * many);
    }
}
