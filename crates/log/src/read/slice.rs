//! What a read asks for and what it gets.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use logway_model::{Offset, TimestampMs};

use crate::LogError;
use crate::fs::{File, read_exact_at};
use crate::scan::BatchScan;
use crate::segment::Segment;

/// Which part of a log to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The first offset wanted; the batch that holds it is returned whole.
    pub offset: Offset,
    /// The most bytes wanted.
    pub max_bytes: u64,
    /// Nothing from this offset on: the high watermark, the last stable offset, or the log end.
    pub upper_bound: Offset,
    /// Whether the first batch is returned even if it is longer than `max_bytes`, so that a
    /// consumer gets on (KIP-74).
    pub at_least_one_batch: bool,
}

/// Whole batches of a log, as places in its files.
#[derive(Debug, Clone, Default)]
pub struct ReadSlice {
    /// The places, in order; none if there is nothing to read. Each holds whole batches.
    pub ranges: Vec<FileRange>,
    /// The first offset of the log when it was read.
    pub log_start_offset: Offset,
    /// The log end when it was read.
    pub log_end_offset: Offset,
    /// The offset to go on from: the one after the last record in the ranges, or the requested one
    /// if there are none.
    pub next_offset: Offset,
    /// Whose the places are.
    pub(crate) segments: Vec<Arc<Segment>>,
}

impl ReadSlice {
    /// Whether it can be sent as it is. What was not written or checked by this process lately is to be
    /// checked first, with [`ReadSlice::checked`]: the disk may have damaged it.
    pub fn is_trusted(&self, now: TimestampMs) -> bool {
        let is_trusted = |(range, segment): (&FileRange, &Arc<Segment>)| {
            segment.trust().covers(&*range.file, range.bytes(), now)
        };
        self.ranges.iter().zip(&self.segments).all(is_trusted)
    }

    /// Checks the batches to their last byte, and leaves out the first that is damaged, with all behind
    /// it. It reads them from the disk, unless they are in memory.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] with the file and the place if the first batch is damaged, and
    /// [`LogError::Io`].
    pub fn checked(mut self) -> Result<ReadSlice, LogError> {
        for index in 0..self.ranges.len() {
            let (range, segment) = (&mut self.ranges[index], &self.segments[index]);
            let modified =
                range.file.modified().map_err(LogError::io("look at", segment.path()))?;
            let bytes = range.bytes();
            let file = Arc::clone(&range.file);
            let mut scan = BatchScan::new(file, segment.path(), bytes.start, bytes.end);
            let error = loop {
                match scan.next_header() {
                    Ok(Some(header)) => self.next_offset = header.next_offset(),
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            let good_end = scan.position();
            segment.trust().note_checked(bytes.start..good_end, modified);
            let Some(error) = error else { continue };
            range.len_bytes = good_end - bytes.start;
            // No damage, but a follower's end that was cut off meanwhile.
            let is_cut_off = segment.size_bytes() < bytes.end;
            if good_end == bytes.start {
                if index == 0 && !is_cut_off {
                    return Err(error);
                }
                self.ranges.truncate(index);
            }
            self.ranges.truncate(index + 1);
            break;
        }
        Ok(self)
    }

    /// The bytes of all ranges.
    pub fn size_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.len_bytes).sum()
    }

    /// Whether there was nothing to read.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Copies the batches into memory, as many bytes as the request allowed.
    pub fn read(&self) -> io::Result<Bytes> {
        let size = usize::try_from(self.size_bytes()).map_err(io::Error::other)?;
        let mut bytes = BytesMut::zeroed(size);
        let mut filled = 0;
        for range in &self.ranges {
            let end = filled + range.len_bytes as usize;
            read_exact_at(&*range.file, &mut bytes[filled..end], range.position)?;
            filled = end;
        }
        Ok(bytes.freeze())
    }
}

/// A piece of a file, for `sendfile` or a copy.
///
/// It stays readable while it is held, also when the segment is deleted meanwhile.
#[derive(Clone)]
pub struct FileRange {
    /// The file.
    pub file: Arc<dyn File>,
    /// Where the piece begins, in bytes from the file's start.
    pub position: u64,
    /// How long it is.
    pub len_bytes: u64,
}

impl FileRange {
    fn bytes(&self) -> Range<u64> {
        self.position..self.position + self.len_bytes
    }
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRange")
            .field("position", &self.position)
            .field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}
