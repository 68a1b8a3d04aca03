//! The check of the small files beside the segments.

use std::path::{Path, PathBuf};

use logway_model::Offset;

use super::partition_check::PartitionCheck;
use super::problem::line_position;
use super::repair::{Change, NewContent};
use super::{Problem, Repair};
use crate::LogError;
use crate::checkpoint::{LeaderEpochCache, PartitionMetadata, ReplicaMove, leader_epoch};
use crate::cleaner::{CLEANED_SUFFIX, SWAP_SUFFIX};
use crate::file_names::{
    FAILED_SYNC_FILE, INDEX_EXTENSION, LOG_EXTENSION, SNAPSHOT_EXTENSION, TIME_INDEX_EXTENSION,
    TXN_INDEX_EXTENSION, file_path, parse_file_name,
};
use crate::fs::Fs;
use crate::index::read_aborted;
use crate::producer_state::snapshot;

/// What the name of a file ends with whose name is being made again.
const RENAMED_SUFFIX: &str = ".renamed";

/// Where the entries of a leader epoch checkpoint begin: behind the version and their number.
const EPOCHS_FIRST_LINE: usize = 3;

/// The offset of the newest snapshot of the producers in a partition's directory that is good.
pub(super) fn newest_snapshot(fs: &dyn Fs, dir: &Path) -> Result<Option<Offset>, LogError> {
    let entries = fs.read_dir(dir).map_err(LogError::io("list", dir))?;
    let names = entries.iter().rev().filter_map(|entry| entry.name.to_str());
    let mut offsets = names.filter_map(|name| match parse_file_name(name) {
        Some((offset, SNAPSHOT_EXTENSION)) => Some(offset),
        _ => None,
    });
    let is_good =
        |offset: &Offset| snapshot::read(fs, &file_path(dir, *offset, SNAPSHOT_EXTENSION)).is_ok();
    Ok(offsets.find(is_good))
}

