//! A partition that this broker leads: its log, its high watermark, and who waits for them.

use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use logway_log::{
    AppendBatches, AppendFuture, Completion, HeldAppend, InlineRound, Log, LogConfig, TailListener,
};
use logway_model::{DirectoryId, ErrorCode, LeaderEpoch, Offset, TopicPartition};
use logway_record::Batch;
use logway_replication::{LeaderState, LocalTail};

use crate::high_watermark::HighWatermark;
use crate::log_dirs::PlacedLog;

/// A partition that this broker leads.
///
/// Appends go to the log's writer thread, which reports each new tail back through
/// [`TailListener`]; the leader state turns it into the high watermark. The leader state's lock is
/// taken under no other lock and held across no I/O.
///
/// The log can be replaced by another one with the same records, in another log directory. What
/// changes it goes through the gate, so that for that moment it can be held back.
#[derive(Debug)]
pub struct Partition {
    topic_partition: TopicPartition,
    /// Changes only under `gate`.
    place: ArcSwap<PlacedLog>,
    gate: Mutex<Gate>,
    leader_epoch: AtomicI32,
    leader: Mutex<LeaderState>,
    high_watermark: HighWatermark,
    /// The last offset at which damage was reported; consumers ask for it again and again.
    damage_reported_at: AtomicI64,
}

