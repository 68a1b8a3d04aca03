//! Writing what can be made again, without a touch of the records.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_model::{Offset, TopicPartition};

use super::{PlacedBatch, Repair, SegmentFile, Walked};
use crate::LogError;
use crate::checkpoint::known_dirs::{self, KnownDirs};
use crate::checkpoint::{
    LeaderEpochCache, MetaProperties, PartitionMetadata, leader_epoch, offset_checkpoint,
    replace_file,
};
use crate::fs::{Fs, OpenMode, read_to_end};
use crate::scan::ScannedBatch;
use crate::segment::Segment;

/// What the name of a file that was replaced ends with.
const DAMAGED_SUFFIX: &str = ".damaged";

/// So many files of one name may be kept.
const KEPT_MAX: usize = 1000;

/// More than any file has that is kept.
const KEPT_MAX_BYTES: usize = 256 << 20;

/// Where indexes are made. It is in the partition's directory, and nobody minds one that is left.
const WORKSHOP_DIR: &str = "indexes.tmp";

/// How far apart the entries of indexes are: the default of `index.interval.bytes`, since the topic's
/// own setting is not in its directory. Any distance is right.
const INDEX_INTERVAL_BYTES: u32 = 4096;

/// A file that is to be replaced, and by what.
#[derive(Debug, Clone)]
pub struct Change {
    path: PathBuf,
    new: NewContent,
}

/// What a file is to hold.
#[derive(Debug, Clone)]
pub(super) enum NewContent {
    /// An index of a segment.
    Index(SegmentFile),
    /// A leader epoch checkpoint.
    Epochs(LeaderEpochCache),
    /// A `partition.metadata`.
    Topic(PartitionMetadata),
    /// A checkpoint of offsets.
    Offsets(BTreeMap<TopicPartition, Offset>),
    /// A `meta.properties`.
    Owner(MetaProperties),
    /// A `known-log-dirs`.
    KnownDirs(KnownDirs),
    /// Nothing: there is to be no such file.
    Nothing,
}

impl Change {
    pub(super) fn new(path: impl Into<PathBuf>, new: NewContent) -> Change {
        Change { path: path.into(), new }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is done to it.
    pub fn repair(&self) -> Repair {
        match self.new {
            NewContent::Index(_) => Repair::Rebuild,
            NewContent::Nothing => Repair::SetAside,
            _ => Repair::Rewrite,
        }
    }

    /// Replaces the file so that a crash leaves it as it was or as it is to be, and says where the
    /// old one is kept. An index is not kept, nor is a file that holds nothing.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`]; [`LogError::Corrupt`] if a segment changed since it was looked at.
    pub fn carry_out(&self, fs: &Arc<dyn Fs>) -> Result<Option<PathBuf>, LogError> {
        let (disk, path) = (&**fs, &*self.path);
        let kept = match &self.new {
            NewContent::Index(segment) => {
                rebuild_index(fs, segment, path)?;
                None
            }
            NewContent::Nothing => give_up_name(disk, path)?,
            _ => keep_copy(disk, path)?,
        };
        match &self.new {
            NewContent::Epochs(epochs) => leader_epoch::write(disk, path, epochs)?,
            NewContent::Topic(metadata) => metadata.write(disk, path)?,
            NewContent::Offsets(offsets) => offset_checkpoint::write(disk, path, offsets)?,
            NewContent::Owner(owner) => owner.write(disk, path)?,
            NewContent::KnownDirs(dirs) => known_dirs::write(disk, path, dirs)?,
            NewContent::Index(_) | NewContent::Nothing => {}
        }
        Ok(kept)
    }
}

/// Renames a file; returns its new name.
fn give_up_name(fs: &dyn Fs, path: &Path) -> Result<Option<PathBuf>, LogError> {
    let kept = free_name(fs, path)?;
    fs.rename(path, &kept).map_err(LogError::io("rename", path))?;
    sync_parent(fs, path)?;
    Ok(Some(kept))
}

/// Writes what a file holds beside it; returns where, unless it holds nothing.
fn keep_copy(fs: &dyn Fs, path: &Path) -> Result<Option<PathBuf>, LogError> {
    let file = match fs.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io("open", path)(error)),
    };
    let content = match read_to_end(&*file, KEPT_MAX_BYTES) {
        Ok(content) if content.is_empty() => return Ok(None),
        Ok(content) => content,
        // It cannot be copied, but it can be renamed.
        Err(_) => return give_up_name(fs, path),
    };
    let kept = free_name(fs, path)?;
    replace_file(fs, &kept, &content)?;
    Ok(Some(kept))
}

/// A name beside a file that nobody has.
fn free_name(fs: &dyn Fs, path: &Path) -> Result<PathBuf, LogError> {
    for number in 1..=KEPT_MAX {
        let mut name = OsString::from(path);
        name.push(DAMAGED_SUFFIX);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let name = PathBuf::from(name);
        if !fs.exists(&name).map_err(LogError::io("look for", &name))? {
            return Ok(name);
        }
    }
    let taken = io::Error::other(format!("{KEPT_MAX} files of its name are kept already"));
    Err(LogError::io("keep", path)(taken))
}

fn sync_parent(fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))
}

/// Makes an index anew from the batches of its segment, as the broker does it.
fn rebuild_index(fs: &Arc<dyn Fs>, segment: &SegmentFile, path: &Path) -> Result<(), LogError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let workshop = dir.join(WORKSHOP_DIR);
    remove_dir(&**fs, &workshop)?;
    fs.create_dir_all(&workshop).map_err(LogError::io("create", &workshop))?;
    let made = Segment::existing(fs, &workshop, segment.base_offset, 0);
    index_batches(&**fs, segment, &made)?;
    let name = path.file_name().expect("an index has a name");
    fs.sync_dir(&workshop).map_err(LogError::io("sync", &workshop))?;
    fs.rename(&workshop.join(name), path).map_err(LogError::io("rename to", path))?;
    remove_dir(&**fs, &workshop)?;
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))
}

/// Fills the indexes of `made` with the good batches of a segment; they are on stable storage on
/// return.
fn index_batches(fs: &dyn Fs, segment: &SegmentFile, made: &Segment) -> Result<(), LogError> {
    made.reset_indexes()?;
    for walked in segment.batches(fs)? {
        match walked? {
            Walked::Batch(PlacedBatch { position, batch }) => {
                let scanned = ScannedBatch { position, header: *batch.header() };
                made.note_batch(&scanned, INDEX_INTERVAL_BYTES)?;
            }
            // As recovery does it: readers come past the damage by way of the index.
            Walked::Damage(_) => made.index_next_batch(),
        }
    }
    made.sync_indexes()
}

fn remove_dir(fs: &dyn Fs, dir: &Path) -> Result<(), LogError> {
    match fs.exists(dir).map_err(LogError::io("look for", dir))? {
        true => fs.remove_dir_all(dir).map_err(LogError::io("remove", dir)),
        false => Ok(()),
    }
}
