//! In which directory the log of a partition is.
//!
//! The metadata says, and a log is only ever made where it says. But somebody may have moved a log
//! by hand while the broker was down, and metadata of an older version says nothing: then what is
//! found on the disks counts, and is told to the metadata before the partition is served. Where
//! nobody can know, because a directory is offline, the partition is offline, too: a log made anew
//! elsewhere would begin at 0 while the records wait on the disk that is missing.
//!
//! A log that is being filled by a move ([`replica_moves`](crate::replica_moves)) is not the
//! partition's, whatever the metadata says: it is told first.

use std::sync::Arc;
use std::thread;

use logway_log::checkpoint::MoveState;
use logway_log::{Log, LogDir, LogError, NewLog};
use logway_model::{DirectoryId, Offset};

use super::{DirState, LogDirs, knows};

/// A log that is to be open.
#[derive(Debug, Clone)]
pub(crate) struct WantedLog {
    /// Which.
    pub(crate) new: NewLog,
    /// Where it is, as the metadata says.
    pub(crate) assigned: DirectoryId,
}

/// An open log, and where it is.
#[derive(Debug, Clone)]
pub struct LocatedLog {
    /// The log.
    pub log: Arc<Log>,
    /// The id of its directory.
    pub directory: DirectoryId,
}

impl LogDirs {
    /// Opens or makes logs. The results are in the order asked; a log need not be where it was
    /// said to be.
    ///
    /// # Errors
    ///
    /// [`LogError::DirectoryOffline`], and those of [`LogDir::create_logs`] and
    /// [`LogDir::try_again`].
    pub(crate) fn open_logs(&self, wanted: &[WantedLog]) -> Vec<Result<LocatedLog, LogError>> {
        let mut placed = self.locate_all(wanted);
        // Each disk by its own thread.
        thread::scope(|scope| {
            let mut opening = Vec::new();
            for dir in self.online() {
                let is_here = |place: &Result<Arc<LogDir>, LogError>| {
                    place.as_ref().is_ok_and(|place| Arc::ptr_eq(place, &dir))
                };
                let here: Vec<usize> =
                    (0..wanted.len()).filter(|&index| is_here(&placed[index])).collect();
                if !here.is_empty() {
                    opening.push(scope.spawn(move || {
                        let logs: Vec<NewLog> =
                            here.iter().map(|&index| wanted[index].new.clone()).collect();
                        (here, self.open_in(&dir, &logs))
                    }));
                }
            }
            let mut results: Vec<_> = placed
                .drain(..)
                .zip(wanted)
                .map(|(place, wanted)| match place {
                    Err(error) => Err(error),
                    // The directory has failed since.
                    Ok(_) => Err(self.offline(wanted, wanted.assigned)),
                })
                .collect();
            for opening in opening {
                let (here, opened) =
                    opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                for (index, opened) in here.into_iter().zip(opened) {
                    results[index] = opened;
                }
            }
            results
        })
    }

    /// The directory of each log.
    fn locate_all(&self, wanted: &[WantedLog]) -> Vec<Result<Arc<LogDir>, LogError>> {
        let online: Vec<Arc<LogDir>> = self.online().collect();
        let mut counts: Vec<usize> = online.iter().map(|dir| dir.log_count()).collect();
        let place = |wanted: &WantedLog| {
            if let Some(found) = self.find(&online, wanted)? {
                return Ok(Arc::clone(found));
            }
            if !self.may_be_made(wanted, &online) {
                return Err(self.offline(wanted, wanted.assigned));
            }
            let (fewest, _) = counts
                .iter()
                .enumerate()
                .min_by_key(|(_, count)| **count)
                .expect("without any directory the broker has stopped");
            counts[fewest] += 1;
            Ok(Arc::clone(&online[fewest]))
        };
        wanted.iter().map(place).collect()
    }

