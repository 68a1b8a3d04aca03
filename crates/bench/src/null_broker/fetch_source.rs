//! What every fetch gets.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use logway_record::{MAGIC_AT, MAGIC_V2};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};

/// As much as the largest fetch that the experiments make.
const SOURCE_BYTES: u64 = 16 << 20;

/// A file in memory that looks like a batch where anybody looks.
#[derive(Debug)]
pub(super) struct FetchSource {
    file: OwnedFd,
}

impl FetchSource {
    pub(super) fn new() -> io::Result<FetchSource> {
        let file = memfd_create("logway-bench-null", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, SOURCE_BYTES)?;
        // Holes would cost nothing to send.
        let zeros = vec![0; 1 << 20];
        for at in (0..SOURCE_BYTES).step_by(zeros.len()) {
            rustix::io::pwrite(&file, &zeros, at)?;
        }
        rustix::io::pwrite(&file, &[MAGIC_V2 as u8], MAGIC_AT as u64)?;
        Ok(FetchSource { file })
    }

    /// Sends so many bytes.
    pub(super) fn send(&self, stream: &TcpStream, bytes: usize) -> io::Result<()> {
        let mut missing = bytes;
        while missing > 0 {
            let mut at = 0;
            let sent =
                sendfile(stream, &self.file, Some(&mut at), missing.min(SOURCE_BYTES as usize))?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            missing -= sent;
        }
        Ok(())
    }
}
