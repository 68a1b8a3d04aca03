//! From an offset to a place in a segment's file.

use logway_model::{Offset, TimestampMs};

use crate::LogError;
use crate::scan::{HeaderScan, ScannedBatch};
use crate::segment::Segment;

/// Where one batch ends and the next begins, as a place in a segment's file and as an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    pub(crate) position: u64,
    /// The offset to go on from.
    pub(crate) offset: Offset,
}

impl Boundary {
    /// The beginning of a batch.
    pub(crate) fn before(batch: &ScannedBatch) -> Boundary {
        Boundary { position: batch.position, offset: batch.header.base_offset }
    }

    /// The end of a batch.
    pub(crate) fn after(batch: &ScannedBatch) -> Boundary {
        Boundary { position: batch.end(), offset: batch.header.next_offset() }
    }
}

impl Segment {
    /// The batch that holds `offset`, or else the first behind it: the first one that ends at or
    /// after `offset`. `end` is the end of a batch, in bytes; nothing beyond is looked at.
    pub(crate) fn find_batch(
        &self,
        offset: Offset,
        end: u64,
    ) -> Result<Option<ScannedBatch>, LogError> {
        let hint = self.hint(offset, end);
        if hint > 0 {
            match self.find_batch_from(hint, offset, end) {
                Ok(Some(found)) if found.position > hint || found.header.base_offset <= offset => {
                    return Ok(Some(found));
                }
                Ok(None) => return Ok(None),
                Err(error @ LogError::Io { .. }) => return Err(error),
                Ok(Some(_)) | Err(_) => tracing::warn!(
                    segment = %self.path().display(),
                    %offset,
                    hint,
                    "the offset index does not fit the segment; scanning without it"
                ),
            }
        }
        self.find_batch_from(0, offset, end)
    }

    /// The end of the last batch that lies wholly before `offset`; the beginning of the segment if there
    /// is none. `end` is the end of a batch, in bytes; nothing beyond is looked at.
    pub(crate) fn boundary_before(&self, offset: Offset, end: u64) -> Result<Boundary, LogError> {
        let first = Boundary { position: 0, offset: self.base_offset() };
        let Some(before) = offset.0.checked_sub(1).map(Offset) else { return Ok(first) };
        // The batch of the entry lies wholly before.
        let hint = self.hint(before, end);
        let known = (hint == 0).then_some(first);
        match self.boundary_before_from(hint, known, offset, end) {
            Ok(Some(boundary)) => Ok(boundary),
            Err(error @ LogError::Io { .. }) => Err(error),
            // The index does not fit the segment.
            Ok(None) | Err(_) => {
                let found = self.boundary_before_from(0, Some(first), offset, end)?;
                Ok(found.unwrap_or(first))
            }
        }
    }

    /// The same, walking from `start`, where `known` is a boundary; `None` if no batch is there that
    /// lies before.
    fn boundary_before_from(
        &self,
        start: u64,
        known: Option<Boundary>,
        offset: Offset,
        end: u64,
    ) -> Result<Option<Boundary>, LogError> {
        let mut boundary = known;
        let mut headers = HeaderScan::new(self.file()?, self.path(), start, end);
        while let Some(batch) = headers.next()? {
            if batch.header.last_offset() >= offset {
                break;
            }
            boundary = Some(Boundary::after(&batch));
        }
        Ok(boundary)
    }

    /// The last boundary at or before the place `wanted`; `from` is one before it, `end` one
    /// behind it. If there is damage before `wanted`, the last one before the damage.
    pub(crate) fn floor_boundary(
        &self,
        from: Boundary,
        wanted: u64,
        end: Boundary,
    ) -> Result<Boundary, LogError> {
        let found = self.usable(self.offsets.lookup_position(wanted));
        let hint = found.map_or(0, |found| found.position);
        if hint > from.position
            && let Some(boundary) = self.floor_boundary_from(hint, None, wanted, end)?
        {
            return Ok(boundary);
        }
        let found = self.floor_boundary_from(from.position, Some(from), wanted, end)?;
        Ok(found.unwrap_or(from))
    }

    /// The same, walking from `start`, where `known` is a boundary; `None` if no batch is there.
    fn floor_boundary_from(
        &self,
        start: u64,
        known: Option<Boundary>,
        wanted: u64,
        end: Boundary,
    ) -> Result<Option<Boundary>, LogError> {
        let mut boundary = known;
        let mut headers = HeaderScan::new(self.file()?, self.path(), start, end.position);
        loop {
            match headers.next() {
                Ok(Some(batch)) if batch.end() <= wanted => {
                    boundary = Some(Boundary::after(&batch));
                }
                Ok(Some(batch)) => return Ok(Some(Boundary::before(&batch))),
                Ok(None) => return Ok(Some(end)),
                Err(LogError::Corrupt { .. }) => return Ok(boundary),
                Err(error) => return Err(error),
            }
        }
    }

    /// An offset before which there is no record with `timestamp` or a later one, but in the same
    /// batch.
    pub(crate) fn offset_before(&self, timestamp: TimestampMs) -> Offset {
        self.usable(self.times.lookup(timestamp)).map_or(self.base_offset(), |found| found.offset)
    }

    /// An offset before `end` up to which there is no larger timestamp than at that offset.
    pub(crate) fn largest_indexed_before(&self, end: Offset) -> Offset {
        self.usable(self.times.lookup_offset(end)).map_or(self.base_offset(), |found| found.offset)
    }

    /// The headers from the batch on that [`Segment::find_batch`] finds.
    pub(crate) fn headers_from(
        &self,
        offset: Offset,
        end: u64,
    ) -> Result<HeaderScan<'_>, LogError> {
        let start = self.find_batch(offset, end)?.map_or(end, |batch| batch.position);
        Ok(HeaderScan::new(self.file()?, self.path(), start, end))
    }

    /// Walks from `from` on. Damage on the way is passed over by way of the index, as recovery
    /// left it; but if the offset may have been in it, the damage is the answer.
    fn find_batch_from(
        &self,
        from: u64,
        offset: Offset,
        end: u64,
    ) -> Result<Option<ScannedBatch>, LogError> {
        let mut damage = None;
        let mut headers = HeaderScan::new(self.file()?, self.path(), from, end);
        loop {
            match headers.next() {
                Ok(Some(batch)) if batch.header.last_offset() < offset => {}
                Ok(Some(batch)) if batch.header.base_offset <= offset => return Ok(Some(batch)),
                Ok(found) => return damage.map_or(Ok(found), Err),
                Err(LogError::Corrupt { path, position, reason }) => {
                    let Some(resumed) = self.offsets.next_position(position)? else {
                        return Err(LogError::Corrupt { path, position, reason });
                    };
                    headers.seek(resumed.position);
                    damage = Some(LogError::Corrupt { path, position, reason });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Where a scan for `offset` can begin. The index is a hint: without it the scan is longer.
    fn hint(&self, offset: Offset, end: u64) -> u64 {
        let found = self.usable(self.offsets.lookup(offset));
        found.map_or(0, |found| if found.position < end { found.position } else { 0 })
    }

    /// What an index said, if it can be read.
    fn usable<T>(&self, found: Result<T, LogError>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(error) => {
                let segment = self.path().display();
                tracing::warn!(%segment, %error, "an index cannot be used; scanning without it");
                None
            }
        }
    }
}
