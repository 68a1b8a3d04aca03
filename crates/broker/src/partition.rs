//! A partition that this broker leads: its log, its high watermark, and who waits for them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use logway_log::{AppendBatches, AppendFuture, Log, LogConfig, TailListener};
use logway_model::{ErrorCode, LeaderEpoch, Offset, TopicPartition};
use logway_record::Batch;
use logway_replication::{LeaderState, LocalTail};

use crate::high_watermark::HighWatermark;

/// A partition that this broker leads.
///
/// Appends go to the log's writer thread, which reports each new tail back through
/// [`TailListener`]; the leader state turns it into the high watermark. The leader state's lock is
/// taken under no other lock and held across no I/O.
#[derive(Debug)]
pub struct Partition {
    log: Arc<Log>,
    leader_epoch: AtomicI32,
    leader: Mutex<LeaderState>,
    high_watermark: HighWatermark,
}

impl Partition {
    /// Begins to lead, with the log as it is and no followers.
    pub fn lead(log: Arc<Log>, leader_epoch: LeaderEpoch) -> Arc<Partition> {
        let durable = log.config().is_durable();
        // A record that was readable before a restart stays readable: everything that survived
        // it is on disk.
        let state = LeaderState::new(durable, tail_of(&log), Vec::new(), log.log_start_offset());
        let partition = Arc::new(Partition {
            high_watermark: HighWatermark::new(state.high_watermark()),
            leader: Mutex::new(state),
            leader_epoch: AtomicI32::new(leader_epoch.0),
            log,
        });
        partition.log.set_tail_listener(Arc::new(Listener(Arc::downgrade(&partition))));
        // The log may have grown between the look and the listening.
        partition.on_tail(tail_of(&partition.log));
        partition
    }

    /// Its topic and number.
    pub fn topic_partition(&self) -> &TopicPartition {
        self.log.topic_partition()
    }

    /// The log, for reading.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The epoch in which this broker leads.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// The exclusive end of what consumers may read.
    pub fn high_watermark(&self) -> &HighWatermark {
        &self.high_watermark
    }

    /// The exclusive end of what `read_committed` consumers may read: the high watermark, since
    /// no transaction can be open.
    pub fn last_stable_offset(&self) -> Offset {
        self.high_watermark.get()
    }

    /// Compares the leader epoch that a client believes in with ours (KIP-320).
    pub fn check_leader_epoch(&self, client: LeaderEpoch) -> Result<(), ErrorCode> {
        let ours = self.leader_epoch();
        match client {
            LeaderEpoch::NONE => Ok(()),
            _ if client < ours => Err(ErrorCode::FencedLeaderEpoch),
            _ if client > ours => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }

    /// Hands validated batches to the log's writer thread, all or none. The batches of one
    /// caller are appended in the order of its calls.
    pub fn append(&self, batches: Vec<Batch>) -> AppendFuture {
        self.log.append(AppendBatches { batches, leader_epoch: self.leader_epoch() })
    }

    /// Puts other topic settings in force.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let durable = config.is_durable();
        self.log.set_config(config);
        // Raised under the lock, as every time.
        let mut leader = self.leader();
        if let Some(offset) = leader.set_durable(durable) {
            self.high_watermark.raise(offset);
        }
    }

    fn on_tail(&self, tail: LocalTail) {
        // Raised under the lock, so that two threads cannot raise it in the wrong order.
        let mut leader = self.leader();
        if let Some(offset) = leader.on_local_tail(tail) {
            self.high_watermark.raise(offset);
        }
    }

    fn leader(&self) -> MutexGuard<'_, LeaderState> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tail_of(log: &Log) -> LocalTail {
    // In this order: the flushed offset never passes a log end that is read after it.
    let flushed = log.flushed_offset();
    LocalTail { log_end: log.log_end_offset(), flushed }
}

/// What the log holds of its partition: not the partition itself, or neither would ever be freed.
struct Listener(Weak<Partition>);

impl TailListener for Listener {
    fn on_tail(&self, log_end: Offset, flushed: Offset) {
        if let Some(partition) = self.0.upgrade() {
            partition.on_tail(LocalTail { log_end, flushed });
        }
    }
}
