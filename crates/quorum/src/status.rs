//! The state of the quorum, for people who look at it.

use std::time::Duration;

use logway_model::{BrokerId, DirectoryId, LeaderEpoch, Offset};
use serde::{Deserialize, Serialize};

/// Who leads, and how far everybody is, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumStatus {
    /// The leader, if one is known.
    pub leader: Option<BrokerId>,
    /// The leader's epoch: Raft's term.
    pub epoch: LeaderEpoch,
    /// The exclusive end of what is committed and applied.
    pub high_watermark: Offset,
    /// Who votes, by number. While the voters change, those before the change: it needs them until it is committed.
    pub voters: Vec<VoterStatus>,
}

/// One voter, as far as the leader knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterStatus {
    /// Its number.
    pub id: BrokerId,
    /// The exclusive end of its log.
    pub log_end: Offset,
}

/// One member, voter or not, as far as the asked node knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub id: BrokerId,
    /// Its data directory.
    pub directory: DirectoryId,
    /// Where other nodes reach it, `host:port`; empty for the only node of a cluster.
    pub address: String,
    /// Whether it votes, by what is committed. A learner gets every change and has no vote.
    pub is_voter: bool,
    /// The exclusive end of its log. Only the leader knows it of others.
    pub log_end: Option<Offset>,
    /// How long ago it was heard, if the leader was asked and has heard it.
    pub last_heard: Option<Duration>,
}

/// The quorum and its members, as one node knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumDescription {
    /// Who leads.
    pub status: QuorumStatus,
    /// Everybody, by number.
    pub members: Vec<MemberStatus>,
}
