//! A disk with the files of an input.

use std::io::IoSlice;
use std::path::Path;

use logway_log::fs::{Fs, OpenMode, SimFs};

/// A simulated disk takes some times what is written to it.
pub(crate) fn bytes_max(input: &[u8]) -> usize {
    (1 << 20) + 64 * input.len()
}

/// Makes a file with this content.
pub(crate) fn put(fs: &SimFs, path: impl AsRef<Path>, content: &[u8]) {
    let file = fs.open(path.as_ref(), OpenMode::CreateTruncate).expect("the disk works");
    file.write_all_at(&[IoSlice::new(content)], 0).expect("the disk works");
}
