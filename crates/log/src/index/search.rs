//! Binary search over coded entries, in memory and in a file.

use std::io;
use std::ops::Range;

use super::sparse_index::{ENTRY_WIDTH_MAX, Entry, PAGE_BYTES};
use crate::fs::{File, read_exact_at};

/// Where a monotone predicate turns from true to false.
pub(super) struct Split<E> {
    /// The last entry for which it is true.
    pub(super) before: Option<E>,
    /// The number of entries for which it is true.
    pub(super) count: u64,
}

/// Searches coded entries in memory.
pub(super) fn partition_coded<E: Entry>(coded: &[u8], holds: impl Fn(&E) -> bool) -> Split<E> {
    let entry = |index: usize| E::decode(&coded[index * E::WIDTH..][..E::WIDTH]);
    let mut low = 0;
    let mut high = coded.len() / E::WIDTH;
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(&entry(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Split { before: low.checked_sub(1).map(entry), count: low as u64 }
}

/// Searches the first `entries` of a file: a page from the entry `guess` on, and if the answer is elsewhere, single
/// entries, and at last a page at once.
///
/// Who reads a log asks for what is near to what was asked for last, or for the end.
pub(super) fn partition_saved<E: Entry>(
    file: &dyn File,
    entries: u64,
    guess: u64,
    holds: impl Fn(&E) -> bool,
) -> io::Result<Split<E>> {
    let page_entries = (PAGE_BYTES / E::WIDTH) as u64;
    // All entries below `low` hold, none from `high` on does. The entry at `low` stays in the
    // range, so that the page read last contains the answer.
    let (mut low, mut high) = (0, entries);
    let mut probe = high / 2;
    if high > page_entries {
        let first = guess.min(high - page_entries);
        let split = partition_page(file, first..first + page_entries, &holds)?;
        let is_all = split.count == first + page_entries;
        if is_all && split.count < high {
            // The next page comes next.
            (low, probe) = (split.count - 1, split.count + page_entries);
        } else if split.count == first && first > 0 {
            (high, probe) = (first, first / 2);
        } else {
            return Ok(split);
        }
    }
    while high - low > page_entries {
        // The guess may be near the end.
        let middle = if low < probe && probe < high { probe } else { low + (high - low) / 2 };
        if holds(&read_entry(file, middle * E::WIDTH as u64)?) {
            low = middle;
        } else {
            high = middle;
        }
        probe = low + (high - low) / 2;
    }
    partition_page(file, low..high, &holds)
}

/// Searches a page of a file.
fn partition_page<E: Entry>(
    file: &dyn File,
    entries: Range<u64>,
    holds: impl Fn(&E) -> bool,
) -> io::Result<Split<E>> {
    let mut page = [0; PAGE_BYTES];
    let page = &mut page[..(entries.end - entries.start) as usize * E::WIDTH];
    read_exact_at(file, page, entries.start * E::WIDTH as u64)?;
    let in_page = partition_coded(page, holds);
    Ok(Split { before: in_page.before, count: entries.start + in_page.count })
}

pub(super) fn read_entry<E: Entry>(file: &dyn File, position: u64) -> io::Result<E> {
    let mut coded = [0; ENTRY_WIDTH_MAX];
    read_exact_at(file, &mut coded[..E::WIDTH], position)?;
    Ok(E::decode(&coded[..E::WIDTH]))
}
