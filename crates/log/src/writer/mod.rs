//! The writer: one thread for each log directory, which owns the tails of the logs in it.
//!
//! It takes all that waits in its queue, appends it log by log with one vectored write each, syncs
//! the segments that need it, publishes the new ends, and answers. While it syncs, the next
//! appends queue up: that is the group commit. Everything else that changes a log goes the same
//! way, so that a log needs no lock.
//!
//! The files are in layers, the highest first. A file imports from its own layer and from those below:
//!
//! | file | idea |
//! |---|---|
//! | **the writer of a directory** | |
//! | [`inline_round`] | what the thread that appends does itself |
//! | [`serve`] | doing what is asked of one log |
//! | [`journalling`], [`write_back`] | one sync for many logs; files that follow the journal |
//! | [`delayed_syncs`] | syncs that cannot be begun |
//! | [`seal`] | what becomes of full segments |
//! | [`truncate`] | the end of a log that is cut off |
//! | [`swap`] | cleaned segments that take the place of others |
//! | [`maintenance`] | what happens by the clock, and at the end |
//! | **one log in a round** | |
//! | [`append`], [`staging`], [`write_vector`] | sequence checks, offsets, one write |
//! | [`follow`] | what a follower checks instead |
//! | [`roll`], [`retention`] | when a segment is full, and when it goes |
//! | [`flush`] | syncs, and what a failed one means |
//! | [`round`], [`round_pieces`], [`free_space`] | what all logs share in a round; what appends leave free on the disk |
//! | **the way to the writer** | |
//! | [`queue`], [`command`] | how commands reach the writer, which the queue keeps while its thread sleeps |
//! | [`background`] | slow work, on a thread of its own, which answers by the queue |
//! | **what the writer owns of one log** | |
//! | [`log_tail`] | its end |
//! | [`log_request`] | what is asked of it |
//! | [`sealing`], [`truncating`], [`sync_delay`] | how far slow work on it has come |
//! | [`seal_job`], [`swap_job`], [`truncate_job`], [`write_back_job`] | slow work on it |
//! | [`sync_pool`], [`sync_time`], [`snapshot_room`] | syncs of several logs at once; how long they take; the bound of snapshots |

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logway_model::{Offset, TopicPartition};

use crate::checkpoint::segment_lists::SegmentLists;
use crate::completion::Completer;
use crate::dir_syncs::DirSyncs;
use crate::fs::Fs;
use crate::high_watermarks::HighWatermarks;
use crate::log_state::LogKey;
use crate::producer_state::ProducerLimits;
use crate::segment::Segment;
use crate::{Clock, LogConfig, LogError, LogMetrics};
use background::Then;
use free_space::FreeSpace;
use journalling::Journal;
use maintenance::Timers;
use queue::{Queue, Resident};
use rarely::Rarely;
use round::Round;
use round_pieces::RoundPieces;
use seal::SealLine;
use snapshot_room::SnapshotRoom;
use staging::Staging;
use sync_pool::{NotSynced, SyncPool};
use sync_time::SyncTime;

pub(crate) use background::{Background, Job, JobSender};
pub(crate) use command::Command;
pub use inline_round::InlineRound;
pub(crate) use log_request::{Append, LogRequest, Offsets};
pub(crate) use log_tail::{LogTail, OpenedTail};
pub(crate) use offset_checkpoints::OffsetCheckpoints;
pub(crate) use queue::Unqueued;
pub(crate) use reserve::RESERVE_FILE;
pub(crate) use truncating::CutTo;

mod append;
mod background;
mod command;
mod delayed_syncs;
mod flush;
mod follow;
mod free_space;
mod inline_round;
mod journalling;
mod log_request;
mod log_tail;
mod maintenance;
mod offset_checkpoints;
mod queue;
mod rarely;
mod reserve;
mod retention;
mod roll;
mod round;
mod round_pieces;
mod seal;
mod seal_job;
mod sealing;
mod serve;
mod snapshot_room;
mod staging;
mod swap;
mod swap_job;
mod sync_delay;
mod sync_pool;
mod sync_time;
mod truncate;
mod truncate_job;
mod truncating;
mod write_back;
mod write_back_job;
mod write_vector;