    /// Whether a log that was found nowhere may be made: nobody knows of a place where its records are.
    fn may_be_made(&self, wanted: &WantedLog, online: &[Arc<LogDir>]) -> bool {
        if self.is_given_up(wanted.assigned) {
            let (partition, directory) = (&wanted.new.partition, wanted.assigned);
            tracing::warn!(%partition, %directory, "the log directory of the partition was given up: \
                its log is made anew, and begins at offset 0");
            return true;
        }
        let is_all_there = online.len() == self.dirs.len() && self.missing.is_empty();
        wanted.assigned == DirectoryId::UNASSIGNED && is_all_there
    }

    fn open_in(&self, dir: &LogDir, wanted: &[NewLog]) -> Vec<Result<LocatedLog, LogError>> {
        let opened = dir.create_logs(wanted);
        let directory = dir.directory_id();
        let mut has_failed = false;
        let placed = wanted.iter().zip(opened).map(|(new, opened)| {
            // What failed before may have been put right, by time or by the operator; but not a disk
            // that has just failed, each try on which may take long.
            let opened = match opened {
                Err(_) if !has_failed => dir.try_again(new),
                opened => opened,
            };
            let log = opened.inspect_err(|error| {
                if error.is_device_failure() {
                    has_failed = true;
                    self.reports.report(dir.path(), error);
                }
            })?;
            Ok(LocatedLog { log, directory })
        });
        placed.collect()
    }

    /// Why a log cannot be opened: it is, or may be, in a directory that cannot be used.
    fn offline(&self, wanted: &WantedLog, id: DirectoryId) -> LogError {
        let partition = wanted.new.partition.clone();
        LogError::DirectoryOffline { partition, directory: self.describe(id) }
    }

    /// What is known of a directory that is not online, for people.
    fn describe(&self, id: DirectoryId) -> String {
        let offline: Vec<_> = self
            .dirs
            .iter()
            .filter(|dir| matches!(dir.state(), DirState::Offline { .. }))
            .collect();
        let by_id = offline.iter().find(|dir| dir.id() == Some(id));
        if let Some((path, _)) = self.missing.iter().find(|(_, missing)| **missing == id) {
            return format!("{}, which is missing from log.dirs", path.display());
        }
        match (by_id, &offline[..]) {
            (Some(dir), _) => dir.path.display().to_string(),
            (None, _) if id != DirectoryId::UNASSIGNED && !self.missing.is_empty() => {
                format!("directory {id}, which is none of log.dirs")
            }
            (None, [only]) => only.path.display().to_string(),
            (None, []) => format!("directory {id}, which is none of log.dirs"),
            (None, several) => format!("one of {} directories", several.len()),
        }
    }

