//! File access: one small trait, the real implementation and a simulated one.
//!
//! Everything the storage engine knows about its disk goes through [`Fs`], so that the same code
//! runs on a disk and under a seeded simulator that tears writes, loses directory entries and
//! fails syncs ([`SimFs`]). [`ScratchFs`] lets that code run on files that must not change.

use std::any::Any;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use logway_model::TimestampMs;

pub use durable_dir::create_dir_durably;
pub use real::RealFs;
pub use scratch::ScratchFs;
pub use sim::SimFs;

mod durable_dir;
mod real;
mod scratch;
pub mod sim;

/// A file system.
///
/// Two rules of POSIX matter to every caller: bytes written are on stable storage only after
/// [`File::sync_data`], and a name (created, renamed or removed) only after [`Fs::sync_dir`] of
/// the directory it is in.
pub trait Fs: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Creates a directory and the ones above it; success if it exists.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Removes the name of a file; who has it open goes on reading and writing it.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with everything in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Renames a file or a directory; a file at `to` is replaced atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Lists a directory, in the order of names.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// The length of a file in bytes; `None` if it does not exist. It is not part of a listing,
    /// because it takes a system call for each file.
    fn file_len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Puts the names in a directory on stable storage.
    ///
    /// While a file system stops, this may succeed and do nothing. A [`File::sync_data`] that is begun later tells.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Whether there is a file or directory of that name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Takes the advisory lock of a file, which is created if need be.
    ///
    /// Fails with [`io::ErrorKind::WouldBlock`] if somebody, also in this process, holds it.
    fn lock(&self, path: &Path) -> io::Result<FileLock>;

    /// The space left, in bytes, to this process on the file system that holds `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Names the life of the page cache behind a file, and the file: the same text as long as all that
    /// was written to that file system is there as it was written, also by processes that are gone.
    /// `None` if nobody can tell.
    fn cache_life(&self, _path: &Path) -> io::Result<Option<String>> {
        Ok(None)
    }
}

/// An open file, read and written at explicit positions, by any number of threads.
pub trait File: Send + Sync {
    /// Reads at most `buf.len()` bytes; 0 means that `position` is at or after the end.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all slices one after the other from `position` on.
    ///
    /// After an error any part of them may have been written.
    fn write_all_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<()>;

    /// Puts the content and the length on stable storage (`fdatasync`).
    ///
    /// After an error nobody knows which of the writes since the last success reached the disk,
    /// and a later success says nothing about them. On a file that was opened for writing, a file system that stops
    /// meanwhile is an error, too, as far as it says so.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`File::sync_data`], and all other metadata too (`fsync`).
    fn sync_all(&self) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// When something was last written to it, by the clock of the machine.
    fn modified(&self) -> io::Result<TimestampMs>;

    /// Says when something was last written to it, of what is a copy.
    fn set_modified(&self, modified: TimestampMs) -> io::Result<()>;

    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The descriptor, for `sendfile`; `None` if there is none, as in a simulation.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    ReadWrite,
    /// For reading and writing; it must not exist.
    CreateNew,
    /// For reading and writing; it is created if it does not exist.
    CreateOrOpen,
    /// For reading and writing; it is created, or emptied if it exists.
    CreateTruncate,
    /// For writing past the page cache (`O_DIRECT`); it must exist. What is written begins, in memory and
    /// in the file, and ends at multiples of [`DIRECT_BLOCK_BYTES`], and is one slice.
    ///
    /// Fails with [`io::ErrorKind::InvalidInput`] or [`io::ErrorKind::Unsupported`], here or at the first
    /// write, where the file system cannot do it.
    WriteDirect,
}

/// What is written past the page cache consists of such blocks: no device in use has larger sectors.
pub(crate) const DIRECT_BLOCK_BYTES: usize = 4096;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The last component of the path.
    pub name: OsString,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// An advisory lock, released when dropped.
pub struct FileLock {
    _held: Box<dyn Any + Send + Sync>,
}

impl FileLock {
    /// A lock that lives as long as `held`.
    pub(crate) fn new(held: impl Any + Send + Sync) -> FileLock {
        FileLock { _held: Box::new(held) }
    }
}

impl fmt::Debug for FileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileLock")
    }
}

/// Fills `buf` from `position` on, or fails with [`io::ErrorKind::UnexpectedEof`].
pub fn read_exact_at(file: &dyn File, buf: &mut [u8], position: u64) -> io::Result<()> {
    if read_full_at(file, buf, position)? < buf.len() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the file ends within {} bytes at {position}", buf.len()),
        ));
    }
    Ok(())
}

/// Reads until `buf` is full or the file ends; returns how many bytes it read.
pub fn read_full_at(file: &dyn File, buf: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], position + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Reads a whole file of at most `cap_bytes`; a longer one is [`io::ErrorKind::FileTooLarge`].
pub fn read_to_end(file: &dyn File, cap_bytes: usize) -> io::Result<Vec<u8>> {
    let len_bytes = file.len()?;
    let fits = usize::try_from(len_bytes).ok().filter(|&len| len <= cap_bytes);
    let Some(len) = fits else {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has {len_bytes} bytes, more than the {cap_bytes} that can be right"),
        ));
    };
    let mut content = vec![0; len];
    let read = read_full_at(file, &mut content, 0)?;
    content.truncate(read);
    Ok(content)
}
