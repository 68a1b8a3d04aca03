//! Syncing several logs at the same time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fs::{File, Fs};
use crate::log_state::{LogKey, LogState};
use crate::segment::Segment;
use crate::{LogError, LogMetrics};

/// Threads that sync logs beside the writer thread.
///
/// A file system commits the syncs that wait at the same time together, so that sixteen at once
/// take little longer than one. They are started when a round first has several logs to sync;
/// the writer waits for all of a round.
pub(super) struct SyncPool {
    threads_max: usize,
    jobs: Option<Sender<SyncJob>>,
    /// When threads could not be started, the time of the next try.
    next_start: Option<Instant>,
    metrics: LogMetrics,
}

/// After threads could not be started, the writer syncs alone for so long.
const START_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What must be synced so that all that was written to a log is on stable storage.
pub(super) struct SyncPlan {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) files: Vec<(Arc<Segment>, Arc<dyn File>)>,
    /// The log, if a name in its directory is new.
    pub(super) names_of: Option<Arc<LogState>>,
}

struct SyncJob {
    key: LogKey,
    plan: SyncPlan,
    done: Sender<(LogKey, Result<(), NotSynced>)>,
}

/// Why a log is not on stable storage after all.
#[derive(Debug)]
pub(super) enum NotSynced {
    /// A sync could not be begun. Nothing is lost, and another try may succeed.
    NotBegun(LogError),
    /// A sync failed: nobody knows what is on the disk.
    Failed(LogError),
}

impl SyncPool {
    /// A pool of at most `threads_max` threads; none is started yet.
    pub(super) fn new(threads_max: usize, metrics: LogMetrics) -> SyncPool {
        SyncPool { threads_max, jobs: None, next_start: None, metrics }
    }

    /// Carries out the plans, and calls `finish` for each as soon as it is done.
    pub(super) fn run(
        &mut self,
        mut plans: Vec<(LogKey, SyncPlan)>,
        mut finish: impl FnMut(LogKey, Result<(), NotSynced>),
    ) {
        let Some((own_key, own_plan)) = plans.pop() else { return };
        let (done, results) = channel();
        let mut own = vec![(own_key, own_plan)];
        let mut sent = Vec::with_capacity(plans.len());
        for (key, plan) in plans {
            match self.send(SyncJob { key, plan, done: done.clone() }) {
                Ok(()) => sent.push(key),
                Err(job) => own.push((job.key, job.plan)),
            }
        }
        drop(done);
        for (key, plan) in own {
            finish(key, plan.run(&self.metrics));
        }
        for (key, result) in results {
            sent.retain(|&sent| sent != key);
            finish(key, result);
        }
        for key in sent {
            let what = "the thread that syncs the log".to_owned();
            finish(key, Err(NotSynced::Failed(LogError::Closed { what })));
        }
    }

    /// Gives a job to the threads; gives it back if there are none.
    fn send(&mut self, job: SyncJob) -> Result<(), SyncJob> {
        if self.jobs.is_none() && self.next_start.is_none_or(|next| next <= Instant::now()) {
            self.jobs = self.start();
            self.next_start = Some(Instant::now() + START_AGAIN_AFTER);
        }
        match &self.jobs {
            Some(jobs) => jobs.send(job).map_err(|returned| returned.0),
            None => Err(job),
        }
    }

    fn start(&self) -> Option<Sender<SyncJob>> {
        const STACK_BYTES: usize = 128 << 10;
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut started = 0;
        for _ in 0..self.threads_max {
            let (receiver, metrics) = (Arc::clone(&receiver), self.metrics.clone());
            let thread = thread::Builder::new()
                .name("log-sync".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || work(&receiver, &metrics));
            match thread {
                Ok(_) => started += 1,
                Err(error) => {
                    tracing::warn!(%error, started, "cannot start all threads for syncs");
                    break;
                }
            }
        }
        (started > 0).then_some(sender)
    }
}

/// The life of a thread: it ends when the pool is dropped.
fn work(receiver: &Mutex<Receiver<SyncJob>>, metrics: &LogMetrics) {
    loop {
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(SyncJob { key, plan, done }) = job else { return };
        // The writer waits for as long as there are jobs.
        let _ = done.send((key, plan.run(metrics)));
    }
}

impl SyncPlan {
    /// Syncs the directory, and then the files in their order.
    ///
    /// A file comes last because of a file system that stops meanwhile: the sync of a file tells of that, the sync of
    /// a directory may not.
    fn run(&self, metrics: &LogMetrics) -> Result<(), NotSynced> {
        if let Some(log) = &self.names_of {
            // A directory is opened to be synced.
            log.dir_syncs().sync_all(&*self.fs).map_err(|error| {
                match error.is_want_of_descriptors() {
                    true => NotSynced::NotBegun(error),
                    false => NotSynced::Failed(error),
                }
            })?;
        }
        for (segment, file) in &self.files {
            let started = Instant::now();
            let synced = file.sync_data().map_err(LogError::io("sync", segment.path()));
            synced.map_err(NotSynced::Failed)?;
            metrics.sync_seconds.observe(started.elapsed().as_secs_f64());
            metrics.syncs.inc();
        }
        Ok(())
    }
}
