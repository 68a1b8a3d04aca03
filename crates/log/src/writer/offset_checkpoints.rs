//! The offsets that a log directory remembers of its logs.

use std::collections::BTreeMap;
use std::path::Path;

use logway_model::{Offset, TopicPartition};

use super::log_tail::LogTail;
use crate::LogError;
use crate::checkpoint::offset_checkpoint;
use crate::fs::Fs;

/// The content of the two offset checkpoint files of a log directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct OffsetCheckpoints {
    /// Everything before is on stable storage, with its indexes and snapshots.
    pub(crate) recovery_points: BTreeMap<TopicPartition, Offset>,
    /// Where those logs start that have lost their beginning.
    pub(crate) log_starts: BTreeMap<TopicPartition, Offset>,
}

impl OffsetCheckpoints {
    /// Takes note of a log as it is now.
    pub(super) fn note(&mut self, tail: &LogTail) {
        let partition = tail.log.topic_partition();
        self.recovery_points.insert(partition.clone(), tail.recovery_point());
        // A log of this name that could not be opened may have been deleted since.
        self.log_starts.remove(partition);
        if tail.view.log_start > Offset::ZERO {
            self.log_starts.insert(partition.clone(), tail.view.log_start);
        }
    }

    /// Replaces both files of a log directory; they are durable on return.
    pub(crate) fn write(&self, fs: &dyn Fs, dir: &Path) -> Result<(), LogError> {
        let log_starts = dir.join(offset_checkpoint::LOG_START_OFFSET_FILE);
        offset_checkpoint::write(fs, &log_starts, &self.log_starts)?;
        let recovery_points = dir.join(offset_checkpoint::RECOVERY_POINT_FILE);
        offset_checkpoint::write(fs, &recovery_points, &self.recovery_points)
    }

    /// Puts the recovery points of these partitions back to where they are in a log directory's
    /// file: their leader epochs could not be written, and recovery does not look for epochs before
    /// a recovery point.
    pub(crate) fn keep_points<'a>(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), LogError> {
        let mut partitions = partitions.into_iter().peekable();
        if partitions.peek().is_none() {
            return Ok(());
        }
        let path = dir.join(offset_checkpoint::RECOVERY_POINT_FILE);
        let written = offset_checkpoint::read(fs, &path)?.unwrap_or_default();
        for partition in partitions {
            match written.get(partition) {
                Some(&point) => {
                    // Or before, where an end is about to be cut off.
                    let new = self.recovery_points.get(partition).copied().unwrap_or(point);
                    self.recovery_points.insert(partition.clone(), point.min(new))
                }
                None => self.recovery_points.remove(partition),
            };
        }
        Ok(())
    }

    /// Keeps only what is about partitions for which `is_kept`; returns whether anything went.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&TopicPartition) -> bool) -> bool {
        let before = self.recovery_points.len() + self.log_starts.len();
        self.recovery_points.retain(|partition, _| is_kept(partition));
        self.log_starts.retain(|partition, _| is_kept(partition));
        before > self.recovery_points.len() + self.log_starts.len()
    }
}
