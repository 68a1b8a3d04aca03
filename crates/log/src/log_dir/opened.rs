//! The logs of a directory while it is being opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_model::{Offset, TopicPartition};

use super::failed::FailedLog;
use super::remembered::{Remembered, RememberedLog};
use super::{Changes, HighWatermarks, LogDirOptions};
use crate::checkpoint::offset_checkpoint::UNKNOWN;
use crate::checkpoint::segment_lists::{self, SEGMENT_LISTS_FILE, SegmentLists};
use crate::log::Log;
use crate::log_state::{LogIdentity, LogState};
use crate::recovery::RecoveredLog;
use crate::writer::{CommandQueue, LogTail, OffsetCheckpoints, OpenedTail};
use crate::{LogError, RecoveryReport};

/// What became of the logs of a directory.
pub(super) struct Opened<'a> {
    options: &'a LogDirOptions,
    queue: Arc<CommandQueue>,
    high_watermarks: &'a Arc<HighWatermarks>,
    remembered: &'a Remembered,
    pub(super) logs: BTreeMap<TopicPartition, Arc<Log>>,
    pub(super) tails: Vec<LogTail>,
    pub(super) changes: Changes,
    pub(super) lists: SegmentLists,
    /// Logs of which nobody knows what was done to them.
    pub(super) strangers: BTreeSet<TopicPartition>,
    pub(super) report: RecoveryReport,
}

/// What the writer must not forget of logs that could not be opened.
pub(super) struct OfUnopened {
    pub(super) offsets: OffsetCheckpoints,
    pub(super) lists: SegmentLists,
    /// Those whose ends have not been looked at since a crash.
    pub(super) unscanned: BTreeSet<TopicPartition>,
}

