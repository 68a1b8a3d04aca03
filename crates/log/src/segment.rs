//! One segment of a log: a file of batches and its two indexes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, BatchHeader, TransactionMarker};

use crate::LogError;
use crate::checkpoint::remove_file;
use crate::cleaner::cleaned_path;
use crate::file_names::{
    DELETED_SUFFIX, INDEX_EXTENSION, LOG_EXTENSION, TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION,
    file_path,
};
use crate::fs::{File, Fs, OpenMode};
use crate::index::{OffsetIndex, TimeIndex, TimestampOffset, TransactionIndex};
use crate::scan::{HeaderScan, ScannedBatch, read_batch};
use crate::trust::Trust;

/// A segment of a log, shared by the writer thread, which alone appends to the last one, and any
/// number of readers.
///
/// It knows where its files are, and opens them when they are first needed. What lies beyond
/// [`Segment::size_bytes`] in the file is not part of the log.
pub(crate) struct Segment {
    base_offset: Offset,
    fs: Arc<dyn Fs>,
    path: Box<Path>,
    size_bytes: AtomicU64,
    file: Mutex<OpenFile>,
    was_used: AtomicBool,
    pub(crate) offsets: OffsetIndex,
    pub(crate) times: TimeIndex,
    pub(crate) aborted: TransactionIndex,
    growth: Mutex<Growth>,
    trust: Trust,
}

/// The file of batches, if it is open.
#[derive(Default)]
struct OpenFile {
    file: Option<Arc<dyn File>>,
    /// It stays open, and the indexes with it.
    is_pinned: bool,
}

/// What is remembered of the batches of a segment beside the indexes.
#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    /// The bytes since the last index entry.
    unindexed_bytes: u64,
    /// The largest timestamp with the last offset of the first batch that has it.
    largest: Known<TimestampOffset>,
    /// The timestamp that the age of the segment counts from.
    first: Known<TimestampMs>,
}

/// Something that a segment found on disk knows only after it was looked up.
#[derive(Debug, Clone, Copy, Default)]
enum Known<T> {
    #[default]
    NotYet,
    Nothing,
    Value(T),
}

impl<T: Copy> Known<T> {
    /// What is known; what was looked up counts only if the writer has not said better meanwhile.
    fn get_or_set(&mut self, looked_up: Option<T>) -> Option<T> {
        if let Known::NotYet = self {
            *self = looked_up.map_or(Known::Nothing, Known::Value);
        }
        match *self {
            Known::Value(value) => Some(value),
            Known::Nothing | Known::NotYet => None,
        }
    }
}

impl Growth {
    /// Takes note of the next batch, behind those whose largest timestamp is known.
    fn note_largest(&mut self, known: Option<TimestampOffset>, header: &BatchHeader) {
        // A batch that compaction has emptied has no record with its largest timestamp.
        let is_larger = known.is_none_or(|largest| header.max_timestamp > largest.timestamp);
        if is_larger && header.record_count != 0 {
            let new =
                TimestampOffset { timestamp: header.max_timestamp, offset: header.last_offset() };
            self.largest = Known::Value(new);
        }
    }
}

impl Segment {
    /// Makes the segment that begins with `base_offset`: an empty file.
    ///
    /// Its name is on stable storage only after a sync of the directory.
    pub(crate) fn create(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        base_offset: Offset,
    ) -> Result<Segment, LogError> {
        Segment::create_at(fs, base_offset, |extension| file_path(dir, base_offset, extension))
    }

    /// Makes the segment that compaction fills, beside the one that it is made from.
    pub(crate) fn create_cleaned(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        base_offset: Offset,
    ) -> Result<Segment, LogError> {
        let path_of = |extension: &str| cleaned_path(dir, base_offset, extension);
        let segment = Segment::create_at(fs, base_offset, path_of)?;
        // The files must be there, also if they are empty: they take the place of others.
        segment.reset_indexes()?;
        Ok(segment)
    }