/// What the writer needs to know of its log directory.
pub(crate) struct WriterOptions {
    pub(crate) dir: PathBuf,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: LogMetrics,
    pub(crate) burst_bytes_max: usize,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) high_watermark_interval: Duration,
    pub(crate) retention_check_interval: Duration,
    pub(crate) producer_expiration_ms: Arc<AtomicI64>,
    pub(crate) producer_limits: ProducerLimits,
    pub(crate) sync_threads_max: usize,
    pub(crate) journal_bytes: u64,
    pub(crate) journal_after_rounds: u32,
    pub(crate) root_syncs: Arc<DirSyncs>,
    pub(crate) high_watermarks: Arc<HighWatermarks>,
    /// What the checkpoints say of logs that could not be opened: it must not get lost.
    pub(crate) of_unopened: OffsetCheckpoints,
    /// And the list of their segments.
    pub(crate) lists_of_unopened: SegmentLists,
    /// The logs that could not be opened after a crash, and so have not been scanned yet.
    pub(crate) unscanned: BTreeSet<TopicPartition>,
}

/// The way to a writer.
pub(crate) type CommandQueue = Queue<Writer>;

/// The state of the writer: its thread has it, or while that sleeps the queue, or who does an
/// inline round.
pub(crate) struct Writer {
    queue: Arc<CommandQueue>,
    clock: Arc<dyn Clock>,
    burst_bytes_max: usize,
    producer_expiration_ms: Arc<AtomicI64>,
    producer_limits: ProducerLimits,
    /// Keys are ours and need no random hasher, and with a fixed one the logs have the same order in
    /// each run of a simulation.
    tails: HashMap<LogKey, LogTail, BuildHasherDefault<DefaultHasher>>,
    /// What was taken from the queue and is not done.
    backlog: Vec<Command>,
    /// The logs that are appended to in this round.
    touched: Vec<LogKey>,
    /// The commands of this round that are not appends.
    others: Vec<Command>,
    /// The logs to be synced at some time: that wait for `flush.ms`, or whose last sync could not
    /// be begun.
    lagging: BTreeSet<LogKey>,
    /// Syncs could not be begun in this round.
    are_syncs_delayed: bool,
    delay_reports: Rarely,
    eviction_reports: Rarely,
    retention_reports: Rarely,
    /// Segments that were deleted since the last checkpoint was sent.
    deleted: Vec<(Arc<Segment>, Duration)>,
    /// Segments that were deleted, but whose files wait for the next checkpoint: one failed.
    undeleted: Vec<(Arc<Segment>, Duration)>,
    /// The directories of logs that went since the last checkpoint was sent, or for which it failed.
    left: Vec<Arc<DirSyncs>>,
    /// Who waits for the checkpoints to be written, because a log start moved or a log went.
    checkpoint_waiting: Vec<Then>,
    of_unopened: OffsetCheckpoints,
    lists_of_unopened: SegmentLists,
    /// While there are any, the directory cannot be marked as closed in good order.
    unscanned: BTreeSet<TopicPartition>,
    /// The background thread has a checkpoint to write: one at a time, and what comes meanwhile
    /// shares the next.
    is_checkpointing: bool,
    timers: Timers,
    high_watermarks: Arc<HighWatermarks>,
    root_syncs: Arc<DirSyncs>,
    seals: SealLine,
    pool: SyncPool,
    journal: Journal,
    sync_time: SyncTime,
    round: Round,
}

/// Which of the logs of a round are synced in it, of those that must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syncs {
    All,
    /// Those whose appends wait for it. How much others have to be synced is not known to be little.
    WaitedFor,
    None,
}

impl Syncs {
    fn are_for(self, tail: &LogTail) -> bool {
        match self {
            Syncs::All => true,
            Syncs::WaitedFor => !tail.waiting.is_empty(),
            Syncs::None => false,
        }
    }
}

/// Whether the writer goes on after a round.
enum Next {
    GoOn,
    Close(Completer<()>),
    Abort,
}

