//! The log of one partition.

use std::fmt;
use std::sync::Arc;

use logway_model::{LeaderEpoch, Offset, ProducerId, TimestampMs, TopicId, TopicPartition};
use logway_record::{Batch, DecodeLimit};

use crate::checkpoint::{Divergence, EpochEnd, ReplicaMove, TruncationPoint};
use crate::cleaner::LastWrites;
use crate::gaps::without_gaps;
use crate::log_state::LogState;
use crate::producer_state::{ProducerState, Refusal};
use crate::segment::Segment;
use crate::view::LogView;
use crate::writer::{Append, Command, CommandQueue, InlineRound, LogRequest, Offsets, Unqueued};
use crate::{
    AppendBatches, AppendFuture, Completion, HeldAppend, LogConfig, LogError, ReadRequest,
    ReadSlice, TailListener, TimestampLookup,
};

/// The log of one partition, shared by all who read it and append to it.
///
/// Readers load an immutable picture of the log and take no lock. Whatever changes the log is
/// handed to the writer thread of its directory, which publishes a new picture when it is done.
pub struct Log {
    state: Arc<LogState>,
    queue: Arc<CommandQueue>,
}

impl Log {
    /// The handle of a log whose writer takes its commands from this queue.
    pub(crate) fn new(state: Arc<LogState>, queue: Arc<CommandQueue>) -> Log {
        Log { state, queue }
    }

    /// What it shares with its writer.
    pub(crate) fn state(&self) -> &Arc<LogState> {
        &self.state
    }

