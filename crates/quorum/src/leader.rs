//! The way to the leader, wherever it is.

use std::sync::Arc;
use std::time::Duration;

use logway_metadata::MetadataLevel;
use logway_metadata::controller::{
    ControllerCommand, ControllerReply, FinalizeMetadataLevel, RemoveBroker,
};
use logway_model::{BrokerId, DirectoryId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::error::QuorumError;
use crate::membership::{
    AdmissionRefusal, JoinRequest, Known, MembersChange, Replacement, VoterName,
};
use crate::proposer::{Committed, Forwarded, Submission};
use crate::published::{MetadataIndex, Published};
use crate::raft::{Consensus, ForLeader, Handled};
use crate::status::QuorumDescription;

/// Sends commands to the leader: this node's own proposer, or another node.
#[derive(Clone)]
pub(crate) struct Leader {
    consensus: Consensus,
    published: Arc<Published>,
    submissions: mpsc::Sender<Submission>,
}

impl Leader {
    pub(crate) fn new(
        consensus: Consensus,
        published: Arc<Published>,
        submissions: mpsc::Sender<Submission>,
    ) -> Leader {
        Leader { consensus, published, submissions }
    }

    /// Has a command judged and committed, once, and waits until this node's image has it.
    ///
    /// It is sent again while nobody can say that it was refused, under the same id: what the first
    /// leader may have committed, the next one finds in its memory ([`crate::command_id`]).
    pub(crate) async fn command(
        &self,
        command: ControllerCommand,
    ) -> Result<Committed<ControllerReply>, QuorumError> {
        let mut forwarded = self.forwarded(command);
        if self.consensus.is_alone() {
            return self.submit_here(forwarded).await;
        }
        let deadline = Instant::now() + self.consensus.shared().submit_timeout();
        let mut may_be_done = false;
        loop {
            let attempt = self.attempt(&forwarded, deadline).await;
            let error = match attempt {
                Ok(committed) => {
                    self.wait_for(committed.index, deadline).await?;
                    return Ok(committed);
                }
                Err(error) => error,
            };
            match error {
                QuorumError::OutcomeUnknown => may_be_done = true,
                // This node was too far behind to ask in a way that can be answered.
                QuorumError::Forgotten if !may_be_done => {
                    forwarded = self.forwarded(forwarded.command);
                }
                QuorumError::Forgotten => return Err(QuorumError::OutcomeUnknown),
                QuorumError::Removed { .. } if may_be_done => {
                    return Err(QuorumError::OutcomeUnknown);
                }
                ref error if error.is_retriable() => {}
                error => return Err(error),
            }
            if Instant::now() >= deadline {
                let unknown = QuorumError::OutcomeUnknown;
                return Err(if may_be_done { unknown } else { error });
            }
            self.pause(deadline).await;
        }
    }

    /// Has a command judged and committed by this node as the leader, or not at all.
    pub(crate) async fn own_command(
        &self,
        command: ControllerCommand,
    ) -> Result<Committed<ControllerReply>, QuorumError> {
        let deadline = Instant::now() + self.consensus.shared().submit_timeout();
        let committed = self.submit_in_time(self.forwarded(command), deadline).await?;
        self.wait_for(committed.index, deadline).await?;
        Ok(committed)
    }

    /// A command under an id of its own, with what this node knew then.
    fn forwarded(&self, command: ControllerCommand) -> Forwarded {
        let id = self.consensus.shared().next_command_id();
        let since = self.published.indexed_image().index.0;
        Forwarded { id, since, command }
    }

    /// Waits a moment, or until there is another leader.
    async fn pause(&self, deadline: Instant) {
        let mut changes = self.consensus.shared().watch_leadership();
        let until = deadline.min(Instant::now() + self.consensus.shared().retry_pause());
        _ = timeout_at(until, changes.changed()).await;
    }

    /// Sends a command to the leader that is known now.
    async fn attempt(
        &self,
        forwarded: &Forwarded,
        deadline: Instant,
    ) -> Result<Committed<ControllerReply>, QuorumError> {
        let leader = self.consensus.known_leader()?;
        if self.consensus.is_own_id(leader) {
            return self.submit_in_time(forwarded.clone(), deadline).await;
        }
        let asked = self.consensus.forward_command(leader, forwarded, deadline).await;
        asked.map(|(reply, index)| Committed { reply, index: MetadataIndex(index) })
    }

    /// As [`Leader::submit_here`], but not for ever, as it would be on a disk that hangs. The proposer knows more than that the
    /// time is over, so it has a little longer.
    async fn submit_in_time(
        &self,
        forwarded: Forwarded,
        deadline: Instant,
    ) -> Result<Committed<ControllerReply>, QuorumError> {
        let until = deadline + self.consensus.shared().submit_timeout() / 5;
        let submitted = timeout_at(until, self.submit_here(forwarded)).await;
        submitted.unwrap_or(Err(QuorumError::OutcomeUnknown))
    }

    /// Has this node's proposer judge a command.
    async fn submit_here(
        &self,
        forwarded: Forwarded,
    ) -> Result<Committed<ControllerReply>, QuorumError> {
        let (answer, outcome) = oneshot::channel();
        let stopped = || QuorumError::Stopped { reason: "it is shutting down".to_owned() };
        let submission = Submission { forwarded, answer };
        self.submissions.send(submission).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }

    /// Waits until this node's image has an entry.
    async fn wait_for(&self, index: MetadataIndex, deadline: Instant) -> Result<(), QuorumError> {
        match timeout_at(deadline, self.published.wait_for(index)).await {
            Ok(()) => Ok(()),
            // It is committed, but not to be seen here: a node that is cut off.
            Err(_) => Err(QuorumError::OutcomeUnknown),
        }
    }

    /// See [`MetadataQuorum::wait_until_current`](crate::MetadataQuorum::wait_until_current).
    pub(crate) async fn wait_until_current(&self) -> Result<MetadataIndex, QuorumError> {
        let deadline = Instant::now() + self.consensus.shared().submit_timeout();
        loop {
            let error = match self.consensus.committed_index(deadline).await {
                Ok(index) => {
                    let index = MetadataIndex(index);
                    return self.wait_for(index, deadline).await.map(|()| index);
                }
                Err(error) => error,
            };
            if !error.is_retriable() && !matches!(error, QuorumError::OutcomeUnknown)
                || Instant::now() >= deadline
            {
                return Err(error);
            }
            self.pause(deadline).await;
        }
    }

    /// See [`MetadataQuorum::change_members`](crate::MetadataQuorum::change_members). A change of the members
    /// can be repeated: who is a member as it says is one already.
    pub(crate) async fn change_members(
        &self,
        change: MembersChange,
    ) -> Result<BrokerId, QuorumError> {
        let deadline = Instant::now() + self.consensus.shared().submit_timeout();
        let change = match self.with_directory(&change).await {
            Err(QuorumError::Removed { id }) if change.removes(id) => return Ok(id),
            named => named?,
        };
        let mut may_be_done = false;
        loop {
            let done = match self.consensus.known_leader() {
                Ok(id) if self.consensus.is_own_id(id) => self.change_members_here(&change).await,
                Ok(id) => self.consensus.forward_members(id, &change, deadline).await,
                Err(error) => Err(error),
            };
            let error = match done {
                // Nobody sends a node what is committed after its own removal.
                Ok((id, _)) if change.removes(id) && self.is_own(id) => return Ok(id),
                Ok((id, index)) => {
                    self.wait_for(MetadataIndex(index), deadline).await?;
                    return Ok(id);
                }
                Err(QuorumError::Removed { id }) if change.removes(id) => return Ok(id),
                Err(error) => error,
            };
            if let QuorumError::Admission(refusal) = &error
                && may_be_done
                && let Some(id) = done_before(&change, refusal)
            {
                return Ok(id);
            }
            let is_unknown = matches!(error, QuorumError::OutcomeUnknown);
            may_be_done |= is_unknown;
            // Who was admitted a moment ago has caught up in a moment.
            let is_early =
                matches!(error, QuorumError::Admission(AdmissionRefusal::NotReady { .. }));
            let may_work = error.is_retriable() || is_unknown || is_early;
            if !may_work || Instant::now() >= deadline {
                return Err(error);
            }
            self.pause(deadline).await;
        }
    }

    /// A removal with the directory of the node that has the number now.
    async fn with_directory(&self, change: &MembersChange) -> Result<MembersChange, QuorumError> {
        let &MembersChange::Remove { id, directory: None } = change else {
            return Ok(change.clone());
        };
        self.wait_until_current().await?;
        let mut members = self.consensus.member_status().into_iter();
        let member = members.find(|member| member.id == id).map(|member| member.directory);
        let directory = member.or_else(|| self.registered_directory(id));
        Ok(MembersChange::Remove { id, directory })
    }

    /// The directory with which a broker has registered.
    fn registered_directory(&self, id: BrokerId) -> Option<DirectoryId> {
        let image = self.published.image();
        image.broker(id).and_then(|broker| broker.metadata_directory())
    }

    /// Changes the members as the leader.
    async fn change_members_here(
        &self,
        change: &MembersChange,
    ) -> Result<(BrokerId, u64), QuorumError> {
        match change {
            MembersChange::Join(request) => self.admit(request).await,
            MembersChange::Remove { id, directory } => self.remove(*id, *directory, false).await,
            MembersChange::AddVoter(voter) => self.consensus.add_voter(*voter).await,
            MembersChange::RemoveVoter(voter) => self.consensus.remove_voter(*voter).await,
        }
    }

    /// Admits a node. A cluster that gets its second node is from then on at the newest metadata level: nodes that know
    /// one node only cannot read its log.
    async fn admit(&self, request: &JoinRequest) -> Result<(BrokerId, u64), QuorumError> {
        let image = self.published.image();
        // A node that is alone and tells its own address is alone still.
        let is_another = !request.id.is_some_and(|id| self.is_own(id));
        if is_another && image.metadata_level() < MetadataLevel::CLUSTER {
            let command = FinalizeMetadataLevel { level: MetadataLevel::NEWEST };
            self.submit_here(self.forwarded(command.into())).await?;
        }
        if request.replaces {
            self.make_way(request).await?;
        }
        let image = self.published.image();
        let removed = image.removed_brokers().iter().map(|removed| removed.id);
        let taken = image.brokers().map(|broker| broker.id).chain(removed);
        self.consensus.admit(request, taken.filter_map(|id| u64::try_from(id.0).ok())).await
    }

    /// Removes the node whose place another one takes, as far as that was not done before. Its replicas have left each ISR and may
    /// not lead when the other one gets the number: an empty directory must not be taken for that of the old node.
    async fn make_way(&self, request: &JoinRequest) -> Result<(), QuorumError> {
        let image = self.published.image();
        let is_known = |id: BrokerId| match image.broker(id) {
            Some(_) => Known::Broker,
            None if image.removed_brokers().iter().any(|it| it.id == id) => Known::Removed,
            None => Known::Never,
        };
        let mut checked = self.consensus.check_replacement(request, is_known).await;
        if let Err(QuorumError::Admission(AdmissionRefusal::NotReplaced { .. })) = checked {
            // One that has died a moment ago was heard a moment ago.
            tokio::time::sleep(self.consensus.shared().silence_of_dead()).await;
            checked = self.consensus.check_replacement(request, is_known).await;
        }
        match checked? {
            Replacement::Ready => Ok(()),
            Replacement::Remove(id) => match self.remove(id, None, true).await {
                Err(QuorumError::Refused(error)) => {
                    let reason = error.message;
                    Err(QuorumError::Admission(AdmissionRefusal::NotReplaced { id, reason }))
                }
                removed => removed.map(|_| ()),
            },
        }
    }

    fn is_own(&self, id: BrokerId) -> bool {
        u64::try_from(id.0).is_ok_and(|id| self.consensus.is_own_id(id))
    }

    /// Removes a node for good: first the broker, then the member. What has committed the first is decided. A leader
    /// that is stopped in between leaves a member whose directory was removed, and the next one goes on. `is_replaced` says
    /// whether it is refused while the broker is needed.
    async fn remove(
        &self,
        id: BrokerId,
        asked: Option<DirectoryId>,
        is_replaced: bool,
    ) -> Result<(BrokerId, u64), QuorumError> {
        let registered = self.registered_directory(id);
        let member = match self.consensus.check_removal(id, asked, registered).await {
            // It was done before, and the number is that of another node now.
            Err(QuorumError::Admission(AdmissionRefusal::OtherDirectory { given, .. }))
                if self.published.image().removed_brokers().by_directory(given).is_some() =>
            {
                return Ok((id, self.consensus.members_index()));
            }
            checked => checked?,
        };
        let directory = member.as_ref().map(|member| member.directory);
        let command = RemoveBroker { id, directory, is_replaced };
        let committed = self.submit_here(self.forwarded(command.into())).await?;
        let index = match &member {
            Some(member) => self.consensus.remove(member).await?,
            None => committed.index.0,
        };
        Ok((id, index.max(committed.index.0)))
    }

    /// See [`MetadataQuorum::describe`](crate::MetadataQuorum::describe).
    pub(crate) async fn describe(
        &self,
        patience: Duration,
    ) -> Result<QuorumDescription, QuorumError> {
        let deadline = Instant::now() + patience;
        loop {
            let described = match self.consensus.known_leader() {
                Ok(id) if self.consensus.is_own_id(id) => {
                    self.consensus.check_leads().map(|()| self.consensus.describe())
                }
                Ok(id) => self.consensus.forward_describe(id, deadline).await,
                Err(error) => Err(error),
            };
            let error = match described {
                Ok(described) => return Ok(described),
                Err(error) => error,
            };
            let may_work = error.is_retriable() || matches!(error, QuorumError::OutcomeUnknown);
            if !may_work || Instant::now() >= deadline {
                return Err(error);
            }
            self.pause(deadline).await;
        }
    }

    /// See [`MetadataQuorum::handle`](crate::MetadataQuorum::handle).
    pub(crate) async fn handle(&self, message: &[u8]) -> Vec<u8> {
        match self.consensus.handle(message).await {
            Handled::Replied(reply) => reply,
            Handled::ForLeader(ForLeader::Command(forwarded)) => {
                let done = self.submit_here(forwarded).await;
                self.consensus.command_reply(done.map(|done| (done.reply, done.index.0)))
            }
            Handled::ForLeader(ForLeader::Members(change)) => {
                self.consensus.members_reply(self.change_members_here(&change).await)
            }
            Handled::ForLeader(ForLeader::Describe) => self.consensus.describe_reply(),
        }
    }
}

/// The node that a change is about, if a refusal says that what was asked for is so: since an attempt whose outcome was
/// not known.
fn done_before(change: &MembersChange, refusal: &AdmissionRefusal) -> Option<BrokerId> {
    match (change, refusal) {
        (MembersChange::Remove { id, .. }, AdmissionRefusal::Unknown { .. })
        | (MembersChange::AddVoter(VoterName { id, .. }), AdmissionRefusal::IsVoter { .. })
        | (MembersChange::RemoveVoter(VoterName { id, .. }), AdmissionRefusal::NoVoter { .. }) => {
            Some(*id)
        }
        _ => None,
    }
}
