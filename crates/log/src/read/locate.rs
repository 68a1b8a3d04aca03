//! From an offset to a place in a segment's file.

use logway_model::Offset;

use crate::LogError;
use crate::scan::{HeaderScan, ScannedBatch};
use crate::segment::Segment;

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

    /// The last place at or before `limit` where a batch begins; `from` is one.
    pub(crate) fn floor_boundary(
        &self,
        from: u64,
        limit: u64,
        end: u64,
    ) -> Result<u64, LogError> {
        let hint = match self.offsets.lookup_position(limit) {
            Ok(found) => found.position.max(from),
            Err(error) => {
                self.warn_of_index(&error);
                from
            }
        };
        let mut scan = HeaderScan::new(self.file()?, self.path(), hint, end);
        let mut boundary = hint;
        while let Some(batch) = scan.next()? {
            if batch.end() > limit {
                break;
            }
            boundary = batch.end();
        }
        Ok(boundary)
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
        match self.offsets.lookup(offset) {
            Ok(found) if found.position < end => found.position,
            Ok(_) => 0,
            Err(error) => {
                self.warn_of_index(&error);
                0
            }
        }
    }

    fn warn_of_index(&self, error: &LogError) {
        tracing::warn!(
            segment = %self.path().display(),
            %error,
            "the offset index cannot be used; scanning without it"
        );
    }
}
