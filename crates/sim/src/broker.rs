//! A broker without a network: log directories, their logs, and a shard of groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use logway_coordinator::GroupShard;
use logway_log::fs::SimFs;
use logway_log::{Log, LogDir, LogDirOptions, LogError, LogMetrics};
use logway_model::{BrokerId, ClusterId, TopicPartition, Uuid};

use crate::clock::WorldClock;
use crate::plan::Plan;

/// What lives as long as the process.
pub(crate) struct Broker {
    pub(crate) dirs: Vec<LogDir>,
    /// The logs of the partitions that exist.
    pub(crate) logs: BTreeMap<TopicPartition, Arc<Log>>,
    /// `None` until it is loaded.
    pub(crate) shard: Option<GroupShard>,
}

impl Broker {
    /// Opens all log directories, with the threads that they have in production but for those that
    /// do several things at once which could be done one after the other.
    pub(crate) fn open(plan: &Plan, fs: &SimFs, clock: &WorldClock) -> Result<Broker, LogError> {
        let open = |dir| {
            let cluster_id = ClusterId(Uuid([7; 16]));
            let options = LogDirOptions {
                fs: Arc::new(fs.clone()),
                clock: Arc::new(clock.clone()),
                default_config: Arc::new(plan.durable.clone()),
                sync_threads_max: 0,
                recovery_threads: 1,
                ..LogDirOptions::new(dir, BrokerId(1), cluster_id)
            };
            LogDir::open(options, LogMetrics::new())
        };
        let dirs = plan.dirs.iter().map(open).collect::<Result<_, LogError>>()?;
        Ok(Broker { dirs, logs: BTreeMap::new(), shard: None })
    }

    /// The log of a partition that exists.
    pub(crate) fn log(&self, name: &TopicPartition) -> Arc<Log> {
        Arc::clone(&self.logs[name])
    }
}
