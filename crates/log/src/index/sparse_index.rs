//! What the offset index and the time index have in common.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use logway_model::Offset;

use super::search::{Split, partition_coded, partition_saved, read_entry};
use crate::LogError;
use crate::fs::{File, Fs, OpenMode};

/// An index entry, coded in [`Entry::WIDTH`] bytes.
pub trait Entry: Copy {
    /// The coded length in bytes.
    const WIDTH: usize;

    /// Appends the coded entry.
    fn encode(self, out: &mut Vec<u8>);

    /// Reads an entry from exactly [`Entry::WIDTH`] bytes.
    fn decode(coded: &[u8]) -> Self;

    /// Whether `next` may follow this entry.
    fn is_before(&self, next: &Self) -> bool;

    /// Whether an index may hold this entry at all.
    fn is_valid(&self) -> bool;

    /// The entry's offset, less the base offset of the segment.
    fn relative_offset(&self) -> i32;
}

/// An index of a segment: most of its entries in a file, the newest in memory.
///
/// One thread appends, truncates and saves; any number look up at the same time. New entries
/// stay in memory until there are 4 KiB of them, because one small write for each would double
/// the system calls of an append. A look-up holds the lock to search these 4 KiB and not while it
/// reads the file; a save shares it with look-ups; only opening and cutting the file exclude
/// them.
///
/// The file is opened when it is first needed and not before, so that a log that nobody reads
/// costs nothing.
pub struct SparseIndex<E> {
    base_offset: Offset,
    fs: Arc<dyn Fs>,
    path: Box<Path>,
    state: RwLock<State<E>>,
    /// The entry from which a page had the answer of the last search in the file: a guess where the next one's is.
    guess: AtomicU64,
}

struct State<E> {
    file: Option<Arc<dyn File>>,
    /// The length of the part of the index that is in the file; `None` before it was looked at.
    saved_bytes: Option<u64>,
    /// The coded entries that follow the saved ones.
    unsaved: Vec<u8>,
    /// The last entry of all.
    last: Option<E>,
}

/// The coded length of the longest entry.
pub(super) const ENTRY_WIDTH_MAX: usize = 12;

/// How much is read at once at the end of a search, and saved at once: a page of the cache.
pub(super) const PAGE_BYTES: usize = 4096;

/// When saving fails, as on a full disk, at most this much is kept in memory. Entries beyond
/// are left out, which costs look-ups precision and nothing else.
const UNSAVED_MAX_PAGES: usize = 16;

impl<E: Entry> SparseIndex<E> {
    /// The coded length of an entry.
    pub const ENTRY_BYTES: usize = E::WIDTH;

    const PAGE_ENTRIES: usize = PAGE_BYTES / E::WIDTH;