/// Starts the writer thread of a log directory, with the logs that were found there.
pub(crate) fn spawn(
    options: WriterOptions,
    queue: Arc<CommandQueue>,
    background: Background,
    tails: Vec<LogTail>,
) -> Result<JoinHandle<()>, LogError> {
    let dir = options.dir.clone();
    let now = options.clock.instant();
    let writer = Box::new(Writer {
        queue,
        burst_bytes_max: options.burst_bytes_max,
        producer_expiration_ms: options.producer_expiration_ms,
        producer_limits: options.producer_limits,
        tails: tails.into_iter().map(|tail| (tail.log().key(), tail)).collect(),
        backlog: Vec::new(),
        touched: Vec::new(),
        others: Vec::new(),
        lagging: BTreeSet::new(),
        are_syncs_delayed: false,
        delay_reports: Rarely::default(),
        eviction_reports: Rarely::default(),
        retention_reports: Rarely::default(),
        deleted: Vec::new(),
        undeleted: Vec::new(),
        left: Vec::new(),
        checkpoint_waiting: Vec::new(),
        of_unopened: options.of_unopened,
        lists_of_unopened: options.lists_of_unopened,
        unscanned: options.unscanned,
        is_checkpointing: false,
        seals: SealLine::default(),
        timers: Timers::new(
            now,
            options.checkpoint_interval,
            options.retention_check_interval,
            options.high_watermark_interval,
        ),
        high_watermarks: options.high_watermarks,
        root_syncs: Arc::clone(&options.root_syncs),
        pool: SyncPool::new(options.sync_threads_max, options.metrics.clone()),
        journal: Journal::new(
            options.journal_bytes,
            options.journal_after_rounds,
            options.root_syncs,
        ),
        sync_time: SyncTime::default(),
        round: Round {
            config: Arc::new(LogConfig::default()),
            staging: Staging::default(),
            pieces: RoundPieces::default(),
            rolled: Vec::new(),
            snapshots: SnapshotRoom::default(),
            background,
            metrics: options.metrics,
            free_space: FreeSpace::default(),
            is_disk_full: false,
            fs: options.fs,
            dir: options.dir,
            now: options.clock.now(),
            started: now,
        },
        clock: options.clock,
    });
    thread::Builder::new()
        .name("log-writer".to_owned())
        .spawn(move || {
            let queue = Arc::clone(&writer.queue);
            let _closed_by_panic = CloseOnPanic(Arc::clone(&queue));
            writer.run();
            queue.close();
        })
        .map_err(LogError::io("start a thread for", &dir))
}

/// Refuses commands once the writer is lost by a panic: whoever waits is told.
struct CloseOnPanic(Arc<CommandQueue>);

impl Drop for CloseOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.note_panic();
            self.0.close();
        }
    }
}

impl Resident for Writer {
    fn backlog(&mut self) -> &mut Vec<Command> {
        &mut self.backlog
    }

    fn are_syncs_quick(&self) -> bool {
        self.sync_time.is_quick()
    }

    fn now(&self) -> Instant {
        self.clock.instant()
    }
}

impl Writer {
    fn run(mut self: Box<Self>) {
        self.start_first_seals();
        loop {
            if self.backlog.is_empty() {
                let (queue, timeout) = (Arc::clone(&self.queue), self.time_to_next_timer());
                let Some(writer) = queue.wait(self, timeout) else { return };
                self = writer;
            }
            match self.do_round() {
                Next::GoOn => {}
                Next::Abort => return,
                Next::Close(done) => {
                    done.complete(self.close());
                    return;
                }
            }
        }
    }

    fn do_round(&mut self) -> Next {
        self.begin_round();
        self.take_group();
        self.append_and_sync(Syncs::All);
        let mut next = Next::GoOn;
        for command in std::mem::take(&mut self.others) {
            match command {
                Command::Close { done } => next = Next::Close(done),
                Command::Abort => return Next::Abort,
                other => self.execute(other),
            }
        }
        self.run_due_timers();
        self.start_seals();
        self.start_checkpoint();
        self.queue.note_round(None);
        next
    }