/// Whether appends go to the log.
#[derive(Debug)]
enum Gate {
    Open,
    /// They wait, in their order. Their memory is that of their requests.
    Held(Vec<HeldAppend>),
    /// They are refused, with an error after which clients try again.
    Shut,
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
            topic_partition: log.topic_partition().clone(),
            high_watermark: HighWatermark::new(state.high_watermark()),
            leader: Mutex::new(state),
            leader_epoch: AtomicI32::new(leader_epoch.0),
            damage_reported_at: AtomicI64::new(i64::MIN),
            gate: Mutex::new(Gate::Open),
            place: ArcSwap::from_pointee(place),
        });
        log.set_tail_listener(Arc::new(Listener(Arc::downgrade(&partition))));
        // The log may have grown between the look and the listening.
        partition.on_tail(tail_of(&log));
        partition
    }

    /// Its topic and number.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    /// The log, for reading.
    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.place.load().log)
    }

    /// The log directory that the log is in.
    pub fn directory(&self) -> DirectoryId {
        self.place.load().directory
    }

    /// The epoch in which this broker leads.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// The exclusive end of what consumers may read.
    pub fn high_watermark(&self) -> &HighWatermark {
        &self.high_watermark
    }

    /// Takes note of damage at an offset; whether that is not what was noted last.
    pub(crate) fn note_damage(&self, offset: Offset) -> bool {
        self.damage_reported_at.swap(offset.0, Ordering::Relaxed) != offset.0
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

    /// Hands validated batches to the log's writer, all or none. The batches of one caller are
    /// appended in the order of its calls.
    pub fn append(&self, batches: Vec<Batch>) -> AppendFuture {
        let append = self.append_batches(batches);
        match &mut *self.gate() {
            Gate::Open => self.place.load().log.append(append),
            shut => self.append_later(append, shut),
        }
    }

    /// As [`Partition::append`]; but it may join or begin a round of the writer that the caller
    /// does, as with [`Log::append_inline`].
    pub(crate) fn append_inline(
        &self,
        batches: Vec<Batch>,
        held: &mut Option<InlineRound>,
    ) -> AppendFuture {
        let append = self.append_batches(batches);
        match &mut *self.gate() {
            Gate::Open => self.place.load().log.append_inline(append, held),
            shut => self.append_later(append, shut),
        }
    }

    fn append_batches(&self, batches: Vec<Batch>) -> AppendBatches {
        AppendBatches { batches, leader_epoch: self.leader_epoch() }
    }

    /// Has an append wait for an open gate, if it will be open again; dropped, it is answered.
    fn append_later(&self, append: AppendBatches, gate: &mut Gate) -> AppendFuture {
        let (held, answer) = HeldAppend::new(append, &self.topic_partition.to_string().into());
        if let Gate::Held(waiting) = gate {
            waiting.push(held);
        }
        answer
    }

    /// Forgets all records before an offset; as [`Log::delete_records_before`]. Fails with
    /// `NOT_LEADER_OR_FOLLOWER`, after which clients try again, while appends are held back.
    pub fn delete_records_before(&self, offset: Offset) -> Result<Completion<Offset>, ErrorCode> {
        match *self.gate() {
            Gate::Open => Ok(self.place.load().log.delete_records_before(offset)),
            Gate::Held(_) | Gate::Shut => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Holds back whatever changes the log from now on, until the result is dropped. One at a time;
    /// `None` if it is shut for good.
    pub(crate) fn hold(&self) -> Option<Hold<'_>> {
        let mut gate = self.gate();
        match *gate {
            Gate::Open => *gate = Gate::Held(Vec::new()),
            Gate::Held(_) => unreachable!("a partition is held by one"),
            Gate::Shut => return None,
        }
        Some(Hold { partition: self, is_undecided: false })
    }

    /// Puts other topic settings in force.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let durable = config.is_durable();
        // Under the gate, lest a log that is being replaced gets it.
        let gate = self.gate();
        self.place.load().log.set_config(config);
        drop(gate);
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

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leader(&self) -> MutexGuard<'_, LeaderState> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A partition that holds back what would change its log; dropped, it goes on. Only while nobody
/// knows which log is the partition's, it does not.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    partition: &'a Partition,
    is_undecided: bool,
}

impl Hold<'_> {
    /// From now on nobody knows which of two logs is the partition's, until it is said with which it
    /// goes on. Dropped before, it takes no appends any more: the next start knows.
    pub(crate) fn begin_decision(&mut self) {
        self.is_undecided = true;
    }

    /// Refuses what is held back, and what comes: it would have to wait for too long.
    pub(crate) fn refuse(&self) {
        // What waited is dropped outside of the lock.
        let _refused = std::mem::replace(&mut *self.partition.gate(), Gate::Shut);
    }

    /// Goes on with the log that the partition had.
    pub(crate) fn stay(mut self) {
        self.is_undecided = false;
    }

    /// Goes on with another log, which has all that the one before has.
    pub(crate) fn go_on_with(mut self, place: PlacedLog) {
        let partition = self.partition;
        let log = Arc::clone(&place.log);
        debug_assert_eq!(log.log_end_offset(), partition.log().log_end_offset());
        let listener = partition.log().take_tail_listener();
        partition.place.store(Arc::new(place));
        if let Some(listener) = listener {
            log.set_tail_listener(listener);
        }
        self.is_undecided = false;
        // Dropped now: what was held back goes to the new log, before anything that comes later.
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if self.is_undecided {
            return self.refuse();
        }
        let mut gate = self.partition.gate();
        let place = self.partition.place.load();
        if let Gate::Held(waiting) = std::mem::replace(&mut *gate, Gate::Open) {
            waiting.into_iter().for_each(|held| place.log.append_held(held));
        }
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

    fn stable_offset(&self) -> Offset {
        // Of one that is served no more, nothing is known to be stable.
        self.0.upgrade().map_or(Offset::ZERO, |partition| partition.last_stable_offset())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use logway_log::fs::SimFs;
    use logway_log::{LogDir, LogDirOptions, LogError, LogMetrics, NewLog, ReadRequest};
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

    /// The same records in another directory.
    fn copy(fs: &SimFs, of: &Partition) -> (LogDir, PlacedLog) {
        let options = LogDirOptions {
            fs: Arc::new(fs.clone()),
            ..LogDirOptions::new("other", BrokerId(1), ClusterId(Uuid([1; 16])))
        };
        let dir = LogDir::open(options, LogMetrics::new()).expect("opens");
        let source = of.log();
        let new = NewLog {
            partition: source.topic_partition().clone(),
            topic_id: source.topic_id(),
            config: source.config(),
        };
        let log =
            dir.create_copy(&new, source.log_start_offset(), of.directory()).expect("is made");
        let request = ReadRequest {
            offset: Offset(0),
            max_bytes: u64::MAX,
            upper_bound: source.log_end_offset(),
            at_least_one_batch: true,
        };
        let bytes = source.read(request).expect("is read").read().expect("is read");
        let batches = Batches::new(bytes).map(|batch| batch.expect("is whole")).collect();
        log.append_copied(batches).wait().expect("is written");
        let directory = dir.directory_id();
        (dir, PlacedLog { log, directory })
    }

    #[test]
    fn what_is_held_back_goes_to_the_log_that_takes_over_in_its_order() {
        let fs = SimFs::new(1);
        let (_dir, partition) = partition(&fs, durable());
        partition.append(vec![batch()]).wait().expect("is written");
        let (_other, place) = copy(&fs, &partition);

        // A hold that comes to nothing.
        let hold = partition.hold().expect("is open");
        let held = partition.append(vec![batch()]);
        let refused = partition.delete_records_before(Offset(1)).expect_err("is held");
        assert_eq!(refused, ErrorCode::NotLeaderOrFollower);
        drop(hold);
        assert_eq!(held.wait().expect("is written").base_offset, Offset(1));
        place.log.append_copied(vec![at_offset(1)]).wait().expect("is written");

        let (before, hold) = (partition.log(), partition.hold().expect("is open"));
        let held = [0, 1, 2].map(|_| partition.append(vec![batch()]));
        hold.go_on_with(place.clone());
        let late = partition.append(vec![batch()]);
        let offsets = held.map(|held| held.wait().expect("is written").base_offset);
        assert_eq!(offsets, [Offset(2), Offset(3), Offset(4)]);
        assert_eq!(late.wait().expect("is written").base_offset, Offset(5));
        assert_eq!((before.log_end_offset(), place.log.log_end_offset()), (Offset(2), Offset(6)));
        assert_eq!(partition.high_watermark().get(), Offset(6));
        assert_eq!(partition.directory(), place.directory);
    }

    #[test]
    fn while_nobody_knows_which_log_is_the_partitions_nothing_is_written() {
        let fs = SimFs::new(1);
        let (_dir, partition) = partition(&fs, durable());
        let mut hold = partition.hold().expect("is open");
        let held = partition.append(vec![batch()]);
        hold.begin_decision();
        hold.refuse();
        let late = partition.append(vec![batch()]);
        for refused in [held, late] {
            assert!(matches!(refused.wait(), Err(LogError::Closed { .. })));
        }
        hold.stay();
        let written = partition.append(vec![batch()]).wait().expect("goes on");
        assert_eq!(written.base_offset, Offset(0));

        // A move that ends without an answer, since the broker stops.
        let mut hold = partition.hold().expect("is open");
        hold.begin_decision();
        drop(hold);
        let refused = partition.append(vec![batch()]).wait();
        assert!(matches!(refused, Err(LogError::Closed { .. })));
        assert!(partition.hold().is_none());
        assert_eq!(partition.log().log_end_offset(), Offset(1));
    }

    fn at_offset(offset: i64) -> Batch {
        let mut builder =
            BatchBuilder::new(Compression::None).with_assignment(Offset(offset), LeaderEpoch(0));
        builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("fits");
        let bytes = builder.finish().expect("fits");
        Batches::new(bytes).next().expect("there is one").expect("is whole")
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
