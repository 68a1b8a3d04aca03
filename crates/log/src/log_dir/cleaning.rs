//! What a log directory knows of the compaction of its logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use logway_model::{Offset, TimestampMs, TopicPartition};

use super::LogDir;
use crate::LogError;
use crate::checkpoint::offset_checkpoint::{self, CLEANER_OFFSET_FILE};
use crate::checkpoint::remove_file;
use crate::cleaner::Cancel;
use crate::fs::Fs;
use crate::log::Log;

/// How far the logs of a directory are compacted, which cannot be, and which are being compacted.
///
/// A log is entered by one at a time. Whoever deletes it, or closes the directory, waits until it is
/// left.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    state: Mutex<CleaningState>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct CleaningState {
    known: BTreeMap<TopicPartition, CleaningProgress>,
    visited: BTreeMap<TopicPartition, Cancel>,
    /// Those that nobody may enter, and for how many.
    paused: BTreeMap<TopicPartition, usize>,
    is_closed: bool,
}

/// What is known of the compaction of a log.
#[derive(Debug, Clone, Default)]
pub(crate) struct CleaningProgress {
    /// Everything before is clean.
    pub(crate) cleaned: Option<Offset>,
    /// When the next tombstone or marker may go; not known after a start, before the first round.
    pub(crate) next_horizon: Option<TimestampMs>,
    /// Why it cannot be compacted, and where it began then: what is damaged may be gone when it
    /// begins elsewhere.
    pub(crate) uncleanable: Option<(LogError, Offset)>,
    /// How its last round ended for want of space, if it did.
    pub(crate) starved: Option<Starved>,
}

/// A round that ended for want of space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Starved {
    /// When it ended.
    pub(crate) since: TimestampMs,
    /// What was free when it had given back all that it had taken: too little.
    pub(crate) free_bytes: u64,
}

/// Keeps a log of a directory from being compacted, until it is dropped.
pub struct CompactionPause {
    dir: Arc<LogDir>,
    partition: TopicPartition,
}

/// The right to compact a log, until it is dropped.
pub(crate) struct Visit<'a> {
    dir: &'a LogDir,
    log: Arc<Log>,
    cancel: Cancel,
}

impl Cleaning {
    /// Reads the checkpoint; what it says of logs that are not those of then is forgotten. A log
    /// that is not as clean as it is said to be would get back what a tombstone has deleted when the
    /// tombstone goes.
    pub(super) fn open(
        fs: &dyn Fs,
        root: &Path,
        is_same: impl Fn(&TopicPartition) -> bool,
    ) -> Result<Cleaning, LogError> {
        let path = root.join(CLEANER_OFFSET_FILE);
        let mut offsets = match offset_checkpoint::read(fs, &path) {
            Err(error @ LogError::Malformed { .. }) => {
                tracing::warn!(%error, "logs are compacted from their beginning again");
                BTreeMap::new()
            }
            read => read?.unwrap_or_default(),
        };
        let count = offsets.len();
        offsets.retain(|partition, offset| is_same(partition) && *offset >= Offset::ZERO);
        if offsets.len() < count {
            match offset_checkpoint::write(fs, &path, &offsets) {
                // To know nothing costs work, and needs no space.
                Err(error) if error.is_disk_full() => remove_file(fs, &path)?,
                written => written?,
            }
        }
        let progress = |cleaned| CleaningProgress { cleaned: Some(cleaned), ..Default::default() };
        let known = offsets.into_iter().map(|(partition, offset)| (partition, progress(offset)));
        let state = CleaningState { known: known.collect(), ..Default::default() };
        Ok(Cleaning { state: Mutex::new(state), left: Condvar::new() })
    }