    /// The directory that a log is in, or is to be made in; `None` if it is none of these.
    fn find<'a>(
        &self,
        online: &'a [Arc<LogDir>],
        wanted: &WantedLog,
    ) -> Result<Option<&'a Arc<LogDir>>, LogError> {
        let partition = &wanted.new.partition;
        let is_whole_in = |dir: &&Arc<LogDir>| {
            log_in(dir, wanted).is_some_and(|log| source_of_copy(&log).is_none())
        };
        let has_failed_in = |dir: &&Arc<LogDir>| dir.failed_log(partition).is_some();
        let newest = || {
            let logs = online.iter().filter(is_whole_in);
            let logs = logs.filter_map(|dir| Some((dir, log_in(dir, wanted)?.log_end_offset())));
            logs.max_by_key(|(_, end)| *end)
        };
        if wanted.assigned == DirectoryId::UNASSIGNED {
            let found = newest().map(|(dir, _)| dir);
            return Ok(found.or_else(|| online.iter().find(has_failed_in)));
        }
        let Some(assigned) = online.iter().find(|dir| dir.directory_id() == wanted.assigned) else {
            return match newest() {
                Some((found, end)) => self.confirm(wanted, found, end).map(Some),
                None => Ok(None),
            };
        };
        if let Some(log) = log_in(assigned, wanted) {
            return match source_of_copy(&log) {
                Some(from) => self.find_source(online, wanted, &log, from).map(Some),
                None => Ok(Some(assigned)),
            };
        }
        // Somebody has moved it by hand, if nothing of it is left in its place.
        match (assigned.failed_log(partition), newest()) {
            (None, Some((found, _))) => Ok(Some(found)),
            (Some(LogError::Vanished { dir, end }), Some((found, found_end))) => {
                if assigned.is_loss_accepted(partition)? {
                    return Ok(Some(assigned));
                }
                if found_end >= end {
                    return Ok(Some(found));
                }
                let found = found.path().join(partition.to_string());
                Err(LogError::OlderElsewhere { dir, end, found, found_end })
            }
            _ => Ok(Some(assigned)),
        }
    }

    /// Whether a log is its partition's that is not where the metadata says: in a directory that
    /// cannot be asked. It may be what a move has left behind; only an operator knows.
    fn confirm<'a>(
        &self,
        wanted: &WantedLog,
        found: &'a Arc<LogDir>,
        found_end: Offset,
    ) -> Result<&'a Arc<LogDir>, LogError> {
        let partition = wanted.new.partition.clone();
        if found.is_loss_accepted(&partition)? || self.is_given_up(wanted.assigned) {
            tracing::warn!(%partition, path = %found.path().display(), "a log is accepted that was \
                found elsewhere than it was");
            return Ok(found);
        }
        let directory = self.describe(wanted.assigned);
        let found = found.path().join(partition.to_string());
        Err(LogError::PerhapsElsewhere { partition, directory, found, found_end })
    }

    /// Forgets logs where they were, once the metadata knows that they are elsewhere.
    pub(crate) fn forget_moved(&self, moved: &[(WantedLog, LocatedLog)]) {
        for (wanted, place) in moved {
            let partition = &wanted.new.partition;
            let forgotten = || {
                if let Some(before) = self.by_id(wanted.assigned)
                    && let Some(LogError::Vanished { .. }) = before.failed_log(partition)
                {
                    before.set_aside(partition)?;
                }
                match self.by_id(place.directory) {
                    Some(now) if now.is_loss_accepted(partition)? => {
                        now.forget_accepted_loss(partition)
                    }
                    _ => Ok(()),
                }
            };
            if let Err(error) = forgotten() {
                tracing::warn!(%partition, %error, "what is left of a log that was moved by hand \
                    cannot be cleared away");
            }
        }
    }

    /// The directory that a copy is made from: the log is still there.
    fn find_source<'a>(
        &self,
        online: &'a [Arc<LogDir>],
        wanted: &WantedLog,
        copy: &Log,
        from: DirectoryId,
    ) -> Result<&'a Arc<LogDir>, LogError> {
        let partition = &wanted.new.partition;
        let Some(source) = online.iter().find(|dir| dir.directory_id() == from) else {
            return Err(self.offline(wanted, from));
        };
        // One that claims to be a copy of itself was moved there by hand.
        let is_itself = source.log(partition).is_some_and(|log| std::ptr::eq(&*log, copy));
        if !is_itself && knows(source, partition) {
            return Ok(source);
        }
        let dir = source.path().join(partition.to_string());
        Err(LogError::Vanished { dir, end: copy.log_end_offset() })
    }
}

/// The log of the wanted topic in a directory.
fn log_in(dir: &LogDir, wanted: &WantedLog) -> Option<Arc<Log>> {
    let log = dir.log(&wanted.new.partition)?;
    (log.topic_id() == wanted.new.topic_id).then_some(log)
}

/// From which directory a log is being copied, if it is.
fn source_of_copy(log: &Log) -> Option<DirectoryId> {
    let moved = log.replica_move()?;
    (moved.state == MoveState::Copying).then_some(moved.from)
}
