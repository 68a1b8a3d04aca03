//! What the writer of a log and those who read it share.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use logway_model::{LeaderEpoch, Offset, TopicId, TopicPartition};
use logway_record::BatchHeader;

use crate::checkpoint::ReplicaMove;
use crate::checkpoint::offset_checkpoint::UNKNOWN;
use crate::dir_syncs::DirSyncs;
use crate::high_watermarks::HighWatermarks;
use crate::producer_state::{ProducerBatch, Refusal, RefusedBatches};
use crate::transactions::LogTransactions;
use crate::view::LogView;
use crate::{FailureListener, LogConfig, LogError, TailListener};

/// How the writer's commands name a log; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogKey(pub(crate) u64);

/// What the writer of a log, the background thread and the readers share: who the log is, its settings, the
/// newest picture of it, and what else all of them see.
///
/// It knows no way to the writer: a [`Log`](crate::Log) is this and the queue. So whatever the queue carries,
/// or keeps while the writer sleeps, may own it.
pub(crate) struct LogState {
    key: LogKey,
    name: Arc<str>,
    partition: TopicPartition,
    topic_id: TopicId,
    dir_syncs: Arc<DirSyncs>,
    failure_listener: Option<FailureListener>,
    config: ArcSwap<LogConfig>,
    /// Locked for as long as a pointer or a number of it is copied, never while a file is read.
    view: RwLock<Arc<LogView>>,
    listener: RwLock<Option<Arc<dyn TailListener>>>,
    is_closed: AtomicBool,
    /// See [`LogState::written_recovery_point`].
    written_recovery_point: AtomicI64,
    /// See [`LogState::written_log_start`].
    written_log_start: AtomicI64,
    replica_move: ArcSwapOption<ReplicaMove>,
    /// Appends of earlier leader epochs are refused.
    leader_epoch: AtomicI32,
    /// How often an end was cut off: pictures from before are not used any more.
    cuts: AtomicU32,
    /// See [`LogState::set_high_watermark`]; -1 if nobody has said any.
    high_watermark: AtomicI64,
    refused: RefusedBatches,
    transactions: LogTransactions,
    high_watermarks: Arc<HighWatermarks>,
}

/// Who a log is, and whom its changes concern.
pub(crate) struct LogIdentity {
    pub(crate) key: LogKey,
    pub(crate) dir: Arc<Path>,
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) high_watermarks: Arc<HighWatermarks>,
    pub(crate) failure_listener: Option<FailureListener>,
    pub(crate) replica_move: Option<ReplicaMove>,
}

