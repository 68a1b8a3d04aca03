//! How many producers are remembered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::LogMetrics;

/// How many idempotent producers the logs of a directory remember, each and together.
///
/// Producer ids are the clients' words: a client may send ever new ones, to any number of
/// partitions. So the logs share a bound beside their own. The writer keeps a sixteenth of it
/// free: between its rounds it has those forgotten, of all logs, that have not written for the
/// longest. A table that finds no room at all, during a recovery or within one round, forgets
/// producers of its own. Together the tables know at most one producer for each log more than the
/// bound.
///
/// A producer with an open transaction is never forgotten: where that begins bounds what consumers may
/// read. So no more than half of the producers may have one: who wants to begin another is refused.
///
/// Clones share the bound.
#[derive(Debug, Clone)]
pub struct ProducerLimits {
    per_log_max: usize,
    max: usize,
    known: Arc<AtomicUsize>,
    open_transactions: Arc<AtomicUsize>,
    metrics: LogMetrics,
}

impl ProducerLimits {
    /// At most `per_log_max` producers for each log, which is at least 1, and about `max` in all.
    pub fn new(per_log_max: usize, max: usize, metrics: LogMetrics) -> ProducerLimits {
        assert!(per_log_max > 0, "a table that holds nobody checks nothing");
        let (known, open_transactions) = Default::default();
        ProducerLimits { per_log_max, max, known, open_transactions, metrics }
    }

    /// How many producers the logs know together.
    pub(crate) fn known(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// How many producers a log remembers at most.
    pub(super) fn per_log_max(&self) -> usize {
        self.per_log_max
    }

    /// Whether the logs know as many producers as they may.
    pub(super) fn is_reached(&self) -> bool {
        self.known.load(Ordering::Relaxed) >= self.max
    }

    /// Whether a log that has so many open transactions may have another one.
    pub(super) fn has_room_for_transaction(&self, of_log: usize) -> bool {
        let all = self.open_transactions.load(Ordering::Relaxed);
        of_log < self.transactions_per_log_max() && all < self.transactions_max()
    }

    /// How many open transactions all logs together may have.
    pub(super) fn transactions_max(&self) -> usize {
        (self.max / 2).max(1)
    }

    /// How many open transactions a log may have.
    pub(super) fn transactions_per_log_max(&self) -> usize {
        (self.per_log_max / 2).max(1)
    }

    /// Takes note that a table knows so many open transactions and not `before` any more.
    pub(super) fn note_transactions(&self, before: usize, after: usize) {
        self.metrics.open_transactions.inc_by(after as i64 - before as i64);
        if after >= before {
            self.open_transactions.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.open_transactions.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// How many producers must go so that there is room for some time; `None` while there is.
    pub(crate) fn excess(&self) -> Option<usize> {
        let known = self.known.load(Ordering::Relaxed);
        let share = self.max / 16;
        (known > self.max - share).then(|| known - (self.max - 2 * share))
    }

    /// Takes note that a table knows so many producers and not `before` any more.
    pub(super) fn note_change(&self, before: usize, after: usize) {
        if after >= before {
            self.known.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.known.fetch_sub(before - after, Ordering::Relaxed);
        }
        self.metrics.producers.inc_by(after as i64 - before as i64);
    }

    /// Takes note of producers that were forgotten for want of room.
    pub(super) fn note_evicted(&self, count: usize) {
        self.metrics.evicted_producers.inc_by(count as u64);
    }
}
