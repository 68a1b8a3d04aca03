//! Changes of the members, and handing over, on the leader.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::BrokerId;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, ServerState};
use tokio::time::Instant;

use super::message::{Reply, Request};
use super::{Consensus, Metrics, log_end, stopped};
use crate::error::QuorumError;
use crate::membership::{Admission, AdmissionRefusal, Member, MembersChange, Progress, broker_id};
use crate::status::MemberStatus;

impl Consensus {
    /// Everybody, and how far they are as far as this node knows.
    pub(crate) fn member_status(&self) -> Vec<MemberStatus> {
        let (members, now) = (self.shared.members(), Instant::now());
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let leads = metrics.state == ServerState::Leader;
        let status = |(&id, member): (&u64, &Member)| MemberStatus {
            id: broker_id(id),
            directory: member.directory,
            address: member.addr.clone(),
            is_voter: members.is_voter(id),
            log_end: (leads || id == metrics.id).then(|| log_end(&metrics, id)),
            last_heard: match id == metrics.id {
                true => Some(std::time::Duration::ZERO),
                false if leads => {
                    let at = self.shared.contacts.confirmed_at(id, metrics.current_term);
                    at.map(|at| now.duration_since(at))
                }
                false => None,
            },
        };
        members.nodes.iter().map(status).collect()
    }

    /// Admits or removes a node, and returns when that is committed. `taken` has the numbers of brokers.
    pub(crate) async fn change_members(
        &self,
        change: &MembersChange,
        taken: impl Iterator<Item = u64>,
    ) -> Result<(BrokerId, u64), QuorumError> {
        let _changing = self.shared.changing_members.lock().await;
        self.check_leads()?;
        self.shared.learn_members(&self.raft.metrics().borrow().membership_config);
        let members = self.shared.members();
        let (refused, own_id) = (QuorumError::Admission, self.shared.own_id);
        match change {
            MembersChange::Join(request) => {
                match members.admit(request, own_id, taken).map_err(refused)? {
                    Admission::Known(id) => Ok(self.members_done(id)),
                    Admission::Put(id) => {
                        let member =
                            Member { addr: request.address.clone(), directory: request.directory };
                        self.change(ChangeMembers::SetNodes(BTreeMap::from([(id, member)])), true)
                            .await?;
                        Ok(self.members_done(id))
                    }
                }
            }
            MembersChange::Remove { id: broker } => {
                let known =
                    u64::try_from(broker.0).ok().filter(|id| members.nodes.contains_key(id));
                let Some(id) = known else {
                    return Err(refused(AdmissionRefusal::Unknown { id: *broker }));
                };
                if members.all_voters() == BTreeSet::from([id]) {
                    return Err(refused(AdmissionRefusal::LastVoter { id: *broker }));
                }
                if id == self.shared.own_id {
                    // Another one does it: a leader that is no member any more would lead on.
                    self.hand_over().await;
                    return Err(QuorumError::NotLeader);
                }
                let ids = BTreeSet::from([id]);
                let change = match members.is_voter(id) {
                    true => ChangeMembers::RemoveVoters(ids),
                    false => ChangeMembers::RemoveNodes(ids),
                };
                self.change(change, false).await?;
                Ok(self.members_done(id))
            }
        }
    }

    fn members_done(&self, id: u64) -> (BrokerId, u64) {
        let metrics = self.raft.metrics();
        let index = metrics.borrow().membership_config.log_id().map_or(0, |id| id.index);
        (broker_id(id), index)
    }

    /// Lets learners become voters where the quorum needs them, and finishes what another leader has
    /// begun.
    pub(super) async fn improve_voters(&self) {
        let Ok(_changing) = self.shared.changing_members.try_lock() else { return };
        if self.check_leads().is_err() {
            return;
        }
        let members = self.shared.members();
        let progress = self.progress();
        let Some(change) = members.next_voters_change(&progress, self.shared.voters_max) else {
            return;
        };
        tracing::info!(%change, "the quorum changes");
        let change = match change {
            crate::membership::VotersChange::Finish(voters) => {
                ChangeMembers::ReplaceAllVoters(voters)
            }
            crate::membership::VotersChange::Promote(ids) => ChangeMembers::AddVoterIds(ids),
        };
        if let Err(error) = self.change(change, true).await {
            tracing::warn!(%error, "the quorum has not changed");
        }
    }

