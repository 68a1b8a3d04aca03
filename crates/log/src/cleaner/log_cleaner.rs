//! Which log is cleaned when, and by whom.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logway_model::{Offset, TimestampMs, TopicPartition};

use super::metrics::{CleanerMetrics, PartitionState};
use super::pace::{Cancel, Pace, Throttle};
use super::range::{CleanableRange, Limits};
use super::rewrite::{FREE_MIN_BYTES, Interrupted};
use super::round::{Round, RoundOutcome};
use crate::checkpoint::MoveState;
use crate::config::NEVER_MS;
use crate::log::Log;
use crate::log_dir::{CleaningProgress, Starved, Visit};
use crate::{LogDir, LogError};

/// How to clean logs.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanerOptions {
    /// `log.cleaner.threads`: how many logs are cleaned at the same time.
    pub threads: usize,
    /// `log.cleaner.dedupe.buffer.size`: the memory for keys, of all threads together. It is taken
    /// as it is needed, and given back after each round.
    pub keys_bytes_max: usize,
    /// How many transactions that were aborted, or are open, one round looks at: each takes some 50
    /// bytes. What is behind is for the next round.
    pub transactions_max: usize,
    /// `log.cleaner.io.max.bytes.per.second`: what all threads together read and write.
    pub io_bytes_per_second: f64,
    /// `log.cleaner.backoff.ms`: how often a thread without work looks for some.
    pub backoff: Duration,
}

impl Default for CleanerOptions {
    fn default() -> CleanerOptions {
        CleanerOptions {
            threads: 1,
            keys_bytes_max: 128 << 20,
            transactions_max: 1_000_000,
            io_bytes_per_second: f64::MAX,
            backoff: Duration::from_secs(15),
        }
    }
}

/// Cleans the compacted logs of log directories, the dirtiest first.
///
/// A log that cannot be cleaned, because a batch of it is damaged, is left alone until it begins
/// elsewhere or the broker is started again; the others are cleaned all the same. A thread never
/// ends before [`LogCleaner::stop`], or before there are to be fewer, whatever happens in it.
///
/// Lock order: `threads`, then `work`.
pub struct LogCleaner {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    work: Mutex<Work>,
    /// The options have changed, or it ends.
    changed: Condvar,
    metrics: CleanerMetrics,
    throttle: Throttle,
    dirs: Mutex<Vec<Weak<LogDir>>>,
    stop: Cancel,
    /// One looks for work at a time.
    choosing: Mutex<()>,
}

/// How it is worked, and by whom.
struct Work {
    options: CleanerOptions,
    /// Whether there are to be threads.
    is_started: bool,
    /// Which of the threads there are; a number has one at a time.
    threads: Vec<bool>,
}

/// A log that is to be cleaned.
struct Chosen<'a> {
    visit: Visit<'a>,
    start: Offset,
    progress: CleaningProgress,
    limits: Limits,
}

/// A log that could be cleaned.
struct Candidate {
    dir: Arc<LogDir>,
    log: Arc<Log>,
    /// Where it began when it was looked at.
    start: Offset,
    progress: CleaningProgress,
    limits: Limits,
    dirty_ratio: f64,
}

