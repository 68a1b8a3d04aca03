//! What became of the transactions in a part of a log.
//!
//! It is found out from the markers in the log itself, by a walk over the headers, and not from the
//! index of aborted transactions: the log is there in any case, and an index that was lost or is
//! behind would make the cleaner keep what was taken back in the place of what was not.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use logway_model::{Offset, ProducerId};
use logway_record::BatchHeader;

use crate::producer_state::AbortedTransaction;

/// The transactions in a part of a log, which is noted batch by batch.
#[derive(Debug)]
pub(super) struct Transactions {
    /// Where those began that have had no marker so far.
    open: HashMap<ProducerId, Offset>,
    /// The same places, in their order.
    open_from: BTreeSet<Offset>,
    /// By producer, in the order of the log.
    aborted: HashMap<ProducerId, Vec<AbortedTransaction>>,
    aborted_count: usize,
    count_max: usize,
}

impl Transactions {
    /// Those of a part that is yet to be noted, for as many transactions.
    pub(super) fn new(count_max: usize) -> Transactions {
        let (open, open_from, aborted) = Default::default();
        Transactions { open, open_from, aborted, aborted_count: 0, count_max }
    }

    /// Whether no more can be noted.
    pub(super) fn is_full(&self) -> bool {
        self.aborted_count + self.open.len() >= self.count_max
    }

    /// Takes note of the next batch; if it ends a transaction, `is_abort` is asked how.
    pub(super) fn note<E>(
        &mut self,
        header: &BatchHeader,
        is_abort: impl FnOnce() -> Result<bool, E>,
    ) -> Result<(), E> {
        if !header.attributes.is_transactional() {
            return Ok(());
        }
        let producer_id = header.producer_id;
        if !header.attributes.is_control() {
            if let Entry::Vacant(entry) = self.open.entry(producer_id) {
                entry.insert(header.base_offset);
                self.open_from.insert(header.base_offset);
            }
            return Ok(());
        }
        let Some(first) = self.open.remove(&producer_id) else { return Ok(()) };
        self.open_from.remove(&first);
        if is_abort()? {
            let last = header.last_offset();
            let last_stable = self.undecided_from().unwrap_or(last.next());
            let aborted = AbortedTransaction { producer_id, first, last, last_stable };
            self.aborted.entry(producer_id).or_default().push(aborted);
            self.aborted_count += 1;
        }
        Ok(())
    }

    /// Where the first transaction begins whose end is not known yet.
    pub(super) fn undecided_from(&self) -> Option<Offset> {
        self.open_from.first().copied()
    }

    /// Whether the batch of a transaction was taken back.
    pub(super) fn is_aborted(&self, header: &BatchHeader) -> bool {
        let Some(of_producer) = self.aborted.get(&header.producer_id) else { return false };
        let index = of_producer.partition_point(|aborted| aborted.last < header.base_offset);
        of_producer.get(index).is_some_and(|aborted| aborted.first <= header.base_offset)
    }

    /// Those whose markers are in this part of the log, in its order.
    pub(super) fn aborted_with_marker_in(
        &self,
        part: std::ops::Range<Offset>,
    ) -> Vec<AbortedTransaction> {
        if part.is_empty() {
            return Vec::new();
        }
        let all = self.aborted.values().flatten().copied();
        let mut found: Vec<_> = all.filter(|aborted| part.contains(&aborted.last)).collect();
        found.sort_unstable_by_key(|aborted| aborted.last);
        found
    }
}
