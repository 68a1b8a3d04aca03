//! The log of one partition.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use logway_model::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, TopicPartition};
use logway_record::{Batch, BatchHeader, DecodeLimit};

use crate::checkpoint::offset_checkpoint::UNKNOWN;
use crate::checkpoint::{Divergence, EpochEnd, ReplicaMove, TruncationPoint};
use crate::cleaner::LastWrites;
use crate::dir_syncs::DirSyncs;
use crate::follow::without_gaps;
use crate::high_watermarks::HighWatermarks;
use crate::producer_state::{ProducerBatch, ProducerState, Refusal, RefusedBatches};
use crate::segment::Segment;
use crate::transactions::LogTransactions;
use crate::view::LogView;
use crate::writer::{Append, Command, CommandQueue, InlineRound, LogKey, Offsets, Unqueued};
use crate::{
    AppendBatches, AppendFuture, Completion, HeldAppend, LogConfig, LogError, ReadRequest,
    ReadSlice, TailListener, TimestampLookup,
};

/// The log of one partition, shared by all who read it and append to it.
///
/// Readers load an immutable picture of the log and take no lock. Whatever changes the log is
/// handed to the writer thread of its directory, which publishes a new picture when it is done.
pub struct Log {
    key: LogKey,
    name: Arc<str>,
    partition: TopicPartition,
    topic_id: TopicId,
    queue: Arc<CommandQueue>,
    dir_syncs: Arc<DirSyncs>,
    config: ArcSwap<LogConfig>,
    /// Locked for as long as a pointer or a number of it is copied, never while a file is read.
    view: RwLock<Arc<LogView>>,
    listener: RwLock<Option<Arc<dyn TailListener>>>,
    is_closed: AtomicBool,
    /// See [`Log::written_recovery_point`].
    written_recovery_point: AtomicI64,
    /// See [`Log::written_log_start`].
    written_log_start: AtomicI64,
    replica_move: ArcSwapOption<ReplicaMove>,
    /// Appends of earlier leader epochs are refused.
    leader_epoch: AtomicI32,
    /// How often an end was cut off: pictures from before are not used any more.
    cuts: AtomicU32,
    /// See [`Log::set_high_watermark`]; -1 if nobody has said any.
    high_watermark: AtomicI64,
    refused: RefusedBatches,
    transactions: LogTransactions,
    high_watermarks: Arc<HighWatermarks>,
}

/// Who a log is, and where its commands go.
pub(crate) struct LogIdentity {
    pub(crate) key: LogKey,
    pub(crate) dir: Arc<Path>,
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) queue: Arc<CommandQueue>,
    pub(crate) high_watermarks: Arc<HighWatermarks>,
    pub(crate) replica_move: Option<ReplicaMove>,
}

impl Log {
    /// The handle of a log that the writer is about to be given.
    pub(crate) fn new(identity: LogIdentity, config: Arc<LogConfig>, view: LogView) -> Log {
        let LogIdentity { key, dir, partition, topic_id, queue, replica_move, .. } = identity;
        let high_watermarks = identity.high_watermarks;
        // What lies before is not there, and does not come back.
        let written_log_start = AtomicI64::new(view.log_start.0);
        Log {
            key,
            name: partition.to_string().into(),
            partition,
            topic_id,
            queue,
            dir_syncs: Arc::new(DirSyncs::new(dir)),
            config: ArcSwap::new(config),
            view: RwLock::new(Arc::new(view)),
            listener: RwLock::new(None),
            is_closed: AtomicBool::new(false),
            written_recovery_point: AtomicI64::new(0),
            written_log_start,
            replica_move: ArcSwapOption::from_pointee(replica_move),
            leader_epoch: AtomicI32::new(LeaderEpoch::NONE.0),
            cuts: AtomicU32::new(0),
            high_watermark: AtomicI64::new(UNKNOWN.0),
            refused: RefusedBatches::default(),
            transactions: LogTransactions::default(),
            high_watermarks,
        }
    }

