//! Replacements by cleaned segments that a crash has interrupted.

use std::path::Path;

use logway_model::Offset;

use super::listing::Listing;
use crate::LogError;
use crate::cleaner::{finish_swap, swap_path};
use crate::fs::{Fs, OpenMode};
use crate::scan::HeaderScan;

/// Finishes the replacements that count.
///
/// # Errors
///
/// [`LogError::Corrupt`] if a cleaned segment cannot be read, so that nobody knows what it is to
/// replace; [`LogError::Io`].
pub(super) fn finish_swaps(fs: &dyn Fs, dir: &Path, listing: &Listing) -> Result<(), LogError> {
    for &base_offset in &listing.swaps {
        let end = end_of(fs, &swap_path(dir, base_offset))?;
        let is_replaced = |offset: &Offset| *offset > base_offset && *offset < end;
        let segments = listing.segments.iter().map(|segment| segment.base_offset);
        let mut others: Vec<Offset> =
            segments.chain(listing.orphans.iter().copied()).filter(is_replaced).collect();
        others.dedup();
        tracing::info!(
            dir = %dir.display(), %base_offset, %end,
            "a crash has interrupted the compaction of the log, which is finished"
        );
        finish_swap(fs, dir, base_offset, &others)?;
    }
    Ok(())
}

/// The offset after the last batch of a file.
fn end_of(fs: &dyn Fs, path: &Path) -> Result<Offset, LogError> {
    let file = fs.open(path, OpenMode::Read).map_err(LogError::io("open", path))?;
    let size_bytes = file.len().map_err(LogError::io("look at", path))?;
    let mut headers = HeaderScan::new(file, path, 0, size_bytes);
    let mut end = None;
    while let Some(batch) = headers.next()? {
        end = Some(batch.header.next_offset());
    }
    end.ok_or_else(|| LogError::Corrupt {
        path: path.to_owned(),
        position: 0,
        reason: "a cleaned segment has at least one batch".to_owned(),
    })
}
