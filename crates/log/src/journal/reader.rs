//! What of a journal counts.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use memchr::memmem;

use super::JOURNAL_FILE;
use super::entry::{Entry, EntryNumber, MAGIC, Piece, decode, number_of};
use crate::LogError;
use crate::fs::{Fs, OpenMode, read_to_end};

/// More than a journal may have.
pub(crate) const JOURNAL_MAX_BYTES: usize = 2 << 30;

/// What a journal holds.
#[derive(Debug, Default)]
pub(crate) struct JournalContent {
    /// The pieces that count, in the order in which they were written.
    pub(crate) pieces: Vec<Piece>,
    /// What cannot be read although it was acknowledged.
    pub(crate) damage: Vec<LogError>,
}

/// Reads the journal of a log directory; `None` if there is none.
///
/// # Errors
///
/// [`LogError::Io`].
pub(crate) fn read_journal(fs: &dyn Fs, dir: &Path) -> Result<Option<JournalContent>, LogError> {
    let path = dir.join(JOURNAL_FILE);
    Ok(read_bytes(fs, &path)?.map(|bytes| content_of(&bytes, &path)))
}

/// The content of a file; `None` if it is not there.
pub(super) fn read_bytes(fs: &dyn Fs, path: &Path) -> Result<Option<Bytes>, LogError> {
    let file = match fs.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io("open", path)(error)),
    };
    let bytes = read_to_end(&*file, JOURNAL_MAX_BYTES).map_err(LogError::io("read", path))?;
    Ok(Some(bytes.into()))
}

/// What counts in both halves: the entries of the older generation, then those of the newer one, from
/// behind the last that makes what is before it void.
pub(super) fn content_of(bytes: &Bytes, path: &Path) -> JournalContent {
    let middle = bytes.len() / 2;
    let mut damage = Vec::new();
    let mut halves = [0..middle, middle..bytes.len()].map(|half| {
        let (position, half) = (half.start, bytes.slice(half));
        Half { bytes: half, position: position as u64, path: path.to_owned() }.read(&mut damage)
    });
    halves.sort_by_key(|entries| entries.first().map(|entry| entry.number));
    let entries: Vec<Entry> = halves.into_iter().flatten().collect();
    let last_void = entries.iter().rposition(|entry| entry.pieces.is_empty());
    let counting = entries.into_iter().skip(last_void.map_or(0, |void| void + 1));
    JournalContent { pieces: counting.flat_map(|entry| entry.pieces).collect(), damage }
}

/// A row of entries of one generation.
pub(super) struct Half {
    pub(super) bytes: Bytes,
    /// Where it begins in the file.
    pub(super) position: u64,
    pub(super) path: PathBuf,
}

impl Half {
    /// The entries, up to the first that is not whole: a crash has torn it, and nothing behind it was
    /// begun. If something of the same generation is there all the same, it is damage, and what is
    /// behind counts.
    pub(super) fn read(&self, damage: &mut Vec<LogError>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut position = 0;
        loop {
            let next = decode(&self.bytes.slice(position..));
            let expected = entries
                .last()
                .map(|last| EntryNumber { sequence: last.number.sequence + 1, ..last.number });
            let is_next = |entry: &Entry| match expected {
                Some(expected) => entry.number == expected,
                None => entry.number.sequence == 0,
            };
            if let Some(entry) = next.filter(is_next) {
                position += entry.size_bytes;
                entries.push(entry);
                continue;
            }
            let resumed = expected.and_then(|expected| self.find_behind(position, expected));
            let Some((resumed, entry)) = resumed else { return entries };
            let lost = entry.number.sequence - entries.len() as u64;
            let reason = format!(
                "{lost} entries of the journal cannot be read, up to byte {}: records that were \
                 acknowledged may be missing",
                self.position + resumed as u64
            );
            let at = self.position + position as u64;
            damage.push(LogError::Corrupt { path: self.path.clone(), position: at, reason });
            position = resumed + entry.size_bytes;
            entries.push(entry);
        }
    }

    /// The first whole entry behind `position` that comes after `expected` in its generation.
    fn find_behind(&self, position: usize, expected: EntryNumber) -> Option<(usize, Entry)> {
        let follows = |number: EntryNumber| {
            number.generation == expected.generation && number.sequence > expected.sequence
        };
        let rest = self.bytes.get(position..)?;
        memmem::find_iter(rest, &MAGIC).map(|found| position + found).find_map(|found| {
            number_of(&self.bytes[found..]).filter(|&number| follows(number))?;
            Some((found, decode(&self.bytes.slice(found..))?))
        })
    }
}
