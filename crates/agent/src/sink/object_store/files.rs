//! Objects as files: written under another name, synced, and renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::PART;

/// As Linux has it (`PATH_MAX`).
pub(super) const PATH_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Files;

impl Files {
    /// Writes a file. When this returns, it is on stable storage under its name.
    pub(super) fn put(&mut self, directory: &str, name: &str, body: &[u8]) -> Result<(), String> {
        // Waits for the disk: others have the runtime's other threads meanwhile.
        let written = tokio::task::block_in_place(|| write(Path::new(directory), name, body));
        written.map_err(|error| format!("{directory}{name}: {error}"))
    }
}

fn write(directory: &Path, name: &str, body: &[u8]) -> io::Result<()> {
    make_durably(directory)?;
    let part = directory.join(format!("{name}{PART}"));
    let mut file = File::create(&part)?;
    file.write_all(body)?;
    file.sync_all()?;
    fs::rename(&part, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// Makes a directory and those above it, and syncs each one's entry.
fn make_durably(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let Some(parent) = directory.parent() else { return Ok(()) };
    make_durably(parent)?;
    match fs::create_dir(directory) {
        // Another sink was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    File::open(parent)?.sync_all()
}
