//! Changes of the members, and handing over, on the leader.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{BrokerId, DirectoryId};
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, ServerState};
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::message::{Reply, Request};
use super::{Consensus, Metrics, log_end, stopped};
use crate::error::QuorumError;
use crate::membership::{
    Admission, AdmissionRefusal, JoinRequest, Known, Member, Members, Replacement, VoterName,
    broker_id,
};
use crate::status::{MemberStatus, QuorumDescription};
use crate::voters::{AllProgress, Progress, VotersChange};

impl Consensus {
    /// Everybody, and how far they are as far as this node knows.
    pub(crate) fn member_status(&self) -> Vec<MemberStatus> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        self.shared.learn_members(&metrics);
        let (members, now) = (self.shared.members(), Instant::now());
        let leads = metrics.state == ServerState::Leader;
        let status = |(&id, member): (&u64, &Member)| MemberStatus {
            id: broker_id(id),
            directory: member.directory,
            address: member.addr.clone(),
            is_voter: members.settled_voters.contains(&id),
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

    /// How the quorum is, as this node knows.
    pub(crate) fn describe(&self) -> QuorumDescription {
        QuorumDescription { status: self.status(), members: self.member_status() }
    }

    /// Admits a node, and returns when that is committed. `taken` has the numbers of brokers.
    pub(crate) async fn admit(
        &self,
        request: &JoinRequest,
        taken: impl Iterator<Item = u64>,
    ) -> Result<(BrokerId, u64), QuorumError> {
        let (_changing, members) = self.begin_change().await?;
        if let Some(id) = self.removed(request.directory) {
            return Err(QuorumError::Admission(AdmissionRefusal::Removed { id }));
        }
        let own_id = self.shared.own_id;
        match members.admit(request, own_id, taken).map_err(QuorumError::Admission)? {
            Admission::Known(id) => Ok(self.members_done(id)),
            Admission::Put(id) => {
                let known = members.nodes.get(&id).cloned().unwrap_or_default();
                let (addr, directory) = (request.address.clone(), request.directory);
                let votes_only = request.votes_only;
                self.put(id, Member { addr, directory, votes_only, ..known }).await?;
                Ok(self.members_done(id))
            }
        }
    }

    /// Whether a node may take the place of the one that has its number, and which one is to be removed before.
    pub(crate) async fn check_replacement(
        &self,
        request: &JoinRequest,
        is_known: impl Fn(BrokerId) -> Known,
    ) -> Result<Replacement, QuorumError> {
        let (_changing, members) = self.begin_change().await?;
        if let Some(id) = self.removed(request.directory) {
            return Err(QuorumError::Admission(AdmissionRefusal::Removed { id }));
        }
        // A leader that was elected just now has heard nobody yet. That says nothing, unless there is nobody to hear.
        let leads_others = !self.shared.is_alone();
        let is_new = leads_others
            && self.shared.contacts.leading_since().is_none_or(|since| {
                Instant::now().duration_since(since) <= self.shared.timings.election_timeout_max
            });
        if is_new {
            return Err(QuorumError::Overtaken);
        }
        let progress = self.progress();
        let is_alive = |id| progress.is_alive(id);
        members.replace(request, is_known, is_alive).map_err(QuorumError::Admission)
    }

    /// Whether a member may leave for good, and how the quorum knows it: `None` if it does not. `asked` is the directory of
    /// the one that is meant, and `registered` that of the broker of its number that the metadata has.
    pub(crate) async fn check_removal(
        &self,
        broker: BrokerId,
        asked: Option<DirectoryId>,
        registered: Option<DirectoryId>,
    ) -> Result<Option<Member>, QuorumError> {
        let (_changing, members) = self.begin_change().await?;
        let refused = QuorumError::Admission;
        let known = u64::try_from(broker.0).ok();
        let known = known.and_then(|id| Some((id, members.nodes.get(&id)?.clone())));
        let directory = known.as_ref().map(|(_, member)| member.directory).or(registered);
        if let (Some(given), Some(known)) = (asked, directory)
            && given != known
        {
            return Err(refused(AdmissionRefusal::OtherDirectory { id: broker, given, known }));
        }
        match known {
            None if registered.is_some() => Ok(None),
            None => Err(refused(AdmissionRefusal::Unknown { id: broker })),
            Some((id, member)) => {
                if members.is_voter(id) {
                    members.check_without(id, &self.progress()).map_err(refused)?;
                }
                self.leave_it_to_another(id).await?;
                Ok(Some(member))
            }
        }
    }

    /// Ends the membership of a node that was removed, if it has not ended yet.
    pub(crate) async fn remove(&self, removed: &Member) -> Result<u64, QuorumError> {
        let (_changing, members) = self.begin_change().await?;
        let same = members.nodes.iter().find(|(_, member)| member.directory == removed.directory);
        if let Some((&id, _)) = same {
            self.remove_member(&members, id).await?;
        }
        Ok(self.members_index())
    }

    /// Gives a member a vote, and returns when that is committed.
    pub(crate) async fn add_voter(&self, voter: VoterName) -> Result<(BrokerId, u64), QuorumError> {
        let (_changing, members) = self.begin_change().await?;
        let checked = members.check_add_voter(voter, &self.progress());
        let id = checked.map_err(QuorumError::Admission)?;
        let member = members.nodes[&id].clone();
        if member.is_demoted {
            self.put(id, Member { is_demoted: false, ..member }).await?;
        }
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id])), true).await?;
        Ok(self.members_done(id))
    }

    /// Takes a voter's vote, and returns when that is committed. A leader that is stopped in between leaves a voter that
    /// is marked, and the next one goes on ([`Consensus::improve_voters`]).
    pub(crate) async fn remove_voter(
        &self,
        voter: VoterName,
    ) -> Result<(BrokerId, u64), QuorumError> {
        let (_changing, members) = self.begin_change().await?;
        let checked = members.check_remove_voter(voter, &self.progress());
        let id = checked.map_err(QuorumError::Admission)?;
        self.leave_it_to_another(id).await?;
        let member = members.nodes[&id].clone();
        self.put(id, Member { is_demoted: true, ..member }).await?;
        self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), true).await?;
        Ok(self.members_done(id))
    }

    /// The members as they are, which change by nobody else while the guard lives.
    async fn begin_change(&self) -> Result<(MutexGuard<'_, ()>, Members), QuorumError> {
        let changing = self.shared.changing_members.lock().await;
        self.check_leads()?;
        self.shared.learn_members(&self.raft.metrics().borrow());
        let mut members = Members::clone(&self.shared.members());
        // The founder tells its directory when another node joins.
        let own = members.nodes.get_mut(&self.shared.own_id);
        if let Some(own) = own.filter(|own| own.directory == DirectoryId::UNASSIGNED) {
            own.directory = self.shared.member().directory;
        }
        Ok((changing, members))
    }

    /// A leader does nothing to its own place: one that is no voter any more would lead on. It hands over, and the
    /// one who asked asks the next leader.
    async fn leave_it_to_another(&self, id: u64) -> Result<(), QuorumError> {
        if id != self.shared.own_id {
            return Ok(());
        }
        self.hand_over().await;
        Err(QuorumError::NotLeader)
    }

    async fn put(&self, id: u64, member: Member) -> Result<(), QuorumError> {
        self.change(ChangeMembers::SetNodes(BTreeMap::from([(id, member)])), true).await
    }

    async fn remove_member(&self, members: &Members, id: u64) -> Result<(), QuorumError> {
        let ids = BTreeSet::from([id]);
        let change = match members.is_voter(id) {
            true => ChangeMembers::RemoveVoters(ids),
            false => ChangeMembers::RemoveNodes(ids),
        };
        self.change(change, false).await
    }

    fn members_done(&self, id: u64) -> (BrokerId, u64) {
        (broker_id(id), self.members_index())
    }

    /// The entry that has the members as they are.
    pub(crate) fn members_index(&self) -> u64 {
        let metrics = self.raft.metrics();
        metrics.borrow().membership_config.log_id().map_or(0, |id| id.index)
    }

    /// Lets learners become voters where the quorum needs them, and finishes what another leader has
    /// begun.
    pub(super) async fn improve_voters(&self) {
        let Ok(_changing) = self.shared.changing_members.try_lock() else { return };
        if self.check_leads().is_err() {
            return;
        }
        let (members, progress) = (self.shared.members(), self.progress());
        let was_removed = |directory| self.removed(directory).is_some();
        let change = members.next_voters_change(&progress, self.shared.voters_max, was_removed);
        let Some(change) = change else { return };
        tracing::info!(%change, "the quorum changes");
        if let Err(error) = self.make(change, &members).await {
            tracing::warn!(%error, "the quorum has not changed");
        }
    }

    async fn make(&self, change: VotersChange, members: &Members) -> Result<(), QuorumError> {
        match change {
            VotersChange::Finish(voters) => {
                self.change(ChangeMembers::ReplaceAllVoters(voters), true).await
            }
            VotersChange::Remove(id) => {
                self.leave_it_to_another(id).await?;
                self.remove_member(members, id).await
            }
            VotersChange::Demote(id) => {
                self.leave_it_to_another(id).await?;
                self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), true).await
            }
            VotersChange::Promote(ids) => self.change(ChangeMembers::AddVoterIds(ids), true).await,
        }
    }

    fn progress(&self) -> AllProgress {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        self.shared.learn_members(&metrics);
        let (members, now) = (self.shared.members(), Instant::now());
        let of = |&id: &u64| (id, self.progress_of(&metrics, id, now));
        AllProgress { own_id: self.shared.own_id, of: members.nodes.keys().map(of).collect() }
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
        self.shared.learn_members(&self.raft.metrics().borrow());
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
                let heard = voters.filter(|id| progress.of.get(id).is_some_and(|of| of.is_heard));
                heard.min_by_key(|id| progress.of[id].lag_entries.unwrap_or(u64::MAX))
            };
            let is_level =
                |id| self.progress().of.get(&id).is_some_and(|of| of.lag_entries == Some(0));
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
