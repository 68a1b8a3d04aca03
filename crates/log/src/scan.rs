//! Walking the batches of a segment file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use logway_record::{BATCH_HEADER_BYTES, Batch, BatchHeader, CRC_COVERS_FROM};

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
/// It reads a piece of the file at a time. A batch longer than that is read as a whole only when
/// its CRC, summed up piece by piece, was found to be right: a damaged length makes nobody
/// allocate for it.
pub(crate) struct BatchScan {
    file: Arc<dyn File>,
    path: PathBuf,
    position: u64,
    end: u64,
    piece: Bytes,
}

/// What is read of a file at once: enough to keep a disk busy.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

impl BatchScan {
    /// A walk from `position` to the end of the file, `end`.
    pub(crate) fn new(file: Arc<dyn File>, path: &Path, position: u64, end: u64) -> BatchScan {
        BatchScan { file, path: path.to_owned(), position, end, piece: Bytes::new() }
    }

    /// Where the next batch begins, or, after an error, where the bad one does.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Goes on elsewhere.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
        self.piece = Bytes::new();
    }

    /// The next batch, whose CRC is right; `None` at the end.
    ///
    /// [`LogError::Corrupt`] where there is no good batch; the walk stays there.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, LogError> {
        if self.position >= self.end {
            return Ok(None);
        }
        self.fill(BATCH_HEADER_BYTES)?;
        let header =
            BatchHeader::parse(&self.piece).map_err(|error| self.corrupt(error.to_string()))?;
        let left = self.end - self.position;
        if header.size_bytes() as u64 > left {
            return Err(self.corrupt(format!(
                "the batch at offset {} takes {} bytes, but {left} are left",
                header.base_offset,
                header.size_bytes(),
            )));
        }
        if header.size_bytes() as u64 > PIECE_BYTES {
            self.check_long(&header)?;
        }
        self.fill(header.size_bytes())?;
        let mut rest = self.piece.clone();
        let batch =
            Batch::split_first(&mut rest).map_err(|error| self.corrupt(error.to_string()))?;
        batch.verify_crc().map_err(|error| self.corrupt(error.to_string()))?;
        self.position += batch.size_bytes() as u64;
        self.piece = rest;
        Ok(Some(batch))
    }

    /// Makes at least `wanted` bytes of the file from here on available, or all there are.
    fn fill(&mut self, wanted: usize) -> Result<(), LogError> {
        if self.piece.len() >= wanted {
            return Ok(());
        }
        let left = self.end - self.position;
        let read_bytes = (wanted as u64).max(PIECE_BYTES).min(left);
        let read_bytes = usize::try_from(read_bytes).expect("a batch's size is a usize");
        let mut piece = BytesMut::zeroed(read_bytes);
        let read = read_full_at(&*self.file, &mut piece, self.position)
            .map_err(LogError::io("read", &self.path))?;
        piece.truncate(read);
        self.piece = piece.freeze();
        Ok(())
    }

    /// Checks the CRC of a long batch without having all of it in memory.
    fn check_long(&self, header: &BatchHeader) -> Result<(), LogError> {
        let end = self.position + header.size_bytes() as u64;
        let mut position = self.position + CRC_COVERS_FROM as u64;
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut piece = vec![0; PIECE_BYTES as usize];
        while position < end {
            let wanted = usize::try_from(end - position).unwrap_or(usize::MAX).min(piece.len());
            read_exact_at(&*self.file, &mut piece[..wanted], position)
                .map_err(LogError::io("read", &self.path))?;
            digest.update(&piece[..wanted]);
            position += wanted as u64;
        }
        if digest.finalize() == u64::from(header.crc) {
            return Ok(());
        }
        let (offset, bytes) = (header.base_offset, header.size_bytes());
        Err(self
            .corrupt(format!("the CRC of the batch of {bytes} bytes at offset {offset} is wrong")))
    }

    fn corrupt(&self, reason: String) -> LogError {
        LogError::Corrupt { path: self.path.clone(), position: self.position, reason }
    }
}
