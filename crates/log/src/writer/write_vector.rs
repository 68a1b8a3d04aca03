//! One vectored write in the making.

use std::io::{self, IoSlice};

use bytes::Bytes;
use logway_record::{BATCH_HEADER_BYTES, Batch, PatchedHeader};

use crate::fs::File;

/// Batches to be written one after the other, with the headers that the log gave them.
///
/// Headers and short bodies are gathered in one buffer, which is used again for each write; long
/// bodies stay in the buffers that they were received in. So a group of small batches is one slice
/// for the kernel, and a big batch is never copied.
#[derive(Debug, Default)]
pub(crate) struct WriteVector {
    pieces: Vec<Piece>,
    gathered: Vec<u8>,
    size_bytes: u64,
}

#[derive(Debug)]
enum Piece {
    /// So many of the gathered bytes, after those of the pieces before.
    Gathered(usize),
    Received(Bytes),
}

/// Up to here a copy is cheaper than two more slices of a `pwritev`.
const GATHERED_BODY_MAX_BYTES: usize = 4096;

/// A larger buffer is given back after the burst that needed it.
const GATHERED_KEPT_BYTES: usize = 1 << 20;

impl WriteVector {
    /// Adds a batch with its new header.
    pub(crate) fn push(&mut self, header: &PatchedHeader, batch: &Batch) {
        self.size_bytes += batch.size_bytes() as u64;
        self.gather(&header.bytes());
        if batch.size_bytes() - BATCH_HEADER_BYTES <= GATHERED_BODY_MAX_BYTES {
            self.gather(&batch.bytes()[BATCH_HEADER_BYTES..]);
        } else {
            self.pieces.push(Piece::Received(batch.body()));
        }
    }

    /// The bytes of all batches.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Writes everything from `position` on; after an error any part may have been written.
    pub(crate) fn write_to(&self, file: &dyn File, position: u64) -> io::Result<()> {
        let mut slices = Vec::with_capacity(self.pieces.len());
        let mut gathered = &self.gathered[..];
        for piece in &self.pieces {
            slices.push(match piece {
                Piece::Received(bytes) => IoSlice::new(bytes),
                Piece::Gathered(len) => {
                    let (piece, rest) = gathered.split_at(*len);
                    gathered = rest;
                    IoSlice::new(piece)
                }
            });
        }
        file.write_all_at(&slices, position)
    }

    /// Puts everything behind what is in `out`.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        let mut gathered = &self.gathered[..];
        for piece in &self.pieces {
            match piece {
                Piece::Received(bytes) => out.extend_from_slice(bytes),
                Piece::Gathered(len) => {
                    let (piece, rest) = gathered.split_at(*len);
                    gathered = rest;
                    out.extend_from_slice(piece);
                }
            }
        }
    }

    /// Forgets the batches and keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.gathered.clear();
        self.gathered.shrink_to(GATHERED_KEPT_BYTES);
        self.size_bytes = 0;
    }

    fn gather(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
        match self.pieces.last_mut() {
            Some(Piece::Gathered(len)) => *len += bytes.len(),
            _ => self.pieces.push(Piece::Gathered(bytes.len())),
        }
    }
}