    /// Lets nobody in any more, and tells all to leave.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.visited.values().for_each(Cancel::cancel);
    }

    /// Waits until all have left.
    pub(super) fn wait_until_left(&self) {
        drop(self.wait_while(self.state(), |state| !state.visited.is_empty()));
    }

    fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, CleaningState>,
        condition: impl FnMut(&mut CleaningState) -> bool,
    ) -> MutexGuard<'a, CleaningState> {
        self.left.wait_while(state, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// What it guards is right after each single step.
    fn state(&self) -> MutexGuard<'_, CleaningState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CleaningState {
    fn may_be_entered(&self, partition: &TopicPartition) -> bool {
        !self.is_closed
            && !self.visited.contains_key(partition)
            && !self.paused.contains_key(partition)
    }
}

impl LogDir {
    /// Keeps a log from being compacted for as long as what this returns lives; who is at it is told
    /// to leave.
    ///
    /// Whoever copies a log needs that. Else a tombstone could go before it is copied, behind a copy
    /// of what it has deleted.
    pub fn pause_compaction(self: &Arc<Self>, partition: &TopicPartition) -> CompactionPause {
        self.begin_pause(partition);
        CompactionPause { dir: Arc::clone(self), partition: partition.clone() }
    }

    /// Lets nobody into a log any more, until [`LogDir::end_pause`].
    pub(super) fn begin_pause(&self, partition: &TopicPartition) {
        let mut state = self.cleaning.state();
        *state.paused.entry(partition.clone()).or_default() += 1;
        if let Some(cancel) = state.visited.get(partition) {
            cancel.cancel();
        }
    }

    /// Waits until whoever was in the log has left.
    pub(super) fn wait_until_paused(&self, partition: &TopicPartition) {
        let is_visited = |state: &mut CleaningState| state.visited.contains_key(partition);
        drop(self.cleaning.wait_while(self.cleaning.state(), is_visited));
    }

    pub(super) fn end_pause(&self, partition: &TopicPartition) {
        let mut state = self.cleaning.state();
        if let Some(count) = state.paused.get_mut(partition) {
            *count -= 1;
            if *count == 0 {
                state.paused.remove(partition);
            }
        }
    }

    /// Takes note that logs are to be cut off at these offsets, on stable storage: what comes behind
    /// them instead has not been compacted.
    pub(super) fn lower_cleaned(&self, cuts: &[(TopicPartition, Offset)]) -> Result<(), LogError> {
        let mut state = self.cleaning.state();
        let mut is_any_lowered = false;
        for (partition, cut) in cuts {
            let Some(known) = state.known.get_mut(partition) else { continue };
            if known.cleaned.is_some_and(|cleaned| cleaned > *cut) {
                known.cleaned = Some(*cut);
                is_any_lowered = true;
            }
        }
        if !is_any_lowered {
            return Ok(());
        }
        match self.write_cleaned(&state, &BTreeSet::new()) {
            // To know nothing costs work, and needs no space.
            Err(error) if error.is_disk_full() => self.remove_cleaned(),
            written => written,
        }
    }

    /// What is known of the compaction of a log, and whether it may be entered: not while somebody is
    /// at it.
    pub(crate) fn cleaning_progress(&self, partition: &TopicPartition) -> (CleaningProgress, bool) {
        let state = self.cleaning.state();
        let progress = state.known.get(partition).cloned().unwrap_or_default();
        (progress, state.may_be_entered(partition))
    }

