//! The transactions that were aborted: Kafka's `.txnindex`, version 0.
//!
//! | bytes | type | field of an entry |
//! |---|---|---|
//! | 0–1 | i16 | version, 0 |
//! | 2–9 | i64 | producer id |
//! | 10–17 | i64 | first offset of the transaction |
//! | 18–25 | i64 | offset of its marker |
//! | 26–33 | i64 | last stable offset when the marker was written |
//!
//! All numbers are big-endian. The index of a segment has the transactions whose markers are in the segment, in their
//! order. Most segments have none, and then no file.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BufMut};
use logway_model::{Offset, ProducerId};

use crate::LogError;
use crate::fs::{File, Fs, OpenMode, read_exact_at, read_to_end};
use crate::producer_state::AbortedTransaction;

const VERSION: i16 = 0;

/// The coded length of an entry.
pub(crate) const ENTRY_BYTES: usize = 34;

/// More than two million entries.
const FILE_MAX_BYTES: usize = 64 << 20;

/// So much is written and read at once.
const PAGE_BYTES: usize = 120 * ENTRY_BYTES;

/// The aborted transactions of a segment.
///
/// One thread appends and cuts; any number read and save at the same time. New entries stay in memory until there is a
/// page of them. The lock is held while a file is opened, and not while it is read or written.
///
/// Unlike of the other indexes, no entry may be missing: a reader would take what was aborted for committed. What cannot be
/// written stays in memory and is tried again.
pub(crate) struct TransactionIndex {
    fs: Arc<dyn Fs>,
    path: Box<Path>,
    /// It is known that there are no entries, which spares readers the lock.
    is_known_empty: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<Arc<dyn File>>,
    /// The length of the entries in the file; `None` before it was looked at.
    saved_bytes: Option<u64>,
    /// The coded entries behind them.
    unsaved: Vec<u8>,
    /// The file stays open: it is about to lose its name.
    is_kept: bool,
}

/// What a search in one segment has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Searched {
    /// No transaction whose marker comes later can concern the range.
    Done,
    /// The next segments may have more.
    GoOn,
}

impl TransactionIndex {
    /// That of a new segment; a file left at `path` is removed.
    pub(crate) fn create(fs: Arc<dyn Fs>, path: &Path) -> Result<TransactionIndex, LogError> {
        remove_if_there(&*fs, path)?;
        let index = TransactionIndex::existing(fs, path);
        index.note_absent();
        Ok(index)
    }

    /// That of a segment that exists. The file is looked at when it is first needed; none is an empty one.
    pub(crate) fn existing(fs: Arc<dyn Fs>, path: &Path) -> TransactionIndex {
        let (is_known_empty, state) = Default::default();
        TransactionIndex { fs, path: path.into(), is_known_empty, state }
    }

    /// There is no file, as a listing of the directory has told.
    pub(crate) fn note_absent(&self) {
        let mut state = self.state();
        state.saved_bytes = Some(0);
        self.note_len(&state);
    }

    /// Adds a transaction, whose marker is behind those of all before. After an error the entry counts all the same, and is
    /// kept in memory.
    pub(crate) fn append(&self, aborted: &AbortedTransaction) -> Result<(), LogError> {
        let unsaved_bytes = {
            let mut state = self.state();
            encode(aborted, &mut state.unsaved);
            self.is_known_empty.store(false, Ordering::Release);
            state.unsaved.len()
        };
        if unsaved_bytes.is_multiple_of(PAGE_BYTES) { self.save() } else { Ok(()) }
    }

    /// Calls `each` for the transactions that have records before `end` and a marker at or behind `start`.
    pub(crate) fn search(
        &self,
        start: Offset,
        end: Offset,
        mut each: impl FnMut(AbortedTransaction),
    ) -> Result<Searched, LogError> {
        if self.is_known_empty.load(Ordering::Acquire) {
            return Ok(Searched::GoOn);
        }
        let mut take = |aborted: AbortedTransaction| {
            if aborted.last >= start && aborted.first < end {
                each(aborted);
            }
            // Those that ended later began at or behind this one's last stable offset.
            aborted.last_stable >= end
        };
        let (file, saved_bytes, unsaved) = {
            let mut state = self.state();
            let saved_bytes = self.load(&mut state)?;
            let file = match saved_bytes {
                0 => None,
                _ => Some(self.opened(&mut state, OpenMode::ReadWrite)?),
            };
            (file, saved_bytes, state.unsaved.clone())
        };
        let mut position = 0;
        let mut page = [0; PAGE_BYTES];
        while let Some(file) = &file
            && position < saved_bytes
        {
            let len = PAGE_BYTES.min((saved_bytes - position) as usize);
            read_exact_at(&**file, &mut page[..len], position).map_err(self.io("read"))?;
            for coded in page[..len].chunks_exact(ENTRY_BYTES) {
                let aborted = decode(coded).map_err(|reason| self.corrupt(position, reason))?;
                if take(aborted) {
                    return Ok(Searched::Done);
                }
                position += ENTRY_BYTES as u64;
            }
        }
        for coded in unsaved.chunks_exact(ENTRY_BYTES) {
            let aborted = decode(coded).map_err(|reason| self.corrupt(position, reason))?;
            if take(aborted) {
                return Ok(Searched::Done);
            }
        }
        Ok(Searched::GoOn)
    }

