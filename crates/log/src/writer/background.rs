//! Work on the disk that must not stall the writer.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logway_model::Offset;

use super::command::Command;
use super::offset_checkpoints::OffsetCheckpoints;
use super::queue::{Queue, Resident};
use super::reserve::Reserve;
use super::seal_job::{SealJob, SealOutcome};
use super::swap_job::{SwapJob, SwapOutcome};
use super::sync_pool::NotSynced;
use super::truncate_job::{Removable, TruncateJob};
use super::write_back_job::{PartOfWriteBack, WriteBack};
use crate::LogError;
use crate::checkpoint::{LeaderEpochCache, leader_epoch};
use crate::dir_syncs::DirSyncs;
use crate::file_names::SNAPSHOT_EXTENSION;
use crate::fs::Fs;
use crate::high_watermarks::HighWatermarks;
use crate::journal::JournalFile;
use crate::log_state::LogState;
use crate::segment::Segment;

/// The thread that does, one after the other, what the writer of a log directory has no time
/// for: sealing full segments, writing checkpoints, removing files.
///
/// The order of the jobs is a promise: the segments that a log start leaves behind come with it,
/// and their files go when it is on stable storage and not before.
///
/// Nobody waits for room among the jobs, and they are few: the writer has a few seals and one
/// checkpoint under way at any time, with at most one closing of files behind each checkpoint and one
/// truncation of each log; high watermarks are sent every few seconds;
/// and the removal of a deleted log's directory is one path.
///
/// What is deleted keeps its files for `file.delete.delay.ms`, but not on a disk that is short of
/// space: there they go at once, as they may be what somebody has deleted to get space. Readers
/// that have a file open keep it all the same.
pub(crate) struct Background {
    sender: JobSender,
    thread: Option<JoinHandle<()>>,
    /// A [`Job::MakeRoom`] is on its way.
    is_room_wanted: Arc<AtomicBool>,
}

/// A way to the thread.
#[derive(Clone)]
pub(crate) struct JobSender(Sender<Job>);

/// Something to do.
pub(crate) enum Job {
    /// Put full segments and what belongs to them on stable storage.
    Seal(SealJob),
    /// Put a cleaned segment in its place.
    Swap(SwapJob),
    /// Cut the end of a log off.
    Truncate(Box<TruncateJob>),
    /// Make a journal of so many bytes.
    MakeJournal { bytes: u64 },
    /// Sync files that the journal vouches for.
    WriteBack(WriteBack),
    /// Sync a file that the journal vouches for, so that there is less to do when it has to be synced.
    PartOfWriteBack(PartOfWriteBack),
    /// Write the high watermarks of logs.
    HighWatermarks { high_watermarks: Arc<HighWatermarks>, logs: Vec<Arc<LogState>> },
    /// Write checkpoints.
    Checkpoint(Checkpoint),
    /// Remove a directory that is out of use, later.
    DeleteDir { path: PathBuf, delay: Duration },
    /// Remove at once what was to be removed later: an append found no space.
    MakeRoom,
    /// Close the files of those that nobody has used since they were last sent here.
    CloseUnused(Vec<Arc<Segment>>),
    /// End.
    Stop,
}

/// Checkpoints to be written.
pub(crate) struct Checkpoint {
    /// The leader epochs that changed. They are written first, because a recovery does not look
    /// for epochs before the recovery point.
    pub(super) epochs: Vec<ChangedEpochs>,
    /// The directories of logs of which it says nothing any more. What was removed from them must
    /// be gone for good before.
    pub(super) left: Vec<Arc<DirSyncs>>,
    pub(super) offsets: OffsetCheckpoints,
    /// The segments that lie before the log starts: their files are taken out of use when these
    /// are written, and removed after a while.
    pub(super) deleted: Vec<(Arc<Segment>, Duration)>,
    /// The logs that have a writer.
    pub(super) logs: Vec<Arc<LogState>>,
    /// Who wants to know when it is done.
    pub(super) then: Vec<Then>,
    /// Tells the writer when nothing of this is under way any more.
    pub(super) ended: CheckpointEnded,
}