impl PartitionCheck<'_> {
    /// Reports segments that are about to take the place of others; returns whether there are any.
    pub(super) fn report_swaps(&mut self) -> Result<bool, LogError> {
        let names = self.names()?;
        let is_swap = |name: &&String| {
            let replaced = name.strip_suffix(SWAP_SUFFIX).and_then(parse_file_name);
            replaced.is_some_and(|(_, extension)| extension == LOG_EXTENSION)
        };
        let mut is_swapping = false;
        for name in names.iter().filter(is_swap) {
            is_swapping = true;
            self.report_unfinished_compaction(name);
        }
        Ok(is_swapping)
    }

    fn report_unfinished_compaction(&mut self, name: &str) {
        let reason = "compaction has not come to its end";
        (self.report)(Problem::new(self.dir.join(name), 0, reason).unfinished_if(true));
    }

    /// Looks at all files that are no segments, nor the index of one.
    pub(super) fn check_companions(&mut self) -> Result<(), LogError> {
        let names = self.names()?;
        let mut snapshots = Vec::new();
        for name in &names {
            let path = self.dir.join(name);
            match parse_file_name(name) {
                Some((offset, SNAPSHOT_EXTENSION)) => snapshots.push(offset),
                Some((offset, INDEX_EXTENSION | TIME_INDEX_EXTENSION)) => {
                    self.check_has_segment(&path, offset);
                }
                Some((offset, TXN_INDEX_EXTENSION)) => {
                    self.check_has_segment(&path, offset);
                    self.check_aborted(&path, offset);
                }
                Some(_) if name.ends_with(CLEANED_SUFFIX) || name.ends_with(SWAP_SUFFIX) => {
                    self.report_unfinished_compaction(name);
                }
                Some(_) => {}
                None if name == ReplicaMove::FILE => {
                    if let Err(error) = ReplicaMove::read(self.fs, &path) {
                        (self.report)(Problem::of_error(self.fs, &path, error));
                    }
                }
                None if name == FAILED_SYNC_FILE => {
                    let reason =
                        "a sync failed or was not made: what is unflushed is to be written again";
                    (self.report)(Problem::new(path, 0, reason).unfinished_if(true));
                }
                None if name.ends_with(RENAMED_SUFFIX) => {
                    let reason = "a file whose name was being made again";
                    (self.report)(Problem::new(path, 0, reason).unfinished_if(true));
                }
                None if name.ends_with(".log") => {
                    let reason = "it is no segment: its name is no offset of 20 digits";
                    (self.report)(Problem::new(path, 0, reason));
                }
                None => {}
            }
        }
        self.check_snapshots(&snapshots);
        self.check_epochs();
        self.check_metadata();
        Ok(())
    }

    /// Where the first leader epoch begins, if the checkpoint is good.
    pub(super) fn epochs_start(&self) -> Option<Offset> {
        let epochs = leader_epoch::read(self.fs, &self.epochs_path()).ok()?;
        epochs.entries().first().map(|first| first.start_offset)
    }

    fn names(&self) -> Result<Vec<String>, LogError> {
        let entries = self.fs.read_dir(self.dir).map_err(LogError::io("list", self.dir))?;
        let files = entries.into_iter().filter(|entry| !entry.is_dir);
        Ok(files.filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// An index whose segment is not there is all that is left of it, unless the log has not yet
    /// come so far, or does not go back so far any more.
    fn check_has_segment(&mut self, path: &Path, offset: Offset) {
        let is_there = self.segments.binary_search_by_key(&offset, |found| found.base_offset);
        if is_there.is_ok() || self.known.log_start.is_some_and(|start| offset < start) {
            return;
        }
        let is_behind = offset >= self.end();
        let problem = Problem::new(path, 0, "the segment of this index is gone");
        (self.report)(problem.unfinished_if(is_behind && !self.known.is_clean));
    }

    /// Decodes the index of aborted transactions of a segment. What is unfinished of the last one is made anew by the next
    /// start, and it is behind while the broker runs.
    fn check_aborted(&mut self, path: &Path, base: Offset) {
        let next = self.segments.partition_point(|found| found.base_offset <= base);
        let end = self.segments.get(next).map_or(Offset::LIMIT, |next| next.base_offset);
        if let Err(error) = read_aborted(self.fs, path, base, end) {
            let is_unfinished = next == self.segments.len() && !self.known.is_clean;
            let problem = Problem::of_error(self.fs, path, error);
            (self.report)(problem.unfinished_if(is_unfinished));
        }
    }

    /// Decodes the snapshots of the producers. The newest good one vouches for the log before it.
    fn check_snapshots(&mut self, offsets: &[Offset]) {
        let mut newest_good = None;
        for &offset in offsets {
            let path = file_path(self.dir, offset, SNAPSHOT_EXTENSION);
            match self.snapshot_problem(&path, offset) {
                None => newest_good = Some((path, offset)),
                Some(problem) => {
                    (self.report)(problem.repaired_by(Repair::SetAside));
                    self.changes.push(Change::new(path, NewContent::Nothing));
                }
            }
        }
        let Some((path, offset)) = newest_good else { return };
        if let Some(lost) = self.lost_behind_end(offset) {
            let reason = format!("the log ends at {} before what this knows of it", lost.first);
            let problem = Problem::new(path, 0, reason);
            (self.report)(Problem { lost: Some(lost), ..problem });
        }
    }

    /// What is wrong with the snapshot of the producers as of `offset`.
    fn snapshot_problem(&self, path: &Path, offset: Offset) -> Option<Problem> {
        let producers = match snapshot::read(self.fs, path) {
            Ok(producers) => producers,
            Err(error) => return Some(Problem::of_error(self.fs, path, error)),
        };
        producers.iter().enumerate().find_map(|(index, (id, producer))| {
            let last = producer.last_batch().filter(|batch| batch.last_offset >= offset)?;
            let reason = format!("producer {id} has written offset {} by then", last.last_offset);
            Some(Problem::new(path, snapshot::producer_position(index), reason))
        })
    }

    /// Compares the leader epochs with those of the batches.
    fn check_epochs(&mut self) {
        let path = self.epochs_path();
        let epochs = match leader_epoch::read(self.fs, &path) {
            Ok(epochs) => epochs,
            Err(error) => {
                let problem = Problem::of_error(self.fs, &path, error);
                return self.rewrite_epochs(problem);
            }
        };
        if !self.epochs.are_sound() {
            // Nobody knows which of the batches are right.
            return;
        }
        let start = self.epochs_from(&epochs);
        let end = if self.is_end_damaged { Offset::LIMIT } else { self.end() };
        if epochs.entries().is_empty() && self.known.may_be_in_use() {
            // It is written some time after the first batch.
            return;
        }
        let Some(found) = self.epochs.disagreement(&epochs, start, end) else { return };
        let position = line_position(self.fs, &path, EPOCHS_FIRST_LINE + found.entry);
        let known_before = self.known.recovery_point.unwrap_or(Offset::ZERO);
        let is_unfinished = !self.known.is_clean && found.offset >= known_before;
        let problem = Problem::new(&path, position, found.reason);
        self.rewrite_epochs(problem.unfinished_if(is_unfinished));
    }

    /// From where on a checkpoint has the epochs: it follows the log start. After a crash it may be
    /// ahead of what is known of that.
    fn epochs_from(&self, epochs: &LeaderEpochCache) -> Offset {
        let said = epochs.entries().first().map(|first| first.start_offset);
        match self.known.log_start {
            Some(_) if self.known.is_clean => self.log_start(),
            _ => self.log_start().max(said.unwrap_or(Offset::ZERO)),
        }
    }

    fn rewrite_epochs(&mut self, problem: Problem) {
        (self.report)(problem.repaired_by(Repair::Rewrite));
        let epochs = self.epochs.to_cache(self.log_start());
        self.changes.push(Change::new(self.epochs_path(), NewContent::Epochs(epochs)));
    }

    fn epochs_path(&self) -> PathBuf {
        self.dir.join(leader_epoch::LEADER_EPOCH_FILE)
    }

    /// Looks whose log it is.
    fn check_metadata(&mut self) {
        let path = self.dir.join(PartitionMetadata::FILE);
        let problem = match PartitionMetadata::read(self.fs, &path) {
            Ok(Some(found)) => {
                let certain = self.certain_topic_id().filter(|&id| id != found.topic_id);
                let Some(certain) = certain else { return };
                let listed = self.known.list.map(|list| list.topic_id);
                if self.known.topic_id.is_some() && listed != Some(certain) {
                    let reason = format!(
                        "it is a log of topic {}, but the topic of that name is {certain}: the next \
                         start sets it aside",
                        found.topic_id
                    );
                    return (self.report)(Problem::new(path, 0, reason));
                }
                let reason = format!("it has topic id {}, not {certain}", found.topic_id);
                Problem::new(&path, line_position(self.fs, &path, 2), reason)
            }
            Ok(None) => {
                let is_unfinished = self.segments.iter().all(|segment| segment.len_bytes == 0);
                Problem::new(&path, 0, "it is missing").unfinished_if(is_unfinished)
            }
            Err(error) => Problem::of_error(self.fs, &path, error),
        };
        match self.certain_topic_id() {
            Some(topic_id) => {
                (self.report)(problem.repaired_by(Repair::Rewrite));
                let metadata = PartitionMetadata { topic_id };
                self.changes.push(Change::new(path, NewContent::Topic(metadata)));
            }
            None => (self.report)(problem),
        }
    }
}