    /// The index of a new segment; a file left at `path` is removed, and the file is created
    /// when the first entries are saved.
    pub fn create(
        fs: Arc<dyn Fs>,
        path: &Path,
        base_offset: Offset,
    ) -> Result<SparseIndex<E>, LogError> {
        match fs.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LogError::io("remove", path)(error))
            }
            _ => Ok(SparseIndex::new(fs, path, base_offset, Some(0))),
        }
    }

    /// The index of a segment that exists. The file is read at the first use; none is as good
    /// as an empty one.
    pub fn existing(fs: Arc<dyn Fs>, path: &Path, base_offset: Offset) -> SparseIndex<E> {
        SparseIndex::new(fs, path, base_offset, None)
    }

    fn new(
        fs: Arc<dyn Fs>,
        path: &Path,
        base_offset: Offset,
        saved_bytes: Option<u64>,
    ) -> SparseIndex<E> {
        let state = State { file: None, saved_bytes, unsaved: Vec::new(), last: None };
        let state = RwLock::new(state);
        // At first, the last page.
        SparseIndex { base_offset, fs, path: path.into(), state, guess: AtomicU64::new(u64::MAX) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The base offset of the segment.
    pub fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The number of entries.
    pub fn len_entries(&self) -> Result<u64, LogError> {
        let state = self.loaded()?;
        Ok((state.saved_len() + state.unsaved.len() as u64) / E::WIDTH as u64)
    }

    /// Looks at the file as the first use would, and reports [`LogError::Corrupt`] if it cannot
    /// be an index: a length that is no multiple of the entry's, a last entry that is not above
    /// the first.
    pub fn check(&self) -> Result<(), LogError> {
        self.loaded().map(drop)
    }

    /// Removes the entries at and above offset `end`, as when the log is truncated to it.
    pub fn truncate(&self, end: Offset) -> Result<(), LogError> {
        let Split { before, count } = self.split(|entry| self.offset_of(entry) < end)?;
        let kept_bytes = count * E::WIDTH as u64;
        let mut state = self.loaded_mut()?;
        match kept_bytes.checked_sub(state.saved_len()) {
            Some(unsaved_kept) => {
                let unsaved_kept = usize::try_from(unsaved_kept).expect("it is in memory");
                state.unsaved.truncate(unsaved_kept);
            }
            None => {
                state.unsaved = Vec::new();
                let file = self.opened(&mut state)?;
                file.set_len(kept_bytes).map_err(LogError::io("cut", &self.path))?;
                state.saved_bytes = Some(kept_bytes);
            }
        }
        state.last = before;
        Ok(())
    }

    /// Makes the index empty, whatever was in the file, so that it can be rebuilt. A full disk may
    /// have no room for a new file, not even an empty one; it is made later then.
    pub fn reset(&self) -> Result<(), LogError> {
        let mut state = self.write();
        let file = match self.fs.open(&self.path, OpenMode::CreateTruncate) {
            Ok(file) => Some(file),
            Err(error) => {
                let error = LogError::io("empty", &self.path)(error);
                let exists =
                    self.fs.exists(&self.path).map_err(LogError::io("look for", &self.path))?;
                if exists || !error.is_disk_full() {
                    return Err(error);
                }
                None
            }
        };
        *state = State { file, saved_bytes: Some(0), unsaved: Vec::new(), last: None };
        Ok(())
    }

    /// Opens the file, if there is one, for look-ups that come when it has another name.
    pub fn open(&self) -> Result<(), LogError> {
        let mut state = self.loaded_mut()?;
        if state.saved_len() > 0 {
            self.opened(&mut state)?;
        }
        Ok(())
    }

    /// Writes the entries that are only in memory to the file, without a sync.
    pub fn save(&self) -> Result<(), LogError> {
        let file = {
            let mut state = self.write();
            if state.unsaved.is_empty() {
                return Ok(());
            }
            self.opened(&mut state)?
        };
        // Look-ups go on meanwhile; appends come from this same thread.
        let (from, saved) = {
            let state = self.read();
            let from = state.saved_len();
            file.write_all_at(&[IoSlice::new(&state.unsaved)], from)
                .map_err(LogError::io("write", &self.path))?;
            (from, state.unsaved.len())
        };
        let mut state = self.write();
        // Unless a second thread saved the same meanwhile.
        if state.saved_bytes == Some(from) {
            state.unsaved.drain(..saved);
            state.saved_bytes = Some(from + saved as u64);
        }
        Ok(())
    }

    /// Saves, and puts the file on stable storage. Its name needs a sync of the directory too.
    pub fn sync(&self) -> Result<(), LogError> {
        self.save()?;
        let file = {
            let mut state = self.write();
            let exists =
                || self.fs.exists(&self.path).map_err(LogError::io("look for", &self.path));
            match state.saved_bytes {
                // Nobody has looked at it, and so nobody has changed it.
                None => return Ok(()),
                Some(0) if state.file.is_none() && !exists()? => return Ok(()),
                Some(_) => {}
            }
            // It may have been closed since it was saved or emptied.
            self.opened(&mut state)?
        };
        file.sync_data().map_err(LogError::io("sync", &self.path))
    }

    /// Saves, closes the file and gives memory back; the next use opens it again.
    pub fn release(&self) -> Result<(), LogError> {
        self.save()?;
        let mut state = self.write();
        state.file = None;
        state.unsaved = Vec::new();
        Ok(())
    }
}

impl<E: Entry> SparseIndex<E> {
    /// The last entry.
    pub(super) fn last_entry(&self) -> Result<Option<E>, LogError> {
        Ok(self.loaded()?.last)
    }

    /// The last entry for which `holds`, which must be true up to some entry and false after.
    pub(super) fn last_where(&self, holds: impl Fn(&E) -> bool) -> Result<Option<E>, LogError> {
        Ok(self.split(holds)?.before.filter(E::is_valid))
    }

    /// The first entry for which `holds` is false, on the same terms.
    pub(super) fn first_where_not(
        &self,
        holds: impl Fn(&E) -> bool,
    ) -> Result<Option<E>, LogError> {
        let position = self.split(holds)?.count * E::WIDTH as u64;
        let file = {
            let mut state = self.loaded_mut()?;
            if let Some(unsaved_position) = position.checked_sub(state.saved_len()) {
                let from = usize::try_from(unsaved_position).unwrap_or(usize::MAX);
                let coded = state.unsaved.get(from..).and_then(|rest| rest.get(..E::WIDTH));
                return Ok(coded.map(E::decode).filter(E::is_valid));
            }
            self.opened(&mut state)?
        };
        let entry = read_entry(&*file, position).map_err(LogError::io("read", &self.path))?;
        Ok(Some(entry).filter(E::is_valid))
    }

    /// Appends an entry, unless it may not follow the last one.
    pub(super) fn push(&self, entry: E) -> Result<(), LogError> {
        let unsaved_entries = {
            let mut state = self.loaded_mut()?;
            let follows = state.last.is_none_or(|last| last.is_before(&entry));
            if !follows || !entry.is_valid() {
                return Ok(());
            }
            if state.unsaved.len() < UNSAVED_MAX_PAGES * Self::PAGE_ENTRIES * E::WIDTH {
                entry.encode(&mut state.unsaved);
                state.last = Some(entry);
            }
            state.unsaved.len() / E::WIDTH
        };
        if unsaved_entries.is_multiple_of(Self::PAGE_ENTRIES) { self.save() } else { Ok(()) }
    }

    /// An offset less the base offset, if that is a number that fits the file.
    pub(super) fn relative(&self, offset: Offset) -> Option<i32> {
        let relative = offset.0.checked_sub(self.base_offset.0)?;
        i32::try_from(relative).ok().filter(|&relative| relative >= 0)
    }

    /// The offset of an entry.
    pub(super) fn offset_of(&self, entry: &E) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(entry.relative_offset())))
    }

    fn split(&self, holds: impl Fn(&E) -> bool) -> Result<Split<E>, LogError> {
        let (file, saved_bytes) = {
            let state = self.loaded()?;
            let in_memory = partition_coded(&state.unsaved, &holds);
            let saved_bytes = state.saved_len();
            if in_memory.count > 0 {
                let count = saved_bytes / E::WIDTH as u64 + in_memory.count;
                return Ok(Split { before: in_memory.before, count });
            }
            (state.file.clone(), saved_bytes)
        };
        if saved_bytes == 0 {
            return Ok(Split { before: None, count: 0 });
        }
        let file = match file {
            Some(file) => file,
            None => self.opened(&mut self.write())?,
        };
        let guess = self.guess.load(Relaxed);
        match partition_saved(&*file, saved_bytes / E::WIDTH as u64, guess, holds) {
            Ok(split) => {
                let page_entries = Self::PAGE_ENTRIES as u64;
                let last = split.count.saturating_sub(1);
                self.guess.store(last / page_entries * page_entries, Relaxed);
                Ok(split)
            }
            // The file was cut under a search that knew its old length. To know nothing is the
            // right answer then: a scan from the start of the segment.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(Split { before: None, count: 0 })
            }
            result => result.map_err(LogError::io("read", &self.path)),
        }
    }

    /// Read access to a state whose `saved_bytes` is known.
    fn loaded(&self) -> Result<RwLockReadGuard<'_, State<E>>, LogError> {
        let state = self.read();
        if state.saved_bytes.is_some() {
            return Ok(state);
        }
        drop(state);
        drop(self.loaded_mut()?);
        Ok(self.read())
    }

    fn loaded_mut(&self) -> Result<RwLockWriteGuard<'_, State<E>>, LogError> {
        let mut state = self.write();
        if state.saved_bytes.is_none() {
            self.load(&mut state)?;
        }
        Ok(state)
    }

    /// Looks at a file for the first time, and whether it can be one of ours.
    fn load(&self, state: &mut State<E>) -> Result<(), LogError> {
        let file = match self.fs.open(&self.path, OpenMode::ReadWrite) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                state.saved_bytes = Some(0);
                return Ok(());
            }
            Err(error) => return Err(LogError::io("open", &self.path)(error)),
        };
        let len_bytes = file.len().map_err(LogError::io("read", &self.path))?;
        let width = E::WIDTH as u64;
        if !len_bytes.is_multiple_of(width) {
            let whole = len_bytes - len_bytes % width;
            return Err(self.corrupt(whole, format!("no whole entry of {width} bytes is there")));
        }
        if len_bytes > 0 {
            let read = |position| read_entry::<E>(&*file, position);
            let first = read(0).map_err(LogError::io("read", &self.path))?;
            let last = read(len_bytes - width).map_err(LogError::io("read", &self.path))?;
            let increases = len_bytes == width || first.is_before(&last);
            if !first.is_valid() || !last.is_valid() || !increases {
                let reason = "the last entry is not above the first".to_owned();
                return Err(self.corrupt(len_bytes - width, reason));
            }
            state.last = Some(last);
        }
        state.file = Some(file);
        state.saved_bytes = Some(len_bytes);
        Ok(())
    }

    /// The open file; one that holds nothing is created or emptied.
    fn opened(&self, state: &mut State<E>) -> Result<Arc<dyn File>, LogError> {
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        let mode =
            if state.saved_len() == 0 { OpenMode::CreateTruncate } else { OpenMode::ReadWrite };
        let file = self.fs.open(&self.path, mode).map_err(LogError::io("open", &self.path))?;
        state.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn corrupt(&self, position: u64, reason: String) -> LogError {
        LogError::Corrupt { path: self.path.to_path_buf(), position, reason }
    }

    // No code panics while it holds the lock, and every step leaves a usable index.
    fn read(&self) -> RwLockReadGuard<'_, State<E>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<E>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> State<E> {
    fn saved_len(&self) -> u64 {
        self.saved_bytes.unwrap_or(0)
    }
}
