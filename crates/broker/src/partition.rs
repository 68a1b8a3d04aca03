//! A partition that this broker leads: its log, its high watermark, and who waits for them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use logway_log::{AppendBatches, AppendFuture, Log, LogConfig, TailListener};
use logway_model::{DirectoryId, ErrorCode, LeaderEpoch, Offset, TopicPartition};
use logway_record::Batch;
use logway_replication::{LeaderState, LocalTail};

use crate::high_watermark::HighWatermark;
use crate::log_dirs::PlacedLog;
use crate::recent_reads::RecentReads;

/// A partition that this broker leads.
///
/// Appends go to the log's writer thread, which reports each new tail back through
/// [`TailListener`]; the leader state turns it into the high watermark. The leader state's lock is
/// taken under no other lock and held across no I/O.
#[derive(Debug)]
pub struct Partition {
    place: PlacedLog,
    leader_epoch: AtomicI32,
    leader: Mutex<LeaderState>,
    high_watermark: HighWatermark,
    recent_reads: RecentReads,
}

impl Partition {
    /// Begins to lead, with the log as it is and no followers.
    pub fn lead(place: PlacedLog, leader_epoch: LeaderEpoch) -> Arc<Partition> {
        let log = Arc::clone(&place.log);
        let durable = log.config().is_durable();
        // A record that was readable before a restart stays readable: everything that survived
        // it is on disk.
        let state = LeaderState::new(durable, tail_of(&log), Vec::new(), log.log_start_offset());
        let partition = Arc::new(Partition {
            high_watermark: HighWatermark::new(state.high_watermark()),
            leader: Mutex::new(state),
            leader_epoch: AtomicI32::new(leader_epoch.0),
            recent_reads: RecentReads::default(),
            place,
        });
        log.set_tail_listener(Arc::new(Listener(Arc::downgrade(&partition))));
        // The log may have grown between the look and the listening.
        partition.on_tail(tail_of(&log));
        partition
    }

    /// Its topic and number.
    pub fn topic_partition(&self) -> &TopicPartition {
        self.place.log.topic_partition()
    }

    /// The log, for reading.
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.place.log)
    }

    /// The log directory that the log is in.
    pub fn directory(&self) -> DirectoryId {
        self.place.directory
    }

    /// The epoch in which this broker leads.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// The exclusive end of what consumers may read.
    pub fn high_watermark(&self) -> &HighWatermark {
        &self.high_watermark
    }

    /// Where it was read lately.
    pub(crate) fn recent_reads(&self) -> &RecentReads {
        &self.recent_reads
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
        self.place.log.append(AppendBatches { batches, leader_epoch: self.leader_epoch() })
    }

    /// Puts other topic settings in force.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let durable = config.is_durable();
        self.place.log.set_config(config);
        self.set_durable(durable);
    }

    fn set_durable(&self, durable: bool) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use logway_log::fs::SimFs;
    use logway_log::{LogDir, LogDirOptions, LogMetrics};
    use logway_model::{BrokerId, ClusterId, PartitionId, TimestampMs, TopicId, TopicName, Uuid};
    use logway_record::{BatchBuilder, Batches, Compression};

    use super::*;

    fn config(flush_messages: u64) -> Arc<LogConfig> {
        Arc::new(LogConfig { flush_messages, ..LogConfig::default() })
    }

    fn durable() -> Arc<LogConfig> {
        config(1)
    }

    fn not_durable() -> Arc<LogConfig> {
        config(u64::MAX)
    }

    fn partition(fs: &SimFs, config: Arc<LogConfig>) -> (LogDir, Arc<Partition>) {
        let options = LogDirOptions {
            fs: Arc::new(fs.clone()),
            ..LogDirOptions::new("data", BrokerId(1), ClusterId(Uuid([1; 16])))
        };
        let dir = LogDir::open(options, LogMetrics::new()).expect("opens");
        let name = TopicName::new("t").expect("a legal name");
        let place = TopicPartition::new(name, PartitionId(0));
        let log = dir.create_log(place, TopicId(Uuid([2; 16])), config).expect("is made");
        let place = PlacedLog { log, directory: dir.directory_id() };
        (dir, Partition::lead(place, LeaderEpoch(0)))
    }

    fn batch() -> Batch {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("fits");
        let bytes = builder.finish().expect("fits");
        Batches::new(bytes).next().expect("there is one").expect("is whole")
    }

    #[test]
    fn a_topic_that_becomes_durable_keeps_the_high_watermark_it_has_shown() {
        let fs = SimFs::new(1);
        let (_dir, partition) = partition(&fs, not_durable());
        fs.hold_syncs();
        partition.append(vec![batch()]).wait().expect("needs no sync");
        assert_eq!(partition.high_watermark().get(), Offset(1));
        partition.set_config(durable());
        assert_eq!(partition.high_watermark().get(), Offset(1));
        fs.release_syncs();
        partition.append(vec![batch()]).wait().expect("is written");
        assert_eq!(partition.high_watermark().get(), Offset(2));
    }

    /// Two threads raise it as often as they can. Whether they meet in a bad moment is up to chance,
    /// so there are many moments.
    #[test]
    fn a_change_of_settings_and_a_growing_log_never_take_the_high_watermark_back() {
        const TAILS: i64 = 300_000;
        let (_dir, partition) = partition(&SimFs::new(1), not_durable());
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    partition.set_durable(true);
                    partition.set_durable(false);
                }
            });
            let mut seen = Offset(0);
            for end in 1..=TAILS {
                partition.on_tail(LocalTail { log_end: Offset(end), flushed: Offset(end / 2) });
                let now = partition.high_watermark().get();
                if now < seen {
                    is_done.store(true, Ordering::SeqCst);
                    panic!("it went back from {seen} to {now}");
                }
                seen = now;
            }
            is_done.store(true, Ordering::SeqCst);
        });
        partition.set_durable(false);
        assert_eq!(partition.high_watermark().get(), Offset(TAILS));
    }
}