    /// A round of quick appends alone. Whether there is something left for the writer's thread.
    fn do_inline_round(&mut self, has_sync: bool) -> bool {
        let syncs = if has_sync { Syncs::WaitedFor } else { Syncs::None };
        self.begin_round();
        let mut is_thread_wanted = false;
        while !self.backlog.is_empty() {
            self.take_group();
            is_thread_wanted |= self.append_and_sync(syncs);
        }
        self.queue.note_round(None);
        is_thread_wanted || self.are_syncs_delayed || !self.round.rolled.is_empty()
    }

    fn begin_round(&mut self) {
        self.round.now = self.clock.now();
        self.round.started = self.clock.instant();
        self.queue.note_round(Some(self.round.started));
        self.are_syncs_delayed = false;
    }

    /// Deals the next commands out to their logs: as many as the burst allows.
    fn take_group(&mut self) {
        let mut bytes_left = self.burst_bytes_max;
        let in_burst = |command: &&Command| {
            let fits = bytes_left > 0;
            bytes_left = bytes_left.saturating_sub(command.cost_bytes());
            fits
        };
        let count = self.backlog.iter().take_while(in_burst).count();
        for command in self.backlog.drain(..count) {
            match command {
                Command::Append(append) => {
                    // A log that is gone drops its append, whose future then says so.
                    if let Some(tail) = self.tails.get_mut(&append.key) {
                        if tail.incoming.is_empty() {
                            self.touched.push(append.key);
                        }
                        tail.incoming.push(append);
                    }
                }
                Command::Adopt(tail) => {
                    let partition = tail.log().topic_partition();
                    self.of_unopened.retain(|unopened| unopened != partition);
                    self.lists_of_unopened.remove(partition);
                    self.unscanned.remove(partition);
                    self.round.rolled.push(tail.log().key());
                    self.tails.insert(tail.log().key(), *tail);
                    // Once the checkpoint knows it, its directory will be missed.
                    self.timers.checkpoint_soon(self.round.started);
                }
                // Before the appends that came behind it.
                Command::SyncFailed { key, error } => {
                    if let Some(tail) = self.tails.get_mut(&key) {
                        tail.fail_sync(&error);
                    }
                }
                other => self.others.push(other),
            }
        }
    }

    /// Writes all logs of the group, then syncs those that need it: what has been written is
    /// visible to followers while the disk works. What is to be synced otherwise is left to the timers of the writer's
    /// thread: whether that has to know of it, because it is now, or at a time of which it does not know yet.
    fn append_and_sync(&mut self, syncs: Syncs) -> bool {
        self.begin_pieces(syncs != Syncs::None);
        let mut touched = self.append_group();
        let is_due = |key: &LogKey| self.must_sync(*key) && syncs.are_for(&self.tails[key]);
        let due: Vec<LogKey> = touched.iter().copied().filter(is_due).collect();
        if !due.is_empty() {
            let written = self.clock.instant();
            self.sync_round(due);
            self.sync_time.note(self.clock.instant() - written);
        }
        let mut is_thread_wanted = false;
        for key in touched.drain(..) {
            if self.must_sync(key) {
                self.lagging.insert(key);
                is_thread_wanted = true;
            } else {
                is_thread_wanted |= self.note_lag(key);
            }
        }
        self.touched = touched;
        self.evict_producers();
        if std::mem::take(&mut self.round.is_disk_full) {
            self.look_for_room();
            is_thread_wanted = true;
        }
        is_thread_wanted
    }

    /// Writes all logs of the group, and says which they are.
    fn append_group(&mut self) -> Vec<LogKey> {
        let touched = std::mem::take(&mut self.touched);
        for key in &touched {
            let Some(tail) = self.tails.get_mut(key) else { continue };
            self.round.config = tail.log.config();
            tail.append_incoming(&mut self.round);
            tail.publish();
            tail.complete_due();
        }
        touched
    }

    fn must_sync(&self, key: LogKey) -> bool {
        let tail = self.tails.get(&key);
        tail.is_some_and(|tail| tail.must_sync(&tail.log.config(), self.round.started))
    }

