//! What a node asks the leader for, and what the leader answers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use logway_metadata::controller::ControllerReply;
use logway_model::{BrokerId, DirectoryId};
use tokio::time::Instant;

use super::Consensus;
use super::message::{
    CommandDone, LeaderAddress, MembersDone, Refusal, Reply, Request, encode_reply,
};
use super::shared::{CallError, ask};
use crate::error::QuorumError;
use crate::membership::{AdmissionRefusal, JoinRequest, MembersChange, broker_id};
use crate::peer::{Identity, Peer, PeerError, PeerNetwork};
use crate::proposer::Forwarded;
use crate::status::QuorumDescription;

impl Consensus {
    /// Whether a number is this node's.
    pub(crate) fn is_own_id(&self, id: u64) -> bool {
        id == self.shared.own_id
    }

    /// Sends a command to another node.
    pub(crate) async fn forward_command(
        &self,
        leader: u64,
        forwarded: &Forwarded,
        deadline: Instant,
    ) -> Result<(ControllerReply, u64), QuorumError> {
        let Forwarded { id, since, command } = forwarded.clone();
        let request = Request::Command { id, since, command };
        match self.ask_leader(leader, &request, deadline).await? {
            Reply::Command(Ok(CommandDone { reply, index })) => Ok((reply, index)),
            Reply::Command(Err(refusal)) => Err(self.error(refusal)),
            _ => Err(QuorumError::OutcomeUnknown),
        }
    }

    /// Sends a change of the members to another node.
    pub(crate) async fn forward_members(
        &self,
        leader: u64,
        change: &MembersChange,
        deadline: Instant,
    ) -> Result<(BrokerId, u64), QuorumError> {
        let request = Request::Members(change.clone());
        match self.ask_leader(leader, &request, deadline).await? {
            Reply::Members(Ok(MembersDone { id, index })) => Ok((id, index)),
            Reply::Members(Err(refusal)) => Err(self.error(refusal)),
            _ => Err(QuorumError::OutcomeUnknown),
        }
    }

    /// Has another node say how the quorum is.
    pub(crate) async fn forward_describe(
        &self,
        leader: u64,
        deadline: Instant,
    ) -> Result<QuorumDescription, QuorumError> {
        match self.ask_leader(leader, &Request::Describe, deadline).await? {
            Reply::Described(described) => described.map_err(|refusal| self.error(refusal)),
            _ => Err(QuorumError::OutcomeUnknown),
        }
    }

    /// The reply to a node that wants to know how the quorum is.
    pub(crate) fn describe_reply(&self) -> Vec<u8> {
        let described = self.check_leads().map(|()| self.describe());
        encode_reply(&Reply::Described(described.map_err(|error| self.refusal(error))))
    }

    /// The index up to which everything is committed, by the leader's word.
    pub(crate) async fn committed_index(&self, deadline: Instant) -> Result<u64, QuorumError> {
        let leader = self.known_leader()?;
        if self.is_own_id(leader) {
            return self.own_committed_index();
        }
        match self.ask_leader(leader, &Request::CommittedIndex, deadline).await? {
            Reply::CommittedIndex(Ok(index)) => Ok(index),
            Reply::CommittedIndex(Err(refusal)) => Err(self.error(refusal)),
            _ => Err(QuorumError::OutcomeUnknown),
        }
    }

