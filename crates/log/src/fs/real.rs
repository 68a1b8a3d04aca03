//! The operating system's file system.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use logway_model::TimestampMs;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, OFlags, RawDir, StatxFlags, flock, statfs, statvfs,
    statx,
};
use rustix::io::{Errno, pwrite, pwritev};

use super::{DirEntry, File, FileLock, Fs, OpenMode};
use crate::clock::since_epoch;

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl Fs for RealFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if mode == OpenMode::Read {
            let file = open_unnoted(path, OFlags::empty())?;
            return Ok(Arc::new(RealFile { file, is_writable: false, part_bytes: PART_BYTES }));
        }
        let mut options = fs::OpenOptions::new();
        options.read(mode != OpenMode::WriteDirect).write(true);
        match mode {
            OpenMode::Read | OpenMode::ReadWrite => {}
            OpenMode::CreateNew => _ = options.create_new(true),
            OpenMode::CreateOrOpen => _ = options.create(true),
            OpenMode::CreateTruncate => _ = options.create(true).truncate(true),
            OpenMode::WriteDirect => _ = options.custom_flags(OFlags::DIRECT.bits() as i32),
        }
        // What goes past the page cache takes no memory from it.
        let part_bytes = if mode == OpenMode::WriteDirect { u64::MAX } else { PART_BYTES };
        Ok(Arc::new(RealFile { file: options.open(path)?, is_writable: true, part_bytes }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = open_unnoted(path, OFlags::DIRECTORY)?;
        let mut buffer = [const { MaybeUninit::uninit() }; LISTING_BYTES];
        let mut listing = RawDir::new(dir, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let is_dir = match entry.file_type() {
                // Most file systems tell it with the name. On others, a file that somebody removes meanwhile
                // is as one that was never there.
                FileType::Unknown => match fs::symlink_metadata(path.join(name)) {
                    Ok(metadata) => metadata.is_dir(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
                file_type => file_type == FileType::Directory,
            };
            entries.push(DirEntry { name: name.to_owned(), is_dir });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn file_len(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<FileLock> {
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // The lock belongs to the open file and goes when that is closed, whoever closes it.
        Ok(FileLock::new(file))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let status = statvfs(path)?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }

    /// The boot, the mount and the inode. The numbers of mounts are not given twice since Linux 6.8;
    /// before, one that was mounted anew could pass for the old one. Of file systems that another machine or process
    /// serves, nobody can tell what that has lost while the mount stayed.
    fn cache_life(&self, path: &Path) -> io::Result<Option<String>> {
        let kind = u64::try_from(statfs(path)?.f_type).unwrap_or(0);
        if !LOCAL_FILE_SYSTEMS.contains(&kind) {
            return Ok(None);
        }
        /// `STATX_MNT_ID_UNIQUE`.
        const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);
        let wanted = StatxFlags::INO | UNIQUE_MOUNT;
        let found = statx(CWD, path, AtFlags::empty(), wanted)?;
        if !StatxFlags::from_bits_retain(found.stx_mask).contains(wanted) {
            return Ok(None);
        }
        let boot = match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
            Ok(boot) => boot,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(format!("{} {} {}", boot.trim(), found.stx_mnt_id, found.stx_ino)))
    }
}

/// What is read of a directory at once.
const LISTING_BYTES: usize = 8 << 10;

/// Opens what is only read, without having that noted: else the first who reads something that has
/// changed, or was not read for a day, changes its inode, and a start does so for each partition twice.
fn open_unnoted(path: &Path, flags: OFlags) -> io::Result<fs::File> {
    let open = |flags: OFlags| {
        fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
    };
    match open(flags | OFlags::NOATIME) {
        // Only who owns it may leave no note.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(flags),
        opened => opened,
    }
}

/// An open file of the operating system.
#[derive(Debug)]
struct RealFile {
    file: fs::File,
    is_writable: bool,
    /// A write of more goes in parts; see [`PART_BYTES`].
    part_bytes: u64,
}

/// ext2 to ext4, XFS, Btrfs, F2FS, ZFS and tmpfs, by `statfs(2)`.
const LOCAL_FILE_SYSTEMS: [u64; 6] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994];

/// The most slices that one `pwritev` takes (`IOV_MAX` of Linux and the BSDs).
const SLICES_MAX: usize = 1024;

/// More than this is written in parts that end at multiples of it in the file.
///
/// Linux gives the page cache memory in blocks as large as the write, and takes blocks of up to 32 KiB
/// from lists of what the processor has just freed. Larger ones come from memory at large, where a virtual
/// machine has given back to its host what was free for two seconds (free page reporting): each must be found
/// again, page by page, which takes five times as long as what is written. Where nothing is given back,
/// parts cost a fifth of the copy.
const PART_BYTES: u64 = 32 << 10;

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_all_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let size_bytes: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        if size_bytes <= self.part_bytes && slices.len() <= SLICES_MAX {
            return self.write_group(slices, size_bytes, position);
        }
        self.write_in_parts(slices, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.check_still_works()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.check_still_works()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn modified(&self) -> io::Result<TimestampMs> {
        Ok(since_epoch(self.file.metadata()?.modified()?))
    }

    fn set_modified(&self, modified: TimestampMs) -> io::Result<()> {
        let since_epoch = Duration::from_millis(u64::try_from(modified.0).unwrap_or(0));
        let modified = UNIX_EPOCH.checked_add(since_epoch).ok_or(io::ErrorKind::InvalidInput)?;
        self.file.set_modified(modified)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl RealFile {
    /// Whether the file system has stopped, in which case the sync that has just succeeded means nothing.
    ///
    /// ext4 stops when it finds an error in itself, or when it is told to (`EXT4_IOC_SHUTDOWN`). It gives up the
    /// transaction of its journal that is under way. A sync that has begun before, and comes to wait for that
    /// transaction, finds none and succeeds (`jbd2_complete_transaction`), while the new length of the file is
    /// lost. Any write to a file that begins afterwards fails, also one of no bytes, which changes nothing and
    /// takes less than a microsecond.
    fn check_still_works(&self) -> io::Result<()> {
        if !self.is_writable {
            return Ok(());
        }
        // A `pwritev` of nothing does not reach the file system.
        pwrite(&self.file, &[], 0)?;
        Ok(())
    }

    /// Writes everything in parts of [`RealFile::part_bytes`], or less where there are very many slices.
    fn write_in_parts(&self, slices: &[IoSlice<'_>], mut position: u64) -> io::Result<()> {
        let mut part = Vec::new();
        let mut part_bytes = 0;
        for slice in slices {
            let mut rest = &slice[..];
            while !rest.is_empty() {
                let room_bytes = self.part_bytes - (position + part_bytes) % self.part_bytes;
                let (taken, left) = rest.split_at(rest.len().min(room_bytes as usize));
                part.push(IoSlice::new(taken));
                part_bytes += taken.len() as u64;
                rest = left;
                if taken.len() as u64 == room_bytes || part.len() == SLICES_MAX {
                    self.write_group(&part, part_bytes, position)?;
                    position += part_bytes;
                    part_bytes = 0;
                    part.clear();
                }
            }
        }
        self.write_group(&part, part_bytes, position)
    }

    /// Writes all of `group`, [`SLICES_MAX`] slices at most, of `group_bytes` together.
    fn write_group(
        &self,
        group: &[IoSlice<'_>],
        group_bytes: u64,
        position: u64,
    ) -> io::Result<()> {
        if group_bytes == 0 {
            return Ok(());
        }
        loop {
            match pwritev(&self.file, group, position) {
                Ok(written) if written as u64 == group_bytes => return Ok(()),
                Ok(written) => return self.finish_short_write(group, written, position),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes what `pwritev` left of `group` after its first `written` bytes.
    ///
    /// Short writes are rare (a disk about to be full, a signal), so this goes slice by slice
    /// and leaves the common path without a copy of the slice list.
    fn finish_short_write(
        &self,
        group: &[IoSlice<'_>],
        written: usize,
        position: u64,
    ) -> io::Result<()> {
        let mut slice_start = 0;
        for slice in group {
            let done = written.saturating_sub(slice_start).min(slice.len());
            let from = position + (slice_start + done) as u64;
            self.file.write_all_at(&slice[done..], from)?;
            slice_start += slice.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_parts_is_whole_whatever_its_slices() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let large: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let lengths: [&[usize]; 5] =
            [&[0], &[1, 0, 800_000 - 1], &[40_000; 20], &[3; 5_000], &[32_768, 32_768, 7]];
        for (lengths, position) in lengths.iter().zip([0, 5, 32_768, 77, 32_767]) {
            let mut rest = &large[..];
            let slices: Vec<IoSlice<'_>> = lengths
                .iter()
                .map(|length| IoSlice::new(rest.split_off(..*length).expect("enough")))
                .collect();
            let size_bytes: usize = lengths.iter().sum();
            let file = RealFs.open(&path, OpenMode::CreateTruncate).expect("open");
            file.write_all_at(&slices, position).expect("write");
            let mut read = vec![0; size_bytes + 1];
            let read_bytes = file.read_at(&mut read, position).expect("read");
            assert_eq!(read_bytes, size_bytes, "{lengths:?}");
            assert!(read[..size_bytes] == large[..size_bytes], "{lengths:?}");
        }
    }
}
