//! Walking the batches of a segment file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use logway_record::{BATCH_HEADER_BYTES, Batch, BatchHeader, CRC_COVERS_FROM, RecordError};

use crate::LogError;
use crate::fs::{File, read_exact_at, read_full_at};

/// A batch found in a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScannedBatch {
    /// Where it begins, in bytes from the file's start.
    pub(crate) position: u64,
    /// Its header.
    pub(crate) header: BatchHeader,
}

impl ScannedBatch {
    /// Where the next batch begins.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.header.size_bytes() as u64
    }
}

/// Walks the headers of the batches in a part of a segment file; the records are passed over.
///
/// It reads a page at a time, so that a run of small batches costs one system call and a big batch
/// no more than its header.
pub(crate) struct HeaderScan<'a> {
    file: Arc<dyn File>,
    path: &'a Path,
    position: u64,
    end: u64,
    page: [u8; PAGE_BYTES],
    page_position: u64,
    page_len: usize,
    read_bytes: u64,
}

const PAGE_BYTES: usize = 4096;

impl<'a> HeaderScan<'a> {
    /// A walk from `position`, which must be the beginning of a batch, to `end`, which must be
    /// the end of one.
    pub(crate) fn new(file: Arc<dyn File>, path: &'a Path, position: u64, end: u64) -> Self {
        let page = [0; PAGE_BYTES];
        let (page_position, page_len, read_bytes) = (position, 0, 0);
        HeaderScan { file, path, position, end, page, page_position, page_len, read_bytes }
    }

    /// The bytes that were read since the last call.
    pub(crate) fn take_read_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.read_bytes)
    }

    /// The next batch; `None` at the end.
    ///
    /// [`LogError::Corrupt`] where there is no batch, after which the walk cannot go on.
    pub(crate) fn next(&mut self) -> Result<Option<ScannedBatch>, LogError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let header = BatchHeader::parse(self.header_bytes()?)
            .map_err(|error| self.corrupt(error.to_string()))?;
        let batch = ScannedBatch { position: self.position, header };
        if batch.end() > self.end {
            return Err(self.corrupt(format!(
                "the batch at offset {} takes {} bytes, but {} are left",
                header.base_offset,
                header.size_bytes(),
                self.end - self.position
            )));
        }
        self.position = batch.end();
        Ok(Some(batch))
    }

    /// Goes on elsewhere, at the beginning of a batch.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    fn header_bytes(&mut self) -> Result<&[u8], LogError> {
        let page_end = self.page_position + self.page_len as u64;
        let is_paged = (self.page_position..=page_end).contains(&self.position)
            && self.position + BATCH_HEADER_BYTES as u64 <= page_end;
        if !is_paged {
            self.page_position = self.position;
            self.page_len = read_full_at(&*self.file, &mut self.page, self.position)
                .map_err(LogError::io("read", self.path))?;
            self.read_bytes += self.page_len as u64;
        }
        let from = (self.position - self.page_position) as usize;
        let to = (from + BATCH_HEADER_BYTES).min(self.page_len);
        Ok(&self.page[from..to])
    }

    fn corrupt(&self, reason: String) -> LogError {
        LogError::Corrupt { path: self.path.to_owned(), position: self.position, reason }
    }
}

/// Reads the batch that a scan found, all of it.
pub(crate) fn read_batch(
    file: &dyn File,
    path: &Path,
    batch: &ScannedBatch,
) -> Result<Batch, LogError> {
    let mut bytes = BytesMut::zeroed(batch.header.size_bytes());
    read_exact_at(file, &mut bytes, batch.position).map_err(LogError::io("read", path))?;
    Batch::parse(bytes.freeze()).map_err(|error| LogError::Corrupt {
        path: path.to_owned(),
        position: batch.position,
        reason: error.to_string(),
    })
}

/// Walks the batches of a segment file and checks each to its last byte.
///
/// It reads a piece of the file at a time, always into the same memory, so that no batch makes it
/// allocate: neither a long one, nor one whose length is damaged.
pub(crate) struct BatchScan {
    file: Arc<dyn File>,
    path: PathBuf,
    position: u64,
    end: u64,
    piece: Vec<u8>,
    piece_position: u64,
    piece_len: usize,
}