    /// The partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The id of the topic; zero for a directory that says none.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The syncs of the log's directory.
    pub(crate) fn dir_syncs(&self) -> &Arc<DirSyncs> {
        &self.dir_syncs
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Puts other settings in force, for the appends made after this.
    ///
    /// New flush settings hold for what is not flushed yet, too: a log that becomes durable is
    /// flushed, and a `flush.ms` counts from when the records were written.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let flush_settings = |config: &LogConfig| (config.flush_messages, config.flush_ms);
        let new = flush_settings(&config);
        if flush_settings(&self.config.swap(config)) != new {
            self.queue.push(Command::Reconfigured { key: self.key });
        }
    }

    /// Says who is told when the log grows; there is one listener.
    pub fn set_tail_listener(&self, listener: Arc<dyn TailListener>) {
        // Only this assignment and a clone are done under the lock: it guards a sound state.
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Takes the listener away, for another log.
    pub fn take_tail_listener(&self) -> Option<Arc<dyn TailListener>> {
        self.listener.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Hands batches, at least one, to the writer thread. See [`AppendFuture`] for the answer.
    pub fn append(&self, batches: AppendBatches) -> AppendFuture {
        let (held, completion) = HeldAppend::new(batches, &self.name);
        self.append_held(held);
        completion
    }

    /// As [`Log::append`], but an append that is small, and whose sync is quick, joins the round that the
    /// caller holds, or begins one if the writer has nothing to do: see [`InlineRound`].
    pub fn append_inline(
        &self,
        batches: AppendBatches,
        held: &mut Option<InlineRound>,
    ) -> AppendFuture {
        let (append, completion) = HeldAppend::new(batches, &self.name);
        let command = self.append_command(append, Offsets::Assigned);
        match held {
            Some(round) if round.is_of(&self.queue) => round.add(command),
            Some(_) => self.push(command),
            None => match self.queue.push_or_begin(command) {
                Ok(round) => *held = round,
                Err(unqueued) => self.refuse(*unqueued),
            },
        }
        completion
    }

    /// As [`Log::append`], of one that was made before it was known that this is its log.
    pub fn append_held(&self, held: HeldAppend) {
        self.push_append(held, Offsets::Assigned);
    }

    /// Hands batches of another log of the same partition, at least one, to the writer thread. They
    /// keep their offsets, epochs and timestamps, and are not checked for duplicates.
    ///
    /// Where offsets are missing before one, as compaction leaves them, a batch without records
    /// takes their place: recovery takes a gap for the place where a crash has cut the log off. For
    /// that, one caller at a time copies, and waits for each copy.
    ///
    /// No segment reaches over more than 2^31 offsets: what lies further behind the log end is not
    /// appended, and the caller goes on where the log ends then.
    ///
    /// [`LogError::OffsetNotNext`] if the first begins before the log end, one within another, or one
    /// further behind another than a segment reaches.
    pub fn append_copied(&self, batches: Vec<Batch>) -> AppendFuture {
        let batches = without_gaps(self.log_end_offset(), batches);
        let batches = AppendBatches::new(batches, LeaderEpoch::NONE);
        let (held, completion) = HeldAppend::new(batches, &self.name);
        self.push_append(held, Offsets::Kept);
        completion
    }

    fn push_append(&self, held: HeldAppend, offsets: Offsets) {
        self.push(self.append_command(held, offsets));
    }

    fn push(&self, append: Command) {
        if let Err(unqueued) = self.queue.try_push(append) {
            self.refuse(*unqueued);
        }
    }

    fn refuse(&self, unqueued: Unqueued) {
        if let Command::Append(append) = &unqueued.command {
            let batches = &append.batches.batches;
            self.note_refused(batches, Refusal::Storage, unqueued.error.to_string());
        }
        unqueued.fail();
    }

    /// Takes note that batches of clients were refused for a reason that will pass. Until they come
    /// again, what their producers have sent behind them is refused with [`LogError::BehindRefused`], for the
    /// same reason, and not as out of order.
    pub fn note_refused(&self, batches: &[Batch], refusal: Refusal, reason: impl Into<Arc<str>>) {
        self.note_refused_headers(batches.iter().map(Batch::header), refusal, reason);
    }

    pub(crate) fn note_refused_headers<'a>(
        &self,
        headers: impl Iterator<Item = &'a BatchHeader>,
        refusal: Refusal,
        reason: impl Into<Arc<str>>,
    ) {
        // What has no sequence is of this node, which waits for no turn.
        let has_sequence = |batch: &ProducerBatch| batch.base_sequence.0 >= 0;
        let mut batches = headers.filter_map(ProducerBatch::of).filter(has_sequence).peekable();
        if batches.peek().is_some() {
            let (reason, now) = (reason.into(), Instant::now());
            batches.for_each(|batch| self.refused.note(&batch, refusal, &reason, now));
        }
    }

    /// What was refused and is awaited.
    pub(crate) fn refused(&self) -> &RefusedBatches {
        &self.refused
    }

    /// What is known of its transactions.
    pub(crate) fn transactions(&self) -> &LogTransactions {
        &self.transactions
    }

    /// The command that appends what the leader has from an offset on.
    pub(crate) fn followed_command(&self, held: HeldAppend, from: Offset) -> Command {
        self.append_command(held, Offsets::Followed(from))
    }

    /// Whether its commands go to this queue.
    pub(crate) fn is_of(&self, queue: &Arc<CommandQueue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    fn append_command(&self, held: HeldAppend, offsets: Offsets) -> Command {
        let HeldAppend { batches, done } = held;
        assert!(!batches.batches.is_empty(), "an append is of at least one batch");
        let is_sync_free = !self.config.load().is_durable();
        Command::Append(Append { key: self.key, batches, offsets, is_sync_free, done })
    }

    /// What the log has to do with a move of its partition to this log directory, if anything.
    pub fn replica_move(&self) -> Option<ReplicaMove> {
        self.replica_move.load().as_deref().copied()
    }

    /// What its directory says now.
    pub(crate) fn note_replica_move(&self, replica_move: Option<ReplicaMove>) {
        self.replica_move.store(replica_move.map(Arc::new));
    }

    /// Finds the batches that a request asks for.
    ///
    /// The batch that holds the offset is returned whole, also when the offset is in its middle;
    /// no batch that ends at or after the upper bound is returned. An offset between the upper
    /// bound and the log end gives nothing.
    ///
    /// # Errors
    ///
    /// [`LogError::OffsetOutOfRange`] before the log start or after the log end,
    /// [`LogError::Corrupt`] where the segment is damaged, [`LogError::Closed`] if the log was
    /// deleted, [`LogError::Io`].
    pub fn read(&self, request: ReadRequest) -> Result<ReadSlice, LogError> {
        self.with_view(|view| self.read_view(view, &request))
    }

    pub(crate) fn read_view(
        &self,
        view: &LogView,
        request: &ReadRequest,
    ) -> Result<ReadSlice, LogError> {
        let (start, end) = (view.log_start, view.end.offset);
        if request.offset < start || request.offset > end {
            let partition = self.partition.clone();
            let requested = request.offset;
            return Err(LogError::OffsetOutOfRange { partition, requested, start, end });
        }
        view.read(request)
    }

    /// Whether reading from `offset` concerns the segment that grows: its index is in memory and
    /// its records were written lately, so that it hardly ever waits for the disk.
    pub fn is_hot(&self, offset: Offset) -> bool {
        offset >= self.view().active().base_offset()
    }

    /// The first offset that can be read.
    pub fn log_start_offset(&self) -> Offset {
        self.view().log_start
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.view().end.offset
    }

    /// Everything before this is on stable storage.
    pub fn flushed_offset(&self) -> Offset {
        self.view().flushed.offset
    }

    /// Says up to where nobody takes records back any more. From then on retention and compaction leave
    /// alone what is behind, and the directory remembers it. Nobody else need be told that it is lower
    /// than before. It costs little, however often it is called.
    ///
    /// Of a log that nobody has said that of, retention and compaction have what is on stable
    /// storage, as if there were no other replicas.
    pub fn set_high_watermark(&self, high_watermark: Offset) {
        if self.high_watermark.swap(high_watermark.0, Ordering::AcqRel) != high_watermark.0 {
            self.high_watermarks.note_change();
        }
    }

    /// Nobody else holds the partition any more: what was said of it bounds nothing.
    pub fn forget_high_watermark(&self) {
        self.high_watermark.store(UNKNOWN.0, Ordering::Release);
    }

    /// The high watermark that was last said; after a start, in the life before: then it may be older
    /// than the last one. It is not before the log start or behind the log end; the log start if
    /// nobody has said any.
    pub fn high_watermark(&self) -> Offset {
        let view = self.view();
        Offset(self.high_watermark.load(Ordering::Acquire)).min(view.end.offset).max(view.log_start)
    }

    /// The same, if anybody has said any; it may be before a log start that is not on the disk yet.
    pub(crate) fn said_high_watermark(&self) -> Option<Offset> {
        let said = Offset(self.high_watermark.load(Ordering::Acquire));
        (said != UNKNOWN).then(|| said.min(self.log_end_offset()))
    }

    /// What is from here on neither retention nor compaction may touch.
    pub(crate) fn removal_bound(&self) -> Offset {
        self.said_high_watermark().unwrap_or(Offset::LIMIT)
    }

    /// The high watermark of the life before.
    pub(crate) fn restore_high_watermark(&self, high_watermark: Offset) {
        self.high_watermark.store(high_watermark.0, Ordering::Release);
        self.lower_high_watermark(self.log_end_offset());
    }

    /// The log ends here, now or soon: what comes behind is not what was there.
    pub(crate) fn lower_high_watermark(&self, end: Offset) {
        if let Some(said) = self.said_high_watermark() {
            self.set_high_watermark(said.min(end));
        }
    }

    /// The bytes of the batches in all segments.
    pub fn size_bytes(&self) -> u64 {
        self.view().size_bytes()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.view().segments.len()
    }

    /// The epoch of the newest batch; [`LeaderEpoch::NONE`] if none was ever appended.
    pub fn latest_epoch(&self) -> LeaderEpoch {
        self.view().epochs.latest().map_or(LeaderEpoch::NONE, |latest| latest.epoch)
    }

    /// Where the records of `epoch` end (KIP-101, KIP-279); see
    /// [`LeaderEpochCache::end_offset_for`](crate::checkpoint::LeaderEpochCache::end_offset_for)
    /// for epochs that the log has not.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let view = self.view();
        view.epochs.end_offset_for(epoch, view.end.offset)
    }

    /// Whether a follower whose log ends at `fetch_offset`, with a record of `fetched_epoch` before, has
    /// what this log has: see [`LeaderEpochCache::divergence`](crate::checkpoint::LeaderEpochCache::divergence).
    pub fn divergence(&self, fetched_epoch: LeaderEpoch, fetch_offset: Offset) -> Divergence {
        let view = self.view();
        view.epochs.divergence(fetched_epoch, fetch_offset, view.end.offset)
    }

    /// Where this log is cut off to be the leader's, which has answered `leader` about
    /// [`Log::latest_epoch`]: see
    /// [`LeaderEpochCache::truncation_point`](crate::checkpoint::LeaderEpochCache::truncation_point).
    pub fn truncation_point(&self, leader: EpochEnd) -> TruncationPoint {
        let view = self.view();
        view.epochs.truncation_point(leader, view.end.offset)
    }

    /// The epoch that wrote the record at `offset`; [`LeaderEpoch::NONE`] if nobody knows.
    pub fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        self.view().epochs.epoch_at(offset).unwrap_or(LeaderEpoch::NONE)
    }