    /// Enters a log to compact it; `None` if somebody is at it, it is being deleted, somebody has
    /// paused its compaction, or the directory closes.
    pub(crate) fn visit(&self, log: &Arc<Log>) -> Option<Visit<'_>> {
        let partition = log.topic_partition();
        let cancel = Cancel::default();
        let mut state = self.cleaning.state();
        if !state.may_be_entered(partition) {
            return None;
        }
        state.visited.insert(partition.clone(), cancel.clone());
        drop(state);
        let visit = Visit { dir: self, log: Arc::clone(log), cancel };
        // Whoever deletes it has taken it away first, and waits for those who have entered.
        let is_there = self.log(partition).is_some_and(|known| Arc::ptr_eq(&known, log));
        is_there.then_some(visit)
    }

    /// Tells all who compact a log of the directory to leave it.
    pub(crate) fn cancel_cleaning(&self) {
        self.cleaning.state().visited.values().for_each(Cancel::cancel);
    }

    /// Takes note that a log that begins at `start` cannot be compacted as it is, unless it is being
    /// deleted.
    pub(crate) fn note_uncleanable(&self, log: &Arc<Log>, start: Offset, error: LogError) {
        let Some(visit) = self.visit(log) else { return };
        let mut state = self.cleaning.state();
        let known = state.known.entry(log.topic_partition().clone()).or_default();
        if known.uncleanable.is_none() {
            let partition = log.topic_partition();
            tracing::error!(%partition, %error, "a log cannot be compacted");
        }
        known.uncleanable = Some((error, start));
        drop(state);
        drop(visit);
    }

    /// Waits until nobody compacts logs that were taken away, and has the checkpoint written without
    /// them.
    pub(super) fn forget_cleaned(&self, partitions: &[TopicPartition]) -> Result<(), LogError> {
        let is_visited = |state: &mut CleaningState| {
            partitions.iter().any(|partition| state.visited.contains_key(partition))
        };
        let state = self.cleaning.state();
        for cancel in partitions.iter().filter_map(|partition| state.visited.get(partition)) {
            cancel.cancel();
        }
        let mut state = self.cleaning.wait_while(state, is_visited);
        let is_written =
            |partition| state.known.get(partition).is_some_and(|known| known.cleaned.is_some());
        let forgotten: BTreeSet<&TopicPartition> = partitions.iter().collect();
        if partitions.iter().any(is_written) {
            match self.write_cleaned(&state, &forgotten) {
                // To know nothing costs work, and needs no space.
                Err(error) if error.is_disk_full() => self.remove_cleaned()?,
                written => written?,
            }
        }
        // Not before: what is still in the file has to be written again.
        state.known.retain(|partition, _| !forgotten.contains(partition));
        Ok(())
    }

    fn remove_cleaned(&self) -> Result<(), LogError> {
        let path = self.options.path.join(CLEANER_OFFSET_FILE);
        self.root_syncs.work(|| remove_file(&*self.options.fs, &path))
    }

    fn write_cleaned(
        &self,
        state: &CleaningState,
        without: &BTreeSet<&TopicPartition>,
    ) -> Result<(), LogError> {
        let cleaned = state.known.iter().filter(|(partition, _)| !without.contains(partition));
        let cleaned =
            cleaned.filter_map(|(partition, known)| Some((partition.clone(), known.cleaned?)));
        let path = self.options.path.join(CLEANER_OFFSET_FILE);
        let cleaned = cleaned.collect();
        self.root_syncs.work(|| offset_checkpoint::write(&*self.options.fs, &path, &cleaned))
    }
}

impl CompactionPause {
    /// Waits until whoever was at it has left.
    pub fn wait(&self) {
        self.dir.wait_until_paused(&self.partition);
    }
}

impl Drop for CompactionPause {
    fn drop(&mut self) {
        self.dir.end_pause(&self.partition);
    }
}

impl Visit<'_> {
    /// Says when to leave.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// What the next one must know. An error leaves an older checkpoint, after which more is
    /// compacted again than need be.
    pub(crate) fn note(&self, progress: CleaningProgress) -> Result<(), LogError> {
        let mut state = self.dir.cleaning.state();
        let known = state.known.entry(self.log.topic_partition().clone()).or_default();
        let is_new = known.cleaned != progress.cleaned;
        *known = progress;
        if is_new { self.dir.write_cleaned(&state, &BTreeSet::new()) } else { Ok(()) }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.dir.cleaning.state().visited.remove(self.log.topic_partition());
        self.dir.cleaning.left.notify_all();
    }
}
