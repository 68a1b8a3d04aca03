//! The entries of an index one after the other, however many there are.

use std::io;
use std::sync::Arc;
use std::vec;

use logway_model::Offset;

use super::SegmentFile;
use crate::LogError;
use crate::file_names::{INDEX_EXTENSION, TIME_INDEX_EXTENSION};
use crate::fs::{File, Fs, OpenMode, read_exact_at};
use crate::index::{OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset};

/// An entry of an index, decoded.
pub(super) trait IndexEntry: Copy {
    /// What the name of such an index ends with.
    const EXTENSION: &'static str;
    /// The coded length in bytes.
    const ENTRY_BYTES: usize;

    /// Decodes whole entries of the index of a segment.
    fn decode(base_offset: Offset, coded: &[u8]) -> Vec<Self>;

    /// Whether `next` may follow this entry.
    fn is_before(self, next: Self) -> bool;
}

impl IndexEntry for OffsetPosition {
    const EXTENSION: &'static str = INDEX_EXTENSION;
    const ENTRY_BYTES: usize = OffsetIndex::ENTRY_BYTES;

    fn decode(base_offset: Offset, coded: &[u8]) -> Vec<OffsetPosition> {
        OffsetIndex::decode_entries(base_offset, coded).collect()
    }

    fn is_before(self, next: OffsetPosition) -> bool {
        self.offset < next.offset && self.position < next.position
    }
}

impl IndexEntry for TimestampOffset {
    const EXTENSION: &'static str = TIME_INDEX_EXTENSION;
    const ENTRY_BYTES: usize = TimeIndex::ENTRY_BYTES;

    fn decode(base_offset: Offset, coded: &[u8]) -> Vec<TimestampOffset> {
        TimeIndex::decode_entries(base_offset, coded).collect()
    }

    fn is_before(self, next: TimestampOffset) -> bool {
        self.timestamp < next.timestamp && self.offset <= next.offset
    }
}

/// What is read of an index at once.
const CHUNK_ENTRIES: u64 = 4096;

/// Reads an index from its beginning, a piece at a time, and sees to the order of its entries.
///
/// After a [`Fault`] there are no more entries: what follows one that is out of order says nothing.
pub(super) struct IndexCursor<E> {
    /// `None` if there is no index, or nothing more to be had from it.
    file: Option<Arc<dyn File>>,
    base_offset: Offset,
    len_bytes: u64,
    /// What was read of the file, in bytes.
    read_bytes: u64,
    chunk: vec::IntoIter<E>,
    next: Option<E>,
    /// Where the entry begins that is next.
    position: u64,
    last: Option<E>,
}

/// Where an index is no index any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The entry, in bytes from the start of the file.
    pub(super) position: u64,
    /// What is wrong with it.
    pub(super) reason: String,
}

impl<E: IndexEntry> IndexCursor<E> {
    /// The index of a segment, which need not exist.
    pub(super) fn open(fs: &dyn Fs, segment: &SegmentFile) -> Result<IndexCursor<E>, LogError> {
        let mut cursor = IndexCursor::none(segment);
        let path = segment.path.with_extension(E::EXTENSION);
        match fs.open(&path, OpenMode::Read) {
            Ok(file) => {
                cursor.len_bytes = file.len().map_err(LogError::io("look at", &path))?;
                cursor.file = Some(file);
                Ok(cursor)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(cursor),
            Err(error) => Err(LogError::io("open", &path)(error)),
        }
    }

    /// An index without entries.
    pub(super) fn none(segment: &SegmentFile) -> IndexCursor<E> {
        IndexCursor {
            file: None,
            base_offset: segment.base_offset,
            len_bytes: 0,
            read_bytes: 0,
            chunk: Vec::new().into_iter(),
            next: None,
            position: 0,
            last: None,
        }
    }

    /// Whether there is a file.
    pub(super) fn exists(&self) -> bool {
        self.file.is_some()
    }

    /// Where the file ends within an entry, if it does.
    pub(super) fn torn_at(&self) -> Option<u64> {
        let torn_bytes = self.len_bytes % E::ENTRY_BYTES as u64;
        (torn_bytes > 0).then(|| self.len_bytes - torn_bytes)
    }

    /// Where the next entry begins, or would.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The last entry that was taken.
    pub(super) fn last(&self) -> Option<E> {
        self.last
    }

    /// Takes the next entry, with its place, if it is as wanted.
    pub(super) fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&E) -> bool,
    ) -> Result<Option<(u64, E)>, Fault> {
        if self.next.is_none() {
            self.next = self.read_next().inspect_err(|_| self.give_up())?;
        }
        let Some(entry) = self.next.filter(is_wanted) else { return Ok(None) };
        let position = self.position;
        self.position += E::ENTRY_BYTES as u64;
        self.last = self.next.take();
        Ok(Some((position, entry)))
    }

    /// Has no more entries from now on.
    pub(super) fn give_up(&mut self) {
        self.file = None;
        self.chunk = Vec::new().into_iter();
        self.next = None;
    }

    fn read_next(&mut self) -> Result<Option<E>, Fault> {
        if self.chunk.as_slice().is_empty() {
            self.fill()?;
        }
        let next = self.chunk.next();
        if let (Some(last), Some(next)) = (self.last, next)
            && !last.is_before(next)
        {
            return Err(self.fault("it is not above the entry before".to_owned()));
        }
        Ok(next)
    }

    fn fill(&mut self) -> Result<(), Fault> {
        let Some(file) = &self.file else { return Ok(()) };
        let whole_bytes = self.torn_at().unwrap_or(self.len_bytes);
        let chunk_bytes = CHUNK_ENTRIES * E::ENTRY_BYTES as u64;
        let mut coded = vec![0; (whole_bytes - self.read_bytes).min(chunk_bytes) as usize];
        if let Err(error) = read_exact_at(&**file, &mut coded, self.read_bytes) {
            return Err(self.fault(format!("the system cannot read it: {error}")));
        }
        self.read_bytes += coded.len() as u64;
        self.chunk = E::decode(self.base_offset, &coded).into_iter();
        Ok(())
    }

    fn fault(&self, reason: String) -> Fault {
        Fault { position: self.position, reason }
    }
}