impl LogCleaner {
    /// A cleaner without threads, which works when it is told to.
    pub fn new(options: CleanerOptions, metrics: CleanerMetrics) -> LogCleaner {
        let shared = Shared {
            throttle: Throttle::new(options.io_bytes_per_second),
            work: Mutex::new(Work { options, is_started: false, threads: Vec::new() }),
            changed: Condvar::new(),
            metrics,
            dirs: Mutex::default(),
            stop: Cancel::default(),
            choosing: Mutex::default(),
        };
        LogCleaner { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Cleans the logs of a directory from now on, for as long as it exists.
    pub fn watch(&self, dir: &Arc<LogDir>) {
        lock(&self.shared.dirs).push(Arc::downgrade(dir));
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if the system gives none.
    pub fn start(&self) -> Result<(), LogError> {
        lock(&self.shared.work).is_started = true;
        self.spawn_missing()
    }

    /// Has other options in force. A thread too many ends when it is done with the log at hand; the
    /// memory for keys counts from the next log on.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if the system gives no thread.
    pub fn set_options(&self, change: impl FnOnce(&mut CleanerOptions)) -> Result<(), LogError> {
        {
            let mut work = lock(&self.shared.work);
            let before = work.options.clone();
            change(&mut work.options);
            if work.options == before {
                return Ok(());
            }
            self.shared.throttle.set_rate(work.options.io_bytes_per_second);
        }
        self.shared.changed.notify_all();
        self.spawn_missing()
    }

    fn spawn_missing(&self) -> Result<(), LogError> {
        let mut handles = lock(&self.threads);
        handles.retain(|handle| !handle.is_finished());
        let mut work = lock(&self.shared.work);
        if !work.is_started {
            return Ok(());
        }
        let wanted = work.options.threads;
        if work.threads.len() < wanted {
            work.threads.resize(wanted, false);
        }
        for number in 0..wanted {
            if work.threads[number] {
                continue;
            }
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("log-cleaner".to_owned());
            let thread = thread.spawn(move || shared.run(number));
            let failed = LogError::io("start a thread of", Path::new("the log cleaner"));
            handles.push(thread.map_err(failed)?);
            work.threads[number] = true;
        }
        Ok(())
    }

    /// Cleans what is due, on this thread, until nothing is.
    pub fn clean_due(&self) {
        self.shared.clean_due(None);
    }

    /// Ends the threads; what they are at is left as it was. Nothing is cleaned any more.
    pub fn stop(&self) {
        self.shared.stop.cancel();
        lock(&self.shared.work).is_started = false;
        self.shared.changed.notify_all();
        for dir in lock(&self.shared.dirs).iter().filter_map(Weak::upgrade) {
            dir.cancel_cleaning();
        }
        for thread in lock(&self.threads).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the log cleaner has panicked");
            }
        }
    }
}

impl Drop for LogCleaner {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// What a thread does until there are fewer.
    fn run(&self, number: usize) {
        while !self.is_over(number) {
            self.clean_due(Some(number));
            self.sleep(number);
        }
    }

    /// Whether a thread ends. If so, another one may be made in its place.
    fn is_over(&self, number: usize) -> bool {
        let mut work = lock(&self.work);
        let is_over = !work.is_started || number >= work.options.threads;
        if is_over {
            work.threads[number] = false;
        }
        is_over
    }