    /// Syncs logs, publishes their new ends, and answers the appends that this completes.
    fn sync(&mut self, due: Vec<LogKey>) {
        let Writer { tails, pool, .. } = self;
        let mut plans = Vec::with_capacity(due.len());
        let mut delayed = Vec::new();
        for key in due {
            let Some(tail) = tails.get_mut(&key) else { continue };
            match tail.begin_sync() {
                Ok(plan) => plans.extend(plan.map(|plan| (key, plan))),
                Err(error) => delayed.push((key, error)),
            }
        }
        let mut completed = 0;
        pool.run(plans, |key, result| {
            let tail = tails.get_mut(&key).expect("a log is not released while it is synced");
            match result {
                Ok(()) => tail.finish_sync(),
                Err(NotSynced::Failed(error)) => tail.fail_sync(&error),
                Err(NotSynced::NotBegun(error)) => return delayed.push((key, error)),
            }
            tail.publish();
            completed += tail.complete_due();
        });
        self.delay_syncs(delayed);
        if completed > 0 {
            self.round.metrics.group_commit_appends.observe(completed as f64);
        }
    }

    /// Remembers whether a log is to be synced at some time; whether that is news.
    fn note_lag(&mut self, key: LogKey) -> bool {
        let Some(tail) = self.tails.get(&key) else { return false };
        if tail.sync_due(&tail.log.config()).is_some() {
            return self.lagging.insert(key);
        }
        self.lagging.remove(&key);
        false
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Request { key, request } => self.serve(key, request),
            // The timers, which come next, sync all logs of such commands together.
            Command::Reconfigured { key } if self.must_sync(key) => _ = self.lagging.insert(key),
            Command::Reconfigured { key } => _ = self.note_lag(key),
            Command::Swapped { job, outcome } => self.note_swapped(job, outcome),
            Command::Truncate { key, to, leader_epoch, done } => {
                self.begin_truncation(key, to, leader_epoch, done);
            }
            Command::Cut { key, prepared, done } => self.cut(key, prepared, done),
            Command::MarksLowered { key, written } => self.note_marks_lowered(key, written),
            Command::Truncated { job, outcome } => self.note_truncated(job, outcome),
            Command::Restarted { key, written } => self.note_restarted(key, written),
            Command::Release { key, is_listed, done } => self.release(key, is_listed, done),
            Command::Forget { partition, done } => {
                if let Err(error) = self.void_journal_of(&partition, true) {
                    return done.complete(Err(error));
                }
                self.of_unopened.retain(|unopened| *unopened != partition);
                self.lists_of_unopened.remove(&partition);
                self.unscanned.remove(&partition);
                let dir = self.round.dir.join(partition.to_string());
                self.leave(Arc::new(DirSyncs::new(dir)));
                self.checkpoint_waiting.push(Box::new(move |result| done.complete(result)));
            }
            Command::Sealed { job, outcome } => self.note_sealed(job, outcome),
            Command::JournalMade { made } => self.note_journal_made(made),
            Command::WrittenBack { synced } => self.note_written_back(synced),
            Command::CheckpointEnded => self.is_checkpointing = false,
            Command::NotDeleted { segments, left } => {
                self.undeleted.extend(segments);
                self.left.extend(left);
            }
            Command::EpochsUnsaved { key } => self.note_epochs_unsaved(key),
            Command::EnforceRetention { done } => {
                self.enforce_retention();
                self.checkpoint_waiting.push(Box::new(move |result| done.complete(result)));
            }
            Command::Append(_)
            | Command::Adopt(_)
            | Command::SyncFailed { .. }
            | Command::Close { .. }
            | Command::Abort => unreachable!("it was dealt out before"),
        }
    }

    fn release(&mut self, key: LogKey, is_listed: bool, done: Completer<()>) {
        self.lagging.remove(&key);
        let partition = self.tails.get(&key).map(|tail| tail.log.topic_partition().clone());
        let voided = partition.map_or(Ok(()), |partition| self.void_journal_of(&partition, true));
        // The waiting appends go with it, and their futures say so.
        if let Some(tail) = self.tails.remove(&key) {
            if is_listed {
                self.remember_unopened(&tail);
            }
            if tail.view.log_start > Offset::ZERO {
                self.leave(Arc::clone(tail.log.dir_syncs()));
            }
        }
        match voided {
            Ok(()) => self.checkpoint_waiting.push(Box::new(move |result| done.complete(result))),
            Err(error) => done.complete(Err(error)),
        }
    }
}
