//! What can go wrong in the storage engine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_model::{
    BrokerId, ClusterId, DirectoryId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence,
    TopicId, TopicPartition,
};
use logway_record::RecordError;
use rustix::io::Errno;

use crate::producer_state::Refusal;

/// An error of the storage engine.
///
/// It is cheap to clone, because one failed write or sync is the answer to every append that
/// was waiting for it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// The operating system refused an operation on a file or directory.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb: `open`, `write`, `sync` …
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: Arc<io::Error>,
    },

    /// A binary file holds bytes that Logway would not have written.
    #[error("{} is corrupt at byte {position}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes from its start.
        position: u64,
        /// What is wrong there.
        reason: String,
    },

    /// A text file (checkpoint, properties) does not have its format.
    #[error("{}:{line}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },

    /// A read or a truncation named an offset that the log does not hold.
    #[error("{partition}: offset {requested} is outside of the log, {start} to {end}")]
    OffsetOutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// The offset that was asked for.
        requested: Offset,
        /// The first offset of the log.
        start: Offset,
        /// The offset after the last one.
        end: Offset,
    },

    /// An append was to be made at another end than the log has. Nothing was appended.
    #[error("{partition} ends at {end}, and the append was to be made at {expected}")]
    EndMoved {
        /// The partition.
        partition: TopicPartition,
        /// Where the append was to be made.
        expected: Offset,
        /// Where the log ends.
        end: Offset,
    },

    /// An earlier write or sync failed, so that nobody knows what is on the disk; the log
    /// acknowledges nothing more until it is opened again and recovered.
    #[error("{partition} takes no appends since a write to its disk failed: {cause}")]
    Poisoned {
        /// The partition.
        partition: TopicPartition,
        /// The failure, as text.
        cause: Arc<str>,
    },

    /// The log cannot be synced now, and a sync is tried again and again; appends succeed again by
    /// themselves once one has begun.
    #[error("{partition} takes no appends until it can be synced again: {cause}")]
    SyncDelayed {
        /// The partition.
        partition: TopicPartition,
        /// Why the last try did not begin, as text.
        cause: Arc<str>,
    },

    /// The disk is full; appends succeed again by themselves once there is space.
    #[error("no space left in {}: {free_bytes} bytes are free", dir.display())]
    DiskFull {
        /// The log directory.
        dir: PathBuf,
        /// What was free when the append was refused.
        free_bytes: u64,
    },

    /// A log directory has too little space for a journal; there is none, and each log is synced by itself.
    #[error(
        "a journal of {journal_bytes} bytes is made where {wanted_bytes} bytes are free, and in {} {free_bytes} \
         are (logway.journal.bytes)",
        dir.display()
    )]
    NoRoomForJournal {
        /// The log directory.
        dir: PathBuf,
        /// The size that it would have.
        journal_bytes: u64,
        /// What must be free for it.
        wanted_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },

    /// More is waiting to be appended than the writer thread may hold; try again.
    #[error(
        "the writer of {} is behind: {queued_bytes} bytes of appends wait, of at most {limit_bytes}",
        dir.display()
    )]
    QueueFull {
        /// The log directory.
        dir: PathBuf,
        /// The bytes of the appends that wait.
        queued_bytes: usize,
        /// The bytes that may wait.
        limit_bytes: usize,
    },

    /// The log or the log directory was closed or deleted.
    #[error("{what} is closed")]
    Closed {
        /// The partition or the directory.
        what: String,
    },

    /// Another process holds the log directory.
    #[error("{} is in use by another process", dir.display())]
    Locked {
        /// The log directory.
        dir: PathBuf,
    },

    /// The log directory belongs to another broker or cluster.
    #[error("{} belongs to node {found_node} of cluster {found_cluster}", dir.display())]
    WrongOwner {
        /// The log directory.
        dir: PathBuf,
        /// The broker that it belongs to.
        found_node: BrokerId,
        /// The cluster that it belongs to.
        found_cluster: ClusterId,
    },

    /// A log directory that was in use does not say so any more.
    #[error(
        "{} has no meta.properties, but was log directory {id}: is its disk mounted? To go on with \
         what is there now, put an empty file `{}` in it",
        dir.display(), crate::file_names::ACCEPT_LOSS_FILE
    )]
    DirectoryEmptied {
        /// The log directory.
        dir: PathBuf,
        /// The id that it had.
        id: DirectoryId,
    },

    /// A log directory has logs and does not say whose it is.
    #[error(
        "{}/meta.properties is gone: put it back, or write it anew with the lines version=1, \
         node.id=, cluster.id= and directory.id= (what `known-log-dirs`, in the first log directory, \
         has for it); by its id the metadata tells which partitions are in it",
        dir.display()
    )]
    IdentityMissing {
        /// The log directory.
        dir: PathBuf,
    },

    /// Two log directories have the same id: one is a copy of the other, or has taken its place.
    #[error(
        "{} and {} are both log directory {id}, and nobody knows which has the newest records, so \
         that neither is used: take the one that has not out of log.dirs, or if it is empty, the \
         file `{}` out of it",
        dir.display(), other.display(), crate::file_names::ACCEPT_LOSS_FILE
    )]
    DuplicateDirectory {
        /// The log directory.
        dir: PathBuf,
        /// Another one.
        other: PathBuf,
        /// The id of both.
        id: DirectoryId,
    },

    /// A replica cannot move to a log directory that has a log of its partition.
    #[error("{} has a log of {partition} already", dir.display())]
    CopyInTheWay {
        /// The log directory.
        dir: PathBuf,
        /// The partition.
        partition: TopicPartition,
    },

    /// The log is in a directory that cannot be used.
    #[error("the log of {partition} is in {directory}, which is offline")]
    DirectoryOffline {
        /// The partition.
        partition: TopicPartition,
        /// What is known of the directory, for people.
        directory: String,
    },

    /// The directory of a partition belongs to another topic of the same name (KIP-516).
    #[error("{partition} exists already, for the topic id {found} and not {wanted}")]
    InconsistentTopicId {
        /// The partition.
        partition: TopicPartition,
        /// The topic that the directory belongs to.
        found: TopicId,
        /// The topic that was asked for.
        wanted: TopicId,
    },

    /// The directory of a partition that has had records is not there, or nothing is in it.
    #[error(
        "{} is gone, with its records up to offset {end} at least: put it back, or delete the topic; \
         or make the directory with an empty file `{}` in it, to go on without them",
        dir.display(), crate::file_names::ACCEPT_LOSS_FILE
    )]
    Vanished {
        /// The directory.
        dir: PathBuf,
        /// The offset before which it had records; after a crash it may have had more.
        end: Offset,
    },

    /// The log of a partition is gone from its place, and the one that is elsewhere ends before it
    /// did.
    #[error(
        "{} is gone, with the records before offset {end}, and {} has them only before {found_end}: \
         put the newer one back, or delete the topic; or make {} with an empty file `{}` in it, to go \
         on without them",
        dir.display(), found.display(), dir.display(), crate::file_names::ACCEPT_LOSS_FILE
    )]
    OlderElsewhere {
        /// The directory that is gone.
        dir: PathBuf,
        /// The offset before which it had records.
        end: Offset,
        /// The directory of the log that is there.
        found: PathBuf,
        /// The offset at which that one ends.
        found_end: Offset,
    },

    /// The log of a partition is in a log directory that cannot be asked, and there is one elsewhere,
    /// of which nobody knows whether it is the newest.
    #[error(
        "the log of {partition} is in {directory}, which is offline, and {} ends at {found_end}: if \
         the log was moved there, put an empty file `{}` in it",
        found.display(), crate::file_names::ACCEPT_LOSS_FILE
    )]
    PerhapsElsewhere {
        /// The partition.
        partition: TopicPartition,
        /// What is known of the log directory, for people.
        directory: String,
        /// The directory of the log that is there.
        found: PathBuf,
        /// The offset at which that one ends.
        found_end: Offset,
    },

    /// A batch that is to keep its offsets, or a leader's answer, does not begin at the log end.
    #[error("{partition} ends at {end}: what begins at {got} cannot be put there")]
    OffsetNotNext {
        /// The partition.
        partition: TopicPartition,
        /// The log end.
        end: Offset,
        /// The first offset of the batch, or the one that the leader was asked for.
        got: Offset,
    },

    /// Something is done to the log that nothing else can be done beside; try again.
    #[error("{partition} cannot be changed now: {with} is under way")]
    Busy {
        /// The partition.
        partition: TopicPartition,
        /// What is under way.
        with: &'static str,
    },

    /// A leader whose epoch is over wanted to append.
    #[error(
        "{partition}: an append of leader epoch {got} comes too late, epoch {current} has begun"
    )]
    EpochOver {
        /// The partition.
        partition: TopicPartition,
        /// The epoch that has begun.
        current: LeaderEpoch,
        /// The epoch of the append.
        got: LeaderEpoch,
    },

    /// A batch from the leader is cut off or damaged, on its way or on the leader's disk.
    #[error("{partition}: what the leader has sent cannot be appended: {reason}")]
    BadBatch {
        /// The partition.
        partition: TopicPartition,
        /// What is wrong with it.
        reason: RecordError,
    },

    /// A batch from the leader is of an epoch that cannot be there.
    #[error(
        "{partition}: the batch at offset {offset} is of leader epoch {got}, behind one of epoch \
         {latest}, from the leader of epoch {followed}"
    )]
    EpochOutOfOrder {
        /// The partition.
        partition: TopicPartition,
        /// Where the batch begins.
        offset: Offset,
        /// The newest epoch of the log before it.
        latest: LeaderEpoch,
        /// The epoch that is followed.
        followed: LeaderEpoch,
        /// The epoch of the batch.
        got: LeaderEpoch,
    },

    /// The log was found in another directory than the metadata says, which has yet to be told.
    #[error("{partition}: the metadata does not know yet in which log directory it is")]
    Unassigned {
        /// The partition.
        partition: TopicPartition,
    },

    /// The log has come to the last offset that there is.
    #[error("{partition} ends at {end} and has no offsets left: a file that is damaged said so")]
    OffsetsExhausted {
        /// The partition.
        partition: TopicPartition,
        /// The log end.
        end: Offset,
    },

    /// A batch does not continue its producer's sequence: batches before it are missing.
    #[error(
        "{partition}: out of order sequence of producer {producer_id}: \
         expected {expected}, got {got}"
    )]
    OutOfOrderSequence {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
        /// The sequence that would continue the log.
        expected: Sequence,
        /// The first sequence of the batch.
        got: Sequence,
    },

    /// A batch does not continue its producer's sequence, because the one before it was refused a moment ago and
    /// has not come again.
    #[error(
        "{reason}; that was so of the batch with sequence {refused} of producer {producer_id}, and the one with {got} \
         is behind it"
    )]
    BehindRefused {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
        /// The first sequence of the batch that was refused.
        refused: Sequence,
        /// The first sequence of this one.
        got: Sequence,
        /// Why the other was refused.
        refusal: Refusal,
        /// The same, as its client was told.
        reason: Arc<str>,
    },

    /// A batch of an incarnation of a producer that a newer one has fenced.
    #[error(
        "{partition}: epoch {got} of producer {producer_id} is fenced, its epoch is now {current}"
    )]
    FencedProducerEpoch {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
        /// The newest epoch that this log has seen.
        current: ProducerEpoch,
        /// The epoch of the batch.
        got: ProducerEpoch,
    },

    /// A batch that is part of no transaction, of a producer that has one open here.
    #[error(
        "{partition}: producer {producer_id} in epoch {got} has an open transaction, and this batch is not part of it"
    )]
    TransactionOpen {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
        /// The epoch of the batch.
        got: ProducerEpoch,
    },

    /// A batch would begin a transaction, and the coordinator does not vouch for it, or the transaction has ended since
    /// it did (KIP-890).
    #[error(
        "{partition}: the coordinator does not know that the partition is part of a transaction of producer \
         {producer_id}, or it has ended"
    )]
    UnverifiedTransaction {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
    },

    /// A batch would begin a transaction, and a coordinator vouches for it that another one has taken over from: that one
    /// may have ended the transaction. It can be asked.
    #[error(
        "{partition}: coordinator epoch {got} vouches for a transaction of producer {producer_id}, and is fenced: it is \
         now {current}"
    )]
    StaleCoordinator {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
        /// The newest coordinator epoch that this log has seen.
        current: i32,
        /// The coordinator epoch of who vouches.
        got: i32,
    },

    /// A batch would begin a transaction, and the log, or all logs of the directory together, have no room for another.
    #[error(
        "{partition} has no room for another open transaction: a partition can have {max} of them, and all partitions of a \
         log directory together {directory_max}"
    )]
    TooManyTransactions {
        /// The partition.
        partition: TopicPartition,
        /// How many this log can have open.
        max: usize,
        /// How many all logs of its directory can have open.
        directory_max: usize,
    },

    /// A marker of a transaction coordinator that another one has taken over from.
    #[error(
        "{partition}: coordinator epoch {got} of producer {producer_id} is fenced, it is now {current}"
    )]
    CoordinatorFenced {
        /// The partition.
        partition: TopicPartition,
        /// The producer.
        producer_id: ProducerId,
        /// The newest coordinator epoch that this log has seen.
        current: i32,
        /// The coordinator epoch of the marker.
        got: i32,
    },
}

