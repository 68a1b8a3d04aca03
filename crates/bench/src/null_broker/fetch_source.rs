//! What fetches get.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use logway_record::{MAGIC_AT, MAGIC_V2};
use rustix::fs::sendfile;

/// Written in 64 KiB, so that the page cache has it in blocks of that size: no file is cheaper to send. A log of 16 KiB
/// batches has smaller ones, and takes up to half as much again of the processor (docs/experiments/the-file-behind-a-large-fetch.md).
///
/// As much as a quick run reads of a broker, and on the same file system: a file in memory lies there page by
/// page, and costs up to half as much again as one whose pages lie together. What is sent again and again from a smaller file comes from the
/// processor's cache, and costs half of what a broker's log does, which comes from memory.
const SOURCE_BYTES: u64 = 256 << 20;

/// Where fetches may begin.
const STEP_BYTES: u64 = 64 << 10;

/// A file that is made when it is first needed, and goes with the process.
#[derive(Debug)]
pub(super) struct FetchSource {
    directory: PathBuf,
    file: OnceLock<OwnedFd>,
    /// Held by the connection that makes it.
    making: Mutex<()>,
}

/// Where one connection goes on.
#[derive(Debug, Default)]
pub(super) struct FetchPosition(u64);

impl FetchSource {
    /// One in that directory.
    pub(super) fn new(directory: PathBuf) -> FetchSource {
        FetchSource { directory, file: OnceLock::new(), making: Mutex::new(()) }
    }

    /// Sends so many bytes, which look like a batch where anybody looks.
    pub(super) fn send(
        &self,
        stream: &TcpStream,
        position: &mut FetchPosition,
        bytes: usize,
    ) -> io::Result<()> {
        let file = self.file()?;
        let mut missing = bytes;
        while missing > 0 {
            let left = usize::try_from(SOURCE_BYTES - position.0).unwrap_or(usize::MAX);
            let sent = sendfile(stream, file, Some(&mut position.0), missing.min(left))?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            missing -= sent;
            if position.0 == SOURCE_BYTES {
                position.0 = 0;
            }
        }
        position.0 = position.0.next_multiple_of(STEP_BYTES) % SOURCE_BYTES;
        Ok(())
    }

    /// Makes it, if nobody has.
    fn file(&self) -> io::Result<&OwnedFd> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let made = make(&self.directory)?;
        Ok(self.file.get_or_init(|| made))
    }
}

fn make(directory: &Path) -> io::Result<OwnedFd> {
    let path = directory.join(format!("logway-bench-null-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    // Holes would cost nothing to send.
    let mut step = vec![0; STEP_BYTES as usize];
    step[MAGIC_AT] = MAGIC_V2 as u8;
    for at in (0..SOURCE_BYTES).step_by(step.len()) {
        file.write_all_at(&step, at)?;
    }
    Ok(file.into())
}
