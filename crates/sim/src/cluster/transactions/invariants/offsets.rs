//! Offsets of a group are those of transactions that are committed, and never go back.
//!
//! Each transaction commits its number. Numbers of one transactional id rise.

use std::collections::BTreeSet;

use crate::cluster::transactions::ledger::{Fate, Ledger, Transaction};
use crate::violation::{Violation, ensure};

/// Judges what is told of all partitions at once: a transaction commits the same offset of each. Gives that.
pub(in crate::cluster::transactions) fn check_whole(
    offsets: &[Option<u64>],
) -> Result<Option<u64>, String> {
    let first = offsets.first().copied().flatten();
    match offsets.iter().all(|offset| *offset == first) {
        true => Ok(first),
        false => Err(format!("a part of a transaction is committed: {offsets:?}")),
    }
}

/// Judges an offset that somebody is told, by the transaction of that number.
pub(in crate::cluster::transactions) fn check_told(
    transaction: Option<&Transaction>,
    owner: usize,
    offset: u64,
) -> Result<(), String> {
    match transaction {
        Some(it) if it.owner == owner && it.commits_offset && it.fate != Fate::NotAsked => Ok(()),
        Some(it) => Err(format!("the offset of transaction {offset} is committed: {it:?}")),
        None => Err(format!("the offset {offset} is committed, which nobody has sent")),
    }
}

/// Judges two answers of one process, one after the other.
pub(in crate::cluster::transactions) fn check_order(
    before: Option<u64>,
    now: Option<u64>,
) -> Result<(), String> {
    match now < before {
        true => Err(format!("the committed offset was {before:?}, and now is {now:?}")),
        false => Ok(()),
    }
}

/// Judges the offset of a group at the end, by the transactions that `read_committed` readers see, and by what was told.
pub(in crate::cluster::transactions) fn check_end(
    ledger: &Ledger,
    owner: usize,
    present: &BTreeSet<u64>,
    committed: Option<u64>,
) -> Result<(), Violation> {
    let transactions = ledger.transactions();
    let is_of_owner = |number: &&u64| {
        transactions.get(*number).is_some_and(|it| it.owner == owner && it.commits_offset)
    };
    let last = present.iter().rfind(is_of_owner).copied();
    ensure(committed == last, || {
        format!("group {owner} has committed {committed:?}; its last transaction is {last:?}")
    })?;
    let told = ledger.told_offset(owner);
    ensure(told <= committed, || {
        format!("group {owner} has committed {committed:?}, and {told:?} was told before")
    })
}
