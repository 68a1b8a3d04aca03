//! The metadata quorum: commits metadata records through Raft and publishes the images they make.
//!
//! One node is a quorum of one voter, with the same log, snapshots and guarantees that a quorum of
//! several has. The types of `openraft` stay within the module `raft`, whose documentation says
//! what this crate adds to it.
//!
//! A command takes this way:
//!
//! 1. [`MetadataQuorum::submit`] gives it a name and sends it to the leader (`leader`), again and again
//!    if the leader changes;
//! 2. the leader's `proposer` judges it against its newest image, unless it was committed before
//!    (`command_id`), and proposes the records;
//! 3. openraft replicates them (`raft`), and each node applies them and publishes the image (`published`);
//! 4. whoever asked gets the reply when the image of its own node has the records.

mod options;
mod quorum;
mod status;

mod join;
mod leader;
mod proposer;
mod published;

mod command_id;
mod contact;
mod membership;
mod peer;
mod voters;

mod raft;

mod directory;
mod disk_work;
mod log_file;
mod redb_file;
mod space;

mod error;

pub use error::QuorumError;
pub use join::{JoinedCluster, join};
pub use membership::{AdmissionRefusal, JoinRequest, MembersChange, VoterName};
#[doc(hidden)]
pub use options::Mutation;
pub use options::{DiskWork, OnEvents, QuorumOptions, Start, Timings};
pub use peer::{Lane, PEER_MESSAGE_MAX_BYTES, Peer, PeerCall, PeerError, PeerNetwork};
pub use proposer::Committed;
pub use published::{IndexedImage, MetadataIndex};
pub use quorum::MetadataQuorum;
pub use status::{MemberStatus, QuorumDescription, QuorumStatus, VoterStatus};