    /// Asks the leader, and gives up when there is another one. Where no answer comes, it may have done
    /// what it was asked for.
    async fn ask_leader(
        &self,
        leader: u64,
        request: &Request,
        deadline: Instant,
    ) -> Result<Reply, QuorumError> {
        let mut changes = self.shared.watch_leadership();
        let is_followed = || self.leader().is_some_and(|id| id != leader);
        let Some(peer) = self.shared.peer(leader) else { return Err(QuorumError::NotLeader) };
        let patience = deadline.saturating_duration_since(Instant::now());
        let patience = patience.max(Duration::from_millis(1));
        let mut asking = pin!(self.shared.call(&peer, request, &[], patience));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut asking => break answer,
                () = changes.changed() => if is_followed() {
                    return Err(QuorumError::OutcomeUnknown);
                }
            }
        };
        match answer {
            Ok(reply) => Ok(reply),
            Err(CallError::Refused(refusal)) => Err(self.error(refusal)),
            Err(CallError::Peer(PeerError::Unreachable(_) | PeerError::TimedOut))
            | Err(CallError::Malformed(_)) => Err(QuorumError::OutcomeUnknown),
        }
    }

    /// The reply to a node that has sent a command.
    pub(crate) fn command_reply(
        &self,
        done: Result<(ControllerReply, u64), QuorumError>,
    ) -> Vec<u8> {
        let done = done.map(|(reply, index)| CommandDone { reply, index });
        encode_reply(&Reply::Command(done.map_err(|error| self.refusal(error))))
    }

    /// The reply to a node that has sent a change of the members.
    pub(crate) fn members_reply(&self, done: Result<(BrokerId, u64), QuorumError>) -> Vec<u8> {
        let done = done.map(|(id, index)| MembersDone { id, index });
        encode_reply(&Reply::Members(done.map_err(|error| self.refusal(error))))
    }

    /// An error in the form in which it travels.
    pub(super) fn refusal(&self, error: QuorumError) -> Refusal {
        match error {
            QuorumError::Refused(error) => Refusal::Controller(error),
            QuorumError::NotLeader => {
                let leader = self.leader().filter(|&id| !self.is_own_id(id));
                let peer = leader.and_then(|id| Some((id, self.shared.peer(id)?)));
                let address = |(id, peer): (u64, Peer)| LeaderAddress {
                    id: broker_id(id),
                    address: peer.address,
                };
                Refusal::NotLeader { leader: peer.map(address) }
            }
            QuorumError::NoMajority => Refusal::NoMajority,
            QuorumError::Overtaken => Refusal::Overtaken,
            QuorumError::OutcomeUnknown => Refusal::Unknown,
            QuorumError::Forgotten => Refusal::TooOld,
            QuorumError::Admission(refusal) => Refusal::Admission(refusal),
            QuorumError::Removed { id } => Refusal::Removed { id },
            QuorumError::DiskFull { free_bytes, .. } => Refusal::DiskFull { free_bytes },
            QuorumError::WaitsForSpace { .. } => Refusal::WaitsForSpace,
            other => Refusal::Stopped(other.to_string()),
        }
    }

    /// An error that has travelled.
    fn error(&self, refusal: Refusal) -> QuorumError {
        match refusal {
            Refusal::Controller(error) => QuorumError::Refused(error),
            // The next node under this number is not known yet.
            Refusal::NotLeader { .. } | Refusal::NotThisNode => QuorumError::NotLeader,
            Refusal::NoMajority => QuorumError::NoMajority,
            Refusal::Overtaken => QuorumError::Overtaken,
            // A leader that stops may have committed what it cannot tell of any more.
            Refusal::Unknown | Refusal::Stopped(_) => QuorumError::OutcomeUnknown,
            Refusal::TooOld => QuorumError::Forgotten,
            Refusal::Admission(refusal) => QuorumError::Admission(refusal),
            Refusal::DiskFull { free_bytes } => {
                QuorumError::DiskFull { path: self.path(), free_bytes }
            }
            Refusal::WaitsForSpace => QuorumError::WaitsForSpace { path: self.path() },
            Refusal::Removed { id } => QuorumError::Removed { id },
            Refusal::Malformed(reason) => QuorumError::Stopped { reason },
        }
    }
}

/// What a node answers to one that wants to join.
pub(crate) enum JoinAnswer {
    Admitted(BrokerId),
    Refused(AdmissionRefusal),
    /// Another node leads, at this address.
    Leader(String),
    /// It does not know a leader, or cannot be reached: why.
    NoLeader(String),
}

/// Asks a node to let another one join, in the name of a node that has no number yet.
pub(crate) async fn ask_to_join(
    network: &Arc<dyn PeerNetwork>,
    directory: DirectoryId,
    address: &str,
    request: &JoinRequest,
    timeout: Duration,
) -> JoinAnswer {
    let from = Identity { id: Identity::NO_ID, directory };
    let to = Peer { id: None, directory: DirectoryId::UNASSIGNED, address: address.to_owned() };
    let request = Request::Members(MembersChange::Join(request.clone()));
    match ask(network, from, &to, &request, &[], timeout).await {
        Ok(Reply::Members(Ok(MembersDone { id, .. }))) => JoinAnswer::Admitted(id),
        Ok(Reply::Members(Err(Refusal::Admission(refusal)))) => JoinAnswer::Refused(refusal),
        Ok(Reply::Members(Err(Refusal::NotLeader { leader: Some(leader) }))) => {
            JoinAnswer::Leader(leader.address)
        }
        Ok(Reply::Members(Err(Refusal::NotLeader { leader: None }))) => {
            JoinAnswer::NoLeader("it knows no leader of the quorum at present".to_owned())
        }
        Ok(Reply::Members(Err(Refusal::NoMajority))) => {
            JoinAnswer::NoLeader("it leads, and hears no majority of the voters".to_owned())
        }
        Err(CallError::Refused(Refusal::Removed { id })) => {
            JoinAnswer::Refused(AdmissionRefusal::Removed { id })
        }
        Ok(other) => JoinAnswer::NoLeader(format!("{other:?}")),
        Err(error) => JoinAnswer::NoLeader(error.to_string()),
    }
}
