//! Files that say something about a log that is not so any more.

use std::io;

use logway_model::Offset;

use super::Recovery;
use super::listing::Listing;
use crate::LogError;
use crate::checkpoint::remove_file;
use crate::file_names::{
    INDEX_EXTENSION, LOG_EXTENSION, SNAPSHOT_EXTENSION, TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION,
    file_path,
};

impl Recovery<'_> {
    /// Removes the indexes of segments that are not there: of those behind the end, which a crash took
    /// back, and which would pass for signs of lost segments once the log has grown past them; and of
    /// those before the log start, whose removal was interrupted, and which would pass for such signs
    /// once the log start is forgotten because the topic is deleted.
    pub(super) fn remove_stray_indexes(&self, listing: &Listing, end: Offset) {
        let dir = self.options.dir;
        for &orphan in listing.orphans.iter().filter(|&&orphan| orphan >= end) {
            let segment = file_path(dir, orphan, LOG_EXTENSION);
            tracing::warn!(segment = %segment.display(), "the segment of an index is not there: a \
                crash took it back, or it was removed");
        }
        let live = self.log_start..end;
        let strays = listing.orphans.iter().filter(|orphan| !live.contains(orphan));
        let paths = strays.flat_map(|&orphan| {
            [INDEX_EXTENSION, TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION]
                .map(|extension| file_path(dir, orphan, extension))
        });
        for path in paths {
            match self.options.fs.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "a stray index cannot be removed");
                }
                _ => {}
            }
        }
    }

    /// Removes the producer snapshot that would lie about what is appended next: after a scan, one
    /// at the very end of the log, which would say that the active segment is sealed. Those of
    /// earlier shutdowns go, too, except for the newest. None that is whole knows more than the
    /// log has, which never ends before; a damaged one that claims to goes, too.
    pub(super) fn remove_stray_snapshots(
        &self,
        listing: &Listing,
        end: Offset,
    ) -> Result<(), LogError> {
        let fs = &**self.options.fs;
        let newest = listing.snapshots.iter().rev().find(|&&offset| offset <= end);
        for offset in &listing.snapshots {
            let path = file_path(self.options.dir, *offset, SNAPSHOT_EXTENSION);
            let is_base = self.segments.iter().any(|segment| segment.base_offset() == *offset);
            let was_scanned = self.scanned_bytes > 0;
            if *offset == end && was_scanned && !is_base {
                remove_file(fs, &path)?;
            } else if !is_base && Some(offset) != newest {
                fs.remove_file(&path).map_err(LogError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}
