//! Writing what a journal holds where it belongs.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use logway_model::{Offset, TopicId};

use super::entry::Piece;
use crate::LogError;
use crate::file_names::{LOG_EXTENSION, file_path};
use crate::fs::{File, Fs, OpenMode};

/// Writes the pieces of one log to its segments and syncs them; returns the offset before which the log
/// was on stable storage, `None` if nothing is about it.
///
/// They are written whether or not the files seem to hold them: after a failed write-back that nobody
/// noticed, pages that are not on the disk count as clean. What is there already is written again as
/// it is.
///
/// Pieces of another topic of the same name are none of the log's, and those of segments before its
/// first were deleted. A segment that is missing, or too short for what comes next, has lost records;
/// the scan, which knows from the returned offset that there were some, reports them.
///
/// # Errors
///
/// [`LogError::Io`]: all or none may have been written.
pub(crate) fn redo(
    fs: &dyn Fs,
    dir: &Path,
    topic_id: TopicId,
    segments: &[Offset],
    pieces: &[Piece],
) -> Result<Option<Offset>, LogError> {
    let first = segments.first().copied();
    let mut files: BTreeMap<Offset, Arc<dyn File>> = BTreeMap::new();
    let mut durable_end = None;
    for piece in pieces {
        let base_offset = piece.start.segment;
        if piece.topic_id != topic_id {
            let partition = &piece.partition;
            tracing::warn!(%partition, "the journal has records of another topic of this name");
            continue;
        }
        if first.is_some_and(|first| base_offset < first) {
            continue;
        }
        durable_end = durable_end.max(Some(piece.end));
        let path = file_path(dir, base_offset, LOG_EXTENSION);
        if segments.binary_search(&base_offset).is_err() {
            tracing::error!(segment = %path.display(), offset = %piece.start.offset,
                "the journal has records of a segment that is gone");
            continue;
        }
        let file = match files.get(&base_offset) {
            Some(file) => Arc::clone(file),
            None => fs.open(&path, OpenMode::ReadWrite).map_err(LogError::io("open", &path))?,
        };
        files.insert(base_offset, Arc::clone(&file));
        let len_bytes = file.len().map_err(LogError::io("look at", &path))?;
        if piece.start.position > len_bytes {
            tracing::error!(segment = %path.display(), offset = %piece.start.offset,
                "the journal has records behind the end of a segment: those between are missing");
            continue;
        }
        file.write_all_at(&[IoSlice::new(&piece.bytes)], piece.start.position)
            .map_err(LogError::io("write", &path))?;
    }
    for (base_offset, file) in files {
        let path = file_path(dir, base_offset, LOG_EXTENSION);
        file.sync_data().map_err(LogError::io("sync", &path))?;
    }
    Ok(durable_end)
}
