//! The database's file, opened through the storage engine's file system, so that the simulated
//! disk tests it too.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;

use logway_log::fs::{File, read_exact_at};
use redb::StorageBackend;

use crate::space::SpaceWait;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// redb changes the file's length by whole pages only, and refuses any other length.
const PAGE_BYTES: u64 = 4_096;

/// A file for redb. On a full disk it waits for space, since redb takes every error for the end.
pub(crate) struct RedbFile {
    file: Arc<dyn File>,
    space: Arc<SpaceWait>,
}

impl RedbFile {
    /// Takes an open file.
    ///
    /// A power cut while the file grew can leave it with part of a page at its end. Nothing refers
    /// to what is beyond the old length until the new one is synced, so that part is cut off.
    pub(crate) fn new(file: Arc<dyn File>, space: Arc<SpaceWait>) -> io::Result<RedbFile> {
        let part_bytes = file.len()? % PAGE_BYTES;
        if part_bytes > 0 {
            file.set_len(file.len()? - part_bytes)?;
        }
        Ok(RedbFile { file, space })
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let mut end = self.file.len()?;
        while end < len {
            let growth = (len - end).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..growth as usize];
            self.file.write_all_at(&[IoSlice::new(zeros)], end)?;
            end += growth;
        }
        self.file.set_len(len)
    }
}

impl fmt::Debug for RedbFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedbFile")
    }
}

impl StorageBackend for RedbFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_exact_at(&*self.file, out, offset)
    }

    /// Growth is written out, so that the disk's blocks are taken now: a disk that is full later
    /// does not stop what fits into the file, such as deleting a topic to make space.
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.space.write_log(|| self.grow(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.space.write_log(|| self.file.write_all_at(&[IoSlice::new(data)], offset))
    }
}
