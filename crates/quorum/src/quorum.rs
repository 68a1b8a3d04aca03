//! The quorum as the broker sees it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use logway_metadata::controller::{ControllerCommand, ControllerReply};
use logway_metadata::{Command, MetadataImage};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::directory::LOG_FILE;
use crate::error::QuorumError;
use crate::leader::Leader;
use crate::membership::MembersChange;
use crate::options::QuorumOptions;
use crate::proposer::{Committed, Proposer, SUBMISSIONS_MAX};
use crate::published::{IndexedImage, MetadataIndex, Published};
use crate::raft::{Consensus, Driver};
use crate::status::{MemberStatus, QuorumDescription, QuorumStatus};

/// This node's part in the metadata quorum.
///
/// Reads ([`image`](MetadataQuorum::image)) never wait. Writes ([`submit`](MetadataQuorum::submit))
/// return when their records are on stable storage of a majority and in the image, so that whoever asked
/// sees what it asked for. Any node can be asked: the leader decides.
///
/// Its futures are boxed, so that the consensus is compiled here alone: an `async fn` is compiled by whoever awaits it.
///
/// Must be used within a tokio runtime with timers. Dropping it stops the quorum as a crash would;
/// [`shutdown`](MetadataQuorum::shutdown) also waits until its files are closed. No committed
/// record is lost by either, nor by a power cut.
pub struct MetadataQuorum {
    published: Arc<Published>,
    leader: Leader,
    consensus: Consensus,
    driver: AbortHandle,
}

impl Drop for MetadataQuorum {
    fn drop(&mut self) {
        self.driver.abort();
        self.consensus.give_up_waiting();
    }
}

impl fmt::Debug for MetadataQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataQuorum").finish_non_exhaustive()
    }
}

impl MetadataQuorum {
    /// Where a quorum in the directory `dir` has its log. Without that file
    /// [`open`](MetadataQuorum::open) begins new metadata, unless there is a snapshot.
    pub fn log_path(dir: &Path) -> PathBuf {
        dir.join(LOG_FILE)
    }

