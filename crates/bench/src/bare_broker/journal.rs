//! One file for all that is synced.
//!
//! Its blocks are written before it is used, so that a sync changes neither its length nor its extents
//! and waits for nothing but the records. When it is full it begins again at its start: a broker would
//! have moved the records to their partitions until then, which is left out here.
//!
//! ```text
//! entry = partition u32 · bytes u32 · position in the partition u64 · records, in a part or whole
//! ```

use std::fs::File;
use std::io::IoSlice;
use std::path::Path;

use anyhow::Context;
use rustix::fs::fdatasync;

use crate::vectored::write_at;

/// As long as a segment; tests need less.
const JOURNAL_BYTES: u64 = if cfg!(test) { 8 << 20 } else { 1 << 30 };

const ENTRY_HEADER_BYTES: usize = 16;

/// Part of a partition, or all that was sent to it at once.
pub(super) struct Entry<'a> {
    pub(super) partition: u32,
    pub(super) position: u64,
    pub(super) bytes: &'a [u8],
}

pub(super) struct Journal {
    file: File,
    end: u64,
}

impl Journal {
    pub(super) fn create(directory: &Path) -> anyhow::Result<Journal> {
        let path = directory.join("journal");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let zeros = vec![0; 1 << 20];
        for at in (0..JOURNAL_BYTES).step_by(zeros.len()) {
            write_at(&file, &mut [IoSlice::new(&zeros)], at)?;
        }
        file.sync_all()?;
        Ok(Journal { file, end: 0 })
    }

    /// Writes entries one behind the other; when this returns they are on the disk.
    pub(super) fn write(&mut self, entries: &[Entry<'_>]) -> anyhow::Result<()> {
        let headers: Vec<[u8; ENTRY_HEADER_BYTES]> = entries.iter().map(Entry::header).collect();
        let mut slices = Vec::with_capacity(2 * entries.len());
        for (header, entry) in headers.iter().zip(entries) {
            slices.push(IoSlice::new(header));
            slices.push(IoSlice::new(entry.bytes));
        }
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
        if self.end + bytes > JOURNAL_BYTES {
            self.end = 0;
        }
        write_at(&self.file, &mut slices, self.end)?;
        self.end += bytes;
        fdatasync(&self.file).context("cannot sync the journal")
    }
}

impl Entry<'_> {
    fn header(&self) -> [u8; ENTRY_HEADER_BYTES] {
        let mut header = [0; ENTRY_HEADER_BYTES];
        header[..4].copy_from_slice(&self.partition.to_be_bytes());
        header[4..8].copy_from_slice(&(self.bytes.len() as u32).to_be_bytes());
        header[8..].copy_from_slice(&self.position.to_be_bytes());
        header
    }
}