    fn progress(&self) -> BTreeMap<u64, Progress> {
        let (members, now) = (self.shared.members(), Instant::now());
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let of = |&id: &u64| (id, self.progress_of(&metrics, id, now));
        members.nodes.keys().map(of).collect()
    }

    fn progress_of(&self, metrics: &Metrics, id: u64, now: Instant) -> Progress {
        let at = self.shared.contacts.confirmed_at(id, metrics.current_term);
        let timeout = self.shared.timings.election_timeout_max;
        let matched = metrics.replication.as_ref().and_then(|matched| *matched.get(&id)?);
        let lag = |matched: u64| metrics.last_log_index.unwrap_or(0).saturating_sub(matched);
        Progress {
            lag_entries: matched.map(|id| lag(id.index)),
            is_heard: at.is_some_and(|at| now.duration_since(at) <= timeout),
        }
    }

    /// Commits a change of the members, within the time that a command has. When it returns, this node's own picture of
    /// the members has the change.
    async fn change(
        &self,
        change: ChangeMembers<u64, Member>,
        retain: bool,
    ) -> Result<(), QuorumError> {
        let changed = self.raft.change_membership(change, retain);
        let result = match tokio::time::timeout(self.shared.submit_timeout, changed).await {
            Err(_) => return Err(QuorumError::OutcomeUnknown),
            Ok(result) => result,
        };
        if let Ok(done) = &result {
            // The metrics may come after the outcome. By older ones the next node would get the same number.
            let is_known =
                |metrics: &Metrics| *metrics.membership_config.log_id() >= Some(done.log_id);
            self.wait_until("a change of the members was known", is_known).await?;
        }
        self.shared.learn_members(&self.raft.metrics().borrow().membership_config);
        match result {
            Ok(_) => Ok(()),
            Err(RaftError::Fatal(error)) => Err(stopped(error)),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
                Err(QuorumError::NotLeader)
            }
            // Another change is not committed yet.
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => match error
            {
                ChangeMembershipError::InProgress(_) => Err(QuorumError::Overtaken),
                error => Err(QuorumError::Stopped { reason: error.to_string() }),
            },
        }
    }

    /// Hands the leadership to the voter with the longest log, if this node leads and there is one that
    /// is heard. Returns when another node leads or that has failed.
    ///
    /// No command is taken from the beginning on, so the other log becomes as long as this one. Then the
    /// other node stands for election at once. This node votes for it, and so does, after its lease,
    /// everybody else.
    pub(crate) async fn hand_over(&self) -> bool {
        if self.check_leads().is_err() {
            return false;
        }
        self.shared.set_transferring(true);
        let timeout = self.shared.timings.election_timeout_max * 2;
        let moved = tokio::time::timeout(timeout, self.try_hand_over()).await.unwrap_or(false);
        self.shared.set_transferring(false);
        moved
    }

    async fn try_hand_over(&self) -> bool {
        let (own_id, vote) = (self.shared.own_id, self.raft.metrics().borrow().vote);
        if let Some(since) = self.shared.contacts.leading_since() {
            // Until then openraft votes for nobody on a leader, either.
            tokio::time::sleep_until(since + self.shared.timings.lease).await;
        }
        loop {
            let candidate = {
                let progress = self.progress();
                let members = self.shared.members();
                let voters = members.all_voters().into_iter().filter(|&id| id != own_id);
                let heard = voters.filter(|id| progress.get(id).is_some_and(|of| of.is_heard));
                heard.min_by_key(|id| progress[id].lag_entries.unwrap_or(u64::MAX))
            };
            let is_level =
                |id| self.progress().get(&id).is_some_and(|of| of.lag_entries == Some(0));
            if let Some(id) = candidate.filter(|&id| is_level(id))
                && let Some(peer) = self.shared.peer(id)
            {
                let request = Request::TakeOver { vote };
                let timeout = self.shared.timings.lease;
                let asked = self.shared.call(&peer, &request, &[], timeout).await;
                if matches!(asked, Ok(Reply::TakeOver(true))) {
                    break;
                }
            }
            tokio::time::sleep(self.shared.timings.heartbeat / 8).await;
        }
        let has_moved = |metrics: &Metrics| metrics.current_leader.is_some_and(|id| id != own_id);
        self.wait_until("another node led", has_moved).await.is_ok()
    }
}
