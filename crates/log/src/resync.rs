//! Finding the way back to good batches behind damage.

use std::path::Path;
use std::sync::Arc;

use logway_model::Offset;
use logway_record::{BATCH_HEADER_BYTES, BatchHeader};

use crate::LogError;
use crate::fs::{File, read_full_at};
use crate::scan::BatchScan;

/// What is searched at once.
const WINDOW_BYTES: usize = 1 << 20;

/// A segment file in which good batches are looked for.
pub(crate) struct Search<'a> {
    pub(crate) file: &'a Arc<dyn File>,
    pub(crate) path: &'a Path,
    /// The offset that the segment begins with.
    pub(crate) base_offset: Offset,
    /// How far the file may be read.
    pub(crate) len_bytes: u64,
    /// The least offset that a batch behind the damage can have.
    pub(crate) end: Offset,
}

impl Search<'_> {
    /// The next place behind `bad` where a good batch begins.
    ///
    /// The place where the bad batch claims to end comes first: usually it is only its records
    /// that are damaged. Else every byte is tried; a false find would need the right CRC.
    pub(crate) fn find_batch_after(&self, bad: u64) -> Result<Option<u64>, LogError> {
        let mut header = [0; BATCH_HEADER_BYTES];
        let read = self.read(&mut header, bad)?;
        if let Ok(header) = BatchHeader::parse(&header[..read]) {
            let successor = bad.saturating_add(header.size_bytes() as u64);
            if self.is_good(successor)? {
                return Ok(Some(successor));
            }
        }
        self.try_every_byte(bad + 1)
    }

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
        let relative = base_offset - self.base_offset;
        base_offset >= self.end && relative <= i64::from(i32::MAX)
    }

    fn is_good(&self, position: u64) -> Result<bool, LogError> {
        let mut scan = BatchScan::new(Arc::clone(self.file), self.path, position, self.len_bytes);
        match scan.next_header() {
            Ok(Some(header)) => Ok(self.is_plausible(header.base_offset)),
            Ok(None) | Err(LogError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self, buf: &mut [u8], position: u64) -> Result<usize, LogError> {
        let left = self.len_bytes.saturating_sub(position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        read_full_at(&**self.file, &mut buf[..len], position)
            .map_err(LogError::io("read", self.path))
    }
}
