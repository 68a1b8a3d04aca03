//! The writer: one thread for each log directory, which owns the tails of the logs in it.
//!
//! It takes all that waits in its queue, appends it log by log with one vectored write each, syncs
//! the segments that need it, publishes the new ends, and answers. While it syncs, the next
//! appends queue up: that is the group commit. Everything else that changes a log goes the same
//! way, so that a log needs no lock.
//!
//! | file | idea |
//! |---|---|
//! | [`queue`] | how commands reach the thread |
//! | [`log_tail`] | what the thread owns of one log |
//! | [`append`], [`write_vector`] | sequence checks, offsets, one write |
//! | [`roll`] | when a segment is full |
//! | [`flush`], [`sync_pool`] | syncs, and what a failed one means |
//! | [`retention`] | which segments go |
//! | [`maintenance`] | what happens by the clock, and at the end |
//! | [`background`] | slow work, on a thread of its own |

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logway_model::Offset;

use crate::completion::Completer;
use crate::fs::Fs;
use crate::segment::Segment;
use crate::{Clock, LogConfig, LogError, LogMetrics};
use append::Staging;
use background::Then;
use maintenance::Timers;
use round::Round;
use sync_pool::SyncPool;

pub(crate) use background::{Background, Job, JobSender};
pub(crate) use command::{Append, Command, LogKey};
pub(crate) use log_tail::{LogTail, OpenedTail};
pub(crate) use offset_checkpoints::OffsetCheckpoints;
pub(crate) use queue::CommandQueue;

mod append;
mod background;
mod command;
mod flush;
mod log_tail;
mod maintenance;
mod offset_checkpoints;
mod queue;
mod reserve;
mod retention;
mod roll;
mod round;
mod sync_pool;
mod write_vector;

/// What the writer needs to know of its log directory.
pub(crate) struct WriterOptions {
    pub(crate) dir: PathBuf,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: LogMetrics,
    pub(crate) burst_bytes_max: usize,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) retention_check_interval: Duration,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) sync_threads_max: usize,
    /// What the checkpoints say of logs that could not be opened: it must not get lost.
    pub(crate) of_unopened: OffsetCheckpoints,
}

/// The state of the writer thread.
struct Writer {
    queue: Arc<CommandQueue>,
    clock: Arc<dyn Clock>,
    burst_bytes_max: usize,
    producer_expiration_ms: i64,
    tails: HashMap<LogKey, LogTail>,
    /// What was taken from the queue and is not done.
    backlog: Vec<Command>,
    /// The logs that are appended to in this round.
    touched: Vec<LogKey>,
    /// The commands of this round that are not appends.
    others: Vec<Command>,
    /// The logs that wait for `flush.ms`.
    lagging: BTreeSet<LogKey>,
    /// Segments that were deleted in this round.
    deleted: Vec<(Arc<Segment>, Duration)>,
    /// Who waits for the checkpoints to be written, because a log start moved or a log went.
    checkpoint_waiting: Vec<Then>,
    of_unopened: OffsetCheckpoints,
    timers: Timers,
    pool: SyncPool,
    round: Round,
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
    let now = Instant::now();
    let writer = Writer {
        queue,
        burst_bytes_max: options.burst_bytes_max,
        producer_expiration_ms: options.producer_expiration_ms,
        tails: tails.into_iter().map(|tail| (tail.log().key(), tail)).collect(),
        backlog: Vec::new(),
        touched: Vec::new(),
        others: Vec::new(),
        lagging: BTreeSet::new(),
        deleted: Vec::new(),
        checkpoint_waiting: Vec::new(),
        of_unopened: options.of_unopened,
        timers: Timers::new(now, options.checkpoint_interval, options.retention_check_interval),
        pool: SyncPool::new(options.sync_threads_max, options.metrics.clone()),
        round: Round {
            config: Arc::new(LogConfig::default()),
            staging: Staging::default(),
            background,
            metrics: options.metrics,
            fs: options.fs,
            dir: options.dir,
            now: options.clock.now(),
            started: now,
        },
        clock: options.clock,
    };
    thread::Builder::new()
        .name("log-writer".to_owned())
        .spawn(move || {
            let _closed_at_the_end = CloseOnDrop(Arc::clone(&writer.queue));
            writer.run();
        })
        .map_err(LogError::io("start a thread for", &dir))
}

