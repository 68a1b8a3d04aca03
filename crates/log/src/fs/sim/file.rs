//! An open file of the simulation.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use logway_model::TimestampMs;
use rustix::io::Errno;

use super::disk::Disk;
use super::fault::{Failure, SimOperation};
use super::tree::NodeId;
use super::{SharedDisk, lock, lock_for_turn, wait_while_hanging, wait_while_held};
use crate::fs::{DIRECT_BLOCK_BYTES, File, OpenMode};

/// A handle; it stays good when the file is renamed or removed.
pub(super) struct SimFile {
    disk: SharedDisk,
    node: NodeId,
    /// As it was opened, for faults that mean a path.
    path: PathBuf,
    mode: OpenMode,
    /// The failed syncs of the file that this handle knows of; changes under the disk's lock.
    told_failed_syncs: AtomicU64,
}

impl SimFile {
    /// Opens a node, given the locked `disk` that `shared` refers to.
    pub(super) fn open(
        shared: &SharedDisk,
        disk: &mut Disk,
        node: NodeId,
        path: PathBuf,
        mode: OpenMode,
    ) -> SimFile {
        disk.open_handle(node);
        let told_failed_syncs = AtomicU64::new(disk.failed_syncs(node));
        SimFile { disk: SharedDisk::clone(shared), node, path, mode, told_failed_syncs }
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.mode {
            OpenMode::Read => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }

    /// As Linux does: what goes past the page cache must be whole blocks.
    fn check_blocks(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let is_aligned = |at: usize| at.is_multiple_of(DIRECT_BLOCK_BYTES);
        let is_good = |slice: &IoSlice<'_>| is_aligned(slice.as_ptr().addr() | slice.len());
        match self.mode {
            OpenMode::WriteDirect if !is_aligned(position as usize) => Err(Errno::INVAL.into()),
            OpenMode::WriteDirect if !slices.iter().all(is_good) => Err(Errno::INVAL.into()),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = wait_while_hanging(&self.disk, lock_for_turn(&self.disk));
        let failure = disk.begin(SimOperation::Sync, &self.path)?;
        let mut told = self.told_failed_syncs.load(Ordering::Relaxed);
        let synced = disk.sync(self.node, &mut told, failure);
        self.told_failed_syncs.store(told, Ordering::Relaxed);
        synced?;
        wait_while_held(&self.disk, disk, SimOperation::Sync, &self.path).map(drop)
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut disk = lock(&self.disk);
        let failure = disk.begin(SimOperation::Read, &self.path)?;
        if let Some(error) = failure.and_then(Failure::error) {
            return Err(error);
        }
        let mut read = disk.content(self.node).read(buf, position);
        if failure == Some(Failure::ShortRead) {
            read = disk.choose_part(read);
        }
        if failure == Some(Failure::FlippedBit) && read > 0 {
            let (index, mask) = disk.choose_bit(read);
            buf[index] ^= mask;
        }
        Ok(read)
    }

    fn write_all_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.check_writable()?;
        self.check_blocks(slices, position)?;
        let bytes = slices.iter().map(|slice| &**slice).collect::<Vec<&[u8]>>().concat();
        let mut disk = lock_for_turn(&self.disk);
        let failure = disk.begin(SimOperation::Write, &self.path)?;
        disk.write(self.node, &bytes, position, failure)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut disk = lock_for_turn(&self.disk);
        match disk.begin_change(SimOperation::SetLen, &self.path)? {
            true => disk.set_len(self.node, len_bytes),
            false => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut disk = lock(&self.disk);
        disk.begin_whole(SimOperation::Read, &self.path)?;
        Ok(disk.content(self.node).len() as u64)
    }

    fn modified(&self) -> io::Result<TimestampMs> {
        let mut disk = lock(&self.disk);
        disk.begin_whole(SimOperation::Read, &self.path)?;
        Ok(disk.modified(self.node))
    }

    fn set_modified(&self, modified: TimestampMs) -> io::Result<()> {
        self.check_writable()?;
        lock(&self.disk).set_modified(self.node, modified);
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        lock(&self.disk).close_handle(self.node);
    }
}
