//! A broker without a network: log directories, their logs, and a shard of groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use logway_coordinator::GroupShard;
use logway_log::fs::SimFs;
use logway_log::{
    CleanerMetrics, CleanerOptions, Log, LogCleaner, LogDir, LogDirOptions, LogError, LogMetrics,
};
use logway_model::{BrokerId, ClusterId, TopicPartition, Uuid};

use crate::clock::WorldClock;
use crate::model::Kind;
use crate::mutation::CLEANER;
use crate::plan::Plan;

/// What lives as long as the process.
pub(crate) struct Broker {
    pub(crate) metrics: LogMetrics,
    pub(crate) dirs: Vec<Arc<LogDir>>,
    /// The logs of the partitions that exist.
    pub(crate) logs: BTreeMap<TopicPartition, Arc<Log>>,
    /// `None` until it is loaded.
    pub(crate) shard: Option<GroupShard>,
    cleaner: Arc<LogCleaner>,
    pub(crate) cleaner_metrics: CleanerMetrics,
    /// The thread that cleans, from when it was told to.
    cleaning: Option<JoinHandle<()>>,
}

impl Broker {
    /// Opens all log directories, with the threads that they have in production but for those that
    /// do several things at once which could be done one after the other.
    pub(crate) fn open(plan: &Plan, fs: &SimFs, clock: &WorldClock) -> Result<Broker, LogError> {
        let metrics = LogMetrics::new();
        let open = |dir| {
            let cluster_id = ClusterId(Uuid([7; 16]));
            let options = LogDirOptions {
                fs: Arc::new(fs.clone()),
                clock: Arc::new(clock.clone()),
                default_config: Arc::new(plan.config(Kind::Durable).clone()),
                sync_threads_max: 0,
                journal_bytes: plan.journal_bytes,
                journal_after_rounds: plan.journal_after_rounds,
                sync_later_bytes: plan.sync_later_bytes,
                checked_bytes_min: plan.checked_bytes_min,
                recovery_threads: 1,
                // The clock stands still but for the steps that let time go on.
                high_watermark_interval: Duration::from_millis(50),
                ..LogDirOptions::new(dir, BrokerId(1), cluster_id)
            };
            LogDir::open(options, metrics.clone()).map(Arc::new)
        };
        let dirs: Vec<_> = plan.dirs.iter().map(open).collect::<Result<_, LogError>>()?;
        let cleaner_metrics = CleanerMetrics::new();
        let cleaner = LogCleaner::new(CleanerOptions::default(), cleaner_metrics.clone());
        dirs.iter().for_each(|dir| cleaner.watch(dir));
        let (logs, shard, cleaner, cleaning) = (BTreeMap::new(), None, Arc::new(cleaner), None);
        Ok(Broker { metrics, dirs, logs, shard, cleaner, cleaner_metrics, cleaning })
    }

    /// Has the logs cleaned that are due, beside all else.
    ///
    /// The cleaner has a thread for this that looks for work by the clock of the machine. This one
    /// does it when it is told to, and once.
    pub(crate) fn clean(&mut self) {
        let cleaner = Arc::clone(&self.cleaner);
        let thread = thread::Builder::new().name(CLEANER.to_owned());
        let cleaning = thread.spawn(move || cleaner.clean_due());
        self.cleaning = Some(cleaning.expect("the machine has room for a thread"));
    }

    /// Whether logs are being cleaned.
    pub(crate) fn is_cleaning(&self) -> bool {
        self.cleaning.as_ref().is_some_and(|cleaning| !cleaning.is_finished())
    }

    /// The log of a partition that exists.
    pub(crate) fn log(&self, name: &TopicPartition) -> Arc<Log> {
        Arc::clone(&self.logs[name])
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.cleaner.stop();
        if let Some(cleaning) = self.cleaning.take() {
            // A panic in there is caught by the cleaner.
            let _ = cleaning.join();
        }
    }
}
