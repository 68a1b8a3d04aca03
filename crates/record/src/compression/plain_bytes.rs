//! Uncompressed bytes that are passed through once.

use super::output::DecompressFailure;
use super::{Compression, Decompressor, PIECE_BYTES};
use crate::{DecodeLimit, RecordProblem};

/// Bytes from which is taken at the front.
pub(crate) trait PlainBytes {
    /// Some of the bytes that come next: at least `wanted`, which is at most [`WINDOW_BYTES_MAX`],
    /// or all that are left.
    fn window(&mut self, wanted: usize) -> Result<&[u8], DecompressFailure>;

    /// Takes bytes that the last window has shown.
    fn consume(&mut self, bytes: usize);

    /// Takes so many bytes; false if there are fewer.
    fn skip(&mut self, bytes: usize) -> Result<bool, DecompressFailure>;

    /// What a window can show without unpacking anything more.
    fn at_hand(&self) -> &[u8];

    /// Is told of a record, from the fields that were taken last: the distance of its timestamp from
    /// the base timestamp, and how many bytes of it follow.
    #[inline(always)]
    fn on_record_front(
        &mut self,
        _timestamp_delta_ms: i64,
        _content_bytes: usize,
    ) -> Result<(), RecordProblem> {
        Ok(())
    }
}

/// The most that can be asked of a window; no integer takes more.
pub(crate) const WINDOW_BYTES_MAX: usize = 16;

impl PlainBytes for &[u8] {
    #[inline(always)]
    fn window(&mut self, _wanted: usize) -> Result<&[u8], DecompressFailure> {
        Ok(self)
    }

    #[inline(always)]
    fn consume(&mut self, bytes: usize) {
        *self = &self[bytes..];
    }

    #[inline(always)]
    fn skip(&mut self, bytes: usize) -> Result<bool, DecompressFailure> {
        let Some(rest) = self.get(bytes..) else { return Ok(false) };
        *self = rest;
        Ok(true)
    }

    #[inline(always)]
    fn at_hand(&self) -> &[u8] {
        self
    }
}

/// The bytes that a decompressor gives out, a piece at a time.
pub(crate) struct Unpacking<'a> {
    decompressor: Decompressor<'a>,
    piece: Vec<u8>,
    from: usize,
    to: usize,
    is_at_end: bool,
    /// What may still be unpacked.
    left_bytes: usize,
}

impl<'a> Unpacking<'a> {
    /// Unpacks `compressed`, no more than the limit allows.
    pub(crate) fn new(
        codec: Compression,
        compressed: &'a [u8],
        limit: DecodeLimit,
    ) -> Result<Unpacking<'a>, DecompressFailure> {
        let decompressor = Decompressor::new(codec, compressed, limit)?;
        let (piece, left_bytes) = (vec![0; PIECE_BYTES], limit.bytes());
        Ok(Unpacking { decompressor, piece, from: 0, to: 0, is_at_end: false, left_bytes })
    }

    /// Unpacks more behind what has not been taken yet.
    fn fill(&mut self) -> Result<(), DecompressFailure> {
        self.piece.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        let read = self.decompressor.read(&mut self.piece[self.to..])?;
        self.left_bytes = self.left_bytes.checked_sub(read).ok_or(DecompressFailure::TooLarge)?;
        self.to += read;
        self.is_at_end = read == 0;
        Ok(())
    }
}

impl PlainBytes for Unpacking<'_> {
    #[inline]
    fn window(&mut self, wanted: usize) -> Result<&[u8], DecompressFailure> {
        debug_assert!(wanted <= WINDOW_BYTES_MAX, "a fill has room for what is wanted");
        while self.to - self.from < wanted && !self.is_at_end {
            self.fill()?;
        }
        Ok(&self.piece[self.from..self.to])
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.from += bytes;
        debug_assert!(self.from <= self.to, "only what a window has shown is consumed");
    }

    fn skip(&mut self, bytes: usize) -> Result<bool, DecompressFailure> {
        let mut left = bytes;
        loop {
            let taken = left.min(self.to - self.from);
            self.from += taken;
            left -= taken;
            if left == 0 {
                return Ok(true);
            }
            if self.is_at_end {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    fn at_hand(&self) -> &[u8] {
        &self.piece[self.from..self.to]
    }
}
