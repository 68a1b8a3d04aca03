//! Binary search over coded entries, in memory and in a file.

use std::io;

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

/// Searches the first `entries` of a file: single entries first, at last a page at once.
pub(super) fn partition_saved<E: Entry>(
    file: &dyn File,
    entries: u64,
    holds: impl Fn(&E) -> bool,
) -> io::Result<Split<E>> {
    let page_entries = (PAGE_BYTES / E::WIDTH) as u64;
    // All entries below `low` hold, none from `high` on does. The entry at `low` stays in the
    // range, so that the page read last contains the answer.
    let (mut low, mut high) = (0, entries);
    // Most searches are for the end of the log, so the last page comes first.
    let mut probe = high.saturating_sub(page_entries);
    while high - low > page_entries {
        if holds(&read_entry(file, probe * E::WIDTH as u64)?) {
            low = probe;
        } else {
            high = probe;
        }
        probe = low + (high - low) / 2;
    }
    let mut page = [0; PAGE_BYTES];
    let page = &mut page[..(high - low) as usize * E::WIDTH];
    read_exact_at(file, page, low * E::WIDTH as u64)?;
    let in_page = partition_coded(page, holds);
    Ok(Split { before: in_page.before, count: low + in_page.count })
}

pub(super) fn read_entry<E: Entry>(file: &dyn File, position: u64) -> io::Result<E> {
    let mut coded = [0; ENTRY_WIDTH_MAX];
    read_exact_at(file, &mut coded[..E::WIDTH], position)?;
    Ok(E::decode(&coded[..E::WIDTH]))
}
