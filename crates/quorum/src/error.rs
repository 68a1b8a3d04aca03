//! What can go wrong in the quorum.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_metadata::ControllerError;
use logway_model::BrokerId;

use crate::membership::{AdmissionRefusal, removed_text};

/// An error of this crate. It can be cloned, because one failed commit fails every command in it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QuorumError {
    /// The controller refused the command; nothing was committed for it.
    #[error(transparent)]
    Refused(#[from] ControllerError),
    /// This node does not lead the quorum, so it cannot commit anything now.
    #[error("this node is not the active controller")]
    NotLeader,
    /// This node leads, but no majority of the voters has heard it for an election timeout. Nothing was
    /// committed, and the same command will do once there is a majority.
    #[error("the active controller hears no majority of the voters")]
    NoMajority,
    /// Another leader's commits came in between. Nothing was committed, and the same command will do.
    #[error("other changes of the metadata came in between")]
    Overtaken,
    /// Nobody can tell now whether the command was committed: the leader was lost meanwhile.
    #[error("it is not known whether the change of the metadata was committed")]
    OutcomeUnknown,
    /// The command may have been committed so long ago that nobody remembers.
    #[error("the command is too old to tell whether it was committed")]
    Forgotten,
    /// The leader does not change the members so.
    #[error(transparent)]
    Admission(#[from] AdmissionRefusal),
    /// This node was removed from the cluster. Nothing it has is ever taken there again.
    #[error("{}", removed_text(*.id))]
    Removed {
        /// The number that it had.
        id: BrokerId,
    },
    /// No node that was asked knows the leader.
    #[error("no node of the cluster can be reached: {reason}")]
    Unreachable {
        /// What each of them did.
        reason: String,
    },
    /// The node was to join a cluster and has not received anything yet. It does not found one.
    #[error("the node of {} was to join a cluster and has not yet; start it with --join", .path.display())]
    NotJoined {
        /// The metadata directory.
        path: PathBuf,
    },
    /// The quorum has stopped, by request or by an error of its storage. Commands whose outcome is
    /// not known get this too: they may have been committed.
    #[error("the metadata quorum has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// Another process, or another part of this one, has the directory open.
    #[error("{} is in use by another process", .path.display())]
    InUse {
        /// The metadata directory.
        path: PathBuf,
    },
    /// The disk is almost full; commands that do not make space are not taken. Nothing was
    /// committed, and the same command will do once there is space.
    #[error("the disk of {} has only {free_bytes} bytes left", .path.display())]
    DiskFull {
        /// The metadata directory.
        path: PathBuf,
        /// What is left.
        free_bytes: u64,
    },
    /// The disk became full while a change was being committed. The change is committed when there
    /// is space again, if the process lives to see it.
    #[error("the disk of {} is full; the change waits for space", .path.display())]
    WaitsForSpace {
        /// The metadata directory.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// The log's database cannot be opened, read or written.
    #[error("metadata log {}: {reason}", .path.display())]
    Log {
        /// The database.
        path: PathBuf,
        /// The reason, with the index of the entry where there is one.
        reason: String,
    },
    /// The snapshot is damaged. The log that came before it is gone, so the metadata can only be
    /// restored from a copy of the directory.
    #[error("metadata snapshot {}: {reason}", .path.display())]
    Snapshot {
        /// The snapshot.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory belongs to a node with another number.
    #[error(
        "{} belongs to node {stored}, but node.id is {configured}; a node keeps its number for ever",
        .path.display()
    )]
    NodeIdChanged {
        /// The metadata directory.
        path: PathBuf,
        /// Whose directory it is.
        stored: String,
        /// Who wants to open it.
        configured: BrokerId,
    },
}

impl QuorumError {
    /// Whether nothing was done and the same may work in a moment, perhaps with another leader.
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            QuorumError::NotLeader
                | QuorumError::NoMajority
                | QuorumError::Overtaken
                | QuorumError::Unreachable { .. }
        )
    }

    /// For `map_err` after an operation on a file.
    pub(crate) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> QuorumError + use<> {
        let path = path.to_owned();
        move |source| QuorumError::Io { action, path, source: Arc::new(source) }
    }
}