    /// Until it is time to look again, or for other options.
    fn sleep(&self, number: usize) {
        let work = lock(&self.work);
        if work.is_started && number < work.options.threads {
            let backoff = work.options.backoff;
            let waited = self.changed.wait_timeout(work, backoff);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Whether a thread should take on another log.
    fn goes_on(&self, number: Option<usize>) -> bool {
        let is_wanted = number.is_none_or(|number| number < lock(&self.work).options.threads);
        is_wanted && !self.stop.is_cancelled()
    }

    fn clean_due(&self, number: Option<usize>) {
        self.roll_old();
        let mut given_up = BTreeSet::new();
        while self.goes_on(number) {
            let Some(candidate) = self.choose(&given_up) else { return };
            let partition = candidate.log.topic_partition();
            let worked = catch_unwind(AssertUnwindSafe(|| self.clean(&candidate)));
            let has_advanced = worked.unwrap_or_else(|_| {
                tracing::error!(%partition, "the compaction of a log has panicked");
                candidate.dir.note_uncleanable(
                    &candidate.log,
                    candidate.start,
                    LogError::Closed {
                        what: format!("the compaction of {partition} has panicked, and"),
                    },
                );
                false
            });
            if !has_advanced {
                given_up.insert((candidate.dir.directory_id(), partition.clone()));
            }
        }
    }

    /// The records of a segment that nobody appends to any more are compacted in time, too.
    fn roll_old(&self) {
        for dir in self.dirs() {
            for log in dir.logs().iter().filter(|log| is_compacted(log)) {
                if log.config().max_compaction_lag_ms < NEVER_MS {
                    log.roll_if_old();
                }
            }
        }
    }

    /// The log that is to be cleaned next, and what can be said of all.
    fn choose(
        &self,
        given_up: &BTreeSet<(logway_model::DirectoryId, TopicPartition)>,
    ) -> Option<Candidate> {
        let _one_at_a_time = lock(&self.choosing);
        let mut states = Vec::new();
        let mut best: Option<Candidate> = None;
        for dir in self.dirs() {
            let now = dir.now();
            for log in dir.logs().into_iter().filter(|log| is_compacted(log)) {
                let partition = log.topic_partition();
                let (progress, may_be_entered) = dir.cleaning_progress(partition);
                // A start takes a gap behind what it knows to have been on stable storage for the
                // place where a crash has cut the log off.
                let state = log.state();
                let stable = state.stable_offset().min(state.written_recovery_point());
                let stable = stable.min(state.removal_bound());
                let limits = Limits { cleaned: progress.cleaned, stable, now };
                let (view, config) = (state.current_view(), state.config());
                let start = view.log_start;
                let is_uncleanable =
                    progress.uncleanable.as_ref().is_some_and(|(_, before)| *before == start);
                let range = match CleanableRange::of(&view, &config, &limits) {
                    Ok(range) => range,
                    Err(error) if may_pass(&error, &log, start) => {
                        tracing::warn!(%partition, %error, "a log cannot be compacted now");
                        continue;
                    }
                    Err(error) => {
                        dir.note_uncleanable(&log, start, error);
                        // How much of it is dirty, nobody can tell.
                        states.push(PartitionState {
                            partition: partition.clone(),
                            dirty_ratio: 0.0,
                            overdue_ms: 0,
                            uncleanable_bytes: Some(view.size_bytes()),
                        });
                        continue;
                    }
                };
                states.push(PartitionState {
                    partition: partition.clone(),
                    dirty_ratio: range.dirty_ratio(),
                    overdue_ms: range.overdue_ms.max(0),
                    uncleanable_bytes: is_uncleanable.then_some(range.dirty_bytes),
                });
                let has_deletions = progress.next_horizon.is_some_and(|horizon| horizon <= now);
                let key = (dir.directory_id(), partition.clone());
                let is_due = range.is_due(&config) || has_deletions;
                let waits =
                    progress.starved.is_some_and(|starved| waits_for_space(&dir, starved, now));
                let is_free = may_be_entered && !given_up.contains(&key);
                if is_uncleanable || waits || !is_due || !is_free {
                    continue;
                }
                let dirty_ratio = range.dirty_ratio();
                if best.as_ref().is_none_or(|best| dirty_ratio > best.dirty_ratio) {
                    let dir = Arc::clone(&dir);
                    best = Some(Candidate { dir, log, start, progress, limits, dirty_ratio });
                }
            }
        }
        self.metrics.set_states(states);
        best
    }

    /// Cleans a log, and says whether it is cleaner than before.
    fn clean(&self, candidate: &Candidate) -> bool {
        let Candidate { dir, log, .. } = candidate;
        let Some(visit) = dir.visit(log) else { return false };
        if self.stop.is_cancelled() {
            return false;
        }
        let Candidate { start, progress, limits, .. } = candidate;
        let (start, progress, limits) = (*start, progress.clone(), *limits);
        self.clean_chosen(dir, log, Chosen { visit, start, progress, limits })
    }

    fn clean_chosen(&self, dir: &LogDir, log: &Log, chosen: Chosen<'_>) -> bool {
        let Chosen { visit, start, mut progress, limits } = chosen;
        let started = Instant::now();
        let partition_dir = dir.path().join(log.topic_partition().to_string());
        let options = lock(&self.work).options.clone();
        let pace = Pace { throttle: &self.throttle, cancel: visit.cancel() };
        let round = Round {
            fs: dir.fs(),
            dir: &partition_dir,
            log,
            limits,
            pace,
            keys_bytes_max: options.keys_bytes_max / options.threads.max(1),
            transactions_max: options.transactions_max,
            next_horizon: progress.next_horizon,
        };
        let mut outcome = RoundOutcome::default();
        let result = match unlist(dir, log) {
            Ok(()) => round.run(&mut outcome),
            Err(error) => Err(Interrupted::Failed(error)),
        };
        self.metrics.observe(&outcome, started.elapsed());
        match result {
            Ok(()) => {
                let before = progress.cleaned;
                progress.cleaned = outcome.cleaned;
                progress.next_horizon = outcome.next_horizon;
                (progress.uncleanable, progress.starved) = (None, None);
                report(log, &outcome, started.elapsed());
                if let Err(error) = visit.note(progress) {
                    tracing::warn!(%error, "how far logs are compacted cannot be written down");
                }
                outcome.cleaned != before || outcome.segments.0 > 0
            }
            Err(Interrupted::Cancelled) => false,
            Err(Interrupted::Failed(error)) => {
                if error.is_failed_sync_of(&partition_dir) {
                    log.note_failed_sync(error.clone());
                } else if error.is_failed_change() {
                    log.state().note_failure(&error);
                }
                progress.starved = error.is_disk_full().then(|| Starved {
                    since: dir.now(),
                    free_bytes: dir.fs().free_bytes(dir.path()).unwrap_or(0),
                });
                self.note_failure(log, &visit, start, progress, error);
                false
            }
        }
    }

    /// What may be gone the next time is tried again; what will not be is noted, of a log that began
    /// at `start`.
    fn note_failure(
        &self,
        log: &Log,
        visit: &Visit<'_>,
        start: Offset,
        mut progress: CleaningProgress,
        error: LogError,
    ) {
        let partition = log.topic_partition();
        if visit.cancel().is_cancelled() {
            return;
        }
        self.metrics.failed_rounds.inc();
        if may_pass(&error, log, start) {
            tracing::warn!(%partition, %error, "a log cannot be compacted now and stays as it was");
        } else {
            tracing::error!(
                %partition, %error,
                "a log cannot be compacted; it is left alone until its beginning moves or the \
                 broker is started again"
            );
            progress.uncleanable = Some((error, start));
        }
        if let Err(error) = visit.note(progress) {
            tracing::warn!(%error, "how far logs are compacted cannot be written down");
        }
    }

    fn dirs(&self) -> Vec<Arc<LogDir>> {
        let mut dirs = lock(&self.dirs);
        dirs.retain(|dir| dir.strong_count() > 0);
        dirs.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A copy that a move fills is none before it is the partition's log.
fn is_compacted(log: &Log) -> bool {
    let is_copy = log.replica_move().is_some_and(|moved| moved.state == MoveState::Copying);
    log.config().is_compacted() && !is_copy
}

/// Whether a round that ended for want of space is not to be tried again yet: all that it reads and writes
/// up to there would be in vain. It is tried when there is clearly more space, or now and then.
fn waits_for_space(dir: &LogDir, starved: Starved, now: TimestampMs) -> bool {
    const WAIT_MS: i64 = 5 * 60 * 1000;
    let enough_bytes = starved.free_bytes.saturating_add(FREE_MIN_BYTES);
    let is_back = || dir.fs().free_bytes(dir.path()).is_ok_and(|bytes| bytes >= enough_bytes);
    // The clock may have been put back.
    (0..WAIT_MS).contains(&now.0.saturating_sub(starved.since.0)) && !is_back()
}

/// Takes a log out of the lists that say how long its segments are: they are about to be replaced.
/// With it go all that are compacted, so that the lists are not written once for each.
fn unlist(dir: &LogDir, log: &Log) -> Result<(), LogError> {
    if !dir.is_listed(log.topic_partition()) {
        return Ok(());
    }
    let compacted = dir.logs().into_iter().filter(|log| log.config().is_compacted());
    let mut partitions: Vec<TopicPartition> =
        compacted.map(|log| log.topic_partition().clone()).collect();
    partitions.push(log.topic_partition().clone());
    dir.unlist(&partitions)
}

/// Whether what went wrong with a log that began at `start` may go well the next time; a batch that
/// cannot be read will not be.
///
/// What was deleted meanwhile says nothing of what is left: its files are gone, or read as others.
fn may_pass(error: &LogError, log: &Log, start: Offset) -> bool {
    error.is_disk_full()
        || error.is_want_of_descriptors()
        || error.is_not_found()
        || matches!(error, LogError::Closed { .. })
        || log.log_start_offset() != start
}

fn report(log: &Log, outcome: &RoundOutcome, elapsed: Duration) {
    let counts = outcome.counts;
    tracing::info!(
        partition = %log.topic_partition(),
        cleaned_to = %outcome.cleaned.unwrap_or(Offset::ZERO),
        keys = outcome.keys,
        kept = counts.kept,
        superseded = counts.superseded,
        deleted = counts.deleted,
        keyless = counts.keyless,
        read_bytes = outcome.read_bytes,
        written_bytes = outcome.written_bytes,
        segments = outcome.segments.0,
        segments_after = outcome.segments.1,
        elapsed_ms = elapsed.as_millis() as u64,
        "a log was compacted"
    );
}

/// What these locks guard is right after each single step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
