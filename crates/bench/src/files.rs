//! Writing files with errors that name them.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Writes a whole file, or replaces it.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Creates a directory with those above it; one that is there is as good.
pub(crate) fn create_directory(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
}