/// Refuses commands once the writer has ended, also by a panic: whoever waits is told.
struct CloseOnDrop(Arc<CommandQueue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Writer {
    fn run(mut self) {
        loop {
            if self.backlog.is_empty() {
                let timeout = self.time_to_next_timer();
                self.queue.take(&mut self.backlog, timeout);
            }
            self.round.now = self.clock.now();
            self.round.started = Instant::now();
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
        self.take_group();
        self.append_and_sync();
        let mut next = Next::GoOn;
        for command in std::mem::take(&mut self.others) {
            match command {
                Command::Close { done } => next = Next::Close(done),
                Command::Abort => return Next::Abort,
                other => self.execute(other),
            }
        }
        self.run_due_timers();
        self.finish_deletions();
        next
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
                Command::Adopt(tail) => _ = self.tails.insert(tail.log().key(), *tail),
                other => self.others.push(other),
            }
        }
    }

    /// Writes all logs of the group, then syncs those that need it: what has been written is
    /// visible to followers while the disk works.
    fn append_and_sync(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for key in &touched {
            let Some(tail) = self.tails.get_mut(key) else { continue };
            self.round.config = tail.log.config();
            tail.append_incoming(&mut self.round);
            tail.publish();
            tail.complete_due();
        }
        let due = touched.iter().copied().filter(|key| self.must_sync(*key)).collect();
        self.sync(due);
        for key in touched.drain(..) {
            self.note_lag(key);
        }
        self.touched = touched;
    }

    fn must_sync(&mut self, key: LogKey) -> bool {
        let Some(tail) = self.tails.get(&key) else { return false };
        self.round.config = tail.log.config();
        tail.must_sync(&self.round)
    }

    /// Syncs logs, publishes their new ends, and answers the appends that this completes.
    fn sync(&mut self, due: Vec<LogKey>) {
        let Writer { tails, pool, .. } = self;
        let mut plans = Vec::with_capacity(due.len());
        for key in due {
            let plan = tails.get_mut(&key).and_then(LogTail::begin_sync);
            plans.extend(plan.map(|plan| (key, plan)));
        }
        if plans.is_empty() {
            return;
        }
        let mut completed = 0;
        pool.run(plans, |key, result| {
            let tail = tails.get_mut(&key).expect("a log is not released while it is synced");
            tail.finish_sync(result);
            tail.publish();
            completed += tail.complete_due();
        });
        if completed > 0 {
            self.round.metrics.group_commit_appends.observe(completed as f64);
        }
    }

    /// Remembers whether a log waits for `flush.ms`.
    fn note_lag(&mut self, key: LogKey) {
        let Some(tail) = self.tails.get(&key) else { return };
        if tail.flush_due(&tail.log.config()).is_some() {
            self.lagging.insert(key);
        } else {
            self.lagging.remove(&key);
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Flush { key, done } => self.flush(key, done),
            Command::DeleteRecords { key, before, done } => self.delete_records(key, before, done),
            Command::DescribeProducers { key, done } => {
                if let Some(tail) = self.tails.get(&key) {
                    done.complete(Ok(tail
                        .producers
                        .iter()
                        .map(|(id, known)| (id, *known))
                        .collect()));
                }
            }
            Command::Release { key, done } => {
                self.lagging.remove(&key);
                // The waiting appends go with it, and their futures say so.
                drop(self.tails.remove(&key));
                self.checkpoint_waiting.push(Box::new(move |result| done.complete(result)));
            }
            Command::Sealed { key, segment, outcome } => self.note_sealed(key, segment, outcome),
            Command::EpochsUnsaved { key } => {
                if let Some(tail) = self.tails.get_mut(&key) {
                    tail.epochs_changed = true;
                }
            }
            Command::EnforceRetention { done } => {
                self.enforce_retention();
                self.checkpoint_waiting.push(Box::new(move |result| done.complete(result)));
            }
            Command::Append(_) | Command::Adopt(_) | Command::Close { .. } | Command::Abort => {
                unreachable!("it was dealt out before")
            }
        }
    }

    fn flush(&mut self, key: LogKey, done: Completer<Offset>) {
        self.sync(vec![key]);
        self.note_lag(key);
        let Some(tail) = self.tails.get(&key) else { return };
        done.complete(match tail.poisoned() {
            Some(error) => Err(error),
            None => Ok(tail.view.flushed.offset),
        });
    }

    fn delete_records(&mut self, key: LogKey, before: Offset, done: Completer<Offset>) {
        let Some(tail) = self.tails.get_mut(&key) else { return };
        match tail.delete_records(before) {
            Ok(segments) => {
                tail.publish();
                let delay = tail.log.config().file_delete_delay();
                self.deleted.extend(segments.into_iter().map(|segment| (segment, delay)));
                let log_start = tail.view.log_start;
                let then = move |result: Result<(), _>| done.complete(result.map(|()| log_start));
                self.checkpoint_waiting.push(Box::new(then));
            }
            Err(error) => done.complete(Err(error)),
        }
    }

    /// Writes the offsets down if a log start moved or a log went, and only then lets the files
    /// go that lie before.
    fn finish_deletions(&mut self) {
        if self.deleted.is_empty() && self.checkpoint_waiting.is_empty() {
            return;
        }
        let then = std::mem::take(&mut self.checkpoint_waiting);
        self.checkpoint(then);
        let deleted = std::mem::take(&mut self.deleted);
        self.round.background.send(Job::DeleteSegments(deleted));
    }
}
