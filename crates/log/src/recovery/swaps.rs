//! Replacements by cleaned segments that a crash has interrupted.

use std::path::Path;

use logway_model::Offset;

use super::listing::Listing;
use crate::LogError;
use crate::cleaner::{end_of_cleaned, finish_swap, swap_path};
use crate::fs::Fs;

/// Finishes the replacements that count.
///
/// # Errors
///
/// [`LogError::Corrupt`] if a cleaned segment cannot be read, so that nobody knows what it is to
/// replace; [`LogError::Io`].
pub(super) fn finish_swaps(fs: &dyn Fs, dir: &Path, listing: &Listing) -> Result<(), LogError> {
    for &base_offset in &listing.swaps {
        let end = end_of_cleaned(fs, &swap_path(dir, base_offset))?;
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
