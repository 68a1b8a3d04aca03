//! Cutting the ends of logs off, for replicas that follow.

use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset, TopicPartition};

use super::LogDir;
use crate::log::Log;
use crate::writer::{Command, CutTo};
use crate::{Completion, LogError};

/// A log that is to be cut off.
#[derive(Debug, Clone)]
pub struct Truncation {
    log: Arc<Log>,
    to: CutTo,
    leader_epoch: LeaderEpoch,
}

impl Truncation {
    /// All batches go that are not wholly before `end`. A batch that holds it goes as a whole, so that the
    /// log may end before; one that ends before it stays as it is. If that leaves nothing, because the
    /// log starts later, it is as [`Truncation::restart_at`] with `end`.
    ///
    /// `leader_epoch` is the epoch in which this replica follows.
    pub fn to_end_at(log: &Arc<Log>, end: Offset, leader_epoch: LeaderEpoch) -> Truncation {
        Truncation { log: Arc::clone(log), to: CutTo::Before(end), leader_epoch }
    }

    /// All batches go, and the log starts at `start`, before or behind what it had.
    pub fn restart_at(log: &Arc<Log>, start: Offset, leader_epoch: LeaderEpoch) -> Truncation {
        Truncation { log: Arc::clone(log), to: CutTo::Restart(start), leader_epoch }
    }
}

/// What has been prepared for a truncation.
struct Begun {
    /// Where what is cut off begins.
    cut: Offset,
    /// Where the log ends then.
    end: Offset,
}

/// Keeps logs from being compacted until it is dropped.
struct Paused<'a> {
    dir: &'a LogDir,
    partitions: Vec<TopicPartition>,
}

impl LogDir {
    /// Cuts the end of one log off; see [`LogDir::truncate`].
    pub fn truncate_to(
        &self,
        log: &Arc<Log>,
        end: Offset,
        leader_epoch: LeaderEpoch,
    ) -> Result<Offset, LogError> {
        let mut results = self.truncate(&[Truncation::to_end_at(log, end, leader_epoch)]);
        results.pop().expect("there is a result for each log")
    }

    /// Has one log start anew; see [`LogDir::truncate`].
    pub fn truncate_fully_and_start_at(
        &self,
        log: &Arc<Log>,
        start: Offset,
        leader_epoch: LeaderEpoch,
    ) -> Result<Offset, LogError> {
        let mut results = self.truncate(&[Truncation::restart_at(log, start, leader_epoch)]);
        results.pop().expect("there is a result for each log")
    }

    /// Cuts the ends of logs off: for a follower whose leader has other records, or begins elsewhere
    /// (`UnifiedLog.truncateTo` and `truncateFullyAndStartAt` in Apache Kafka). Returns where each log
    /// ends then, in the order asked; that is on stable storage, and the high watermark is not behind
    /// it. Many logs cost little more than one. It waits for syncs.
    ///
    /// What is appended before this returns is cut off like what was there before, or refused
    /// with [`LogError::Busy`]. A log that ends where it is to end forgets the epochs that
    /// would start there, of a leader that has appended nothing (as in Apache Kafka).
    ///
    /// A crash leaves the log as it was or cut off. Of one all of which goes it may leave a beginning;
    /// and if it is to start anew, nothing, starting where it did. A second crash, in the start after the
    /// first, may leave the log cut off somewhere between. To ask again is right in each case.
    ///
    /// # Errors
    ///
    /// [`LogError::EpochOver`] if the epoch of the truncation is over; [`LogError::Busy`] if a compaction
    /// is not finished, because the disk refuses something; those of [`AppendFuture`](crate::AppendFuture)
    /// and [`LogError::Corrupt`] where the batches before the offset cannot be told apart: then the log
    /// is as it was. [`LogError::Poisoned`] if nobody knows what is on the disk. After
    /// [`LogError::DiskFull`] and [`LogError::Io`] either holds, or it is still being tried: until it is
    /// known the log is busy, and to ask again is right.
    pub fn truncate(&self, truncations: &[Truncation]) -> Vec<Result<Offset, LogError>> {
        // No log goes meanwhile, and the directory is not closed.
        let changes = self.changes();
        if let Err(closed) = self.check_open(&changes) {
            return truncations.iter().map(|_| Err(closed.clone())).collect();
        }
        let _paused = self.pause_and_wait(truncations);
        let begun = self.begin_truncations(truncations);
        let prepared = self.prepare_cuts(truncations, &begun);
        let mut commands = Vec::with_capacity(truncations.len());
        let ends: Vec<Result<Completion<Offset>, Result<Offset, LogError>>> = truncations
            .iter()
            .zip(begun)
            .map(|(Truncation { log, .. }, begun)| match begun {
                Ok(Some(_)) => {
                    let (done, end) = Completion::new(log.state().name());
                    let prepared = prepared.clone();
                    commands.push(Command::Cut { key: log.state().key(), prepared, done });
                    Ok(end)
                }
                Ok(None) => Err(Ok(log.log_end_offset())),
                Err(error) => Err(Err(error)),
            })
            .collect();
        self.push_all(commands);
        ends.into_iter().map(|end| end.map_or_else(|known| known, Completion::wait)).collect()
    }

    /// Has the writer prepare them; `None` for one by which nothing is cut off.
    fn begin_truncations(
        &self,
        truncations: &[Truncation],
    ) -> Vec<Result<Option<Begun>, LogError>> {
        let mut commands = Vec::with_capacity(truncations.len());
        let mut answers = Vec::with_capacity(truncations.len());
        for &Truncation { ref log, to, leader_epoch } in truncations {
            debug_assert!(self.is_writer_of(log), "{log:?} is in another directory");
            let (done, begun) = Completion::new(log.state().name());
            commands.push(Command::Truncate { key: log.state().key(), to, leader_epoch, done });
            answers.push(begun);
        }
        self.push_all(commands);
        let begun = |(cut, end)| Begun { cut, end };
        answers.into_iter().map(|answer| answer.wait().map(|answer| answer.map(begun))).collect()
    }

    /// Has everything that the directory says of what is cut off forgotten, on stable storage.
    fn prepare_cuts(
        &self,
        truncations: &[Truncation],
        begun: &[Result<Option<Begun>, LogError>],
    ) -> Result<(), LogError> {
        let begun = truncations.iter().zip(begun).filter_map(|(truncation, begun)| {
            let Begun { cut, end } = begun.as_ref().ok()?.as_ref()?;
            let end = (*cut).min(*end);
            // Before the file, which is written from it at any time.
            truncation.log.state().lower_high_watermark(end);
            Some((truncation.log.topic_partition().clone(), end))
        });
        let lowered: Vec<(TopicPartition, Offset)> = begun.collect();
        let partitions: Vec<TopicPartition> =
            lowered.iter().map(|(partition, _)| partition.clone()).collect();
        self.unlist(&partitions)?;
        self.high_watermarks.lower(&*self.options.fs, &self.root_syncs, &lowered)?;
        self.lower_cleaned(&lowered)
    }

    fn pause_and_wait(&self, truncations: &[Truncation]) -> Paused<'_> {
        let partitions = truncations.iter().map(|it| it.log.topic_partition().clone()).collect();
        let paused = Paused { dir: self, partitions };
        paused.partitions.iter().for_each(|partition| self.begin_pause(partition));
        paused.partitions.iter().for_each(|partition| self.wait_until_paused(partition));
        paused
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.partitions.iter().for_each(|partition| self.dir.end_pause(partition));
    }
}
