//! One move, step by step.

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_log::checkpoint::{MoveState, ReplicaMove as MoveFile};
use logway_log::fs::read_exact_at;
use logway_log::{CompactionPause, Log, LogConfig, LogDir, LogError, NewLog, ReadRequest};
use logway_metadata::settings::broker::MOVES_RATE_SETTING;
use logway_model::{DirectoryId, ErrorCode, Offset, TopicId};
use logway_record::{BATCH_HEADER_BYTES, Batch, BatchHeader, Batches};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::ReplicaMove;
use super::leftovers::set_aside;
use crate::Node;
use crate::backoff::Backoff;
use crate::failure::Failure;
use crate::log_dirs::LocatedLog;
use crate::replica::{ClosedGate, Replica};
use crate::tasks::off_thread;

/// What is copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// How much may be copied before it is put on stable storage: what is left to be synced while the
/// partition holds appends back is never more than this.
const UNFLUSHED_BYTES_MAX: u64 = 16 << 20;

/// How long a partition holds appends back at most before it is given up and tried again.
const HOLD_MAX: Duration = Duration::from_secs(5);

/// The task that makes one move.
pub(super) struct Copying {
    node: Weak<Node>,
    moved: Arc<ReplicaMove>,
    /// Of the log that is copied.
    pause: Option<CompactionPause>,
    unflushed_bytes: u64,
    /// Copied, and not waited for yet.
    unpaced_bytes: u64,
    is_prepared: bool,
}

/// What a step leads to.
type Step = ControlFlow<(), ()>;

/// Makes the copy of a partition's log in another directory, or finds the one that is there. It is
/// empty at first, and begins where the log begins.
pub(super) fn make_copy(
    partition: &Replica,
    topic_id: TopicId,
    target: &LogDir,
) -> Result<Arc<Log>, LogError> {
    let source = partition.log();
    let from = partition.directory();
    if let Some(copy) = target.log(source.topic_partition())
        && copy.topic_id() == topic_id
        && copy.replica_move() == Some(MoveFile { state: MoveState::Copying, from })
    {
        return Ok(copy);
    }
    let partition = source.topic_partition().clone();
    if let Some(LogError::Vanished { .. }) = target.failed_log(&partition) {
        // It has not vanished: somebody has moved it by hand to where it is now.
        target.delete_log(&partition)?;
    }
    let new = NewLog { partition, topic_id, config: Arc::new(config_of_copy(&source)) };
    target.create_copy(&new, first_batch_offset(&source)?, from)
}

/// Where the batch begins that holds the log start, which may be within it; or the log start, if
/// compaction has left no batch there.
fn first_batch_offset(log: &Log) -> Result<Offset, LogError> {
    let (offset, upper_bound) = (log.log_start_offset(), log.flush().wait()?);
    let slice =
        log.read(ReadRequest { offset, max_bytes: 0, upper_bound, at_least_one_batch: true })?;
    let Some(range) = slice.ranges.first() else { return Ok(offset) };
    let mut header = [0; BATCH_HEADER_BYTES];
    read_exact_at(&*range.file, &mut header, range.position).map_err(|source| LogError::Io {
        op: "read",
        path: log.topic_partition().to_string().into(),
        source: Arc::new(source),
    })?;
    let header = BatchHeader::parse(&header);
    Ok(header.map_or(offset, |header| header.base_offset.min(offset)))
}

/// The settings of a log for the time in which it is a copy: nobody waits for it, and nothing of it
/// is deleted before it is the partition's.
fn config_of_copy(source: &Log) -> LogConfig {
    LogConfig {
        flush_messages: u64::MAX,
        flush_ms: u64::MAX,
        retention_ms: None,
        retention_bytes: None,
        ..(*source.config()).clone()
    }
}

impl Copying {
    pub(super) fn new(
        node: Weak<Node>,
        moved: Arc<ReplicaMove>,
        pause: Option<CompactionPause>,
    ) -> Copying {
        let (unflushed_bytes, unpaced_bytes) = (0, 0);
        Copying { node, moved, pause, unflushed_bytes, unpaced_bytes, is_prepared: false }
    }

    /// Copies until the replica has moved, or the move has come to another end.
    pub(super) async fn run(mut self, turn: Arc<Semaphore>) {
        let moved = Arc::clone(&self.moved);
        self.copy(turn).await;
        if let Some(node) = self.node.upgrade() {
            node.replica_moves.inner().moves.remove(&moved.partition);
        }
        moved.has_ended.send_replace(true);
    }

