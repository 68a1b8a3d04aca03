//! Finding the way back to good batches behind damage.

use std::sync::Arc;

use logway_model::Offset;
use logway_record::{BATCH_HEADER_BYTES, BatchHeader};

use crate::LogError;
use crate::fs::{File, read_full_at};
use crate::scan::BatchScan;
use crate::segment::Segment;

/// What is searched at once.
const WINDOW_BYTES: usize = 1 << 20;

/// The next place behind `bad` where a good batch begins, whose offset is `end` or later.
///
/// The place where the bad batch claims to end comes first: usually it is only its records that
/// are damaged. Else every byte is tried; a false find would need the right CRC.
pub(super) fn find_batch_after(
    file: &Arc<dyn File>,
    segment: &Segment,
    bad: u64,
    end: Offset,
) -> Result<Option<u64>, LogError> {
    let search = Search { file, segment, end };
    let mut header = [0; BATCH_HEADER_BYTES];
    let read = search.read(&mut header, bad)?;
    if let Ok(header) = BatchHeader::parse(&header[..read]) {
        let successor = bad.saturating_add(header.size_bytes() as u64);
        if search.is_good(successor)? {
            return Ok(Some(successor));
        }
    }
    search.try_every_byte(bad + 1)
}

struct Search<'a> {
    file: &'a Arc<dyn File>,
    segment: &'a Segment,
    end: Offset,
}

impl Search<'_> {
    fn try_every_byte(&self, from: u64) -> Result<Option<u64>, LogError> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut start = from;
        loop {
            let read = self.read(&mut window, start)?;
            let Some(places) = read.checked_sub(BATCH_HEADER_BYTES) else { return Ok(None) };
            for place in 0..=places {
                let position = start + place as u64;
                if self.may_begin(&window[place..read]) && self.is_good(position)? {
                    return Ok(Some(position));
                }
            }
            start += places as u64 + 1;
        }
    }

    /// Whether a batch that this log could have begins with these bytes; cheap.
    fn may_begin(&self, bytes: &[u8]) -> bool {
        BatchHeader::parse(bytes).is_ok_and(|header| self.is_plausible(header.base_offset))
    }

    fn is_plausible(&self, base_offset: Offset) -> bool {
        let relative = base_offset - self.segment.base_offset();
        base_offset >= self.end && relative <= i64::from(i32::MAX)
    }

    fn is_good(&self, position: u64) -> Result<bool, LogError> {
        let limit = self.segment.size_bytes();
        let mut scan = BatchScan::new(Arc::clone(self.file), self.segment.path(), position, limit);
        match scan.next() {
            Ok(Some(batch)) => Ok(self.is_plausible(batch.base_offset())),
            Ok(None) | Err(LogError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self, buf: &mut [u8], position: u64) -> Result<usize, LogError> {
        let left = self.segment.size_bytes().saturating_sub(position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        read_full_at(&**self.file, &mut buf[..len], position)
            .map_err(LogError::io("read", self.segment.path()))
    }
}
