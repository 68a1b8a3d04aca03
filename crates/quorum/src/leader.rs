//! The way to the leader, wherever it is.

use std::sync::Arc;

use logway_metadata::MetadataLevel;
use logway_metadata::controller::{ControllerCommand, ControllerReply, FinalizeMetadataLevel};
use logway_model::BrokerId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::error::QuorumError;
use crate::membership::MembersChange;
use crate::proposer::{Committed, Forwarded, Submission};
use crate::published::{MetadataIndex, Published};
use crate::raft::{Consensus, ForLeader, Handled};

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
        let Some(leader) = self.consensus.leader() else { return Err(QuorumError::NotLeader) };
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
        let mut may_be_done = false;
        loop {
            let done = match self.consensus.leader() {
                Some(id) if self.consensus.is_own_id(id) => self.change_members_here(&change).await,
                Some(id) => self.consensus.forward_members(id, &change, deadline).await,
                None => Err(QuorumError::NotLeader),
            };
            let error = match done {
                Ok((id, index)) => {
                    self.wait_for(MetadataIndex(index), deadline).await?;
                    return Ok(id);
                }
                // What was asked for is so, since an attempt before this one.
                Err(QuorumError::Admission(crate::AdmissionRefusal::Unknown { id }))
                    if may_be_done && matches!(change, MembersChange::Remove { .. }) =>
                {
                    return Ok(id);
                }
                Err(error) => error,
            };
            let is_unknown = matches!(error, QuorumError::OutcomeUnknown);
            may_be_done |= is_unknown;
            if !(error.is_retriable() || is_unknown) || Instant::now() >= deadline {
                return Err(error);
            }
            self.pause(deadline).await;
        }
    }

    /// Changes the members as the leader. A cluster that gets its second node is from then on at the
    /// newest metadata level: nodes that know one node only cannot read its log.
    async fn change_members_here(
        &self,
        change: &MembersChange,
    ) -> Result<(BrokerId, u64), QuorumError> {
        let image = self.published.image();
        // A node that is alone and tells its own address is alone still.
        let is_own = |id| self.consensus.is_own_id(id);
        let joins = matches!(change, MembersChange::Join(request)
            if !request.id.is_some_and(|id| u64::try_from(id.0).is_ok_and(is_own)));
        if joins && image.metadata_level() < MetadataLevel::CLUSTER {
            let command = FinalizeMetadataLevel { level: MetadataLevel::NEWEST };
            self.submit_here(self.forwarded(command.into())).await?;
        }
        let image = self.published.image();
        let brokers = image.brokers().filter_map(|broker| u64::try_from(broker.id.0).ok());
        self.consensus.change_members(change, brokers).await
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
        }
    }
}