    async fn copy(&mut self, turn: Arc<Semaphore>) {
        let Some(node) = self.node.upgrade() else { return };
        let mut stopping = node.replica_moves.is_stopping.subscribe();
        drop(node);
        let mut cancelled = self.moved.is_cancelled.subscribe();
        let mut my_turn = None;
        let mut backoff = Backoff::new();
        loop {
            if my_turn.is_none() {
                // One that is cancelled copies nothing, and needs none.
                my_turn = tokio::select! {
                    turn = turn.acquire() => turn.ok(),
                    () = is_set(&mut cancelled) => None,
                    () = is_set(&mut stopping) => return,
                };
            }
            let Some(node) = self.node.upgrade().filter(|_| !*stopping.borrow()) else {
                return;
            };
            match self.step(&node).await {
                Ok(ControlFlow::Continue(())) => {
                    backoff.reset();
                    self.keep_pace(&node, &mut cancelled, &mut stopping).await;
                }
                Ok(ControlFlow::Break(())) => return,
                Err(failure) => {
                    let partition = &self.moved.partition;
                    tracing::warn!(%partition, reason = failure.message,
                        "the move of a replica has to wait");
                    drop(node);
                    // Others have theirs meanwhile.
                    my_turn = None;
                    let may_be_cancelled = !*cancelled.borrow();
                    tokio::select! {
                        () = sleep(backoff.pause()) => {}
                        () = is_set(&mut cancelled), if may_be_cancelled => {}
                        () = is_set(&mut stopping) => return,
                    }
                }
            }
        }
    }

    /// Waits for as long as copying what was copied should have taken, at the rate in force.
    async fn keep_pace(
        &mut self,
        node: &Node,
        cancelled: &mut watch::Receiver<bool>,
        stopping: &mut watch::Receiver<bool>,
    ) {
        while self.unpaced_bytes > 0 {
            // Not longer than a second: it may be changed meanwhile.
            let rate = moves_rate(node);
            let bytes = self.unpaced_bytes.min(rate);
            self.unpaced_bytes -= bytes;
            tokio::select! {
                () = sleep(Duration::from_secs_f64(bytes as f64 / rate as f64)) => {}
                () = is_set(cancelled) => return,
                () = is_set(stopping) => return,
            }
        }
    }

    async fn step(&mut self, node: &Arc<Node>) -> Result<Step, Failure> {
        let Some(partition) = self.partition(node) else {
            // It was deleted, or its directory has failed: the next start may go on.
            return Ok(ControlFlow::Break(()));
        };
        let target = Arc::clone(&self.moved.target);
        let copy = target.log(&self.moved.partition);
        let copy = copy.filter(|copy| copy.topic_id() == self.moved.topic_id);
        let is_online = node.log_dirs.by_id(target.directory_id()).is_some();
        let is_cancelled = *self.moved.is_cancelled.borrow();
        let (Some(copy), true, false) = (copy, is_online, is_cancelled) else {
            self.give_up(node, &partition).await?;
            return Ok(ControlFlow::Break(()));
        };
        let source = partition.log();
        if !self.is_prepared {
            let is_new = self.prepare(node, &partition, &source, &copy).await?;
            self.is_prepared = true;
            if is_new {
                return Ok(ControlFlow::Continue(()));
            }
        }
        if copy.log_end_offset() > source.log_end_offset() {
            // It is none: somebody has put another log there.
            node.assign_replica(&self.moved, partition.directory()).await?;
            let _no_other_log_is_made = node.reconciling.lock().await;
            set_aside(target, copy).await;
            return Ok(ControlFlow::Break(()));
        }
        if copy.log_end_offset() < source.log_start_offset() {
            let log = Arc::clone(&source);
            let first = off_thread(move || first_batch_offset(&log)).await?;
            if copy.log_end_offset() < first {
                // Retention was faster.
                self.begin_anew(node, &partition).await?;
                return Ok(ControlFlow::Continue(()));
            }
        }
        if !self.catch_up(&source, &copy).await? {
            return Ok(ControlFlow::Continue(()));
        }
        // What is not on stable storage yet may be much more than a piece.
        source.flush().await?;
        if !self.catch_up(&source, &copy).await? {
            return Ok(ControlFlow::Continue(()));
        }
        copy.flush().await?;
        self.switch(node, &partition, &copy).await?;
        Ok(ControlFlow::Break(()))
    }

    /// What comes before the first piece; says whether there is another copy now.
    async fn prepare(
        &mut self,
        node: &Arc<Node>,
        partition: &Arc<Replica>,
        source: &Arc<Log>,
        copy: &Arc<Log>,
    ) -> Result<bool, Failure> {
        if let Some(pause) = self.pause.take() {
            let wait = move || {
                pause.wait();
                pause
            };
            self.pause = Some(off_thread(wait).await);
        }
        // One that was found has the settings of logs whose topics are not known yet.
        copy.set_config(Arc::new(config_of_copy(source)));
        let is_begun = copy.log_end_offset() > copy.log_start_offset();
        let is_copying = copy.replica_move().is_some_and(|file| file.state == MoveState::Copying);
        if !source.config().is_compacted() || !is_begun || !is_copying {
            return Ok(false);
        }
        // Its directory may have been offline, and the log compacted meanwhile.
        self.begin_anew(node, partition).await?;
        Ok(true)
    }

