//! The journal of a log directory.

use std::path::Path;

use crc_fast::crc32_iscsi;
use logway_log::fs::SimFs;
use logway_log::inspect::journalled;

use crate::allocation::within;
use crate::disk;

const HEADER_BYTES: usize = 32;

/// A journal, both of whose halves have entries whose CRCs are put right as far as their lengths lead: what
/// is read of it lies in it.
pub fn journal(input: &[u8]) {
    within(disk::bytes_max(input), || {
        let mut content = input.to_vec();
        let (first, second) = content.split_at_mut(input.len() / 2);
        put_crcs_right(first);
        put_crcs_right(second);
        let fs = SimFs::new(0);
        disk::put(&fs, "/journal", &content);
        let found = journalled(&fs, Path::new("/")).expect("the disk works");
        let batches_bytes: usize = found.records.iter().map(|records| records.size_bytes).sum();
        assert!(batches_bytes <= input.len(), "{batches_bytes} of {}", input.len());
        assert!(found.records.iter().all(|records| records.first < records.end));
    });
}

/// The length of an entry is in bytes 8 to 11, its CRC in bytes 4 to 7, of all that follows.
fn put_crcs_right(mut half: &mut [u8]) {
    while half.len() >= HEADER_BYTES {
        let length = u32::from_be_bytes([half[8], half[9], half[10], half[11]]) as usize;
        if !(HEADER_BYTES..=half.len()).contains(&length) {
            return;
        }
        let (entry, rest) = half.split_at_mut(length);
        let crc = crc32_iscsi(&entry[8..]);
        entry[4..8].copy_from_slice(&crc.to_be_bytes());
        half = rest;
    }
}
