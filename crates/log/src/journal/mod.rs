//! The shared journal of a log directory: one file, one sync, for the small appends of many logs.
//!
//! A round of the writer that touches many logs would need a sync of each one's file. Instead its
//! batches, which are in those files' page cache already, are written to the journal too, as one
//! [entry](entry), and the journal alone is synced: they are on stable storage, though not yet where
//! they belong. The files are synced later, in the background, and then the space of the entries is
//! used again. After a crash the entries are *redone*: written to the files once more.
//!
//! The file consists of two halves of equal size, used in turns. Each time one is begun it gets the
//! next *generation*; entries follow each other from its start, numbered from 0 on. What an earlier
//! generation left behind them has another number and does not count. A half is begun again only when
//! the files of all logs that its entries are about were synced.
//!
//! An entry that still counts although its bytes are where they belong does no harm, because redoing it
//! writes what is there: no log changes what it has acknowledged. That ends when a log goes, when
//! compaction replaces its segments, or when its end is cut off. Before that happens all files are synced, and an entry
//! without records makes all before it *void*.
//!
//! | file | idea |
//! |---|---|
//! | [`entry`] | the bytes |
//! | [`reader`] | what of the file counts |
//! | [`redo`] | writing it where it belongs |
//! | [`unopened`] | what belongs to logs that could not be opened |
//! | `writer/journalling.rs` | who writes it, and when |

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::block_buffer::BlockBuffer;
use crate::LogError;
use crate::dir_syncs::DirSyncs;
use crate::fs::{DIRECT_BLOCK_BYTES, File, Fs, OpenMode};

pub(crate) use entry::{EntryBuilder, EntryNumber, Piece, VOID_ENTRY_BYTES};
pub(crate) use reader::{JournalContent, read_journal};
pub(crate) use redo::redo;

mod block_buffer;
mod entry;
mod reader;
mod redo;
pub(crate) mod unopened;

/// The journal, in the log directory.
pub(crate) const JOURNAL_FILE: &str = "journal";

/// What is written at once while the file is made.
const PIECE_BYTES: usize = 256 << 10;

/// So many journals must fit on the disk for one to be made.
const FREE_FACTOR: u64 = 4;

/// An open journal.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    file: OpenJournal,
    half_bytes: u64,
}

struct OpenJournal(Arc<dyn File>);

impl std::fmt::Debug for OpenJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenJournal")
    }
}

impl JournalFile {
    /// Makes the journal of the log directory `dir`, of two halves that hold `bytes` together.
    ///
    /// All of it is written once and synced, so that what is written to it later changes no metadata of
    /// the file system, and its name is on stable storage.
    ///
    /// # Errors
    ///
    /// [`LogError::NoRoomForJournal`] if too little would be left, [`LogError::Io`].
    pub(crate) fn create(
        fs: &dyn Fs,
        dir: &Path,
        bytes: u64,
        root_syncs: &DirSyncs,
    ) -> Result<JournalFile, LogError> {
        let made = JournalFile::fill(fs, dir, bytes, root_syncs);
        if made.is_err() {
            // Nothing is in it; the next start removes what is left.
            let _ = fs.remove_file(&dir.join(JOURNAL_FILE));
        }
        made
    }

    fn fill(
        fs: &dyn Fs,
        dir: &Path,
        bytes: u64,
        root_syncs: &DirSyncs,
    ) -> Result<JournalFile, LogError> {
        let free_bytes = fs.free_bytes(dir).unwrap_or(u64::MAX);
        let wanted_bytes = bytes.saturating_mul(FREE_FACTOR);
        if free_bytes < wanted_bytes {
            let (dir, journal_bytes) = (dir.to_owned(), bytes);
            return Err(LogError::NoRoomForJournal {
                dir,
                journal_bytes,
                wanted_bytes,
                free_bytes,
            });
        }
        let path = dir.join(JOURNAL_FILE);
        let before = root_syncs.before_names();
        let file =
            fs.open(&path, OpenMode::CreateTruncate).map_err(LogError::io("create", &path))?;
        let block_bytes = DIRECT_BLOCK_BYTES as u64;
        let half_bytes = bytes / 2 / block_bytes * block_bytes;
        let zeros = vec![0; PIECE_BYTES];
        let mut position = 0;
        while position < half_bytes * 2 {
            let left = usize::try_from(half_bytes * 2 - position).unwrap_or(usize::MAX);
            let piece = &zeros[..left.min(PIECE_BYTES)];
            file.write_all_at(&[IoSlice::new(piece)], position)
                .map_err(LogError::io("write", &path))?;
            position += piece.len() as u64;
        }
        file.sync_all().map_err(LogError::io("sync", &path))?;
        root_syncs.sync(fs, before)?;
        let file = match open_direct(fs, &path) {
            Ok(direct) => direct,
            Err(error) if is_impossible(&error) => {
                let path = path.display();
                tracing::info!(%path, %error, "the journal is written through the page cache");
                file
            }
            Err(error) => return Err(LogError::io("write", &path)(error)),
        };
        Ok(JournalFile { path, file: OpenJournal(file), half_bytes })
    }

    /// The bytes of each half.
    pub(crate) fn half_bytes(&self) -> u64 {
        self.half_bytes
    }

    /// Makes sure that nothing of what a half, 0 or 1, holds counts any more; syncs that. An entry that is longer than
    /// a block and takes the place of several could be torn so that the first of them is left, but not one behind it that
    /// made it void. Without the first entry of a half the reader believes none of it.
    pub(crate) fn erase(&self, half: usize) -> Result<(), LogError> {
        self.write(half, 0, zeros().as_mut_slice())
    }

    /// Writes an entry to a half, 0 or 1, and syncs it. After an error nobody knows what is there.
    pub(crate) fn write(&self, half: usize, position: u64, entry: &[u8]) -> Result<(), LogError> {
        let OpenJournal(file) = &self.file;
        let position = half as u64 * self.half_bytes + position;
        let slices = [IoSlice::new(entry)];
        file.write_all_at(&slices, position).map_err(LogError::io("write", &self.path))?;
        file.sync_data().map_err(LogError::io("sync", &self.path))
    }
}

/// Opens a new journal for writes past the page cache, if that can be done here.
///
/// What is written is used by nobody before a crash, so that the page cache would only cost a copy, and
/// memory for pages that have just been on their way to the disk when the next write comes.
fn open_direct(fs: &dyn Fs, path: &Path) -> io::Result<Arc<dyn File>> {
    let file = fs.open(path, OpenMode::WriteDirect)?;
    // Some refuse only the write.
    file.write_all_at(&[IoSlice::new(zeros().as_mut_slice())], 0)?;
    Ok(file)
}

/// A block of zeros.
fn zeros() -> BlockBuffer {
    let mut zeros = BlockBuffer::default();
    zeros.extend(1, |out| out.push(0));
    zeros.fill_block();
    zeros
}

/// Whether the file system cannot do it.
fn is_impossible(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}
