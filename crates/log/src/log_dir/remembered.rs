//! What a log directory remembers of its logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use logway_model::{Offset, TopicId, TopicPartition};

use crate::checkpoint::offset_checkpoint::{
    self, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE, UNKNOWN,
};
use crate::checkpoint::segment_lists::{self, SEGMENT_LISTS_FILE, SegmentList, SegmentLists};
use crate::fs::Fs;
use crate::recovery::{Expected, JournalledEnd};
use crate::writer::OffsetCheckpoints;
use crate::{Finding, LogError, RecoveryReport};

/// What the files of a log directory say of its logs.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) offsets: OffsetCheckpoints,
    /// The recovery points were lost, so that nobody knows them.
    are_points_lost: bool,
    /// The directory was closed in good order, so that all its logs are remembered.
    was_clean: bool,
    pub(super) lists: SegmentLists,
    journalled: BTreeMap<TopicPartition, JournalledEnd>,
}

/// What is remembered of one log.
#[derive(Debug, Clone)]
pub(super) struct RememberedLog {
    /// Zero for a log that is younger than the checkpoint. `None` if the checkpoint is lost, or was
    /// when the log could last be opened, or if somebody else has put the log there.
    pub(super) recovery_point: Option<Offset>,
    pub(super) log_start: Offset,
    pub(super) list: Option<SegmentList>,
    /// The log was there and in use after this was written down, so that it may have had records
    /// of which this does not tell.
    pub(super) was_in_use: bool,
    /// What the journal had of the log when the directory was opened.
    pub(super) journalled: Option<JournalledEnd>,
}

impl Remembered {
    /// Reads the files. One that is damaged is reported and counts as missing: then everything is
    /// scanned. So does a checkpoint that is missing from a directory that has or had logs.
    pub(super) fn read(
        fs: &dyn Fs,
        root: &Path,
        has_logs: bool,
        journalled: BTreeMap<TopicPartition, JournalledEnd>,
        report: &mut RecoveryReport,
    ) -> Result<Remembered, LogError> {
        let lists = match segment_lists::read(fs, &root.join(SEGMENT_LISTS_FILE)) {
            Err(error @ LogError::Malformed { .. }) => {
                tracing::error!(%error, "nobody knows which segments the logs had");
                report.findings.push(Finding::Rebuilt { error });
                SegmentLists::new()
            }
            result => result?,
        };
        let has_logs = has_logs || !lists.is_empty();
        let mut read_offsets = |name| {
            let path = root.join(name);
            let error = match offset_checkpoint::read(fs, &path) {
                Ok(None) if has_logs => {
                    let reason = "the checkpoint is missing".to_owned();
                    LogError::Malformed { path, line: 1, reason }
                }
                Err(error @ LogError::Malformed { .. }) => error,
                result => return result,
            };
            tracing::error!(%error, "a checkpoint is lost; all logs are scanned");
            report.was_clean = false;
            report.findings.push(Finding::Rebuilt { error });
            Ok(None)
        };
        let recovery_points = read_offsets(RECOVERY_POINT_FILE)?;
        let log_starts = read_offsets(LOG_START_OFFSET_FILE)?;
        Ok(Remembered {
            are_points_lost: recovery_points.is_none() && has_logs,
            was_clean: report.was_clean,
            offsets: OffsetCheckpoints {
                recovery_points: recovery_points.unwrap_or_default(),
                log_starts: log_starts.unwrap_or_default(),
            },
            lists,
            journalled,
        })
    }

    /// What is remembered of the log of a partition.
    pub(super) fn of(&self, partition: &TopicPartition) -> RememberedLog {
        let log_start = self.offsets.log_starts.get(partition).copied().unwrap_or(Offset::ZERO);
        RememberedLog {
            recovery_point: match self.offsets.recovery_points.get(partition) {
                Some(&UNKNOWN) => None,
                Some(&point) => Some(point),
                // After a stop in good order it is no younger log either: somebody has put it there.
                None => (!self.are_points_lost && !self.was_clean).then_some(Offset::ZERO),
            },
            log_start: log_start.max(Offset::ZERO),
            list: self.lists.get(partition).cloned(),
            was_in_use: !self.was_clean && self.offsets.recovery_points.contains_key(partition),
            journalled: self.journalled.get(partition).copied(),
        }
    }

    /// The partitions that had logs with records.
    pub(super) fn with_records(&self) -> Vec<(TopicPartition, RememberedLog)> {
        let checkpointed = self.offsets.recovery_points.keys();
        let listed = self.lists.keys().filter(|_| self.are_points_lost);
        // Each once, though several may know of it.
        let known: BTreeSet<&TopicPartition> =
            checkpointed.chain(listed).chain(self.journalled.keys()).collect();
        let logs = known.into_iter().map(|key| (key.clone(), self.of(key)));
        logs.filter(|(_, log)| log.may_have_records()).collect()
    }
}

impl RememberedLog {
    /// Whether the log had records, or nobody knows.
    pub(super) fn may_have_records(&self) -> bool {
        let is_unknown = self.recovery_point.is_none() && self.list.is_none();
        is_unknown || self.expected().had_records()
    }

    /// Whether this is known to be about a log of another topic of that name.
    pub(super) fn is_of_other_topic(&self, topic_id: TopicId) -> bool {
        let listed = self.list.as_ref().map(|list| list.topic_id);
        let known = listed.or(self.journalled.map(|journalled| journalled.topic_id));
        known.is_some_and(|known| known != topic_id)
    }

    /// For recovery.
    pub(super) fn expected(&self) -> Expected<'_> {
        Expected {
            recovery_point: self.recovery_point,
            log_start: self.log_start,
            listed: self.list.as_ref(),
            was_in_use: self.was_in_use,
            journalled: self.journalled,
        }
    }
}