/// Tells the writer when it is dropped, with a checkpoint that is written, failed or lost.
pub(super) struct CheckpointEnded(pub(super) Box<dyn Fn() + Send>);

impl Drop for CheckpointEnded {
    fn drop(&mut self) {
        self.0();
    }
}

/// Is called when a checkpoint is written, or cannot be.
pub(super) type Then = Box<dyn FnOnce(Result<(), LogError>) + Send>;

/// Leader epochs to be written down.
pub(super) struct ChangedEpochs {
    pub(super) log: Arc<LogState>,
    pub(super) epochs: Arc<LeaderEpochCache>,
}

impl Background {
    /// Starts the thread for the log directory `dir`; what the writer must know it is told
    /// through `queue`.
    pub(crate) fn spawn<W: Resident + Send + 'static>(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        queue: Arc<Queue<W>>,
        root_syncs: Arc<DirSyncs>,
    ) -> Result<Background, LogError> {
        let (sender, receiver) = channel();
        let reserve = Reserve::new(Arc::clone(&fs), &dir);
        let spawn_failed = LogError::io("start a thread for", &dir);
        let is_room_wanted = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            is_room_wanted: Arc::clone(&is_room_wanted),
            fs,
            dir: dir.clone(),
            queue,
            root_syncs,
            receiver,
            reserve,
            removals: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("log-background".to_owned())
            .spawn(move || worker.run())
            .map_err(spawn_failed)?;
        Ok(Background { sender: JobSender(sender), thread: Some(thread), is_room_wanted })
    }

    /// Another way to the thread.
    pub(crate) fn sender(&self) -> JobSender {
        self.sender.clone()
    }

    /// See [`JobSender::send`].
    pub(crate) fn send(&self, job: Job) {
        self.sender.send(job);
    }

    /// Has what is to be removed some time removed now; however often this is called, one such job
    /// is under way.
    pub(crate) fn make_room(&self) {
        if !self.is_room_wanted.swap(true, Ordering::Relaxed) {
            self.send(Job::MakeRoom);
        }
    }

    /// Waits until all jobs are done and the thread has ended. Files that were to be removed
    /// later are removed at the next start.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.send(Job::Stop);
        if thread.join().is_err() {
            tracing::error!("the background thread of the log directory has panicked");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl JobSender {
    /// Gives the thread a job. If the thread has ended, the job is dropped: recovery does at the
    /// next start what is missing.
    pub(crate) fn send(&self, job: Job) {
        if self.0.send(job).is_err() {
            tracing::warn!("the background thread of the log directory has ended");
        }
    }
}

/// A disk with less free space is short of it: a few of the largest appends may fill it, and compaction
/// is about to stop.
const SHORT_BYTES: u64 = 64 << 20;

/// While something waits to be removed, it is looked so often whether the disk is short of space. Others
/// write to it, too, and who needs the space may not be the writer of this directory.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

struct Worker<W> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    queue: Arc<Queue<W>>,
    root_syncs: Arc<DirSyncs>,
    receiver: Receiver<Job>,
    reserve: Reserve,
    removals: Vec<Removal>,
    is_room_wanted: Arc<AtomicBool>,
}

/// A file or directory to be removed at some time.
struct Removal {
    /// `None` for a time that no clock can name: the next start removes it, if nothing does before.
    due: Option<Instant>,
    path: PathBuf,
    is_dir: bool,
}