    fn create_at(
        fs: &Arc<dyn Fs>,
        base_offset: Offset,
        path_of: impl Fn(&str) -> PathBuf,
    ) -> Result<Segment, LogError> {
        let path = path_of(LOG_EXTENSION);
        let file = fs.open(&path, OpenMode::CreateOrOpen).map_err(LogError::io("create", &path))?;
        // An earlier attempt to roll may have left the file, but never anything in it.
        let len_bytes = file.len().map_err(LogError::io("look at", &path))?;
        if len_bytes > 0 {
            let reason = format!("a new segment is to begin here, but {len_bytes} bytes are there");
            return Err(LogError::Corrupt { path, position: 0, reason });
        }
        let (index_path, times_path) = (path_of(INDEX_EXTENSION), path_of(TIME_INDEX_EXTENSION));
        Ok(Segment {
            base_offset,
            fs: Arc::clone(fs),
            path: path.into(),
            size_bytes: AtomicU64::new(0),
            file: Mutex::new(OpenFile { file: Some(file), is_pinned: false }),
            was_used: AtomicBool::new(true),
            offsets: OffsetIndex::create(Arc::clone(fs), &index_path, base_offset)?,
            times: TimeIndex::create(Arc::clone(fs), &times_path, base_offset)?,
            aborted: TransactionIndex::create(Arc::clone(fs), &path_of(TXN_INDEX_EXTENSION))?,
            growth: Mutex::new(Growth {
                unindexed_bytes: 0,
                largest: Known::Nothing,
                first: Known::Nothing,
            }),
            trust: Trust::new(0),
        })
    }

    /// A segment found on disk, of which the first `size_bytes` are taken to be batches. Nothing
    /// is opened.
    pub(crate) fn existing(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        base_offset: Offset,
        size_bytes: u64,
    ) -> Segment {
        let path_of = |extension: &str| file_path(dir, base_offset, extension);
        Segment::existing_at(fs, base_offset, size_bytes, path_of)
    }

    fn existing_at(
        fs: &Arc<dyn Fs>,
        base_offset: Offset,
        size_bytes: u64,
        path_of: impl Fn(&str) -> PathBuf,
    ) -> Segment {
        let (index_path, times_path) = (path_of(INDEX_EXTENSION), path_of(TIME_INDEX_EXTENSION));
        Segment {
            base_offset,
            fs: Arc::clone(fs),
            path: path_of(LOG_EXTENSION).into(),
            size_bytes: AtomicU64::new(size_bytes),
            file: Mutex::default(),
            was_used: AtomicBool::new(false),
            offsets: OffsetIndex::existing(Arc::clone(fs), &index_path, base_offset),
            times: TimeIndex::existing(Arc::clone(fs), &times_path, base_offset),
            aborted: TransactionIndex::existing(Arc::clone(fs), &path_of(TXN_INDEX_EXTENSION)),
            growth: Mutex::default(),
            trust: Trust::new(size_bytes),
        }
    }

