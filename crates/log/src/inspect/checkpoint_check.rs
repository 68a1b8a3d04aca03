//! The check of what a log directory remembers of its logs against the logs.

use std::collections::BTreeMap;
use std::path::Path;

use logway_model::{DirectoryId, Offset, TopicPartition};

use super::partition_check::FoundLog;
use super::repair::{Change, NewContent};
use super::root_files::{Offsets, RootFile, RootFiles};
use super::{ExpectedLogs, Problem, Repair};
use crate::checkpoint::offset_checkpoint::UNKNOWN;
use crate::checkpoint::read_text;
use crate::fs::Fs;

/// A quarter of a million partitions with the longest names.
const TEXT_MAX_BYTES: usize = 64 << 20;

/// The check of the checkpoints of a log directory.
pub(super) struct CheckpointCheck<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) root: &'a Path,
    pub(super) files: &'a RootFiles,
    /// The logs that are there.
    pub(super) found: &'a BTreeMap<TopicPartition, FoundLog>,
    pub(super) expected: Option<&'a ExpectedLogs>,
    pub(super) report: &'a mut dyn FnMut(Problem),
}

/// What is wrong with an entry of a checkpoint, and what it should be; without the latter it goes.
struct BadEntry {
    reason: String,
    /// The records that are lost, if the entry is right.
    lost: Option<(Offset, Offset)>,
    /// The entry is certainly wrong, and this is right.
    right: Option<Option<Offset>>,
}

impl BadEntry {
    /// One of a log that there never was.
    fn stranger(partition: &TopicPartition) -> BadEntry {
        let reason = format!("there is no {partition}, and was none when the directory was closed");
        BadEntry { reason, lost: None, right: Some(None) }
    }
}

