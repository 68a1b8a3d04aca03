//! What the files of a log directory say of its logs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use logway_model::{Offset, TopicPartition};

use super::known::Known;
use super::{ExpectedLogs, Problem};
use crate::LogError;
use crate::checkpoint::offset_checkpoint::{
    self, CLEANER_OFFSET_FILE, HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE,
    UNKNOWN,
};
use crate::checkpoint::segment_lists::{self, SEGMENT_LISTS_FILE, SegmentLists};
use crate::checkpoint::{MetaProperties, clean_shutdown};
use crate::fs::Fs;

/// The offsets that a checkpoint has.
pub(super) type Offsets = BTreeMap<TopicPartition, Offset>;

/// What was read of a file: nothing if there is none, or what is wrong with it.
pub(super) struct RootFile<T> {
    pub(super) path: PathBuf,
    pub(super) read: Result<Option<T>, LogError>,
}

impl<T> RootFile<T> {
    fn new(
        root: &Path,
        name: &str,
        read: impl FnOnce(&Path) -> Result<Option<T>, LogError>,
    ) -> RootFile<T> {
        let path = root.join(name);
        RootFile { read: read(&path), path }
    }

    /// What it says, if it can be read.
    pub(super) fn value(&self) -> Option<&T> {
        self.read.as_ref().ok()?.as_ref()
    }

    /// What is wrong with it, if it cannot be read.
    pub(super) fn problem(&self, fs: &dyn Fs) -> Option<Problem> {
        let error = self.read.as_ref().err()?;
        Some(Problem::of_error(fs, &self.path, error.clone()))
    }
}

/// The files of a log directory, without those that say what it is.
pub(super) struct RootFiles {
    pub(super) owner: RootFile<MetaProperties>,
    pub(super) recovery_points: RootFile<Offsets>,
    pub(super) log_starts: RootFile<Offsets>,
    pub(super) cleaned: RootFile<Offsets>,
    pub(super) high_watermarks: RootFile<Offsets>,
    pub(super) lists: RootFile<SegmentLists>,
    /// The directory was closed in good order.
    pub(super) is_clean: bool,
}

impl RootFiles {
    /// Reads all that there are.
    pub(super) fn read(fs: &dyn Fs, root: &Path) -> Result<RootFiles, LogError> {
        let offsets = |name| RootFile::new(root, name, |path| offset_checkpoint::read(fs, path));
        let marker = root.join(clean_shutdown::CLEAN_SHUTDOWN_FILE);
        Ok(RootFiles {
            owner: RootFile::new(root, MetaProperties::FILE, |path| MetaProperties::read(fs, path)),
            recovery_points: offsets(RECOVERY_POINT_FILE),
            log_starts: offsets(LOG_START_OFFSET_FILE),
            cleaned: offsets(CLEANER_OFFSET_FILE),
            high_watermarks: offsets(HIGH_WATERMARK_FILE),
            lists: RootFile::new(root, SEGMENT_LISTS_FILE, |path| {
                segment_lists::read(fs, path).map(Some)
            }),
            is_clean: clean_shutdown::is_marked(fs, &marker)?,
        })
    }

    /// Whether there is any sign that the directory is one of logs.
    pub(super) fn are_there(&self) -> bool {
        let has = |read: Option<bool>| read != Some(false);
        has(self.owner.read.as_ref().ok().map(Option::is_some))
            || has(self.recovery_points.read.as_ref().ok().map(Option::is_some))
    }

    /// What they say of one log.
    pub(super) fn known_of<'a>(
        &'a self,
        partition: &TopicPartition,
        expected: Option<&ExpectedLogs>,
    ) -> Known<'a> {
        let in_file = |file: &RootFile<Offsets>| -> Option<Offset> {
            file.value().map(|offsets| offsets.get(partition).copied().unwrap_or(Offset::ZERO))
        };
        let expected = expected.and_then(|expected| expected.logs.get(partition));
        Known {
            is_clean: self.is_clean,
            recovery_point: in_file(&self.recovery_points).filter(|&point| point != UNKNOWN),
            log_start: in_file(&self.log_starts),
            list: self.lists.value().and_then(|lists| lists.get(partition)),
            topic_id: expected.map(|log| log.topic_id),
            snapshot_end: None,
        }
    }
}
