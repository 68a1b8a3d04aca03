//! What is in the directory of a partition.

use std::path::{Path, PathBuf};

use logway_model::Offset;

use super::names::HALF_NAMED_SUFFIX;
use crate::LogError;
use crate::checkpoint::{PartitionMetadata, ReplicaMove, TEMPORARY_SUFFIX, leader_epoch};
use crate::cleaner::{CLEANED_SUFFIX, SWAP_SUFFIX};
use crate::file_names::{
    DELETED_SUFFIX, FAILED_SYNC_FILE, INDEX_EXTENSION, LOG_EXTENSION, SNAPSHOT_EXTENSION,
    TIME_INDEX_EXTENSION, TXN_INDEX_EXTENSION, parse_file_name,
};
use crate::fs::Fs;

/// The files of a partition, sorted out. One listing of the directory tells it all but the lengths of
/// the segments, so that an idle log is opened with next to no system calls.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The segments, by base offset.
    pub(super) segments: Vec<FoundSegment>,
    /// The offsets of indexes whose segments are not there, ascending.
    pub(super) orphans: Vec<Offset>,
    /// The offsets of the producer snapshots, ascending.
    pub(super) snapshots: Vec<Offset>,
    /// Files that were deleted or never finished.
    pub(super) leftovers: Vec<PathBuf>,
    /// The base offsets of cleaned segments that are to take the place of others.
    pub(super) swaps: Vec<Offset>,
    /// Files whose names were being made again.
    pub(super) half_named: Vec<PathBuf>,
    /// Whether there is a `leader-epoch-checkpoint`.
    pub(super) has_epochs: bool,
    /// Whether there is a `partition.metadata`.
    pub(super) has_metadata: bool,
    /// Whether there is a `replica-move`.
    pub(super) has_move: bool,
    /// Whether a sync of the segments has failed.
    pub(super) has_failed_sync: bool,
}

/// A segment in a listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundSegment {
    pub(super) base_offset: Offset,
    pub(super) len_bytes: u64,
    pub(super) has_index: bool,
    pub(super) has_time_index: bool,
    pub(super) has_transaction_index: bool,
}

impl Listing {
    /// Whether the directory is one that was being created: the metadata is written last, before
    /// anything can be appended.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.has_metadata && self.segments.iter().all(|segment| segment.len_bytes == 0)
    }

    /// Lists a partition's directory.
    pub(super) fn read(fs: &dyn Fs, dir: &Path) -> Result<Listing, LogError> {
        let mut listing = Listing::default();
        let (mut indexes, mut time_indexes, mut transaction_indexes) = (vec![], vec![], vec![]);
        for entry in fs.read_dir(dir).map_err(LogError::io("list", dir))? {
            let Some(name) = entry.name.to_str().filter(|_| !entry.is_dir) else { continue };
            let is_leftover = [DELETED_SUFFIX, TEMPORARY_SUFFIX, CLEANED_SUFFIX];
            if is_leftover.iter().any(|suffix| name.ends_with(suffix)) {
                listing.leftovers.push(dir.join(name));
                continue;
            }
            if name.ends_with(HALF_NAMED_SUFFIX) {
                listing.half_named.push(dir.join(name));
                continue;
            }
            if let Some((base_offset, LOG_EXTENSION)) =
                name.strip_suffix(SWAP_SUFFIX).and_then(parse_file_name)
            {
                listing.swaps.push(base_offset);
                continue;
            }
            match parse_file_name(name) {
                Some((base_offset, LOG_EXTENSION)) => {
                    let path = dir.join(name);
                    let len_bytes = fs.file_len(&path).map_err(LogError::io("look at", &path))?;
                    listing.segments.extend(len_bytes.map(|len_bytes| FoundSegment {
                        base_offset,
                        len_bytes,
                        has_index: false,
                        has_time_index: false,
                        has_transaction_index: false,
                    }));
                }
                Some((offset, INDEX_EXTENSION)) => indexes.push(offset),
                Some((offset, TIME_INDEX_EXTENSION)) => time_indexes.push(offset),
                Some((offset, TXN_INDEX_EXTENSION)) => transaction_indexes.push(offset),
                Some((offset, SNAPSHOT_EXTENSION)) => listing.snapshots.push(offset),
                Some(_) => {}
                None if name == leader_epoch::LEADER_EPOCH_FILE => listing.has_epochs = true,
                None if name == PartitionMetadata::FILE => listing.has_metadata = true,
                None if name == ReplicaMove::FILE => listing.has_move = true,
                None if name == FAILED_SYNC_FILE => listing.has_failed_sync = true,
                None if name.ends_with(".log") => {
                    let path = dir.join(name);
                    tracing::warn!(path = %path.display(), "this is no segment: its name is no offset");
                }
                None => {}
            }
        }
        // Names of 20 digits sort as their numbers do, and listings are sorted by name.
        for segment in &mut listing.segments {
            let is_in = |found: &[Offset]| found.binary_search(&segment.base_offset).is_ok();
            segment.has_index = is_in(&indexes);
            segment.has_time_index = is_in(&time_indexes);
            segment.has_transaction_index = is_in(&transaction_indexes);
        }
        let is_orphan = |offset: &Offset| listing.segment(*offset).is_none();
        let found = indexes.into_iter().chain(time_indexes).chain(transaction_indexes);
        listing.orphans = found.filter(is_orphan).collect();
        listing.orphans.sort_unstable();
        listing.orphans.dedup();
        Ok(listing)
    }

    /// The segment that begins with `base_offset`.
    pub(super) fn segment(&self, base_offset: Offset) -> Option<&FoundSegment> {
        let found = self.segments.binary_search_by_key(&base_offset, |found| found.base_offset);
        found.ok().map(|index| &self.segments[index])
    }
}
