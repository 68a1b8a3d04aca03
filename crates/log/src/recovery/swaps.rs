//! Replacements by cleaned segments that a crash has interrupted.

use std::path::Path;

use logway_model::Offset;

use super::listing::Listing;
use crate::LogError;
use crate::cleaner::{end_of_cleaned, finish_swap, swap_path};
use crate::dir_syncs::DirSyncs;
use crate::file_names::{LOG_EXTENSION, file_path};
use crate::fs::Fs;

/// Finishes the replacements that count.
///
/// # Errors
///
/// [`LogError::Corrupt`] if a cleaned segment cannot be read, so that nobody knows what it is to
/// replace, or if what it would replace has more than it; [`LogError::Io`].
pub(super) fn finish_swaps(fs: &dyn Fs, dir: &Path, listing: &Listing) -> Result<(), LogError> {
    for &base_offset in &listing.swaps {
        let end = end_of_cleaned(fs, &swap_path(dir, base_offset))?;
        let is_replaced = |offset: &Offset| *offset > base_offset && *offset < end;
        let segments = listing.segments.iter().map(|segment| segment.base_offset);
        let mut others: Vec<Offset> =
            segments.chain(listing.orphans.iter().copied()).filter(is_replaced).collect();
        others.dedup();
        check_covers(fs, dir, base_offset, end, &others)?;
        tracing::info!(
            dir = %dir.display(), %base_offset, %end,
            "a crash has interrupted the compaction of the log, which is finished"
        );
        finish_swap(fs, &DirSyncs::new(dir), base_offset, &others)?;
    }
    Ok(())
}

/// A swap replaces segments that end where it does, or before: nothing that is not its.
fn check_covers(
    fs: &dyn Fs,
    dir: &Path,
    base_offset: Offset,
    end: Offset,
    others: &[Offset],
) -> Result<(), LogError> {
    for &replaced in [base_offset].iter().chain(others) {
        let path = file_path(dir, replaced, LOG_EXTENSION);
        if !fs.exists(&path).map_err(LogError::io("look for", &path))? {
            continue;
        }
        match end_of_cleaned(fs, &path) {
            Ok(end_of_replaced) if end_of_replaced > end => {
                let reason = format!(
                    "it has offsets up to {end_of_replaced}, but compaction is to replace it by \
                     a segment that ends at {end}"
                );
                return Err(LogError::Corrupt { path, position: 0, reason });
            }
            // What is damaged is replaced by what is not.
            Ok(_) | Err(LogError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
