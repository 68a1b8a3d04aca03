//! The state of the quorum, for people who look at it.

use logway_model::{BrokerId, LeaderEpoch, Offset};

/// Who leads, and how far everybody is, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumStatus {
    /// The leader, if one is known.
    pub leader: Option<BrokerId>,
    /// The leader's epoch: Raft's term.
    pub epoch: LeaderEpoch,
    /// The exclusive end of what is committed and applied.
    pub high_watermark: Offset,
    /// Who votes, by number.
    pub voters: Vec<VoterStatus>,
}

/// One voter, as far as the leader knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoterStatus {
    /// Its number.
    pub id: BrokerId,
    /// The exclusive end of its log.
    pub log_end: Offset,
}