/// What is read of a file at once: few system calls, and it stays in the processor's cache until its
/// CRC is computed.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

impl BatchScan {
    /// A walk from `position` to the end of the file, `end`.
    pub(crate) fn new(file: Arc<dyn File>, path: &Path, position: u64, end: u64) -> BatchScan {
        let (path, piece, piece_position) = (path.to_owned(), Vec::new(), position);
        BatchScan { file, path, position, end, piece, piece_position, piece_len: 0 }
    }

    /// Where the next batch begins, or, after an error, where the bad one does.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Goes on elsewhere.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// The header of the next batch, whose CRC is right; `None` at the end.
    ///
    /// [`LogError::Corrupt`] where there is no good batch; the walk stays there.
    pub(crate) fn next_header(&mut self) -> Result<Option<BatchHeader>, LogError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let parsed = BatchHeader::parse(self.bytes_at(self.position, BATCH_HEADER_BYTES)?);
        let header = parsed.map_err(|error| self.corrupt(error.to_string()))?;
        let left = self.end - self.position;
        if header.size_bytes() as u64 > left {
            return Err(self.corrupt(format!(
                "the batch at offset {} takes {} bytes, but {left} are left",
                header.base_offset,
                header.size_bytes(),
            )));
        }
        self.check_crc(&header)?;
        self.position += header.size_bytes() as u64;
        Ok(Some(header))
    }

    /// As [`BatchScan::next_header`], with the records.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, LogError> {
        let position = self.position;
        let Some(header) = self.next_header()? else { return Ok(None) };
        let size_bytes = header.size_bytes();
        if size_bytes > PIECE_BYTES {
            let batch = ScannedBatch { position, header };
            return read_batch(&*self.file, &self.path, &batch).map(Some);
        }
        let bytes = Bytes::copy_from_slice(&self.bytes_at(position, size_bytes)?[..size_bytes]);
        Batch::parse(bytes).map(Some).map_err(|error| self.corrupt(error.to_string()))
    }

    fn check_crc(&mut self, header: &BatchHeader) -> Result<(), LogError> {
        let end = self.position + header.size_bytes() as u64;
        let mut position = self.position + CRC_COVERS_FROM as u64;
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        while position < end {
            let bytes = self.bytes_at(position, 1)?;
            let left = usize::try_from(end - position).unwrap_or(usize::MAX);
            let covered = &bytes[..bytes.len().min(left)];
            if covered.is_empty() {
                return Err(self.corrupt(format!("the file ends within the batch, at {position}")));
            }
            digest.update(covered);
            position += covered.len() as u64;
        }
        let (stored, computed) = (header.crc, digest.finalize() as u32);
        if computed == stored {
            return Ok(());
        }
        let base_offset = header.base_offset;
        Err(self.corrupt(RecordError::BadCrc { base_offset, stored, computed }.to_string()))
    }

    /// The bytes from `position` on, as many as are at hand: at least `wanted`, which must not be
    /// more than a piece, unless the file ends before.
    fn bytes_at(&mut self, position: u64, wanted: usize) -> Result<&[u8], LogError> {
        let piece_end = self.piece_position + self.piece_len as u64;
        let is_at_hand = position >= self.piece_position && position + wanted as u64 <= piece_end;
        if !is_at_hand {
            let left = self.end.saturating_sub(position);
            let read_bytes = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            self.piece.resize(self.piece.len().max(read_bytes), 0);
            // Until it is read, there is nothing.
            (self.piece_position, self.piece_len) = (position, 0);
            self.piece_len = read_full_at(&*self.file, &mut self.piece[..read_bytes], position)
                .map_err(LogError::io("read", &self.path))?;
        }
        let from = (position - self.piece_position) as usize;
        Ok(&self.piece[from..self.piece_len])
    }

    fn corrupt(&self, reason: String) -> LogError {
        LogError::Corrupt { path: self.path.clone(), position: self.position, reason }
    }
}
