//! Bytes that may be written past the page cache.

use std::ops::Range;

use crate::fs::DIRECT_BLOCK_BYTES;

/// A larger buffer is given back when it is cleared.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes that begin at a multiple of [`DIRECT_BLOCK_BYTES`] in memory, in a buffer that is used again.
#[derive(Debug, Default)]
pub(super) struct BlockBuffer {
    /// Some that are of no use, then those that count.
    bytes: Vec<u8>,
    /// How many are of no use.
    skipped: usize,
}

impl BlockBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.skipped
    }

    pub(super) fn clear(&mut self) {
        self.bytes.truncate(self.skipped);
        if self.bytes.capacity() > KEPT_BYTES + 2 * DIRECT_BLOCK_BYTES {
            *self = BlockBuffer::default();
        }
    }

    /// Has `put` add `added_bytes` at most behind what is there; returns where they are.
    pub(super) fn extend(
        &mut self,
        added_bytes: usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> Range<usize> {
        self.reserve(added_bytes);
        let (before, memory) = (self.len(), self.bytes.as_ptr());
        put(&mut self.bytes);
        debug_assert_eq!(memory, self.bytes.as_ptr(), "no more was added than was said");
        before..self.len()
    }

    /// Keeps the first `head_bytes` and some ranges behind them, in their order, and moves these together.
    pub(super) fn keep(&mut self, head_bytes: usize, ranges: &[Range<usize>]) {
        let mut end = head_bytes;
        for range in ranges {
            if range.start != end {
                self.as_mut_slice().copy_within(range.clone(), end);
            }
            end += range.len();
        }
        self.bytes.truncate(self.skipped + end);
    }

    /// Adds zeros up to a multiple of [`DIRECT_BLOCK_BYTES`].
    pub(super) fn fill_block(&mut self) {
        let len = self.len().next_multiple_of(DIRECT_BLOCK_BYTES);
        self.reserve(len - self.len());
        self.bytes.resize(self.skipped + len, 0);
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.skipped..]
    }

    /// Makes sure that so many more find room where they are aligned.
    fn reserve(&mut self, added_bytes: usize) {
        if self.bytes.capacity() - self.bytes.len() >= added_bytes {
            return;
        }
        let len = (self.len() + added_bytes).next_power_of_two().max(DIRECT_BLOCK_BYTES);
        let mut bytes: Vec<u8> = Vec::with_capacity(len + DIRECT_BLOCK_BYTES);
        let skipped = bytes.as_ptr().align_offset(DIRECT_BLOCK_BYTES);
        bytes.resize(skipped, 0);
        bytes.extend_from_slice(&self.bytes[self.skipped..]);
        *self = BlockBuffer { bytes, skipped };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buffer: &mut BlockBuffer, expected: &[u8]) {
        let content = buffer.as_mut_slice();
        assert!(content.as_ptr().addr().is_multiple_of(DIRECT_BLOCK_BYTES), "it is aligned");
        assert_eq!(content, expected);
    }

    #[test]
    fn what_is_added_stays_aligned_and_as_it_was() {
        let mut buffer = BlockBuffer::default();
        for _ in 0..3 {
            let mut expected = Vec::new();
            for number in 0..100_u8 {
                let piece = vec![number; 31 * usize::from(number)];
                let range = buffer.extend(piece.len(), |out| out.extend_from_slice(&piece));
                assert_eq!(range, expected.len()..expected.len() + piece.len());
                expected.extend_from_slice(&piece);
                if !expected.is_empty() {
                    check(&mut buffer, &expected);
                }
            }
            buffer.clear();
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn ranges_that_are_kept_are_moved_together_and_filled_up_with_zeros() {
        let mut buffer = BlockBuffer::default();
        buffer.extend(9, |out| out.extend_from_slice(b"head12345"));
        buffer.keep(4, &[5..6, 7..9]);
        check(&mut buffer, b"head245");
        buffer.fill_block();
        let mut expected = b"head245".to_vec();
        expected.resize(DIRECT_BLOCK_BYTES, 0);
        check(&mut buffer, &expected);
        buffer.fill_block();
        check(&mut buffer, &expected);
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let mut buffer = BlockBuffer::default();
        buffer.extend(2 * KEPT_BYTES, |out| out.resize(out.len() + 2 * KEPT_BYTES, 1));
        buffer.clear();
        assert_eq!(buffer.bytes.capacity(), 0);
    }
}
