//! What a crash has left in the journal of a log directory.

use std::collections::BTreeMap;
use std::path::Path;

use logway_model::{Offset, TopicPartition};

use super::Problem;
use crate::LogError;
use crate::checkpoint::PartitionMetadata;
use crate::file_names::{LOG_EXTENSION, file_path};
use crate::fs::{Fs, OpenMode, read_full_at};
use crate::journal::{JournalContent, Piece, read_journal, unopened};

/// What a crash has left in the journal of a log directory.
#[derive(Debug)]
pub struct Journalled {
    /// The records that count, in the order in which they were written; also those that are in their
    /// segments by now.
    pub records: Vec<JournalledRecords>,
    /// What cannot be read.
    pub damage: Vec<LogError>,
}

/// Records of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalledRecords {
    /// The partition.
    pub partition: TopicPartition,
    /// The first offset.
    pub first: Offset,
    /// The offset after the last.
    pub end: Offset,
    /// The length of their batches.
    pub size_bytes: usize,
}

/// Reads the journal of a log directory.
///
/// # Errors
///
/// [`LogError::Io`].
pub fn journalled(fs: &dyn Fs, root: &Path) -> Result<Journalled, LogError> {
    let (mut records, mut damage) = (Vec::new(), Vec::new());
    for content in [unopened::read(fs, root)?, read_journal(fs, root)?].into_iter().flatten() {
        records.extend(content.pieces.into_iter().map(|piece| JournalledRecords {
            partition: piece.partition,
            first: piece.start.offset,
            end: piece.end,
            size_bytes: piece.bytes.len(),
        }));
        damage.extend(content.damage);
    }
    Ok(Journalled { records, damage })
}

/// Reports what of the journal cannot be read, and of which logs it has records that are not in their
/// segments yet: the next start writes them there.
pub(super) fn check(fs: &dyn Fs, root: &Path, report: &mut dyn FnMut(Problem)) {
    let mut missing: BTreeMap<TopicPartition, (Piece, Piece)> = BTreeMap::new();
    for read in [unopened::read(fs, root), read_journal(fs, root)] {
        let JournalContent { pieces, damage } = match read {
            Ok(content) => content.unwrap_or_default(),
            Err(error) => JournalContent { pieces: Vec::new(), damage: vec![error] },
        };
        damage.into_iter().for_each(|error| report(Problem::of_error(fs, root, error)));
        for piece in pieces {
            match is_in_place(fs, root, &piece) {
                Ok(true) => {}
                Ok(false) => {
                    let (_, last) = missing
                        .entry(piece.partition.clone())
                        .or_insert_with(|| (piece.clone(), piece.clone()));
                    *last = piece;
                }
                Err(error) => report(Problem::of_error(fs, root, error)),
            }
        }
    }
    for (partition, (first, last)) in missing {
        let dir = root.join(partition.to_string());
        let path = file_path(&dir, first.start.segment, LOG_EXTENSION);
        let reason = format!(
            "records from offset {} to {} are in the journal and not all here yet: the next start \
             writes them",
            first.start.offset,
            last.end + -1
        );
        report(Problem::new(path, first.start.position, reason).unfinished_if(true));
    }
}

/// Whether the segment holds a piece, or the piece is none of the log's.
fn is_in_place(fs: &dyn Fs, root: &Path, piece: &Piece) -> Result<bool, LogError> {
    let dir = root.join(piece.partition.to_string());
    let said = PartitionMetadata::read(fs, &dir.join(PartitionMetadata::FILE));
    let is_of_log = said.ok().flatten().is_some_and(|said| said.topic_id == piece.topic_id);
    let path = file_path(&dir, piece.start.segment, LOG_EXTENSION);
    if !is_of_log || fs.file_len(&path).map_err(LogError::io("look at", &path))?.is_none() {
        return Ok(true);
    }
    let file = fs.open(&path, OpenMode::Read).map_err(LogError::io("open", &path))?;
    let mut found = vec![0; piece.bytes.len()];
    let read = read_full_at(&*file, &mut found, piece.start.position)
        .map_err(LogError::io("read", &path))?;
    Ok(read == found.len() && found == piece.bytes)
}
