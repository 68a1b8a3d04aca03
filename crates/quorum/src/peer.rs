//! Other nodes of the quorum, and how they are reached.
//!
//! The quorum owns its messages ([`raft::message`](crate::raft)) and hands them out as bytes. Who
//! carries them (TCP between nodes, a simulation) knows none of them, and opens a connection for each
//! [`Lane`]: a vote must not wait behind a snapshot.

use std::fmt;
use std::time::Duration;

use futures_core::future::BoxFuture;
use logway_model::{BrokerId, DirectoryId};

/// The longest message, request or reply. A carrier refuses a longer one before it reads it.
///
/// An entry of the log is one commit, and that is bounded by the requests that it comes from, which
/// have 100 MiB at most. As JSON it takes somewhat more.
pub const PEER_MESSAGE_MAX_BYTES: usize = 256 << 20;

/// A node that a message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its number; `None` where only the address is known: a cluster that is to be joined.
    pub id: Option<BrokerId>,
    /// Its data directory. A carrier with certificates checks that it talks to that one; the receiver
    /// of a message checks it in any case.
    pub directory: DirectoryId,
    /// Where it is reached, `host:port`.
    pub address: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "node {id} at {}", self.address),
            None => f.write_str(&self.address),
        }
    }
}

/// What a message may wait behind. Each lane has its own connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Votes, heartbeats and transfers: small, and elections depend on them.
    Control,
    /// Entries of the log.
    Append,
    /// Snapshots, and commands on their way to the leader.
    Bulk,
    /// Records on their way to followers. The quorum sends nothing by it.
    Replication,
    /// What clients of one node have for partitions that another one leads. Nor by this.
    Clients,
    /// Clients' reads that wait for records. They must not keep others from being answered.
    Waiting,
}

/// Why there is no reply. The request may have been received all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Nobody listens there, or the connection broke.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// No reply came in time.
    #[error("no reply in time")]
    TimedOut,
}

/// A reply that is on its way.
pub type PeerCall = BoxFuture<'static, Result<Vec<u8>, PeerError>>;

/// Carries messages between nodes.
///
/// The other side gives the bytes of a request to
/// [`MetadataQuorum::handle`](crate::MetadataQuorum::handle) and sends the bytes of the reply back.
/// Requests of one lane may be handled at the same time, in any order and more than once.
pub trait PeerNetwork: Send + Sync + 'static {
    /// Sends a request and waits for its reply, for at most `timeout`. A call that is dropped is given
    /// up.
    fn call(&self, to: &Peer, lane: Lane, request: Vec<u8>, timeout: Duration) -> PeerCall;
}

/// A node as it introduces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: i32,
    pub(crate) directory: DirectoryId,
}

impl Identity {
    /// Who has no number yet.
    pub(crate) const NO_ID: i32 = -1;
}
