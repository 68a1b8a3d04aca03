//! The indexes of a segment.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use logway_log::fs::SimFs;
use logway_log::index::{OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset};
use logway_model::{Offset, TimestampMs};

use crate::allocation::within;
use crate::disk;

const FILE: &str = "/index";

/// Offsets and positions.
pub fn offset_index(input: &[u8]) {
    let Some((base_offset, coded)) = split(input) else { return };
    let entries: Vec<_> = OffsetIndex::decode_entries(base_offset, coded).collect();
    within(disk::bytes_max(input), || {
        let fs = disk_with(coded);
        let index = OffsetIndex::existing(fs.clone(), Path::new(FILE), base_offset);
        let start = OffsetPosition { offset: base_offset, position: 0 };
        if index.check().is_err() {
            return;
        }
        assert_eq!(index.last().ok(), Some(entries.last().copied()));
        for target in entries.iter().flat_map(|entry| around(entry.offset.0)).map(Offset) {
            let found = index.lookup(target).expect("the disk works");
            assert_found(&entries, start, found, |entry| entry.offset <= target);
        }
        // What else is promised holds if the entries are in order.
        let is_in_order = entries.is_sorted_by_key(|entry| entry.offset)
            && entries.is_sorted_by_key(|entry| entry.position);
        if !is_in_order {
            return;
        }
        for limit in entries.iter().map(|entry| entry.position) {
            let found = index.lookup_position(limit).expect("the disk works");
            assert_found(&entries, start, found, |entry| entry.position <= limit);
            let next = index.next_position(limit).expect("the disk works");
            assert!(next.is_none_or(|next| next.position > limit && entries.contains(&next)));
        }
        let end = entries.get(entries.len() / 2).map_or(base_offset, |entry| entry.offset);
        index.truncate(end).expect("the disk works");
        assert!(index.last().expect("the disk works").is_none_or(|last| last.offset < end));
        let last = index.last().expect("the disk works").unwrap_or(start);
        let next = OffsetPosition { offset: last.offset.next(), position: last.position + 1 };
        index.append(next.offset, next.position).expect("the disk works");
        index.save().expect("the disk works");
        let again = OffsetIndex::existing(fs, Path::new(FILE), base_offset);
        assert_eq!(
            again.last().expect("it is an index still"),
            index.last().expect("it is in memory")
        );
    });
}

/// Timestamps and offsets.
pub fn time_index(input: &[u8]) {
    let Some((base_offset, coded)) = split(input) else { return };
    let entries: Vec<_> = TimeIndex::decode_entries(base_offset, coded).collect();
    within(disk::bytes_max(input), || {
        let fs = disk_with(coded);
        let index = TimeIndex::existing(fs.clone(), Path::new(FILE), base_offset);
        let start = TimestampOffset { timestamp: TimestampMs::NONE, offset: base_offset };
        if index.check().is_err() {
            return;
        }
        assert_eq!(index.last().ok(), Some(entries.last().copied()));
        for target in entries.iter().flat_map(|entry| around(entry.timestamp.0)).map(TimestampMs) {
            let found = index.lookup(target).expect("the disk works");
            assert_found(&entries, start, found, |entry| entry.timestamp <= target);
        }
        for end in entries.iter().flat_map(|entry| around(entry.offset.0)).map(Offset) {
            let found = index.lookup_offset(end).expect("the disk works");
            assert_found(&entries, start, found, |entry| entry.offset < end);
        }
        // What is promised of an index that is cut holds if its entries are in order.
        let is_in_order = entries.is_sorted_by_key(|entry| entry.offset)
            && entries.is_sorted_by_key(|entry| entry.timestamp);
        if !is_in_order {
            return;
        }
        let end = entries.get(entries.len() / 2).map_or(base_offset, |entry| entry.offset);
        index.truncate(end).expect("the disk works");
        assert!(index.last().expect("the disk works").is_none_or(|last| last.offset < end));
        let last = index.last().expect("the disk works").unwrap_or(start);
        let timestamp = TimestampMs(last.timestamp.0.saturating_add(1));
        index.append(timestamp, last.offset).expect("the disk works");
        index.save().expect("the disk works");
        let again = TimeIndex::existing(fs, Path::new(FILE), base_offset);
        assert_eq!(
            again.last().expect("it is an index still"),
            index.last().expect("it is in memory")
        );
    });
}

/// The base offset, which a log can have, and the file.
fn split(input: &[u8]) -> Option<(Offset, &[u8])> {
    let (base_offset, coded) = input.split_first_chunk()?;
    let base_offset = i64::from_be_bytes(*base_offset).rem_euclid(Offset::LIMIT.0);
    Some((Offset(base_offset), coded))
}

fn disk_with(coded: &[u8]) -> Arc<SimFs> {
    let fs = SimFs::new(0);
    disk::put(&fs, FILE, coded);
    Arc::new(fs)
}

fn around(number: i64) -> [i64; 3] {
    [number.saturating_sub(1), number, number.saturating_add(1)]
}

/// A look-up finds the last entry for which `holds` where entries are in order, and where they are not, one for which
/// it does.
fn assert_found<E: PartialEq + Debug + Copy>(
    entries: &[E],
    start: E,
    found: E,
    holds: impl Fn(&E) -> bool,
) {
    if entries.is_sorted_by_key(|entry| !holds(entry)) {
        let expected = entries.iter().copied().rfind(&holds).unwrap_or(start);
        assert!(found == expected || found == start, "{found:?} instead of {expected:?}");
    } else {
        let is_an_entry = entries.contains(&found) && holds(&found);
        assert!(is_an_entry || found == start, "{found:?}");
    }
}