    /// Opens this node's part of the quorum.
    ///
    /// | directory | [`Start::Found`](crate::Start::Found) | [`Start::Join`](crate::Start::Join) |
    /// |---|---|---|
    /// | empty                    | founds a cluster of one | waits for what the leader sends |
    /// | never received anything  | [`QuorumError::NotJoined`] | the same |
    /// | has metadata             | is simply back | is simply back |
    ///
    /// Fails with [`QuorumError::Log`] or [`QuorumError::Snapshot`] where one of the two is missing
    /// or older than the other tells.
    ///
    /// A node that is alone leads when this returns, and every record that was ever committed is in
    /// the image. One of several shows what it knew to be committed, and
    /// [`wait_until_current`](MetadataQuorum::wait_until_current) waits for the rest.
    pub fn open(options: QuorumOptions) -> BoxFuture<'static, Result<MetadataQuorum, QuorumError>> {
        Box::pin(async move {
            let published = Arc::new(Published::new());
            let (settings, disk_work) = (options.settings.clone(), options.disk_work.clone());
            let mutation = options.mutation;
            let consensus = Consensus::open(options, published.clone()).await?;
            let (submissions, receiver) = mpsc::channel(SUBMISSIONS_MAX);
            let proposer = Proposer {
                consensus: consensus.clone(),
                published: published.clone(),
                settings,
                disk_work,
                mutation,
            };
            tokio::spawn(proposer.run(receiver));
            let leader = Leader::new(consensus.clone(), published.clone(), submissions);
            let driver = Driver::new(consensus.clone(), leader.clone());
            let driver = tokio::spawn(driver.run()).abort_handle();
            Ok(MetadataQuorum { published, leader, consensus, driver })
        })
    }

    /// The newest image.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.published.image()
    }

    /// The newest image, with the index of the last commit in it.
    pub fn indexed_image(&self) -> IndexedImage {
        self.published.indexed_image()
    }

    /// Tells of new images: when its value has changed, [`image`](MetadataQuorum::image) returns the
    /// image of that index or a newer one.
    pub fn watch(&self) -> watch::Receiver<MetadataIndex> {
        self.published.watch()
    }

    /// Has the controller judge a command and commits what it decides, wherever the controller is.
    ///
    /// Fails with [`QuorumError::Refused`] if the controller refuses the whole command, and with
    /// [`QuorumError::DiskFull`], [`QuorumError::WaitsForSpace`] or [`QuorumError::Stopped`] if nothing
    /// can be committed. In a cluster of several nodes it looks for a leader with a majority for as
    /// long as [`QuorumOptions::submit_timeout`] says, and then fails with [`QuorumError::NotLeader`] or
    /// [`QuorumError::NoMajority`] where nothing was committed, and with
    /// [`QuorumError::OutcomeUnknown`] where nobody can tell. No command is committed twice.
    pub async fn submit<C: Command>(&self, command: C) -> Result<Committed<C::Reply>, QuorumError> {
        let committed = self.command(command.into()).await?;
        Ok(of_its_kind::<C>(committed))
    }

    /// As [`MetadataQuorum::submit`], but only if this node is the controller: for what it decides by what it
    /// alone has heard. To another controller that says nothing, so it is never sent there.
    ///
    /// Fails with [`QuorumError::NotLeader`] or [`QuorumError::OutcomeUnknown`] if another node leads.
    pub async fn submit_as_controller<C: Command>(
        &self,
        command: C,
    ) -> Result<Committed<C::Reply>, QuorumError> {
        let committed = self.own_command(command.into()).await?;
        Ok(of_its_kind::<C>(committed))
    }

    // Not generic, as `submit` is, and so compiled here.
    fn command(
        &self,
        command: ControllerCommand,
    ) -> BoxFuture<'_, Result<Committed<ControllerReply>, QuorumError>> {
        Box::pin(self.leader.command(command))
    }

    fn own_command(
        &self,
        command: ControllerCommand,
    ) -> BoxFuture<'_, Result<Committed<ControllerReply>, QuorumError>> {
        Box::pin(self.leader.own_command(command))
    }

    /// Answers a message from another node, whatever its bytes are.
    ///
    /// To be called where messages arrive, without a queue before it: elections go by when a leader was
    /// last heard.
    pub fn handle<'a>(&'a self, message: &'a [u8]) -> BoxFuture<'a, Vec<u8>> {
        Box::pin(self.leader.handle(message))
    }

    /// Admits or removes a node, or gives or takes a vote, wherever the leader is. Returns the node's number when that is committed
    /// and this node knows it.
    pub fn change_members(
        &self,
        change: MembersChange,
    ) -> BoxFuture<'_, Result<logway_model::BrokerId, QuorumError>> {
        Box::pin(self.leader.change_members(change))
    }

    /// Everybody who belongs to the quorum, by number.
    pub fn members(&self) -> Vec<MemberStatus> {
        self.consensus.member_status()
    }

    /// How the quorum is, as its leader knows: it alone knows how far the others are. Looks for a leader for so long, and
    /// fails as [`submit`](MetadataQuorum::submit) does. What this node knows itself is
    /// [`own_description`](MetadataQuorum::own_description).
    pub fn describe(
        &self,
        patience: Duration,
    ) -> BoxFuture<'_, Result<QuorumDescription, QuorumError>> {
        Box::pin(self.leader.describe(patience))
    }

    /// How the quorum is, as this node knows.
    pub fn own_description(&self) -> QuorumDescription {
        self.consensus.describe()
    }

    /// Waits until this node knows that it was removed from the cluster, which may never be. Returns that as an error.
    pub fn removed(&self) -> BoxFuture<'_, QuorumError> {
        Box::pin(self.consensus.wait_until_removed())
    }

    /// Waits until everything that was committed before this was called is in the image.
    pub fn wait_until_current(&self) -> BoxFuture<'_, Result<MetadataIndex, QuorumError>> {
        Box::pin(self.leader.wait_until_current())
    }

    /// Hands the leadership to another voter, if this node leads and one is heard: before a clean stop, so
    /// that nobody has to wait for an election timeout. Returns whether another node leads.
    pub fn hand_over(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.consensus.hand_over())
    }

    /// Who leads, and how far everybody is.
    pub fn status(&self) -> QuorumStatus {
        self.consensus.status()
    }

    /// Why nothing can be committed any more, if the quorum has stopped. A stopped quorum does not
    /// start again by itself; its last image stays readable.
    pub fn check_running(&self) -> Result<(), QuorumError> {
        self.consensus.check_running()
    }

    /// Writes a snapshot now and drops the log before it, instead of waiting for the next
    /// interval. Returns when the snapshot is on stable storage.
    pub fn snapshot(&self) -> BoxFuture<'_, Result<(), QuorumError>> {
        Box::pin(self.consensus.snapshot())
    }

    /// Stops, and returns when the files are closed. What is submitted from now on fails with
    /// [`QuorumError::Stopped`]; the last image stays readable.
    pub fn shutdown(&self) -> BoxFuture<'_, Result<(), QuorumError>> {
        Box::pin(async move {
            self.driver.abort();
            self.consensus.shutdown().await
        })
    }
}

fn of_its_kind<C: Command>(committed: Committed<ControllerReply>) -> Committed<C::Reply> {
    let Committed { reply, index } = committed;
    let Ok(reply) = C::Reply::try_from(reply) else {
        unreachable!("the controller answers a command with its own kind of reply")
    };
    Committed { reply, index }
}
