//! The batches of a segment that is being cleaned.

use logway_model::Offset;
use logway_record::{Batch, BatchHeader, RecordError};

use super::pace::Pace;
use super::rewrite::Interrupted;
use crate::LogError;
use crate::scan::BatchScan;
use crate::segment::Segment;

/// Walks the batches of a segment, each checked to its last byte and for its place: what is copied
/// gets a new CRC, so that damage must not be taken for data. The base offset is not covered by the
/// CRC.
pub(super) struct Batches<'a> {
    segment: &'a Segment,
    scan: BatchScan,
    places: Places<'a>,
    pace: Pace<'a>,
}

/// Where the next batch of a segment may be.
pub(super) struct Places<'a> {
    segment: &'a Segment,
    next: Offset,
    /// Where the next segment begins.
    end: Offset,
}

/// A batch of a segment.
pub(super) struct PlacedBatch {
    pub(super) batch: Batch,
    /// Where it begins in the file.
    pub(super) position: u64,
    /// Nothing comes behind it.
    pub(super) is_last: bool,
}

impl<'a> Batches<'a> {
    /// Those of a segment behind which the next one begins with `end`.
    ///
    /// [`LogError::Corrupt`] if there is more in the file than batches: what a start has found to be
    /// damaged stays where it is, for whoever can save something of it.
    pub(super) fn of(
        segment: &'a Segment,
        end: Offset,
        pace: Pace<'a>,
    ) -> Result<Batches<'a>, LogError> {
        let (file, path, size_bytes) = (segment.file()?, segment.path(), segment.size_bytes());
        let file_bytes = file.len().map_err(LogError::io("look at", path))?;
        if file_bytes > size_bytes {
            let reason = format!("the last {} bytes are not batches", file_bytes - size_bytes);
            return Err(LogError::Corrupt { path: path.to_owned(), position: size_bytes, reason });
        }
        let scan = BatchScan::new(file, path, 0, size_bytes);
        Ok(Batches { segment, scan, places: Places::of(segment, end), pace })
    }

    /// The next one, read at the pace.
    pub(super) fn next(&mut self) -> Result<Option<PlacedBatch>, Interrupted> {
        let position = self.scan.position();
        let Some(batch) = self.scan.next()? else { return Ok(None) };
        self.places.take(batch.header(), position)?;
        self.pace.use_disk(batch.size_bytes() as u64)?;
        let is_last = self.scan.position() >= self.segment.size_bytes();
        Ok(Some(PlacedBatch { batch, position, is_last }))
    }
}

impl<'a> Places<'a> {
    pub(super) fn of(segment: &'a Segment, end: Offset) -> Places<'a> {
        Places { segment, next: segment.base_offset(), end }
    }

    /// Checks the place of the next batch.
    pub(super) fn take(&mut self, header: &BatchHeader, position: u64) -> Result<(), LogError> {
        let (base, next) = (header.base_offset, header.next_offset());
        if base < self.next || next > self.end {
            let reason = format!(
                "the batch has the offsets {base} to {next}, not within {} to {}",
                self.next, self.end
            );
            let path = self.segment.path().to_owned();
            return Err(LogError::Corrupt { path, position, reason });
        }
        self.next = next;
        Ok(())
    }
}

/// What is wrong with the records of a batch in a segment.
pub(super) fn corrupt(segment: &Segment, position: u64, error: &RecordError) -> LogError {
    LogError::Corrupt { path: segment.path().to_owned(), position, reason: error.to_string() }
}