    /// The partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        self.state.topic_partition()
    }

    /// The id of the topic; zero for a directory that says none.
    pub fn topic_id(&self) -> TopicId {
        self.state.topic_id()
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<LogConfig> {
        self.state.config()
    }

    /// Puts other settings in force, for the appends made after this.
    ///
    /// New flush settings hold for what is not flushed yet, too: a log that becomes durable is
    /// flushed, and a `flush.ms` counts from when the records were written.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        let flush_settings = |config: &LogConfig| (config.flush_messages, config.flush_ms);
        let new = flush_settings(&config);
        if flush_settings(&self.state.replace_config(config)) != new {
            self.queue.push(Command::Reconfigured { key: self.state.key() });
        }
    }

    /// Says who is told when the log grows; there is one listener.
    pub fn set_tail_listener(&self, listener: Arc<dyn TailListener>) {
        self.state.replace_listener(Some(listener));
    }

    /// Takes the listener away, for another log.
    pub fn take_tail_listener(&self) -> Option<Arc<dyn TailListener>> {
        self.state.replace_listener(None)
    }

    /// Hands batches, at least one, to the writer thread. See [`AppendFuture`] for the answer.
    pub fn append(&self, batches: AppendBatches) -> AppendFuture {
        let (held, completion) = HeldAppend::new(batches, self.state.name());
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
        let (append, completion) = HeldAppend::new(batches, self.state.name());
        let command = self.append_command(append, Offsets::Assigned);
        match held {
            Some(round) if round.is_of(&self.queue) => round.add(command),
            Some(_) => self.push(command),
            None => match InlineRound::push_or_begin(&self.queue, command) {
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
        let (held, completion) = HeldAppend::new(batches, self.state.name());
        self.push_append(held, Offsets::Kept);
        completion
    }

    fn request(&self, request: LogRequest) {
        self.queue.push(Command::Request { key: self.state.key(), request });
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
        self.state.note_refused(batches.iter().map(Batch::header), refusal, reason);
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
        let is_sync_free = !self.state.is_durable();
        Command::Append(Append { key: self.state.key(), batches, offsets, is_sync_free, done })
    }

    /// What the log has to do with a move of its partition to this log directory, if anything.
    pub fn replica_move(&self) -> Option<ReplicaMove> {
        self.state.replica_move()
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
        self.state.with_view(|view| self.read_view(view, &request))
    }

    pub(crate) fn read_view(
        &self,
        view: &LogView,
        request: &ReadRequest,
    ) -> Result<ReadSlice, LogError> {
        let (start, end) = (view.log_start, view.end.offset);
        if request.offset < start || request.offset > end {
            let partition = self.topic_partition().clone();
            let requested = request.offset;
            return Err(LogError::OffsetOutOfRange { partition, requested, start, end });
        }
        view.read(request)
    }

    /// Whether reading from `offset` concerns the segment that grows: its index is in memory and
    /// its records were written lately, so that it hardly ever waits for the disk.
    pub fn is_hot(&self, offset: Offset) -> bool {
        offset >= self.state.view().active().base_offset()
    }

    /// The first offset that can be read.
    pub fn log_start_offset(&self) -> Offset {
        self.state.view().log_start
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.state.view().end.offset
    }

    /// Everything before this is on stable storage.
    pub fn flushed_offset(&self) -> Offset {
        self.state.view().flushed.offset
    }

    /// Says up to where nobody takes records back any more. From then on retention and compaction leave
    /// alone what is behind, and the directory remembers it. Nobody else need be told that it is lower
    /// than before. It costs little, however often it is called.
    ///
    /// Of a log that nobody has said that of, retention and compaction have what is on stable
    /// storage, as if there were no other replicas.
    pub fn set_high_watermark(&self, high_watermark: Offset) {
        self.state.set_high_watermark(high_watermark);
    }

    /// Nobody else holds the partition any more: what was said of it bounds nothing.
    pub fn forget_high_watermark(&self) {
        self.state.forget_high_watermark();
    }

    /// The high watermark that was last said; after a start, in the life before: then it may be older
    /// than the last one. It is not before the log start or behind the log end; the log start if
    /// nobody has said any.
    pub fn high_watermark(&self) -> Offset {
        self.state.high_watermark()
    }

    /// The bytes of the batches in all segments.
    pub fn size_bytes(&self) -> u64 {
        self.state.view().size_bytes()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.state.view().segments.len()
    }

    /// The epoch of the newest batch; [`LeaderEpoch::NONE`] if none was ever appended.
    pub fn latest_epoch(&self) -> LeaderEpoch {
        self.state.view().epochs.latest().map_or(LeaderEpoch::NONE, |latest| latest.epoch)
    }

    /// Where the records of `epoch` end (KIP-101, KIP-279); see
    /// [`LeaderEpochCache::end_offset_for`](crate::checkpoint::LeaderEpochCache::end_offset_for)
    /// for epochs that the log has not.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let view = self.state.view();
        view.epochs.end_offset_for(epoch, view.end.offset)
    }

    /// Whether a follower whose log ends at `fetch_offset`, with a record of `fetched_epoch` before, has
    /// what this log has: see [`LeaderEpochCache::divergence`](crate::checkpoint::LeaderEpochCache::divergence).
    pub fn divergence(&self, fetched_epoch: LeaderEpoch, fetch_offset: Offset) -> Divergence {
        let view = self.state.view();
        view.epochs.divergence(fetched_epoch, fetch_offset, view.end.offset)
    }

    /// Where this log is cut off to be the leader's, which has answered `leader` about
    /// [`Log::latest_epoch`]: see
    /// [`LeaderEpochCache::truncation_point`](crate::checkpoint::LeaderEpochCache::truncation_point).
    pub fn truncation_point(&self, leader: EpochEnd) -> TruncationPoint {
        let view = self.state.view();
        view.epochs.truncation_point(leader, view.end.offset)
    }

    /// The epoch that wrote the record at `offset`; [`LeaderEpoch::NONE`] if nobody knows.
    pub fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        self.state.view().epochs.epoch_at(offset).unwrap_or(LeaderEpoch::NONE)
    }

    /// The first record before `upper_bound` whose timestamp is at or after `timestamp`
    /// (ListOffsets, KIP-79). It reads a batch and walks it, as far as `limit` allows.
    pub fn offset_for_timestamp(
        &self,
        timestamp: TimestampMs,
        upper_bound: Offset,
        limit: DecodeLimit,
    ) -> Result<TimestampLookup, LogError> {
        self.state.with_view(|view| view.offset_for_timestamp(timestamp, upper_bound, limit))
    }

    /// The first of the records before `upper_bound` that have the largest timestamp
    /// (ListOffsets, KIP-734). It reads a batch and walks it, as far as `limit` allows.
    pub fn max_timestamp_offset(
        &self,
        upper_bound: Offset,
        limit: DecodeLimit,
    ) -> Result<TimestampLookup, LogError> {
        self.state.with_view(|view| view.max_timestamp_offset(upper_bound, limit))
    }

    /// Forgets all records before `offset`; answers the new log start offset, when it is on
    /// stable storage. It never moves back: an offset before the log start changes nothing.
    ///
    /// Segments without a record left are deleted. [`LogError::OffsetOutOfRange`] after the log
    /// end.
    pub fn delete_records_before(&self, offset: Offset) -> Completion<Offset> {
        let (done, completion) = Completion::new(self.state.name());
        self.request(LogRequest::DeleteRecords { before: offset, done });
        completion
    }

    /// Refuses from now on what is appended in an earlier leader epoch, with [`LogError::EpochOver`];
    /// answers the log end as it is then.
    ///
    /// What an earlier leader has appended is in the log before that end or not at all, wherever it was on
    /// its way. The epoch never goes back: an older one than the log knows changes nothing. It is not
    /// written down: who opens the log again says again in which epoch.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Completion<Offset> {
        let (done, completion) = Completion::new(self.state.name());
        self.state.raise_leader_epoch(epoch);
        self.request(LogRequest::TellEnd { done });
        completion
    }

    /// As [`Log::begin_epoch`], by the leader of the epoch, which starts at the log end that is answered.
    ///
    /// From then on [`Log::end_offset_for_epoch`] knows the epoch, though there is no record of it yet
    /// (KIP-101: the leader notes where its epoch starts when it is elected). A start after a crash
    /// knows it from its first record on; before that nothing has to be known of it.
    pub fn begin_leading(&self, epoch: LeaderEpoch) -> Completion<Offset> {
        let (done, completion) = Completion::new(self.state.name());
        self.state.raise_leader_epoch(epoch);
        self.request(LogRequest::BeginLeading { epoch, done });
        completion
    }

    /// What is known of the idempotent producers, after the appends made before this; in no order.
    pub fn producers(&self) -> Completion<Vec<(ProducerId, ProducerState)>> {
        let (done, completion) = Completion::new(self.state.name());
        self.request(LogRequest::DescribeProducers { done });
        completion
    }

    /// Puts everything appended so far on stable storage; answers the flushed offset.
    pub fn flush(&self) -> Completion<Offset> {
        let (done, completion) = Completion::new(self.state.name());
        self.request(LogRequest::Flush { done });
        completion
    }

    /// Where the idempotent producers have written last; `None` if the log cannot be cleaned now.
    pub(crate) fn last_writes(&self) -> Completion<Option<LastWrites>> {
        let (done, completion) = Completion::new(self.state.name());
        self.request(LogRequest::LastWrites { done });
        completion
    }

    /// Puts the cleaned segment that was made from `segments` in their place; answers when it is
    /// there for good, or whether it was not begun because the log is not as it was.
    pub(crate) fn replace_segments(
        &self,
        segments: Vec<Arc<Segment>>,
        size_bytes: u64,
    ) -> Completion<bool> {
        let (done, completion) = Completion::new(self.state.name());
        self.request(LogRequest::Replace { segments, size_bytes, done });
        completion
    }

    /// Begins a new segment, some time, if the active one is too old by the clock.
    pub(crate) fn roll_if_old(&self) {
        self.request(LogRequest::RollIfOld);
    }

    /// Tells the writer of a failed sync of the log's directory: it was about the names of the
    /// segments, too.
    pub(crate) fn note_failed_sync(&self, error: LogError) {
        self.queue.push(Command::SyncFailed { key: self.state.key(), error });
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}