impl<W: Resident> Worker<W> {
    fn run(mut self) {
        self.reserve.keep();
        loop {
            match self.receiver.recv_timeout(self.time_to_next_removal()) {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(job) => self.work(job),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.remove_due(false);
        }
    }

    fn work(&mut self, job: Job) {
        match job {
            Job::Seal(job) => {
                let outcome = job.run(&*self.fs);
                if let SealOutcome::SyncFailed(error) = &outcome {
                    let (key, error) = (job.log.key(), error.clone());
                    self.queue.push(Command::SyncFailed { key, error });
                }
                self.queue.push(Command::Sealed { job, outcome });
            }
            Job::Swap(mut job) => {
                let outcome = job.run(&*self.fs);
                if let SwapOutcome::SyncFailed(error) = &outcome {
                    let (key, error) = (job.key, error.clone());
                    self.queue.push(Command::SyncFailed { key, error });
                }
                self.queue.push(Command::Swapped { job, outcome });
            }
            Job::Truncate(mut job) => {
                let (outcome, Removable { paths, delay }) = job.run();
                paths.into_iter().for_each(|path| self.remove_later(path, delay, false));
                self.queue.push(Command::Truncated { job, outcome });
            }
            Job::MakeJournal { bytes } => {
                let made = JournalFile::create(&*self.fs, &self.dir, bytes, &self.root_syncs);
                self.queue.push(Command::JournalMade { made });
            }
            Job::WriteBack(job) => self.write_back(&job),
            Job::PartOfWriteBack(job) => {
                if let Err(NotSynced::Failed(error)) = job.run(&*self.fs) {
                    self.queue.push(Command::SyncFailed { key: job.key(), error });
                }
            }
            Job::HighWatermarks { high_watermarks, logs } => {
                let said = logs.iter().filter_map(|log| log.watermark_to_remember());
                if let Err(error) = high_watermarks.write(&*self.fs, &self.root_syncs, said) {
                    let dir = self.dir.display();
                    tracing::warn!(%dir, %error, "high watermarks cannot be written down yet");
                }
            }
            Job::Checkpoint(checkpoint) => self.write_checkpoint(checkpoint),
            Job::DeleteDir { path, delay } => self.remove_later(path, delay, true),
            Job::MakeRoom => {
                self.is_room_wanted.store(false, Ordering::Relaxed);
                self.remove_due(true);
            }
            Job::CloseUnused(segments) => {
                for segment in segments {
                    if let Err(error) = segment.close_if_unused() {
                        tracing::warn!(%error, "an index was not saved");
                    }
                }
            }
            Job::Stop => unreachable!("the loop ends with it"),
        }
    }

    fn write_back(&self, job: &WriteBack) {
        let mut synced = Vec::new();
        job.run(&*self.fs, |key, point, result| match result {
            Ok(()) => synced.push((key, point)),
            Err(NotSynced::Failed(error)) => {
                self.queue.push(Command::SyncFailed { key, error });
            }
            // It is tried again when the space is needed, or with the next checkpoint.
            Err(NotSynced::NotBegun(error)) => {
                tracing::warn!(%error, "a file in the journal is not synced yet");
            }
        });
        self.queue.push(Command::WrittenBack { synced });
    }

    fn write_checkpoint(&mut self, mut checkpoint: Checkpoint) {
        let mut result = self.checkpoint(&mut checkpoint);
        if result.as_ref().is_err_and(LogError::is_disk_full) {
            self.reserve.give_up();
            result = self.checkpoint(&mut checkpoint);
        }
        // At once: appends leave what was given up alone, but others may not.
        self.reserve.keep();
        if let Err(error) = &result {
            tracing::error!(dir = %self.dir.display(), %error, "no checkpoint was written");
            for changed in &checkpoint.epochs {
                self.queue.push(Command::EpochsUnsaved { key: changed.log.key() });
            }
            if error.is_device_failure() {
                // On a directory that nobody writes to, this is the first to notice.
                self.queue.note_failure(error);
            }
        }
        let Checkpoint { then, ended, deleted, left, .. } = checkpoint;
        // First, because who is told that a log is released may make another of its name, whose
        // segments have the same paths.
        match &result {
            Ok(()) => {
                for (segment, delay) in deleted {
                    self.delete_segment(&segment, delay);
                }
            }
            Err(_) => self.queue.push(Command::NotDeleted { segments: deleted, left }),
        }
        for then in then {
            then(result.clone());
        }
        drop(ended);
    }

    /// What fails for one log does not cost the others their checkpoints, and nobody the log starts;
    /// a disk that is full concerns all.
    fn checkpoint(&self, checkpoint: &mut Checkpoint) -> Result<(), LogError> {
        let mut unsaved = Vec::new();
        for changed in &checkpoint.epochs {
            match self.write_epochs(changed) {
                Err(error) if error.is_disk_full() => return Err(error),
                Err(error) => {
                    let partition = changed.log.topic_partition();
                    tracing::error!(%partition, %error, "leader epochs cannot be written down");
                    unsaved.push(partition);
                }
                Ok(()) => {}
            }
        }
        for dir in &checkpoint.left {
            match dir.sync_all(&*self.fs) {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        checkpoint.offsets.keep_points(&*self.fs, &self.dir, unsaved)?;
        self.root_syncs.work(|| checkpoint.offsets.write(&*self.fs, &self.dir))?;
        for log in &checkpoint.logs {
            let partition = log.topic_partition();
            if let Some(&point) = checkpoint.offsets.recovery_points.get(partition) {
                log.note_written_recovery_point(point);
                let log_start = checkpoint.offsets.log_starts.get(partition).copied();
                log.note_written_log_start(log_start.unwrap_or(Offset::ZERO));
            }
        }
        Ok(())
    }

    /// Tells the writer if it fails.
    fn write_epochs(&self, changed: &ChangedEpochs) -> Result<(), LogError> {
        let ChangedEpochs { log, epochs } = changed;
        let (key, syncs) = (log.key(), log.dir_syncs());
        let path = syncs.dir().join(leader_epoch::LEADER_EPOCH_FILE);
        match syncs.work(|| leader_epoch::write(&*self.fs, &path, epochs)) {
            // The log was deleted meanwhile.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                self.queue.push(Command::EpochsUnsaved { key });
                if error.is_failed_sync_of(syncs.dir()) {
                    self.queue.push(Command::SyncFailed { key, error: error.clone() });
                }
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn delete_segment(&mut self, segment: &Segment, delay: Duration) {
        // The snapshot as of its beginning; there is one as of its end.
        let snapshot = segment.path().with_extension(SNAPSHOT_EXTENSION);
        match self.fs.remove_file(&snapshot) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %snapshot.display(), %error, "cannot remove a snapshot");
            }
            _ => {}
        }
        match segment.mark_deleted() {
            Ok(paths) => {
                for path in paths {
                    self.remove_later(path, delay, false);
                }
            }
            Err(error) => tracing::warn!(%error, "a deleted segment stays until the next start"),
        }
    }

    fn remove_later(&mut self, path: PathBuf, delay: Duration, is_dir: bool) {
        let due = Instant::now().checked_add(delay);
        self.removals.push(Removal { due, path, is_dir });
    }

    fn time_to_next_removal(&self) -> Duration {
        const IDLE: Duration = Duration::from_secs(3600);
        if self.removals.is_empty() {
            return IDLE;
        }
        let next = self.removals.iter().filter_map(|removal| removal.due).min();
        let next = next.map_or(IDLE, |due| due.saturating_duration_since(Instant::now()));
        next.min(LOOK_INTERVAL)
    }

    /// Removes what is due, or all if there has to be room.
    fn remove_due(&mut self, is_room_wanted: bool) {
        if self.removals.is_empty() {
            return;
        }
        let now = Instant::now();
        let are_all_due = is_room_wanted || self.is_disk_short();
        let is_due =
            |removal: &mut Removal| are_all_due || removal.due.is_some_and(|due| due <= now);
        for removal in self.removals.extract_if(.., is_due) {
            let removed = match removal.is_dir {
                true => self.fs.remove_dir_all(&removal.path),
                false => self.fs.remove_file(&removal.path),
            };
            if let Err(error) = removed {
                let path = removal.path.display();
                tracing::warn!(%path, %error, "cannot remove it; the next start tries again");
            }
        }
    }

    /// A disk that does not tell is not.
    fn is_disk_short(&self) -> bool {
        self.fs.free_bytes(&self.dir).is_ok_and(|free_bytes| free_bytes < SHORT_BYTES)
    }
}