    /// The partition as it is served, if it is.
    fn partition(&self, node: &Node) -> Option<Arc<Replica>> {
        let table = node.topics();
        let partition = table.by_id(self.moved.topic_id).ok()?.partition(self.moved.id()).ok()?;
        node.log_dirs.has(partition).then(|| Arc::clone(partition))
    }

    /// Copies a piece, if anything is missing; says whether nothing is now.
    async fn catch_up(&mut self, source: &Arc<Log>, copy: &Log) -> Result<bool, Failure> {
        let flushed = source.flushed_offset();
        if copy.log_end_offset() < flushed {
            self.copy_piece(source, copy).await?;
        }
        Ok(copy.log_end_offset() >= flushed)
    }

    async fn copy_to_flushed(&mut self, source: &Arc<Log>, copy: &Log) -> Result<(), Failure> {
        while copy.log_end_offset() < source.flushed_offset() {
            self.copy_piece(source, copy).await?;
        }
        Ok(())
    }

    /// Copies what comes next. Only what is on stable storage: a crash may take back the rest.
    async fn copy_piece(&mut self, source: &Arc<Log>, copy: &Log) -> Result<(), Failure> {
        let end = copy.log_end_offset();
        let request = ReadRequest {
            // The log start may be within the first batch.
            offset: end.max(source.log_start_offset()),
            max_bytes: PIECE_BYTES,
            upper_bound: source.flushed_offset(),
            at_least_one_batch: true,
        };
        let log = Arc::clone(source);
        let batches = off_thread(move || read_batches(&log, request, end)).await?;
        let bytes: usize = batches.iter().map(Batch::size_bytes).sum();
        copy.append_copied(batches).await?;
        self.unflushed_bytes += bytes as u64;
        self.unpaced_bytes += bytes as u64;
        if self.unflushed_bytes >= UNFLUSHED_BYTES_MAX {
            copy.flush().await?;
            self.unflushed_bytes = 0;
        }
        Ok(())
    }

    /// Steps 1 to 7 of the module's table.
    async fn switch(
        &mut self,
        node: &Arc<Node>,
        partition: &Arc<Replica>,
        copy: &Arc<Log>,
    ) -> Result<(), Failure> {
        let moved = Arc::clone(&self.moved);
        let (from, to) = (partition.directory(), moved.target.directory_id());
        // An earlier attempt may have left anything.
        self.note(copy, MoveFile { state: MoveState::Copying, from }).await?;
        node.assign_replica(&moved, to).await?;
        // Meanwhile no topic is deleted and no directory is given up.
        let reconciling = node.reconciling.lock().await;
        let is_served = self.partition(node).is_some_and(|served| Arc::ptr_eq(&served, partition));
        let Some(mut hold) = partition.close_gate().filter(|_| is_served) else {
            let message = format!("{} is not served any more", moved.partition);
            return Err(Failure::new(ErrorCode::NotLeaderOrFollower, message));
        };
        let source = partition.log();
        self.complete(&source, copy).await?;

        hold.begin_decision();
        if let Err(failure) = self.note(copy, MoveFile { state: MoveState::Moved, from }).await {
            drop(reconciling);
            self.take_back(node, from, hold).await;
            return Err(failure);
        }
        copy.set_config(source.config());
        hold.go_on_with(LocatedLog { log: Arc::clone(copy), directory: to });
        drop(reconciling);
        tracing::info!(partition = %moved.partition, to = %moved.target.path().display(),
            end = %copy.log_end_offset(), "a replica has moved");
        node.clear_leftover(copy, &moved.target).await;
        Ok(())
    }

    /// Writes down in the copy's directory what it is.
    async fn note(&self, copy: &Arc<Log>, file: MoveFile) -> Result<(), Failure> {
        let (target, log) = (Arc::clone(&self.moved.target), Arc::clone(copy));
        Ok(off_thread(move || target.set_replica_move(&log, Some(file))).await?)
    }