impl<'a> Opened<'a> {
    /// Nothing yet.
    pub(super) fn new(
        options: &'a LogDirOptions,
        queue: Arc<CommandQueue>,
        high_watermarks: &'a Arc<HighWatermarks>,
        remembered: &'a Remembered,
        report: RecoveryReport,
    ) -> Opened<'a> {
        let (logs, tails, changes, lists, strangers) = Default::default();
        Opened {
            options,
            queue,
            high_watermarks,
            remembered,
            logs,
            tails,
            changes,
            lists,
            strangers,
            report,
        }
    }

    /// Adds a log that was found; `None` for one that never came to be.
    pub(super) fn add(
        &mut self,
        partition: TopicPartition,
        outcome: Result<Option<RecoveredLog>, LogError>,
    ) {
        match outcome {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                self.note_recovered(&recovered);
                if recovered.known_recovery_point.is_none() {
                    self.strangers.insert(partition.clone());
                }
                let list = recovered.view.list(recovered.topic_id);
                self.lists.insert(partition.clone(), list);
                let identity = LogIdentity {
                    key: self.changes.next_key(),
                    dir: self.options.path.join(partition.to_string()).into(),
                    partition: partition.clone(),
                    topic_id: recovered.topic_id,
                    high_watermarks: Arc::clone(self.high_watermarks),
                    failure_listener: self.options.failure_listener.clone(),
                    replica_move: recovered.replica_move,
                };
                let was_clean = self.report.was_clean;
                let (state, tail) = start_log(self.options, identity, recovered, was_clean);
                let log = Log::new(state, Arc::clone(&self.queue));
                self.logs.insert(partition, Arc::new(log));
                self.tails.push(tail);
            }
            Err(error) => {
                let remembered = self.remembered.of(&partition);
                self.note_failed(partition, remembered, error);
            }
        }
    }

    /// Adds the logs that had records and of which no directory was found.
    pub(super) fn add_vanished(&mut self) {
        for (partition, remembered) in self.remembered.with_records() {
            if !self.is_known(&partition) {
                let dir = self.options.path.join(partition.to_string());
                let error = remembered.expected().vanished(&dir);
                self.note_failed(partition, remembered, error);
            }
        }
    }

    /// Writes down what is different now; returns what stays as it was.
    pub(super) fn write_down(&mut self) -> Result<OfUnopened, LogError> {
        let (fs, root) = (&*self.options.fs, &self.options.path);
        let mut offsets = self.remembered.offsets.clone();
        let has_strangers = offsets.retain(|partition| self.is_known(partition));
        let failed = &self.changes.failed;
        for (partition, log) in failed {
            if log.remembered.recovery_point.is_none() {
                // Without an entry, the next start would take the log for one that is younger than
                // the checkpoint, and cut off what a crash may not have cut.
                offsets.recovery_points.insert(partition.clone(), UNKNOWN);
            }
        }
        if has_strangers {
            // A log that is made under such a name must not inherit the offsets of the old one.
            offsets.write(fs, root)?;
        }
        offsets.retain(|partition| failed.contains_key(partition));

        let listed = failed
            .iter()
            .filter_map(|(partition, log)| Some((partition.clone(), log.remembered.list.clone()?)));
        let lists: SegmentLists = listed.collect();
        self.lists.extend(lists.clone());
        if self.lists != self.remembered.lists
            && let Err(error) =
                segment_lists::write(fs, &root.join(SEGMENT_LISTS_FILE), &self.lists)
        {
            // The old ones are still right, but say less.
            tracing::warn!(%error, "the lists of segments cannot be written down");
            self.lists = self.remembered.lists.clone();
        }
        // Also those whose directories have vanished: these may be back at the next start.
        let unscanned = failed.keys().filter(|_| !self.report.was_clean).cloned().collect();
        Ok(OfUnopened { offsets, lists, unscanned })
    }

    fn is_known(&self, partition: &TopicPartition) -> bool {
        self.logs.contains_key(partition) || self.changes.failed.contains_key(partition)
    }

    fn note_recovered(&mut self, recovered: &RecoveredLog) {
        let report = &mut self.report;
        report.opened_logs += 1;
        report.scanned_logs += usize::from(recovered.scanned_bytes > 0);
        report.scanned_bytes += recovered.scanned_bytes;
        report.findings.extend(recovered.findings.iter().cloned());
    }

    fn note_failed(
        &mut self,
        partition: TopicPartition,
        remembered: RememberedLog,
        error: LogError,
    ) {
        tracing::error!(%partition, %error, "a log cannot be opened");
        self.report.failed.push((partition.clone(), error.clone()));
        let failed = FailedLog { error, remembered, is_deleted: false };
        self.changes.failed.insert(partition, failed);
    }
}

/// What readers and the writer share of a log, and its tail for the writer.
pub(super) fn start_log(
    options: &LogDirOptions,
    identity: LogIdentity,
    recovered: RecoveredLog,
    was_clean: bool,
) -> (Arc<LogState>, LogTail) {
    let dir = Arc::clone(&identity.dir);
    let config = Arc::clone(&options.default_config);
    let high_watermark = identity.high_watermarks.of(&identity.partition);
    let log = Arc::new(LogState::new(identity, config, recovered.view.clone()));
    if let Some(high_watermark) = high_watermark {
        log.restore_high_watermark(high_watermark);
    }
    let open = recovered.producers.open_transactions();
    log.transactions().begin(open, recovered.uncommitted);
    log.note_written_recovery_point(recovered.known_recovery_point.unwrap_or(Offset::ZERO));
    let tail = LogTail::new(OpenedTail {
        log: Arc::clone(&log),
        fs: Arc::clone(&options.fs),
        dir,
        view: recovered.view,
        producers: recovered.producers,
        unsealed: recovered.unsealed,
        unsynced: recovered.unsynced,
        snapshot: recovered.snapshot,
        is_changed: recovered.scanned_bytes > 0,
        epochs_changed: recovered.epochs_changed,
        needs_dir_sync: !was_clean,
        now: options.clock.now(),
        started: options.clock.instant(),
    });
    (log, tail)
}
