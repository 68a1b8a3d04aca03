//! One file for all that is synced.
//!
//! Its blocks are written before it is used, so that a sync changes neither its length nor its extents
//! and waits for nothing but the records, which go past the page cache, if the file system can: that is a copy
//! less, and faster. When it is full it begins again at its start: until then the records have been moved to
//! their partitions, as nobody could keep them here for ever, or find them. That nothing of these files is synced before
//! is left out.
//!
//! ```text
//! entry = partition u32 · bytes u32 · position in the partition u64 · records, in a part or whole
//! write = entries · zeros up to a multiple of 4096
//! ```

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use rustix::fs::{OFlags, fdatasync};

/// As long as a segment; tests need less.
const JOURNAL_BYTES: u64 = if cfg!(test) { 8 << 20 } else { 1 << 30 };

const ENTRY_HEADER_BYTES: usize = 16;

/// What goes past the page cache begins, in memory and in the file, and ends at multiples of that.
const BLOCK_BYTES: usize = 4096;

/// Part of a partition, or all that was sent to it at once.
pub(super) struct Entry<'a> {
    pub(super) partition: u32,
    pub(super) position: u64,
    pub(super) bytes: &'a [u8],
}

pub(super) struct Journal {
    file: File,
    end: u64,
    /// What is written together, behind what makes it begin at a multiple of [`BLOCK_BYTES`].
    together: Vec<u8>,
}

impl Journal {
    pub(super) fn create(directory: &Path) -> anyhow::Result<Journal> {
        let path = directory.join("journal");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let zeros = vec![0; 1 << 20];
        for at in (0..JOURNAL_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        let direct =
            OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
        Ok(Journal { file: direct.unwrap_or(file), end: 0, together: Vec::new() })
    }

    /// Whether there is room for these behind what was written.
    pub(super) fn has_room_for(&self, entries: &[Entry<'_>]) -> bool {
        self.end + written_bytes(entries) as u64 <= JOURNAL_BYTES
    }

    /// Forgets what was written: the files of the partitions have it.
    pub(super) fn begin_again(&mut self) {
        self.end = 0;
    }

    /// Writes entries for which there is room one behind the other; when this returns they are on the disk.
    pub(super) fn write(&mut self, entries: &[Entry<'_>]) -> anyhow::Result<()> {
        let bytes = written_bytes(entries);
        self.together.clear();
        self.together.reserve(bytes + BLOCK_BYTES);
        let from = self.together.as_ptr().align_offset(BLOCK_BYTES);
        self.together.resize(from, 0);
        for entry in entries {
            self.together.extend_from_slice(&entry.header());
            self.together.extend_from_slice(entry.bytes);
        }
        self.together.resize(from + bytes, 0);
        self.file
            .write_all_at(&self.together[from..], self.end)
            .context("cannot store what was sent")?;
        self.end += bytes as u64;
        fdatasync(&self.file).context("cannot sync the journal")
    }
}

/// What a write of these takes.
fn written_bytes(entries: &[Entry<'_>]) -> usize {
    let entries = entries.iter().map(|entry| ENTRY_HEADER_BYTES + entry.bytes.len());
    entries.sum::<usize>().next_multiple_of(BLOCK_BYTES)
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