    /// The first record before `upper_bound` whose timestamp is at or after `timestamp`
    /// (ListOffsets, KIP-79). It reads a batch and walks it, as far as `limit` allows.
    pub fn offset_for_timestamp(
        &self,
        timestamp: TimestampMs,
        upper_bound: Offset,
        limit: DecodeLimit,
    ) -> Result<TimestampLookup, LogError> {
        self.with_view(|view| view.offset_for_timestamp(timestamp, upper_bound, limit))
    }

    /// The first of the records before `upper_bound` that have the largest timestamp
    /// (ListOffsets, KIP-734). It reads a batch and walks it, as far as `limit` allows.
    pub fn max_timestamp_offset(
        &self,
        upper_bound: Offset,
        limit: DecodeLimit,
    ) -> Result<TimestampLookup, LogError> {
        self.with_view(|view| view.max_timestamp_offset(upper_bound, limit))
    }

    /// Forgets all records before `offset`; answers the new log start offset, when it is on
    /// stable storage. It never moves back: an offset before the log start changes nothing.
    ///
    /// Segments without a record left are deleted. [`LogError::OffsetOutOfRange`] after the log
    /// end.
    pub fn delete_records_before(&self, offset: Offset) -> Completion<Offset> {
        let (done, completion) = Completion::new(&self.name);
        self.queue.push(Command::DeleteRecords { key: self.key, before: offset, done });
        completion
    }