    /// The offset that the segment begins with.
    pub(crate) fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The file of batches.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the batches.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Says how many bytes of the file are batches.
    pub(crate) fn set_size_bytes(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    /// Which of its bytes need not be checked before they are sent.
    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The open file.
    pub(crate) fn file(&self) -> Result<Arc<dyn File>, LogError> {
        self.was_used.store(true, Ordering::Relaxed);
        self.opened(&mut self.open_file())
    }

    fn opened(&self, state: &mut OpenFile) -> Result<Arc<dyn File>, LogError> {
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        let opened = self
            .fs
            .open(&self.path, OpenMode::ReadWrite)
            .map_err(LogError::io("open", &self.path))?;
        state.file = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Opens all files and keeps them open from now on: readers may still come to a segment whose
    /// files are about to be replaced by others of the same name.
    pub(crate) fn pin(&self) -> Result<(), LogError> {
        let mut state = self.open_file();
        self.opened(&mut state)?;
        for opened in [self.offsets.open(), self.times.open()] {
            match opened {
                // Whoever looks something up does without it.
                Err(LogError::Corrupt { .. }) => {}
                opened => opened?,
            }
        }
        self.aborted.keep()?;
        state.is_pinned = true;
        Ok(())
    }

    /// Lets the files be closed again.
    pub(crate) fn unpin(&self) {
        self.open_file().is_pinned = false;
        self.aborted.unkeep();
    }

    /// Whether the file of batches is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open_file().file.is_some()
    }

    /// Closes the files; the next use opens them again.
    pub(crate) fn close(&self) -> Result<(), LogError> {
        let mut state = self.open_file();
        if state.is_pinned {
            return Ok(());
        }
        state.file = None;
        // Under the lock, so that nobody pins the segment meanwhile.
        self.offsets.release()?;
        self.times.release()?;
        self.aborted.release()
    }

    /// Closes the files if nobody has used the segment since the last call.
    pub(crate) fn close_if_unused(&self) -> Result<(), LogError> {
        if self.was_used.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.close()
    }

    /// Takes note of the next batch of the segment, which is written: every
    /// `index_interval_bytes` it gets an entry in both indexes.
    ///
    /// An error is about an index, which can be made anew; the segment is as good as before.
    pub(crate) fn note_batch(
        &self,
        batch: &ScannedBatch,
        index_interval_bytes: u32,
    ) -> Result<(), LogError> {
        let header = &batch.header;
        let last_offset = header.last_offset();
        let largest = self.largest_timestamp()?;
        let mut growth = self.growth();
        growth.note_largest(largest, header);
        if batch.position == 0 {
            growth.first = Known::Value(header.max_timestamp);
        }
        let is_indexed = growth.unindexed_bytes > u64::from(index_interval_bytes);
        if is_indexed {
            growth.unindexed_bytes = 0;
        }
        growth.unindexed_bytes += header.size_bytes() as u64;
        let largest = growth.largest;
        drop(growth);

        if is_indexed {
            self.offsets.append(last_offset, batch.position)?;
            if let Known::Value(largest) = largest {
                self.times.append(largest.timestamp, largest.offset)?;
            }
        }
        Ok(())
    }

    /// Gives the next batch an index entry in any case, because nobody can walk to it: the bytes
    /// before it are damaged.
    pub(crate) fn index_next_batch(&self) {
        self.growth().unindexed_bytes = u64::MAX;
    }

    /// The largest timestamp in the segment, with the last offset of the first batch that has
    /// it; `None` for a segment without batches, or with nothing but what fills a gap.
    ///
    /// A segment found on disk has it in the last entry of its time index; without a good one, all
    /// headers are looked at, once.
    pub(crate) fn largest_timestamp(&self) -> Result<Option<TimestampOffset>, LogError> {
        match self.growth().largest {
            Known::Value(largest) => return Ok(Some(largest)),
            Known::Nothing => return Ok(None),
            Known::NotYet => {}
        }
        let largest = match self.times.last() {
            Ok(Some(indexed)) => Some(indexed),
            Ok(None) | Err(LogError::Corrupt { .. }) => self.scan_for_largest()?,
            Err(error) => return Err(error),
        };
        // Retention asks this once of each log, also of those that nobody reads.
        let state = self.open_file();
        if !state.is_pinned {
            self.times.release()?;
        }
        drop(state);
        Ok(self.growth().largest.get_or_set(largest))
    }

    fn scan_for_largest(&self) -> Result<Option<TimestampOffset>, LogError> {
        let size_bytes = self.size_bytes();
        if size_bytes == 0 {
            return Ok(None);
        }
        let mut largest: Option<TimestampOffset> = None;
        let mut has_times = false;
        let mut headers = HeaderScan::new(self.file()?, &self.path, 0, size_bytes);
        while let Some(batch) = headers.next()? {
            let (timestamp, offset) = (batch.header.max_timestamp, batch.header.last_offset());
            has_times |= batch.header.record_count != 0 && timestamp > TimestampMs::NONE;
            if batch.header.record_count == 0 && timestamp == TimestampMs::NONE {
                continue;
            }
            if largest.is_none_or(|largest| timestamp > largest.timestamp) {
                largest = Some(TimestampOffset { timestamp, offset });
            }
        }
        if has_times {
            let segment = self.path.display();
            tracing::warn!(%segment, "the time index could not be used; looked at all batches");
        }
        Ok(largest)
    }

    /// The time of the newest record: its timestamp or, as in Apache Kafka, if none has any, when the
    /// file was last written to. `None` as for [`Segment::largest_timestamp`].
    pub(crate) fn newest_time(&self) -> Result<Option<TimestampMs>, LogError> {
        match self.largest_timestamp()? {
            Some(TimestampOffset { timestamp: TimestampMs::NONE, .. }) => self.modified().map(Some),
            largest => Ok(largest.map(|largest| largest.timestamp)),
        }
    }

    fn modified(&self) -> Result<TimestampMs, LogError> {
        self.file()?.modified().map_err(LogError::io("look at", &self.path))
    }

    /// Makes the segment, which has what is left of `other`, as new as that.
    pub(crate) fn date_as(&self, other: &Segment) -> Result<(), LogError> {
        let modified = other.modified()?;
        self.file()?.set_modified(modified).map_err(LogError::io("date", &self.path))
    }

    /// The timestamp that the age of the segment counts from: the largest of its first batch.
    pub(crate) fn first_timestamp(&self) -> Result<Option<TimestampMs>, LogError> {
        match self.growth().first {
            Known::Value(first) => return Ok(Some(first)),
            Known::Nothing => return Ok(None),
            Known::NotYet => {}
        }
        let first = match self.size_bytes() {
            0 => None,
            size_bytes => HeaderScan::new(self.file()?, &self.path, 0, size_bytes).next()?,
        };
        let first = first.map(|batch| batch.header.max_timestamp);
        Ok(self.growth().first.get_or_set(first))
    }

    /// Gives the time index its last entry, the largest timestamp of all, and puts all indexes
    /// on stable storage. Their names need a sync of the directory.
    pub(crate) fn sync_indexes(&self) -> Result<(), LogError> {
        if let Some(largest) = self.largest_timestamp()? {
            // What a full disk has kept in memory may leave no room for the entry.
            self.times.save()?;
            self.times.append(largest.timestamp, largest.offset)?;
        }
        self.offsets.sync()?;
        self.times.sync()?;
        self.aborted.sync()
    }

    /// The transaction marker in a batch of this segment; `None` if the batch is none.
    ///
    /// [`LogError::Corrupt`] if it is damaged.
    pub(crate) fn marker(
        &self,
        batch: &ScannedBatch,
    ) -> Result<Option<TransactionMarker>, LogError> {
        /// A marker has one record, of 10 bytes. What says that it is one, and is long, is damaged.
        const MARKER_BYTES_MAX: usize = 64 << 10;
        let attributes = batch.header.attributes;
        if !attributes.is_control() || !attributes.is_transactional() {
            return Ok(None);
        }
        let corrupt = |reason: String| {
            let path = self.path.to_path_buf();
            LogError::Corrupt { path, position: batch.position, reason }
        };
        let size_bytes = batch.header.size_bytes();
        if size_bytes > MARKER_BYTES_MAX {
            return Err(corrupt(format!("the marker of a transaction has {size_bytes} bytes")));
        }
        let read = read_batch(&*self.file()?, &self.path, batch)?;
        let marker = Batch::verify_crc(&read).and_then(|()| TransactionMarker::of(&read));
        marker.map_err(|error| corrupt(error.to_string()))
    }

    /// Makes the sparse indexes anew from the headers of the batches.
    pub(crate) fn rebuild_indexes(&self, index_interval_bytes: u32) -> Result<(), LogError> {
        self.reset_indexes()?;
        let mut scan = HeaderScan::new(self.file()?, &self.path, 0, self.size_bytes());
        while let Some(batch) = scan.next()? {
            self.note_batch(&batch, index_interval_bytes)?;
        }
        Ok(())
    }

    /// Makes the indexes anew of a segment none of which was opened yet. They are made beside those that
    /// are there, and are on stable storage before they take their names: however the process ends,
    /// no part of one is left that would pass for a whole one.
    pub(crate) fn replace_indexes(&self, index_interval_bytes: u32) -> Result<(), LogError> {
        let (fs, dir) = (&self.fs, self.path.parent().unwrap_or(Path::new(".")));
        let path_of = |extension: &str| match extension {
            LOG_EXTENSION => self.path.to_path_buf(),
            index => cleaned_path(dir, self.base_offset, index),
        };
        let made = Segment::existing_at(fs, self.base_offset, self.size_bytes(), path_of);
        made.rebuild_indexes(index_interval_bytes)?;
        made.sync_indexes()?;
        made.close()?;
        for extension in [INDEX_EXTENSION, TIME_INDEX_EXTENSION] {
            let name = self.path.with_extension(extension);
            match fs.rename(&path_of(extension), &name) {
                Ok(()) => {}
                // One without entries is no file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => remove_file(&**fs, &name)?,
                Err(error) => return Err(LogError::io("rename to", &name)(error)),
            }
        }
        Ok(())
    }

    /// Makes the sparse indexes empty, so that [`Segment::note_batch`] can fill them again.
    pub(crate) fn reset_indexes(&self) -> Result<(), LogError> {
        self.offsets.reset()?;
        self.times.reset()?;
        *self.growth() =
            Growth { unindexed_bytes: 0, largest: Known::Nothing, first: Known::Nothing };
        Ok(())
    }

    /// Follows a cut of the file to [`Segment::size_bytes`], where the batch that begins at `end` was or
    /// a later one: what the indexes have of it goes, and the largest timestamp is that of the rest.
    pub(crate) fn follow_cut(
        &self,
        end: Offset,
        index_interval_bytes: u32,
    ) -> Result<(), LogError> {
        match self.cut_indexes(end) {
            Err(LogError::Corrupt { .. }) => self.rebuild_indexes(index_interval_bytes)?,
            cut => cut?,
        }
        self.aborted.truncate(end)
    }

    fn cut_indexes(&self, end: Offset) -> Result<(), LogError> {
        self.offsets.truncate(end)?;
        self.times.truncate(end)?;
        let largest = self.times.last()?;
        // Without a timestamp in the index, all headers are looked at.
        let start = largest.and(self.offsets.last()?).map_or(0, |last| last.position);
        *self.growth() = Growth {
            unindexed_bytes: 0,
            largest: largest.map_or(Known::Nothing, Known::Value),
            first: Known::NotYet,
        };
        let mut scan = HeaderScan::new(self.file()?, &self.path, start, self.size_bytes());
        while let Some(batch) = scan.next()? {
            let largest = self.largest_timestamp()?;
            self.growth().note_largest(largest, &batch.header);
        }
        Ok(())
    }

    /// Renames the files of the segment so that they do not count any more; returns what they
    /// are called now, for a removal later on. A snapshot of the producers is not the segment's.
    pub(crate) fn mark_deleted(&self) -> Result<Vec<PathBuf>, LogError> {
        // Who has an older picture of the log may look for it, and must not take its absence for an empty one.
        self.aborted.keep()?;
        let mut marked = Vec::new();
        for extension in [LOG_EXTENSION, INDEX_EXTENSION, TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION]
        {
            let path = self.path.with_extension(extension);
            let mut renamed = path.clone().into_os_string();
            renamed.push(DELETED_SUFFIX);
            let renamed = PathBuf::from(renamed);
            match self.fs.rename(&path, &renamed) {
                Ok(()) => marked.push(renamed),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(LogError::io("rename", &path)(error)),
            }
        }
        Ok(marked)
    }

    fn open_file(&self) -> MutexGuard<'_, OpenFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No code panics while it holds the lock, so a poisoned one guards a sound state.
    fn growth(&self) -> MutexGuard<'_, Growth> {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("path", &self.path)
            .field("size_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}