impl CheckpointCheck<'_> {
    /// Reports what is wrong, and returns what a repair does.
    pub(super) fn run(mut self) -> Vec<Change> {
        let files = self.files;
        let mut changes = Vec::new();
        changes.extend(self.recovery_points(&files.recovery_points));
        changes.extend(self.log_starts(&files.log_starts));
        changes.extend(self.cleaned(&files.cleaned));
        changes.extend(self.high_watermarks(&files.high_watermarks));
        if let Some(problem) = files.lists.problem(self.fs) {
            (self.report)(problem.repaired_by(Repair::SetAside));
            changes.push(Change::new(&files.lists.path, NewContent::Nothing));
        }
        self.expected_logs();
        changes
    }

    fn recovery_points(&mut self, file: &RootFile<Offsets>) -> Option<Change> {
        if self.is_lost(file) {
            let offsets = self.known_recovery_points();
            return Some(Change::new(&file.path, NewContent::Offsets(offsets)));
        }
        let missing = self.without_recovery_point(file);
        self.entries(file, missing, |check, partition, point| match check.found.get(partition) {
            None => check.without_log(partition, point),
            Some(log) if point > log.end && !log.is_end_damaged => Some(BadEntry {
                reason: format!(
                    "{partition} was on stable storage before offset {point}, and ends at {}: its end \
                     is gone, or this offset is wrong",
                    log.end
                ),
                lost: Some((log.end, point)),
                right: log.is_as_closed.then_some(Some(log.end)),
            }),
            Some(_) => None,
        })
    }

    /// The logs of a directory that was closed in good order that have no entry all the same.
    fn without_recovery_point(&mut self, file: &RootFile<Offsets>) -> Offsets {
        let has_entry =
            |partition| file.value().is_none_or(|points| points.contains_key(partition));
        let closed = self.found.iter().filter(|(_, log)| log.is_as_closed);
        let missing = closed.filter(|(partition, _)| !has_entry(partition));
        let missing = missing.map(|(partition, log)| (partition.clone(), log.end));
        let missing: Offsets = missing.collect();
        for partition in missing.keys() {
            let reason = format!("it has no entry for {partition}");
            (self.report)(Problem::new(&file.path, 0, reason).repaired_by(Repair::Rewrite));
        }
        missing
    }

    /// Whether a log of that name certainly was not there when the directory was closed in good
    /// order: all were written down then.
    fn never_was(&self, partition: &TopicPartition) -> bool {
        let lists = self.files.lists.value().filter(|lists| !lists.is_empty());
        self.files.is_clean && lists.is_some_and(|lists| !lists.contains_key(partition))
    }

    /// An entry of a log that has no directory. If the metadata has no such topic, it is forgotten
    /// by the next start.
    fn without_log(&self, partition: &TopicPartition, point: Offset) -> Option<BadEntry> {
        if self.never_was(partition) {
            return Some(BadEntry::stranger(partition));
        }
        let is_expected = self.expected.is_none_or(|all| all.logs.contains_key(partition));
        let had_records = point > Offset::ZERO || point == UNKNOWN;
        (is_expected && had_records).then(|| BadEntry {
            reason: format!("the directory of {partition} is gone, and it had records"),
            lost: (point != UNKNOWN).then_some((Offset::ZERO, point)),
            right: None,
        })
    }

    fn log_starts(&mut self, file: &RootFile<Offsets>) -> Option<Change> {
        if self.is_lost(file) {
            let starts = self.found.iter().map(|(partition, log)| {
                let start = log.epochs_start.unwrap_or(log.first).min(log.end).max(log.first);
                (partition.clone(), start)
            });
            let starts = starts.filter(|(_, start)| *start > Offset::ZERO).collect();
            return Some(Change::new(&file.path, NewContent::Offsets(starts)));
        }
        self.entries(file, Offsets::new(), |check, partition, start| {
            match check.found.get(partition) {
                None => check.never_was(partition).then(|| BadEntry::stranger(partition)),
                Some(log) if log.is_empty => None,
                Some(log) => check
                    .hides_records(log, partition, start)
                    .or_else(|| check.is_outside(log, partition, start)),
            }
        })
    }

    /// A log start that is not one of the log.
    fn is_outside(
        &self,
        log: &FoundLog,
        partition: &TopicPartition,
        start: Offset,
    ) -> Option<BadEntry> {
        if start > log.end && !log.is_end_damaged {
            let reason = format!("{partition} ends at {}, and cannot start behind that", log.end);
            // The broker does not believe it either.
            return Some(BadEntry { reason, lost: None, right: Some(None) });
        }
        (start < log.first).then(|| BadEntry {
            reason: format!(
                "{partition} starts at {start}, but what is there begins with {}",
                log.first
            ),
            lost: Some((start, log.first)),
            right: log.is_as_closed.then_some(Some(log.first)),
        })
    }

    /// A log start that the leader epochs do not know of: they follow it, and are on disk when the
    /// directory was closed in good order.
    fn hides_records(
        &self,
        log: &FoundLog,
        partition: &TopicPartition,
        start: Offset,
    ) -> Option<BadEntry> {
        let epochs_start = log.epochs_start.filter(|_| log.is_as_closed)?.max(log.first);
        (start > epochs_start).then(|| BadEntry {
            reason: format!(
                "{partition} starts at {start}, but its leader epochs begin with {epochs_start}"
            ),
            lost: None,
            right: Some(Some(epochs_start)),
        })
    }

    /// A log without an entry is compacted from its beginning.
    fn cleaned(&mut self, file: &RootFile<Offsets>) -> Option<Change> {
        if let Some(problem) = file.problem(self.fs) {
            (self.report)(problem.repaired_by(Repair::SetAside));
            return Some(Change::new(&file.path, NewContent::Nothing));
        }
        self.entries(file, Offsets::new(), |check, partition, cleaned| {
            let log = check.found.get(partition)?;
            let is_behind = cleaned > log.end && !log.is_end_damaged;
            (is_behind || cleaned < Offset::ZERO).then(|| BadEntry {
                reason: format!("{partition} ends at {}, and cannot be clean behind that", log.end),
                lost: None,
                right: Some(None),
            })
        })
    }

    /// A log without an entry begins with none. One that is behind the end is none that was not true: a
    /// crash may have taken the end.
    fn high_watermarks(&mut self, file: &RootFile<Offsets>) -> Option<Change> {
        if let Some(problem) = file.problem(self.fs) {
            (self.report)(problem.repaired_by(Repair::SetAside));
            return Some(Change::new(&file.path, NewContent::Nothing));
        }
        self.entries(file, Offsets::new(), |_, partition, high_watermark| {
            (high_watermark < Offset::ZERO).then(|| BadEntry {
                reason: format!("{partition} cannot be committed up to {high_watermark}"),
                lost: None,
                right: Some(None),
            })
        })
    }

    /// Reports a checkpoint that there must be and that cannot be read.
    fn is_lost(&mut self, file: &RootFile<Offsets>) -> bool {
        let problem = match &file.read {
            Ok(Some(_)) => return false,
            Ok(None) if self.found.is_empty() => return false,
            Ok(None) => Problem::new(&file.path, 0, "it is missing, or empty"),
            Err(error) => Problem::of_error(self.fs, &file.path, error.clone()),
        };
        (self.report)(problem.repaired_by(Repair::Rewrite));
        true
    }

    /// What can be said without the checkpoint: a log that was closed in good order is whole, of any
    /// other nobody knows, and one whose directory is gone must not be taken for a new one.
    fn known_recovery_points(&self) -> Offsets {
        let lists = self.files.lists.value();
        let listed = lists.into_iter().flatten().map(|(partition, list)| (partition, list.end));
        let gone = listed.filter(|(partition, _)| !self.found.contains_key(partition));
        let there = self.found.iter().map(|(partition, log)| {
            let point = if log.is_as_closed { log.end } else { UNKNOWN };
            (partition, point)
        });
        gone.chain(there).map(|(partition, point)| (partition.clone(), point)).collect()
    }

    /// Goes through the entries of a checkpoint in the order of the file; `missing` are to be added.
    fn entries(
        &mut self,
        file: &RootFile<Offsets>,
        missing: Offsets,
        judge: impl Fn(&Self, &TopicPartition, Offset) -> Option<BadEntry>,
    ) -> Option<Change> {
        let offsets = file.value()?;
        let mut right = offsets.clone();
        right.extend(missing);
        let text = read_text(self.fs, &file.path, TEXT_MAX_BYTES).ok()??;
        let mut position = 0;
        for line in text.split_inclusive('\n') {
            let begins = position;
            position += line.len() as u64;
            let Some((partition, offset)) = entry_of(line, offsets) else { continue };
            let Some(bad) = judge(&*self, partition, offset) else { continue };
            let problem = match bad.lost.filter(|_| bad.right.is_none()) {
                Some((first, end)) => {
                    Problem::new(&file.path, begins, bad.reason).losing(first, end)
                }
                None => Problem::new(&file.path, begins, bad.reason),
            };
            match bad.right {
                None => (self.report)(problem),
                Some(value) => {
                    (self.report)(problem.repaired_by(Repair::Rewrite));
                    match value {
                        Some(offset) => right.insert(partition.clone(), offset),
                        None => right.remove(partition),
                    };
                }
            }
        }
        (right != *offsets).then(|| Change::new(&file.path, NewContent::Offsets(right)))
    }

    /// Compares the logs that are there with those that the metadata knows.
    fn expected_logs(&mut self) {
        let (Some(expected), Some(owner)) = (self.expected, self.files.owner.value()) else {
            return;
        };
        for (partition, log) in &expected.logs {
            if expected.is_in(log, owner.directory_id) && !self.found.contains_key(partition) {
                self.not_there(partition);
            }
        }
        for partition in self.found.keys() {
            self.not_expected(partition, expected, owner.directory_id);
        }
    }

    /// A log that the metadata knows and that has no directory. One that had records is reported
    /// with the checkpoint that says so.
    fn not_there(&mut self, partition: &TopicPartition) {
        let point = self.files.recovery_points.value().and_then(|points| points.get(partition));
        if point.is_some_and(|&point| point > Offset::ZERO || point == UNKNOWN) {
            return;
        }
        let listed = self.files.lists.value().and_then(|lists| lists.get(partition));
        let end = listed.map_or(Offset::ZERO, |list| list.end);
        let path = self.root.join(partition.to_string());
        let problem = Problem::new(path, 0, "the metadata has this partition, which is not there");
        match end > Offset::ZERO && point.is_none() {
            true => (self.report)(problem.losing(Offset::ZERO, end)),
            false => (self.report)(problem.unfinished_if(true)),
        }
    }

    fn not_expected(
        &mut self,
        partition: &TopicPartition,
        expected: &ExpectedLogs,
        directory: DirectoryId,
    ) {
        let path = self.root.join(partition.to_string());
        match expected.logs.get(partition) {
            None => {
                let reason = "the metadata has no such partition: the next start sets it aside";
                (self.report)(Problem::new(path, 0, reason));
            }
            Some(log) if !expected.is_in(log, directory) => {
                let reason = "the metadata has this partition in another log directory";
                (self.report)(Problem::new(path, 0, reason).unfinished_if(true));
            }
            Some(_) => {}
        }
    }
}

/// The entry on a line of a checkpoint that was read.
fn entry_of<'a>(line: &str, offsets: &'a Offsets) -> Option<(&'a TopicPartition, Offset)> {
    let mut fields = line.split_ascii_whitespace();
    let (topic, number, _) = (fields.next()?, fields.next()?, fields.next()?);
    let partition = TopicPartition::from_dir_name(&format!("{topic}-{number}"))?;
    offsets.get_key_value(&partition).map(|(partition, &offset)| (partition, offset))
}