    /// Makes it empty, to be filled again.
    pub(crate) fn reset(&self) -> Result<(), LogError> {
        let mut state = self.state();
        remove_if_there(&*self.fs, &self.path)?;
        let is_kept = state.is_kept;
        *state = State { saved_bytes: Some(0), is_kept, ..State::default() };
        self.note_len(&state);
        Ok(())
    }

    /// Drops the transactions whose markers are at or behind `end`, on stable storage.
    pub(crate) fn truncate(&self, end: Offset) -> Result<(), LogError> {
        let mut kept_bytes = 0;
        self.search(Offset::ZERO, Offset::LIMIT, |aborted| {
            kept_bytes += if aborted.last < end { ENTRY_BYTES } else { 0 };
        })?;
        let mut state = self.state();
        let saved_bytes = self.load(&mut state)?;
        let unsaved_kept = (kept_bytes as u64).saturating_sub(saved_bytes) as usize;
        state.unsaved.truncate(unsaved_kept);
        if (kept_bytes as u64) < saved_bytes {
            let file = self.opened(&mut state, OpenMode::ReadWrite)?;
            file.set_len(kept_bytes as u64).map_err(self.io("cut"))?;
            state.saved_bytes = Some(kept_bytes as u64);
            file.sync_data().map_err(self.io("sync"))?;
        }
        self.note_len(&state);
        Ok(())
    }