    /// Refuses from now on what is appended in an earlier leader epoch, with [`LogError::EpochOver`];
    /// answers the log end as it is then.
    ///
    /// What an earlier leader has appended is in the log before that end or not at all, wherever it was on
    /// its way. The epoch never goes back: an older one than the log knows changes nothing. It is not
    /// written down: who opens the log again says again in which epoch.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Completion<Offset> {
        let (done, completion) = Completion::new(&self.name);
        self.raise_leader_epoch(epoch);
        self.queue.push(Command::TellEnd { key: self.key, done });
        completion
    }

    /// As [`Log::begin_epoch`], by the leader of the epoch, which starts at the log end that is answered.
    ///
    /// From then on [`Log::end_offset_for_epoch`] knows the epoch, though there is no record of it yet
    /// (KIP-101: the leader notes where its epoch starts when it is elected). A start after a crash
    /// knows it from its first record on; before that nothing has to be known of it.
    pub fn begin_leading(&self, epoch: LeaderEpoch) -> Completion<Offset> {
        let (done, completion) = Completion::new(&self.name);
        self.raise_leader_epoch(epoch);
        self.queue.push(Command::BeginLeading { key: self.key, epoch, done });
        completion
    }

    /// The newest leader epoch that has begun, this one included.
    pub(crate) fn raise_leader_epoch(&self, epoch: LeaderEpoch) -> LeaderEpoch {
        let before = self.leader_epoch.load(Ordering::Acquire);
        if before >= epoch.0 {
            return LeaderEpoch(before);
        }
        LeaderEpoch(self.leader_epoch.fetch_max(epoch.0, Ordering::AcqRel).max(epoch.0))
    }

    /// What is known of the idempotent producers, after the appends made before this; in no order.
    pub fn producers(&self) -> Completion<Vec<(ProducerId, ProducerState)>> {
        let (done, completion) = Completion::new(&self.name);
        self.queue.push(Command::DescribeProducers { key: self.key, done });
        completion
    }

    /// Puts everything appended so far on stable storage; answers the flushed offset.
    pub fn flush(&self) -> Completion<Offset> {
        let (done, completion) = Completion::new(&self.name);
        self.queue.push(Command::Flush { key: self.key, done });
        completion
    }

    /// The newest picture.
    pub(crate) fn current_view(&self) -> Arc<LogView> {
        Arc::clone(&self.view())
    }

    fn view(&self) -> RwLockReadGuard<'_, Arc<LogView>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before this offset nothing can be taken back, and consumers may read everything.
    pub(crate) fn stable_offset(&self) -> Offset {
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner).clone();
        listener.map_or_else(|| self.flushed_offset(), |listener| listener.stable_offset())
    }

    /// The recovery point in the checkpoint, or one before it: a start after a crash looks for nothing
    /// that was cut off before it.
    pub(crate) fn written_recovery_point(&self) -> Offset {
        Offset(self.written_recovery_point.load(Ordering::Acquire))
    }

    /// The checkpoint has this recovery point.
    pub(crate) fn note_written_recovery_point(&self, point: Offset) {
        self.written_recovery_point.store(point.0, Ordering::Release);
    }

    /// The log start in the checkpoint, or one before it: after a crash the log does not begin earlier.
    pub(crate) fn written_log_start(&self) -> Offset {
        Offset(self.written_log_start.load(Ordering::Acquire))
    }

    /// The checkpoint has this log start.
    pub(crate) fn note_written_log_start(&self, log_start: Offset) {
        self.written_log_start.store(log_start.0, Ordering::Release);
    }

    /// Where the idempotent producers have written last; `None` if the log cannot be cleaned now.
    pub(crate) fn last_writes(&self) -> Completion<Option<LastWrites>> {
        let (done, completion) = Completion::new(&self.name);
        self.queue.push(Command::LastWrites { key: self.key, done });
        completion
    }

    /// Puts the cleaned segment that was made from `segments` in their place; answers when it is
    /// there for good, or whether it was not begun because the log is not as it was.
    pub(crate) fn replace_segments(
        &self,
        segments: Vec<Arc<Segment>>,
        size_bytes: u64,
    ) -> Completion<bool> {
        let (done, completion) = Completion::new(&self.name);
        self.queue.push(Command::Replace { key: self.key, segments, size_bytes, done });
        completion
    }

    /// Begins a new segment, some time, if the active one is too old by the clock.
    pub(crate) fn roll_if_old(&self) {
        self.queue.push(Command::RollIfOld { key: self.key });
    }

    /// Tells the writer of a failed sync of the log's directory: it was about the names of the
    /// segments, too.
    pub(crate) fn note_failed_sync(&self, error: LogError) {
        self.queue.push(Command::SyncFailed { key: self.key, error });
    }

    /// What the writer calls the log.
    pub(crate) fn key(&self) -> LogKey {
        self.key
    }

    /// The partition as text.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Tells whom it concerns that the directory of the log cannot be relied on any more.
    pub(crate) fn note_failure(&self, error: &LogError) {
        self.queue.note_failure(error);
    }

    /// Whether the log is being deleted.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Notes that the log is being deleted.
    pub(crate) fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Makes a new picture visible and tells the listener. Only the writer thread does this.
    pub(crate) fn publish(&self, view: &LogView) {
        self.replace_view(view.clone());
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener.on_tail(view.end.offset, view.flushed.offset);
        }
    }

    /// Makes a picture visible of a log whose end is about to be cut off. Who looks at an older one, and
    /// is not done when this returns, looks again.
    pub(crate) fn publish_cut(&self, view: &LogView) {
        self.publish(view);
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// The picture before is dropped without the lock: it may be the last that has a file open.
    fn replace_view(&self, mut view: LogView) {
        let mut current = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let _before = match Arc::get_mut(&mut current) {
            // Nobody reads it, as mostly.
            Some(current) => {
                std::mem::swap(current, &mut view);
                None
            }
            None => Some(std::mem::replace(&mut *current, Arc::new(view))),
        };
        drop(current);
    }

    /// Looks at the newest picture; again if a segment vanished while it was looked at, because
    /// it was deleted, or if an end was cut off.
    pub(crate) fn with_view<T>(
        &self,
        look: impl Fn(&LogView) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let (view, looked) = loop {
            let cuts = self.cuts.load(Ordering::SeqCst);
            let view = self.current_view();
            let looked = look(&view);
            // To cut one off takes syncs, and to look takes none.
            if self.cuts.load(Ordering::SeqCst) == cuts {
                break (view, looked);
            }
        };
        match looked {
            Err(error) if error.is_not_found() => {
                if self.is_closed.load(Ordering::Acquire) {
                    return Err(LogError::Closed { what: self.name.to_string() });
                }
                let newer = self.current_view();
                if Arc::ptr_eq(&newer, &view) { Err(error) } else { look(&newer) }
            }
            result => result,
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.view();
        f.debug_struct("Log")
            .field("partition", &self.name)
            .field("log_start", &view.log_start)
            .field("log_end", &view.end.offset)
            .field("flushed", &view.flushed.offset)
            .finish_non_exhaustive()
    }
}