impl LogError {
    /// Makes a closure that turns an I/O error into a [`LogError::Io`], for `map_err`.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
        move |source| LogError::Io { op, path: path.to_owned(), source: Arc::new(source) }
    }

    /// What a client's append was refused for, if it can be taken later with nothing else done.
    pub(crate) fn passing_refusal(&self) -> Option<Refusal> {
        match self {
            LogError::EpochOver { .. } => Some(Refusal::EpochOver),
            LogError::Io { .. }
            | LogError::DiskFull { .. }
            | LogError::NoRoomForJournal { .. }
            | LogError::SyncDelayed { .. }
            | LogError::QueueFull { .. }
            | LogError::Busy { .. } => Some(Refusal::Storage),
            _ => None,
        }
    }

    /// Whether the cause is a full disk or an exhausted quota.
    pub fn is_disk_full(&self) -> bool {
        match self {
            LogError::DiskFull { .. } | LogError::NoRoomForJournal { .. } => true,
            LogError::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// Whether the disk, and not only a file on it, has failed: the device, or a file system that
    /// was made read-only or has gone.
    pub fn is_device_failure(&self) -> bool {
        if matches!(self, LogError::DirectoryEmptied { .. }) {
            return true;
        }
        let LogError::Io { source, .. } = self else { return false };
        matches!(
            Errno::from_io_error(source),
            Some(
                Errno::IO | Errno::ROFS | Errno::NODEV | Errno::NXIO | Errno::STALE | Errno::UCLEAN
            )
        )
    }

    /// Whether the disk has failed when something was to be changed on it. A bad place that a read finds
    /// says nothing of the others.
    pub(crate) fn is_failed_change(&self) -> bool {
        let is_read =
            matches!(self, LogError::Io { op: "read" | "open" | "look at" | "look for", .. });
        self.is_device_failure() && !is_read
    }

    /// Whether the cause is a want of descriptors, in the process or in the system: nothing was
    /// tried, as no read, write or sync fails in this way once its file is open.
    pub(crate) fn is_want_of_descriptors(&self) -> bool {
        let LogError::Io { source, .. } = self else { return false };
        let errno = Errno::from_io_error(source);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE))
    }

    /// Whether a sync of the directory `dir` was begun and failed.
    ///
    /// That is as final as for a file: the kernel tells of it once, and what it could not write may
    /// count as clean from then on, so that a second sync that succeeds proves nothing about the
    /// names that the first one was for. (Journaling file systems mostly refuse all work after such
    /// an error, but nobody promises it.) Only names that are made anew are made durable by a later
    /// sync. As everybody's sync of a directory is about all the names in it, it does not matter
    /// whose sync failed.
    pub(crate) fn is_failed_sync_of(&self, dir: &Path) -> bool {
        let is_meant = matches!(self, LogError::Io { op: "sync", path, .. } if path == dir);
        is_meant && !self.is_want_of_descriptors()
    }

    /// Whether the cause is a file or directory that does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, LogError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