impl LogState {
    /// That of a log which the writer is about to be given.
    pub(crate) fn new(identity: LogIdentity, config: Arc<LogConfig>, view: LogView) -> LogState {
        let LogIdentity { key, dir, partition, topic_id, replica_move, .. } = identity;
        let LogIdentity { high_watermarks, failure_listener, .. } = identity;
        // What lies before is not there, and does not come back.
        let written_log_start = AtomicI64::new(view.log_start.0);
        LogState {
            key,
            name: partition.to_string().into(),
            partition,
            topic_id,
            dir_syncs: Arc::new(DirSyncs::new(dir)),
            failure_listener,
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

    /// What the writer calls the log.
    pub(crate) fn key(&self) -> LogKey {
        self.key
    }

    /// The partition as text.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The partition.
    pub(crate) fn topic_partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The id of the topic; zero for a directory that says none.
    pub(crate) fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The syncs of the log's directory.
    pub(crate) fn dir_syncs(&self) -> &Arc<DirSyncs> {
        &self.dir_syncs
    }

    /// The settings in force.
    pub(crate) fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Whether the settings in force want a sync before an append is answered.
    pub(crate) fn is_durable(&self) -> bool {
        self.config.load().is_durable()
    }

    /// Puts other settings in force; returns those before.
    pub(crate) fn replace_config(&self, config: Arc<LogConfig>) -> Arc<LogConfig> {
        self.config.swap(config)
    }

    /// Has another listener told when the log grows, or none; returns the one before.
    pub(crate) fn replace_listener(
        &self,
        listener: Option<Arc<dyn TailListener>>,
    ) -> Option<Arc<dyn TailListener>> {
        // Only this exchange and a clone are done under the lock: it guards a sound state.
        let mut current = self.listener.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, listener)
    }

    fn listener(&self) -> Option<Arc<dyn TailListener>> {
        self.listener.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note that batches were refused: see [`Log::note_refused`](crate::Log::note_refused).
    pub(crate) fn note_refused<'a>(
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

    /// What the log has to do with a move of its partition to this log directory, if anything.
    pub(crate) fn replica_move(&self) -> Option<ReplicaMove> {
        self.replica_move.load().as_deref().copied()
    }

    /// What its directory says now.
    pub(crate) fn note_replica_move(&self, replica_move: Option<ReplicaMove>) {
        self.replica_move.store(replica_move.map(Arc::new));
    }

    /// The newest leader epoch that has begun, this one included.
    pub(crate) fn raise_leader_epoch(&self, epoch: LeaderEpoch) -> LeaderEpoch {
        let before = self.leader_epoch.load(Ordering::Acquire);
        if before >= epoch.0 {
            return LeaderEpoch(before);
        }
        LeaderEpoch(self.leader_epoch.fetch_max(epoch.0, Ordering::AcqRel).max(epoch.0))
    }

    /// See [`Log::set_high_watermark`](crate::Log::set_high_watermark).
    pub(crate) fn set_high_watermark(&self, high_watermark: Offset) {
        if self.high_watermark.swap(high_watermark.0, Ordering::AcqRel) != high_watermark.0 {
            self.high_watermarks.note_change();
        }
    }

    /// See [`Log::forget_high_watermark`](crate::Log::forget_high_watermark).
    pub(crate) fn forget_high_watermark(&self) {
        self.high_watermark.store(UNKNOWN.0, Ordering::Release);
    }

    /// See [`Log::high_watermark`](crate::Log::high_watermark).
    pub(crate) fn high_watermark(&self) -> Offset {
        let view = self.view();
        Offset(self.high_watermark.load(Ordering::Acquire)).min(view.end.offset).max(view.log_start)
    }

    /// The same, if anybody has said any; it may be before a log start that is not on the disk yet.
    pub(crate) fn said_high_watermark(&self) -> Option<Offset> {
        let said = Offset(self.high_watermark.load(Ordering::Acquire));
        (said != UNKNOWN).then(|| said.min(self.view().end.offset))
    }

    /// What its directory is to remember, if anybody has said any and the log is not being deleted.
    pub(crate) fn watermark_to_remember(&self) -> Option<(TopicPartition, Offset)> {
        let said = self.said_high_watermark().filter(|_| !self.is_closed());
        said.map(|offset| (self.partition.clone(), offset))
    }

    /// What is from here on neither retention nor compaction may touch.
    pub(crate) fn removal_bound(&self) -> Offset {
        self.said_high_watermark().unwrap_or(Offset::LIMIT)
    }

    /// The high watermark of the life before.
    pub(crate) fn restore_high_watermark(&self, high_watermark: Offset) {
        self.high_watermark.store(high_watermark.0, Ordering::Release);
        let end = self.view().end.offset;
        self.lower_high_watermark(end);
    }

    /// The log ends here, now or soon: what comes behind is not what was there.
    pub(crate) fn lower_high_watermark(&self, end: Offset) {
        if let Some(said) = self.said_high_watermark() {
            self.set_high_watermark(said.min(end));
        }
    }

    /// Before this offset nothing can be taken back, and consumers may read everything.
    pub(crate) fn stable_offset(&self) -> Offset {
        let flushed = || self.view().flushed.offset;
        self.listener().map_or_else(flushed, |listener| listener.stable_offset())
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

    /// Tells whom it concerns that the directory of the log cannot be relied on any more.
    pub(crate) fn note_failure(&self, error: &LogError) {
        if let Some(listener) = &self.failure_listener {
            listener(error);
        }
    }

    /// Whether the log is being deleted.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Notes that the log is being deleted.
    pub(crate) fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// The newest picture, for as long as a number of it is looked at.
    pub(crate) fn view(&self) -> RwLockReadGuard<'_, Arc<LogView>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest picture.
    pub(crate) fn current_view(&self) -> Arc<LogView> {
        Arc::clone(&self.view())
    }

    /// Makes a new picture visible and tells the listener. Only the writer thread does this.
    pub(crate) fn publish(&self, view: &LogView) {
        self.replace_view(view.clone());
        if let Some(listener) = self.listener() {
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

impl fmt::Debug for LogState {
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
