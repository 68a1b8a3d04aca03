//! A snapshot that is being read or received: an open file.

use std::fmt;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use logway_log::fs::{File, read_full_at};

use crate::error::QuorumError;

/// Far more than the metadata of a cluster takes; a longer file is not a snapshot.
pub(super) const SNAPSHOT_MAX_BYTES: u64 = 1 << 30;

/// So much is read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// No record is longer.
const LINE_MAX_BYTES: usize = 64 << 20;

/// An open file with a snapshot. It can be read after another file has taken its name.
#[derive(Clone)]
pub(crate) struct SnapshotData {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    /// How long it was when it was opened.
    pub(super) len: u64,
}

impl SnapshotData {
    pub(super) fn new(file: Arc<dyn File>, path: PathBuf) -> Result<SnapshotData, QuorumError> {
        let len = file.len().map_err(QuorumError::io("measure", &path))?;
        Ok(SnapshotData { file, path, len })
    }

    /// Writes a part of what another node sends.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), QuorumError> {
        let written = self.file.write_all_at(&[IoSlice::new(bytes)], offset);
        written.map_err(QuorumError::io("write", &self.path))
    }

    /// Reads until the buffer is full or the file ends.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, QuorumError> {
        read_full_at(&*self.file, buffer, offset).map_err(QuorumError::io("read", &self.path))
    }
}

impl fmt::Debug for SnapshotData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotData").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reads a file line by line.
pub(super) struct LineReader<'d> {
    data: &'d SnapshotData,
    offset: u64,
    /// What was read; the part before `taken` was given out.
    buffer: Vec<u8>,
    taken: usize,
}

impl LineReader<'_> {
    pub(super) fn new(data: &SnapshotData) -> LineReader<'_> {
        LineReader { data, offset: 0, buffer: Vec::new(), taken: 0 }
    }

    /// The next line with its end, or `None` after the last one. A line without an end is an error.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut searched = self.taken;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let end = searched + at + 1;
                let line = self.buffer[self.taken..end].to_vec();
                self.taken = end;
                return Ok(Some(line));
            }
            if self.offset > SNAPSHOT_MAX_BYTES || self.buffer.len() - self.taken > LINE_MAX_BYTES {
                return Err("it is too long".to_owned());
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            searched = self.buffer.len();
            self.buffer.resize(searched + BUFFER_BYTES, 0);
            let read = self.data.read_at(&mut self.buffer[searched..], self.offset);
            let read = read.map_err(|error| error.to_string())?;
            self.buffer.truncate(searched + read);
            self.offset += read as u64;
            match read {
                0 if searched == 0 => return Ok(None),
                0 => return Err("it is cut off".to_owned()),
                _ => {}
            }
        }
    }
}