    /// Saves, and puts it on stable storage. Its name needs a sync of the directory.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        self.save()?;
        let file = {
            let mut state = self.state();
            if matches!(state.saved_bytes, None | Some(0)) {
                // Nobody has looked at it, and so nobody has changed it; or there is none.
                return Ok(());
            }
            self.opened(&mut state, OpenMode::ReadWrite)?
        };
        file.sync_data().map_err(self.io("sync"))
    }

    /// Opens the file, if there is one, and keeps it open: readers may still come when it has no name, or another.
    pub(crate) fn keep(&self) -> Result<(), LogError> {
        let mut state = self.state();
        if self.load(&mut state)? > 0 {
            self.opened(&mut state, OpenMode::ReadWrite)?;
        }
        state.is_kept = true;
        Ok(())
    }

    /// Lets the file be closed again.
    pub(crate) fn unkeep(&self) {
        self.state().is_kept = false;
    }

    /// Saves and closes the file; the next use opens it again.
    pub(crate) fn release(&self) -> Result<(), LogError> {
        self.save()?;
        let mut state = self.state();
        if !state.is_kept {
            state.file = None;
        }
        Ok(())
    }

    /// Finds out how long the file is. What is no whole entry was never written to its end.
    fn load(&self, state: &mut State) -> Result<u64, LogError> {
        if let Some(saved_bytes) = state.saved_bytes {
            return Ok(saved_bytes);
        }
        let saved_bytes = match self.opened(state, OpenMode::ReadWrite) {
            Err(error) if error.is_not_found() => 0,
            opened => {
                let len_bytes = opened?.len().map_err(self.io("look at"))?;
                len_bytes - len_bytes % ENTRY_BYTES as u64
            }
        };
        state.saved_bytes = Some(saved_bytes);
        self.note_len(state);
        Ok(saved_bytes)
    }

    /// Writes what is in memory alone.
    fn save(&self) -> Result<(), LogError> {
        let (file, from, unsaved) = {
            let mut state = self.state();
            if state.unsaved.is_empty() {
                return Ok(());
            }
            let from = self.load(&mut state)?;
            (self.opened(&mut state, OpenMode::CreateOrOpen)?, from, state.unsaved.clone())
        };
        file.write_all_at(&[IoSlice::new(&unsaved)], from).map_err(self.io("write"))?;
        let mut state = self.state();
        // Unless another thread has saved the same meanwhile.
        if state.saved_bytes == Some(from) {
            state.unsaved.drain(..unsaved.len());
            state.saved_bytes = Some(from + unsaved.len() as u64);
        }
        Ok(())
    }

    fn opened(&self, state: &mut State, mode: OpenMode) -> Result<Arc<dyn File>, LogError> {
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        let file = self.fs.open(&self.path, mode).map_err(self.io("open"))?;
        state.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn note_len(&self, state: &State) {
        let is_empty = state.saved_bytes == Some(0) && state.unsaved.is_empty();
        self.is_known_empty.store(is_empty, Ordering::Release);
    }

    fn io(&self, op: &'static str) -> impl FnOnce(io::Error) -> LogError {
        LogError::io(op, &self.path)
    }

    fn corrupt(&self, position: u64, reason: String) -> LogError {
        LogError::Corrupt { path: self.path.to_path_buf(), position, reason }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it guards is right after each step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All entries of the file at `path`, as it is, which is the index of a segment from `base` to before `end`.
///
/// # Errors
///
/// [`LogError::Corrupt`] if it is not whole, an entry is out of order, or has a marker outside of the segment;
/// [`LogError::Io`].
pub(crate) fn read(
    fs: &dyn Fs,
    path: &Path,
    base: Offset,
    end: Offset,
) -> Result<Vec<AbortedTransaction>, LogError> {
    let file = fs.open(path, OpenMode::Read).map_err(LogError::io("open", path))?;
    let coded = read_to_end(&*file, FILE_MAX_BYTES).map_err(LogError::io("read", path))?;
    let corrupt = |position: usize, reason: String| LogError::Corrupt {
        path: path.to_owned(),
        position: position as u64,
        reason,
    };
    let mut all = Vec::new();
    let mut least = base;
    for (number, entry) in coded.chunks(ENTRY_BYTES).enumerate() {
        let position = number * ENTRY_BYTES;
        if entry.len() < ENTRY_BYTES {
            return Err(corrupt(position, "the file ends within an entry".to_owned()));
        }
        let aborted = decode(entry).map_err(|reason| corrupt(position, reason))?;
        let AbortedTransaction { first, last, .. } = aborted;
        if last < least || last >= end || first > last {
            let reason = format!("a transaction from {first} to {last} cannot be here");
            return Err(corrupt(position, reason));
        }
        least = last.next();
        all.push(aborted);
    }
    Ok(all)
}

fn remove_if_there(fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
    match fs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LogError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Appends a coded entry.
pub(crate) fn encode(aborted: &AbortedTransaction, out: &mut Vec<u8>) {
    out.put_i16(VERSION);
    out.put_i64(aborted.producer_id.0);
    out.put_i64(aborted.first.0);
    out.put_i64(aborted.last.0);
    out.put_i64(aborted.last_stable.0);
}

fn decode(mut coded: &[u8]) -> Result<AbortedTransaction, String> {
    let version = coded.get_i16();
    if version != VERSION {
        return Err(format!("version {version} is unknown"));
    }
    Ok(AbortedTransaction {
        producer_id: ProducerId(coded.get_i64()),
        first: Offset(coded.get_i64()),
        last: Offset(coded.get_i64()),
        last_stable: Offset(coded.get_i64()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::SimFs;

    const PATH: &str = "00000000000000000100.txnindex";

    fn aborted(id: i64, first: i64, last: i64, last_stable: i64) -> AbortedTransaction {
        let [first, last, last_stable] = [first, last, last_stable].map(Offset);
        AbortedTransaction { producer_id: ProducerId(id), first, last, last_stable }
    }

    fn found(index: &TransactionIndex, start: i64, end: i64) -> (Vec<i64>, Searched) {
        let mut ids = Vec::new();
        let take = |aborted: AbortedTransaction| ids.push(aborted.producer_id.0);
        let searched = index.search(Offset(start), Offset(end), take).expect("it is read");
        (ids, searched)
    }

    fn three(fs: &SimFs) -> TransactionIndex {
        let index =
            TransactionIndex::create(Arc::new(fs.clone()), Path::new(PATH)).expect("is made");
        for aborted in
            [aborted(1, 90, 110, 100), aborted(2, 100, 120, 121), aborted(3, 130, 140, 141)]
        {
            index.append(&aborted).expect("is written");
        }
        index
    }

    #[test]
    fn a_range_gets_the_transactions_that_it_overlaps() {
        let fs = SimFs::new(0);
        let index = three(&fs);
        assert_eq!(found(&index, 0, 91), (vec![1], Searched::Done));
        assert_eq!(found(&index, 100, 101), (vec![1, 2], Searched::Done));
        assert_eq!(found(&index, 111, 121), (vec![2], Searched::Done));
        assert_eq!(found(&index, 121, 130), (vec![], Searched::Done));
        assert_eq!(found(&index, 100, 500), (vec![1, 2, 3], Searched::GoOn));
        assert_eq!(found(&index, 141, 500), (vec![], Searched::GoOn));
    }

    #[test]
    fn an_index_is_there_again_and_ends_with_its_last_whole_entry() {
        let fs = SimFs::new(0);
        let index = three(&fs);
        index.release().expect("is closed");
        let file = fs.open(Path::new(PATH), OpenMode::ReadWrite).expect("exists");
        assert_eq!(file.len().expect("is known"), 3 * ENTRY_BYTES as u64);
        file.set_len(3 * ENTRY_BYTES as u64 - 1).expect("is cut");
        let index = TransactionIndex::existing(Arc::new(fs.clone()), Path::new(PATH));
        assert_eq!(found(&index, 0, 500), (vec![1, 2], Searched::GoOn));
        index.append(&aborted(4, 150, 160, 161)).expect("is written");
        assert_eq!(found(&index, 0, 500), (vec![1, 2, 4], Searched::GoOn));
        let index = TransactionIndex::existing(Arc::new(fs.clone()), Path::new("none.txnindex"));
        assert_eq!(found(&index, 0, 500), (vec![], Searched::GoOn));
        assert!(index.is_known_empty.load(Ordering::Acquire), "it is looked for once");
    }

    #[test]
    fn a_truncation_drops_those_whose_markers_are_gone() {
        let fs = SimFs::new(0);
        let index = three(&fs);
        index.truncate(Offset(140)).expect("is cut");
        assert_eq!(found(&index, 0, 500).0, vec![1, 2]);
        index.truncate(Offset(110)).expect("is cut");
        assert_eq!(found(&index, 0, 500).0, Vec::<i64>::new());
        index.append(&aborted(5, 100, 110, 111)).expect("is written");
        assert_eq!(found(&index, 0, 500).0, vec![5]);
        index.reset().expect("is emptied");
        assert_eq!(found(&index, 0, 500).0, Vec::<i64>::new());
    }

    #[test]
    fn what_finds_no_space_is_kept_and_written_later() {
        let fs = SimFs::new(0);
        let index = three(&fs);
        fs.set_capacity_bytes(0);
        index.append(&aborted(4, 150, 160, 161)).expect("it stays in memory");
        let error = index.sync().expect_err("there is no space");
        assert!(error.is_disk_full(), "{error}");
        assert_eq!(found(&index, 0, 500).0, vec![1, 2, 3, 4], "it counts all the same");
        fs.set_capacity_bytes(u64::MAX);
        index.sync().expect("there is space");
        let index = TransactionIndex::existing(Arc::new(fs.clone()), Path::new(PATH));
        assert_eq!(found(&index, 0, 500).0, vec![1, 2, 3, 4]);
    }

    #[test]
    fn a_file_that_lost_its_name_is_read_by_those_who_came_before() {
        let fs = SimFs::new(0);
        three(&fs).release().expect("is closed");
        let index = TransactionIndex::existing(Arc::new(fs.clone()), Path::new(PATH));
        index.keep().expect("is opened");
        fs.remove_file(Path::new(PATH)).expect("exists");
        index.release().expect("stays open");
        assert_eq!(found(&index, 0, 500).0, vec![1, 2, 3]);
    }

    #[test]
    fn a_page_is_written_and_what_is_in_memory_is_behind_it() {
        let fs = SimFs::new(0);
        let index = three(&fs);
        for number in 3..500 {
            let (first, last) = (100 + 10 * number, 105 + 10 * number);
            index.append(&aborted(number, first, last, last + 1)).expect("is written");
        }
        let file = fs.open(Path::new(PATH), OpenMode::Read).expect("exists");
        assert_eq!(file.len().expect("is known"), 4 * PAGE_BYTES as u64);
        assert_eq!(found(&index, 0, i64::MAX).0.len(), 500);
        assert_eq!(found(&index, 5000, 5006).0, vec![490]);
    }

    #[test]
    fn an_entry_out_of_place_is_damage() {
        let fs = SimFs::new(0);
        three(&fs).release().expect("is written");
        let all = |base, end| read(&fs, Path::new(PATH), Offset(base), Offset(end));
        assert_eq!(all(100, 141).expect("it is sound").len(), 3);
        for (base, end) in [(111, 141), (100, 140)] {
            let error = all(base, end).expect_err("is outside");
            assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
        }
        let file = fs.open(Path::new(PATH), OpenMode::ReadWrite).expect("exists");
        file.set_len(50).expect("is cut");
        let error = all(100, 141).expect_err("is not whole");
        assert!(matches!(error, LogError::Corrupt { position: 34, .. }), "{error}");
    }
}
