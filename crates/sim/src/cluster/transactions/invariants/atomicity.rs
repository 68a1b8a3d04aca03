//! A transaction is all or nothing, over all partitions.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use crate::batch::content;
use crate::cluster::oracle::Place;
use crate::cluster::transactions::ledger::{Fate, Ledger};
use crate::cluster::transactions::view::EndedLog;
use crate::violation::{Violation, ensure};

/// Judges what `read_committed` readers see at the end. Gives the transactions that they see.
pub(in crate::cluster::transactions) fn check(
    ledger: &Ledger,
    logs: &[EndedLog],
) -> Result<BTreeSet<u64>, Violation> {
    let mut seen: HashMap<(Place, Bytes), usize> = HashMap::new();
    for log in logs {
        for batch in log.committed() {
            let content = Bytes::copy_from_slice(content(batch));
            *seen.entry((log.place, content)).or_default() += 1;
        }
    }
    let mut present = BTreeSet::new();
    for (number, transaction) in ledger.transactions() {
        let count = |key: &(Place, Bytes)| seen.get(key).copied().unwrap_or(0);
        let counts: Vec<usize> = transaction.batches.iter().map(count).collect();
        let fate = transaction.fate;
        let expected = match fate {
            Fate::NotAsked => 0,
            Fate::Committed => 1,
            // Nobody knows which, but all of it is the same.
            Fate::Asked => counts.first().copied().unwrap_or(0).min(1),
        };
        ensure(counts.iter().all(|count| *count == expected), || {
            format!("of transaction {number} ({fate:?}) batches are seen so often: {counts:?}")
        })?;
        if expected == 1 {
            present.insert(number);
        }
    }
    Ok(present)
}