    /// Goes on where the replica was, when the metadata says that it is there: nobody knows what the
    /// copy's file says, and it counts for nothing then.
    async fn take_back(&self, node: &Node, from: DirectoryId, hold: ClosedGate<'_>) {
        let mut stopping = node.replica_moves.is_stopping.subscribe();
        let mut backoff = Backoff::new();
        loop {
            let assigned = timeout(HOLD_MAX, node.assign_replica(&self.moved, from)).await;
            let reason = match assigned {
                Ok(Ok(())) => return hold.stay(),
                Ok(Err(failure)) => failure.message,
                Err(_elapsed) => format!("it took over {HOLD_MAX:?}"),
            };
            hold.refuse();
            tracing::error!(partition = %self.moved.partition, reason, "appends are refused until \
                the metadata can be told where the replica is");
            tokio::select! {
                () = sleep(backoff.pause()) => {}
                // The next start finds two logs with the same records.
                () = is_set(&mut stopping) => return,
            }
        }
    }

    /// Copies the rest, while nothing comes to it.
    async fn complete(&mut self, source: &Arc<Log>, copy: &Arc<Log>) -> Result<(), Failure> {
        let complete = async {
            // Everything that was appended before is written then.
            source.flush().await?;
            self.copy_to_flushed(source, copy).await?;
            copy.flush().await?;
            // Also if nothing is to be deleted: it is answered when the checkpoint is written.
            copy.delete_records_before(source.log_start_offset()).await?;
            Ok(())
        };
        timeout(HOLD_MAX, complete).await.unwrap_or_else(|_elapsed| {
            let message = format!("the disks were too slow: it took over {HOLD_MAX:?}");
            Err(Failure::new(ErrorCode::RequestTimedOut, message))
        })
    }

    /// Ends the move without a trace, but for a copy in a directory that is offline.
    async fn give_up(&self, node: &Arc<Node>, partition: &Replica) -> Result<(), Failure> {
        let moved = &self.moved;
        node.assign_replica(moved, partition.directory()).await?;
        tracing::info!(partition = %moved.partition, "the move of a replica is given up");
        let _no_other_log_is_made = node.reconciling.lock().await;
        self.remove_copy(node).await
    }

    /// Begins with another copy, where the log begins now.
    async fn begin_anew(&self, node: &Arc<Node>, partition: &Arc<Replica>) -> Result<(), Failure> {
        // Else a crash would leave a replica in a directory that has nothing of it.
        node.assign_replica(&self.moved, partition.directory()).await?;
        let _no_other_log_is_made = node.reconciling.lock().await;
        self.remove_copy(node).await?;
        if self.partition(node).is_some_and(|served| Arc::ptr_eq(&served, partition)) {
            let (partition, target) = (Arc::clone(partition), Arc::clone(&self.moved.target));
            let topic_id = self.moved.topic_id;
            off_thread(move || make_copy(&partition, topic_id, &target)).await?;
        }
        Ok(())
    }

    /// To be called while no log is made or deleted elsewhere.
    async fn remove_copy(&self, node: &Node) -> Result<(), Failure> {
        let (target, partition) = (Arc::clone(&self.moved.target), self.moved.partition.clone());
        let is_ours = target.log(&partition).is_some_and(|log| {
            let is_copy = |file: MoveFile| file.state == MoveState::Copying;
            log.topic_id() == self.moved.topic_id && log.replica_move().is_some_and(is_copy)
        });
        if is_ours && node.log_dirs.by_id(target.directory_id()).is_some() {
            off_thread(move || target.delete_log(&partition)).await?;
        }
        Ok(())
    }
}

/// How many bytes may be copied per second: the setting of this broker, or of all, at least 1.
fn moves_rate(node: &Node) -> u64 {
    node.changeable_setting(MOVES_RATE_SETTING).unwrap_or(u64::MAX).max(1)
}

/// The batches of a log from `end` on, where its copy ends.
fn read_batches(log: &Log, request: ReadRequest, end: Offset) -> Result<Vec<Batch>, Failure> {
    let partition = log.topic_partition();
    let slice = log.read(request)?;
    if slice.is_empty() {
        let (from, to) = (request.offset, request.upper_bound);
        let message = format!("{partition} has no records from {from} to its end at {to}");
        return Err(Failure::new(ErrorCode::KafkaStorageError, message));
    }
    let bytes = slice.read().map_err(|error| Failure::of_reading(partition, &error))?;
    let mut batches = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch?;
        batch.verify_crc()?;
        if batch.header().base_offset < end {
            let message = format!("the copy of {partition} ends at {end}, within a batch");
            return Err(Failure::new(ErrorCode::KafkaStorageError, message));
        }
        batches.push(batch);
    }
    Ok(batches)
}

/// Waits until it is said; for ever, if nobody can say it any more.
async fn is_set(said: &mut watch::Receiver<bool>) {
    if said.wait_for(|said| *said).await.is_err() {
        std::future::pending().await
    }
}
