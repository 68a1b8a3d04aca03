//! What a journal held of logs that could not be opened: it is kept in a file of its own until they
//! can, because the journal is made anew.

use std::path::Path;

use logway_model::TopicPartition;

use super::entry::{EntryNumber, Piece};
use super::reader::{Half, JournalContent, read_bytes};
use crate::LogError;
use crate::checkpoint::{remove_file, replace_file};
use crate::fs::Fs;

/// The file, in the log directory: entries of one piece each.
pub(crate) const UNOPENED_FILE: &str = "journal-unopened";

/// Reads what was kept; `None` if there is nothing.
///
/// # Errors
///
/// [`LogError::Io`].
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<Option<JournalContent>, LogError> {
    let path = dir.join(UNOPENED_FILE);
    let Some(bytes) = read_bytes(fs, &path)? else { return Ok(None) };
    let (mut damage, len_bytes) = (Vec::new(), bytes.len());
    let entries = Half { bytes, position: 0, path: path.clone() }.read(&mut damage);
    let read_bytes: usize = entries.iter().map(|entry| entry.size_bytes).sum();
    if read_bytes < len_bytes && damage.is_empty() {
        // It is replaced as a whole, so that nothing but damage leaves a part of it.
        let reason = "its end cannot be read: records that were acknowledged may be missing".into();
        damage.push(LogError::Corrupt { path, position: read_bytes as u64, reason });
    }
    Ok(Some(JournalContent {
        pieces: entries.into_iter().flat_map(|entry| entry.pieces).collect(),
        damage,
    }))
}

/// Replaces what is kept, durably.
///
/// # Errors
///
/// [`LogError::Io`].
pub(crate) fn keep<'a>(
    fs: &dyn Fs,
    dir: &Path,
    pieces: impl IntoIterator<Item = &'a Piece>,
) -> Result<(), LogError> {
    let path = dir.join(UNOPENED_FILE);
    let first = EntryNumber::first();
    let entries = pieces
        .into_iter()
        .zip(0..)
        .map(|(piece, sequence)| piece.to_entry(EntryNumber { sequence, ..first }));
    let content = entries.collect::<Vec<_>>().concat();
    match content.is_empty() {
        true => remove_file(fs, &path),
        false => replace_file(fs, &path, &content),
    }
}

/// Forgets what is kept of a log, durably.
///
/// # Errors
///
/// [`LogError::Io`].
pub(crate) fn forget(fs: &dyn Fs, dir: &Path, partition: &TopicPartition) -> Result<(), LogError> {
    let Some(JournalContent { pieces, .. }) = read(fs, dir)? else { return Ok(()) };
    if pieces.iter().all(|piece| piece.partition != *partition) {
        return Ok(());
    }
    keep(fs, dir, pieces.iter().filter(|piece| piece.partition != *partition))
}
