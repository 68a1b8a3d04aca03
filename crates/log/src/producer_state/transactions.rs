//! What batches do to transactions.

use std::collections::{BTreeSet, HashMap};

use logway_model::{Offset, ProducerEpoch, ProducerId};

/// A transaction that was taken back, as the index of its marker's segment has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: ProducerId,
    /// Where its first batch begins.
    pub first: Offset,
    /// Its marker.
    pub last: Offset,
    /// Where the first transaction began that was open when the marker was written; behind the marker if none was.
    pub last_stable: Offset,
}

/// What a batch does to the transaction of its producer. A batch that goes on with an open transaction, or a marker that
/// finds none open, does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionStep {
    /// The transaction begins, or goes on in a newer producer epoch.
    Open { producer_id: ProducerId, open: OpenTransaction },
    /// It ends.
    End(EndedTransaction),
}

/// A transaction that has no marker yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenTransaction {
    /// Where its first batch begins.
    pub(crate) first: Offset,
    /// The newest producer epoch that has written to it.
    pub(crate) epoch: ProducerEpoch,
}

/// A transaction that has its marker now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedTransaction {
    pub(crate) producer_id: ProducerId,
    pub(crate) first: Offset,
    pub(crate) marker: Offset,
    /// For the index, if it was taken back.
    pub(crate) aborted: Option<AbortedTransaction>,
}

/// The open transactions of a log, by producer and in the order of their beginnings.
#[derive(Debug, Default)]
pub(crate) struct OpenTransactions {
    by_producer: HashMap<ProducerId, OpenTransaction>,
    firsts: BTreeSet<(Offset, ProducerId)>,
}

impl OpenTransactions {
    /// Says which transaction of a producer is open, if any.
    pub(crate) fn set(&mut self, producer_id: ProducerId, open: Option<OpenTransaction>) {
        let before = match open {
            Some(open) => self.by_producer.insert(producer_id, open),
            None => self.by_producer.remove(&producer_id),
        };
        if let Some(before) = before {
            self.firsts.remove(&(before.first, producer_id));
        }
        if let Some(open) = open {
            self.firsts.insert((open.first, producer_id));
        }
        if self.by_producer.is_empty() {
            // A map does not give memory back by itself.
            self.by_producer = HashMap::new();
        }
    }

    /// The one of a producer.
    pub(crate) fn get(&self, producer_id: ProducerId) -> Option<OpenTransaction> {
        self.by_producer.get(&producer_id).copied()
    }

    /// Where the first of them begins.
    pub(crate) fn first(&self) -> Option<Offset> {
        self.firsts.first().map(|(first, _)| *first)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_producer.len()
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProducerId, OpenTransaction)> {
        self.by_producer.iter().map(|(id, open)| (*id, *open))
    }
}
