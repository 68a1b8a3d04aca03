//! A file system that is only read, on which programs may write all the same.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_model::TimestampMs;

use super::{DirEntry, File, FileLock, Fs, OpenMode, read_full_at};

/// Another file system, of which nothing is changed: what is written to a file is kept in memory for
/// as long as that file is open.
///
/// For code that cannot read its files without writing to them, as a database that repairs itself
/// when it is opened. What cannot be kept so (new files, other names, directories) fails with
/// [`io::ErrorKind::ReadOnlyFilesystem`]. A lock is granted to everybody: whoever uses this has
/// to see to it that nobody else changes the files.
#[derive(Clone)]
pub struct ScratchFs {
    under: Arc<dyn Fs>,
}

impl ScratchFs {
    /// A file system over another one.
    pub fn new(under: Arc<dyn Fs>) -> ScratchFs {
        ScratchFs { under }
    }
}

fn refusal<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Fs for ScratchFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        match mode {
            OpenMode::Read => self.under.open(path, OpenMode::Read),
            OpenMode::ReadWrite | OpenMode::CreateOrOpen => {
                let under = self.under.open(path, OpenMode::Read)?;
                Ok(Arc::new(ScratchFile::over(under)?))
            }
            OpenMode::CreateNew | OpenMode::CreateTruncate | OpenMode::WriteDirect => refusal(),
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if self.under.exists(path)? { Ok(()) } else { refusal() }
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        refusal()
    }

    fn remove_dir_all(&self, _path: &Path) -> io::Result<()> {
        refusal()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refusal()
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.under.read_dir(path)
    }

    fn file_len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.under.file_len(path)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.under.exists(path)
    }

    fn lock(&self, _path: &Path) -> io::Result<FileLock> {
        Ok(FileLock::new(()))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.under.free_bytes(path)
    }
}

/// The unit in which changes are kept.
const PAGE_BYTES: u64 = 4096;

type Page = Box<[u8; PAGE_BYTES as usize]>;

/// A file and the changes to it.
struct ScratchFile {
    under: Arc<dyn File>,
    changes: Mutex<Changes>,
}

struct Changes {
    len_bytes: u64,
    /// How much of the file below still counts; behind it are zeros.
    under_bytes: u64,
    /// The pages that were written to, by their number.
    pages: BTreeMap<u64, Page>,
}

impl ScratchFile {
    fn over(under: Arc<dyn File>) -> io::Result<ScratchFile> {
        let len_bytes = under.len()?;
        let changes = Changes { len_bytes, under_bytes: len_bytes, pages: BTreeMap::new() };
        Ok(ScratchFile { under, changes: Mutex::new(changes) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it is in the file below.
    fn page_below(&self, under_bytes: u64, number: u64) -> io::Result<Page> {
        let mut page: Page = Box::new([0; PAGE_BYTES as usize]);
        let start = number * PAGE_BYTES;
        let wanted = under_bytes.saturating_sub(start).min(PAGE_BYTES) as usize;
        read_full_at(&*self.under, &mut page[..wanted], start)?;
        Ok(page)
    }

    fn write_at(&self, changes: &mut Changes, mut bytes: &[u8], position: u64) -> io::Result<()> {
        let mut position = position;
        while !bytes.is_empty() {
            let (number, from) = (position / PAGE_BYTES, (position % PAGE_BYTES) as usize);
            let count = bytes.len().min(PAGE_BYTES as usize - from);
            let (now, rest) = bytes.split_at(count);
            let mut page = match changes.pages.remove(&number) {
                Some(page) => page,
                None => self.page_below(changes.under_bytes, number)?,
            };
            page[from..from + count].copy_from_slice(now);
            changes.pages.insert(number, page);
            position += count as u64;
            bytes = rest;
        }
        changes.len_bytes = changes.len_bytes.max(position);
        Ok(())
    }
}

impl File for ScratchFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let changes = self.changes();
        let left = changes.len_bytes.saturating_sub(position);
        let (number, from) = (position / PAGE_BYTES, (position % PAGE_BYTES) as usize);
        let in_page = (PAGE_BYTES as usize - from).min(buf.len());
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(in_page);
        if count == 0 {
            return Ok(0);
        }
        let page = match changes.pages.get(&number) {
            Some(page) => page,
            None => &self.page_below(changes.under_bytes, number)?,
        };
        buf[..count].copy_from_slice(&page[from..from + count]);
        Ok(count)
    }

    fn write_all_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let mut changes = self.changes();
        let mut position = position;
        for slice in slices {
            self.write_at(&mut changes, slice, position)?;
            position += slice.len() as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        let mut changes = self.changes();
        if len_bytes < changes.len_bytes {
            let (last, kept) = (len_bytes / PAGE_BYTES, (len_bytes % PAGE_BYTES) as usize);
            changes.under_bytes = changes.under_bytes.min(len_bytes);
            changes.pages.retain(|&number, _| number <= last);
            if let Some(page) = changes.pages.get_mut(&last) {
                page[kept..].fill(0);
            }
        }
        changes.len_bytes = len_bytes;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len_bytes)
    }

    fn modified(&self) -> io::Result<TimestampMs> {
        self.under.modified()
    }

    fn set_modified(&self, _modified: TimestampMs) -> io::Result<()> {
        refusal()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{SimFs, read_to_end};

    const PATH: &str = "/file";

    fn written(content: &[u8]) -> SimFs {
        let fs = SimFs::new(1);
        let file = fs.open(Path::new(PATH), OpenMode::CreateNew).expect("is created");
        file.write_all_at(&[IoSlice::new(content)], 0).expect("is written");
        fs
    }

    fn content_of(file: &dyn File) -> Vec<u8> {
        read_to_end(file, 1 << 20).expect("is read")
    }

    #[test]
    fn changes_are_seen_by_who_made_them_and_nobody_else() {
        let below: Vec<u8> = (0..10_000_u32).map(|number| number as u8).collect();
        let under = written(&below);
        let fs = ScratchFs::new(Arc::new(under.clone()));
        let file = fs.open(Path::new(PATH), OpenMode::ReadWrite).expect("is there");
        let mut expected = below.clone();
        for (position, bytes) in [(4090, &[9; 20][..]), (9_995, &[7; 5000]), (0, &[1; 3])] {
            let end = position + bytes.len();
            expected.resize(expected.len().max(end), 0);
            expected[position..end].copy_from_slice(bytes);
            file.write_all_at(&[IoSlice::new(bytes)], position as u64).expect("is kept");
        }
        assert_eq!(content_of(&*file), expected);
        for len in [12_000, 5_000, 20_000, 3, 9_000] {
            expected.resize(len, 0);
            file.set_len(len as u64).expect("is kept");
            assert_eq!(content_of(&*file), expected, "{len}");
        }
        file.sync_data().expect("there is nothing to do");
        let unchanged = under.open(Path::new(PATH), OpenMode::Read).expect("is there");
        assert_eq!(content_of(&*unchanged), below);
    }

    #[test]
    fn names_do_not_change() {
        let fs = ScratchFs::new(Arc::new(written(b"kept")));
        let path = Path::new(PATH);
        fs.open(Path::new("/new"), OpenMode::CreateTruncate).map(drop).expect_err("is refused");
        fs.rename(path, Path::new("/new")).expect_err("is refused");
        fs.remove_file(path).expect_err("is refused");
        fs.create_dir_all(Path::new("/dir")).expect_err("is refused");
        assert!(fs.exists(path).expect("can be looked for"));
    }
}
