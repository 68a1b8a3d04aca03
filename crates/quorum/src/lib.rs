//! The metadata quorum: commits metadata records through Raft and publishes the images they make.
//!
//! One node is a quorum of one voter, with the same log, snapshots and guarantees that a quorum of
//! several has. The types of `openraft` stay within the module `raft`.

mod quorum;
mod status;

mod proposer;
mod published;

mod raft;

mod directory;
mod log_file;
mod redb_file;
mod space;

mod error;

pub use error::QuorumError;
pub use proposer::Committed;
pub use published::{IndexedImage, MetadataIndex};
pub use quorum::{MetadataQuorum, QuorumOptions};
pub use status::{QuorumStatus, VoterStatus};
