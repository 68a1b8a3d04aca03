//! Consensus, by openraft. Its types are used in this module and nowhere else.
//!
//! openraft 0.9 replicates the log, counts votes and changes members. What it lacks is ours (CLUSTER.md,
//! section 1, and the modules named here):
//!
//! - *When to elect* ([`driver`]). openraft's ticker is off. A node that has heard no leader for a time
//!   that is drawn anew each time asks the other voters whether they would vote for it, and only then
//!   stands for election (pre-vote: Ongaro's thesis, 9.6). The answer goes by the log and by
//!   whether the voter hears a leader, and *not by terms*: a pre-vote that compares terms as well can leave
//!   a cluster without a leader for ever, because it does not spread the higher term
//!   (openraft#1796, canonical/raft#142, redpanda#2071).
//! - *A leader without a majority is silent* ([`network`]). etcd's leader steps down (CheckQuorum); openraft's
//!   goes on, and its heartbeats keep the one node that it reaches from voting for anyone else
//!   (openraft#2080). Ours sends nothing but heartbeats that say so, until a majority answers again.
//! - *Leases* ([`receive`]). A voter that hears a leader votes for nobody else, measured where messages
//!   arrive. So a leader that a majority has heard within the lease is the only one.
//! - *Handing over* ([`members`]): a leader that stops tells the voter with the longest log to stand for
//!   election. With three voters that takes two syncs: the old leader's own vote is enough.
//! - *Snapshots as files* ([`snapshot_file`], [`network`]).
//!
//! ## What the storage must never do
//!
//! openraft stops for good when its storage fails, and nothing here unwraps such a failure. A vote and an
//! entry are on stable storage before anybody hears of them; the log drops nothing that is not in a
//! snapshot on stable storage ([`log_store`]).

mod batch;
mod driver;
mod forward;
mod history;
mod log_store;
mod members;
mod message;
mod network;
mod receive;
mod shared;
mod snapshot_data;
mod snapshot_file;
mod state_machine;
#[cfg(test)]
mod storage_suite;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use logway_metadata::MetadataRecord;
use logway_model::{LeaderEpoch, Offset};
use openraft::error::{ClientWriteError, Fatal, RaftError};
use openraft::{AnyError, Config, Raft, ServerState, SnapshotPolicy};
use tokio::sync::watch;
use tokio::time::Instant;

use self::batch::{Applied, Batch};
use self::history::{check_history, step_down};
use self::log_store::LogStore;
use self::network::Peers;
use self::shared::Shared;
use self::snapshot_data::SnapshotData;
use self::state_machine::StateMachine;
use crate::command_id::CommittedCommand;
use crate::directory::Directory;
use crate::error::QuorumError;
use crate::log_file::LogFile;
use crate::membership::{Member, broker_id};
use crate::options::{Mutation, QuorumOptions, Start};
use crate::published::{MetadataIndex, Published};
use crate::space::SpaceWait;
use crate::status::{QuorumStatus, VoterStatus};

pub(crate) use self::driver::Driver;
pub(crate) use self::forward::{JoinAnswer, ask_to_join};
pub(crate) use self::receive::{ForLeader, Handled};

openraft::declare_raft_types!(
    /// What openraft is told about our types.
    pub(crate) TypeConfig:
        D = Batch,
        R = Applied,
        NodeId = u64,
        Node = Member,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = SnapshotData,
);

type Entry = openraft::Entry<TypeConfig>;
type LogId = openraft::LogId<u64>;
type Vote = openraft::Vote<u64>;
type StoredMembership = openraft::StoredMembership<u64, Member>;
type Membership = openraft::Membership<u64, Member>;
type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;
type Metrics = openraft::RaftMetrics<u64, Member>;
type StorageError = openraft::StorageError<u64>;

/// openraft's own ticker and its timeouts are not used; the ticker cannot be left out, so it gets a long
/// sleep. The driver and the network have timers of their own.
const NEVER_MS: u64 = 24 * 60 * 60 * 1_000;

/// A running Raft node. Clones are handles on the same node.
#[derive(Clone)]
pub(crate) struct Consensus {
    raft: Raft<TypeConfig>,
    shared: Arc<Shared>,
    published: Arc<Published>,
    /// Not an owner: the files are closed when the log and the state machine let them go.
    directory: Weak<Directory>,
    path: PathBuf,
    space: Arc<SpaceWait>,
    snapshot_interval_entries: u64,
    /// Its sender goes when the files are closed.
    closed: watch::Receiver<()>,
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// It is in the image of this index.
    Committed(MetadataIndex),
    /// Other entries came in between, so it has no effect.
    Overtaken,
}

impl Consensus {
    /// Starts the node on its directory. A node that is alone leads when this returns, with all entries
    /// applied; one of several has applied what it knew to be committed.
    pub(crate) async fn open(
        options: QuorumOptions,
        published: Arc<Published>,
    ) -> Result<Consensus, QuorumError> {
        let node_id = options.settings.node_id;
        let raft_id = u64::try_from(node_id.0).expect("the setting node.id is not negative");
        let snapshot_interval_entries = options.snapshot_interval_entries;
        let entries_kept = options.entries_kept_behind_snapshot;
        let (start, mutation) = (options.start, options.mutation);
        let on_events = options.on_events.clone();
        let shared = Arc::new(Shared::new(&options, raft_id));
        let disk_work = options.disk_work.clone();
        let (for_files, for_machine) = (disk_work.clone(), published.clone());
        let (directory, closed, log, state_machine, has_joined) = disk_work
            .try_run(move || {
                let (directory, closed) = Directory::open(options.fs, &options.dir)?;
                let log_file = LogFile::open(directory.clone(), node_id, start)?;
                let has_joined = log_file.has_joined()?;
                let log = LogStore::new(log_file, for_files.clone()).with_mutation(mutation);
                let machine =
                    StateMachine::open(directory.clone(), for_machine, log.clone(), for_files)?;
                Ok((
                    directory,
                    closed,
                    log,
                    machine.with_mutation(mutation).telling(on_events),
                    has_joined,
                ))
            })
            .await?;
        let mut state_machine = state_machine;
        let log = log.with_progress(Arc::clone(&shared.disk_progress));
        let mut log = match mutation {
            Some(Mutation::PurgesEarly) => log,
            _ => log.with_snapshots(state_machine.snapshot_file()),
        };
        check_history(&mut log, &mut state_machine, &directory.path).await?;
        if mutation != Some(Mutation::LeadsOnInItsTerm) {
            step_down(&mut log, &mut state_machine, raft_id).await?;
        }
        let (path, space) = (directory.path.clone(), Arc::clone(&directory.space));
        let directory = Arc::downgrade(&directory);
        let config = Arc::new(config(&shared, entries_kept));
        let raft = Raft::new(raft_id, config, Peers(shared.clone()), log, state_machine)
            .await
            .map_err(stopped)?;
        let consensus = Consensus {
            raft,
            shared,
            published,
            directory,
            path,
            space,
            snapshot_interval_entries,
            closed,
        };
        consensus.begin(start, has_joined, mutation).await?;
        consensus.space.begin();
        Ok(consensus)
    }

    /// Founds a cluster if that is to be done, and leads one of one.
    async fn begin(
        &self,
        start: Start,
        has_joined: bool,
        mutation: Option<Mutation>,
    ) -> Result<(), QuorumError> {
        let is_initialized = self.raft.is_initialized().await.map_err(stopped)?;
        let may_found = mutation == Some(Mutation::FoundsWhereItJoins)
            || (start == Start::Found && !has_joined);
        if !is_initialized && !may_found {
            if start == Start::Found {
                return Err(QuorumError::NotJoined { path: self.path.clone() });
            }
            return Ok(());
        }
        if !is_initialized {
            let member = self.shared.member();
            let founder = BTreeMap::from([(self.shared.own_id, member)]);
            let initialized = self.raft.initialize(founder).await;
            initialized.map_err(|error| QuorumError::Stopped { reason: error.to_string() })?;
        }
        self.shared.learn_members(&self.raft.metrics().borrow());
        // The metrics of a node that has just been founded come a moment later.
        let is_alone = !is_initialized || self.shared.is_alone();
        if is_alone { self.lead().await } else { Ok(()) }
    }

    /// Makes the only voter the leader, at once instead of after a timeout.
    async fn lead(&self) -> Result<(), QuorumError> {
        let is_initialized = self.raft.is_initialized().await.map_err(stopped)?;
        let state = self.raft.metrics().borrow().state;
        if is_initialized && !matches!(state, ServerState::Leader | ServerState::Candidate) {
            self.raft.trigger().elect().await.map_err(stopped)?;
        }
        self.wait_until("this node led", |metrics| {
            let applied = metrics.last_applied.map(|id| id.index);
            metrics.state == ServerState::Leader && applied == metrics.last_log_index
        })
        .await?;
        self.shared.learn_members(&self.raft.metrics().borrow());
        Ok(())
    }

    /// Commits records, and returns when they are applied. `base` is the entry that made the image
    /// they were judged against; it is left out in a cluster of one.
    pub(crate) async fn commit(
        &self,
        base: Option<u64>,
        records: Vec<MetadataRecord>,
        commands: Vec<CommittedCommand>,
    ) -> Result<CommitOutcome, QuorumError> {
        match self.raft.client_write(Batch { base, records, commands }).await {
            Ok(written) => Ok(match written.data {
                Applied::Done => CommitOutcome::Committed(MetadataIndex(written.log_id.index)),
                Applied::Overtaken => CommitOutcome::Overtaken,
            }),
            Err(RaftError::Fatal(error)) => Err(stopped(error)),
            // It was not appended, or its entry has made way for another leader's.
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
                Err(QuorumError::NotLeader)
            }
            Err(error @ RaftError::APIError(ClientWriteError::ChangeMembershipError(_))) => {
                Err(QuorumError::Stopped { reason: error.to_string() })
            }
        }
    }

    /// Whether this node may judge commands: it leads, has applied everything that was committed before
    /// it did, is not about to stop, and a majority has heard it within an election timeout. Who votes
    /// alone is a majority and needs to hear nobody (KAFKA-16144).
    pub(crate) fn check_leads(&self) -> Result<(), QuorumError> {
        self.check_running()?;
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let leads = metrics.state == ServerState::Leader && !self.shared.is_transferring();
        // The first entry of a leader is its own and empty: all before it is applied then.
        let has_caught_up =
            metrics.last_applied.is_some_and(|id| id.leader_id.term == metrics.current_term);
        if !leads || !has_caught_up {
            return Err(QuorumError::NotLeader);
        }
        let timeout = self.shared.timings.election_timeout_max;
        match self.shared.has_majority_since(&metrics, Instant::now() - timeout) {
            true => Ok(()),
            false => Err(QuorumError::NoMajority),
        }
    }

    /// Whether this node is the only one that can lead now: a majority has heard it within the lease.
    /// Its image then has all that a leader has answered. Another node's may have more: see
    /// [`Consensus::own_committed_index`].
    pub(crate) fn check_lease(&self) -> Result<(), QuorumError> {
        self.check_leads()?;
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        match self.shared.has_majority_since(&metrics, Instant::now() - self.shared.timings.lease) {
            true => Ok(()),
            false => Err(QuorumError::NoMajority),
        }
    }

    /// The index up to which everything is committed, by this leader's word: what it has applied, or has told others to
    /// apply, who may have done so before.
    pub(crate) fn own_committed_index(&self) -> Result<u64, QuorumError> {
        // First: a leader that has applied its first entry has all that others have committed before it.
        self.check_lease()?;
        Ok(self.published.indexed_image().index.0.max(self.shared.told_committed()))
    }

    /// Waits until this node may not lead any more, or hears no majority.
    pub(crate) async fn leads_no_more(&self) {
        if self.shared.is_alone() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(self.shared.timings.heartbeat).await;
            let is_leader = self.raft.metrics().borrow().state == ServerState::Leader;
            if !is_leader || matches!(self.check_leads(), Err(QuorumError::NoMajority)) {
                return;
            }
        }
    }

    /// Whether this is the only node, for which nobody else can lead.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.is_alone()
    }

    /// What this node shares with its network.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The leader that this node knows, itself perhaps.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.raft.metrics().borrow().current_leader
    }

    /// As [`Consensus::leader`]; the error is why there is nobody to ask.
    pub(crate) fn known_leader(&self) -> Result<u64, QuorumError> {
        self.check_running()?;
        self.leader().ok_or(QuorumError::NotLeader)
    }

    /// Tells whether commits wait for space on the disk.
    pub(crate) fn watch_space(&self) -> watch::Receiver<bool> {
        self.space.watch()
    }

    /// What is said of a command while commits wait for space.
    pub(crate) fn waits_for_space(&self) -> QuorumError {
        QuorumError::WaitsForSpace { path: self.path.clone() }
    }

    /// Where the quorum's files are.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Waits for space no longer. On a full disk this ends the node.
    pub(crate) fn give_up_waiting(&self) {
        self.space.end();
    }

    /// Fails where the disk is so full that only what makes space should be committed.
    pub(crate) fn check_space(&self) -> Result<(), QuorumError> {
        match self.directory.upgrade() {
            Some(directory) => directory.check_space(),
            None => Err(QuorumError::Stopped { reason: "its files are closed".to_owned() }),
        }
    }

    /// Why the node has stopped, if it has.
    pub(crate) fn check_running(&self) -> Result<(), QuorumError> {
        match self.shared.removed() {
            Some(id) => Err(QuorumError::Removed { id }),
            None => self.raft.metrics().borrow().running_state.clone().map_err(stopped),
        }
    }

    /// Waits until this node knows that it was removed from the cluster, which may never be.
    pub(crate) async fn wait_until_removed(&self) -> QuorumError {
        QuorumError::Removed { id: self.shared.wait_until_removed().await }
    }

    /// Who leads, and how far everybody is.
    pub(crate) fn status(&self) -> QuorumStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        self.shared.learn_members(&metrics);
        let voter = |id: u64| VoterStatus { id: broker_id(id), log_end: log_end(&metrics, id) };
        QuorumStatus {
            leader: metrics.current_leader.map(broker_id),
            epoch: LeaderEpoch(i32::try_from(metrics.current_term).unwrap_or(i32::MAX)),
            high_watermark: end_after(metrics.last_applied.map(|id| id.index)),
            voters: self.shared.members().settled_voters.iter().copied().map(voter).collect(),
        }
    }

    /// Begins a snapshot if enough was applied since the last one.
    ///
    /// Not left to openraft's policy, because a snapshot that fails stops the node: on a full disk
    /// the log goes on without one.
    pub(crate) async fn snapshot_if_due(&self) -> Result<(), QuorumError> {
        let index = |id: Option<LogId>| id.map_or(0, |id| id.index);
        let waiting = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow();
            index(metrics.last_applied).saturating_sub(index(metrics.snapshot))
        };
        if waiting < self.snapshot_interval_entries || self.check_space().is_err() {
            return Ok(());
        }
        self.raft.trigger().snapshot().await.map_err(stopped)
    }

    /// Writes a snapshot of what is applied now, and returns when it is on stable storage.
    pub(crate) async fn snapshot(&self) -> Result<(), QuorumError> {
        let wanted = self.raft.metrics().borrow().last_applied;
        loop {
            let present = self.raft.metrics().borrow().snapshot;
            if present >= wanted {
                return Ok(());
            }
            // While one is being written this does nothing, so it can take two rounds.
            self.raft.trigger().snapshot().await.map_err(stopped)?;
            let is_newer = move |metrics: &Metrics| metrics.snapshot > present;
            self.wait_until("a snapshot was written", is_newer).await?;
        }
    }

    /// Stops the node, and returns when its files are closed.
    pub(crate) async fn shutdown(&self) -> Result<(), QuorumError> {
        self.give_up_waiting();
        let stopped = self.raft.shutdown().await;
        // The sender is never used: a change can only be that it has gone, with the directory.
        let mut closed = self.closed.clone();
        while closed.changed().await.is_ok() {}
        stopped.map_err(|error| QuorumError::Stopped { reason: error.to_string() })
    }

    /// Waits for a state of the node, or for its end.
    async fn wait_until(
        &self,
        what: &str,
        reached: impl Fn(&Metrics) -> bool + Send,
    ) -> Result<(), QuorumError> {
        let mut metrics = self.raft.metrics();
        let ended = |metrics: &Metrics| metrics.running_state.as_ref().err().cloned();
        let state = metrics.wait_for(|metrics| reached(metrics) || ended(metrics).is_some()).await;
        match state.as_ref().map(|metrics| ended(metrics)) {
            Ok(None) => Ok(()),
            Ok(Some(fatal)) => Err(stopped(fatal)),
            Err(_) => Err(QuorumError::Stopped { reason: format!("it ended before {what}") }),
        }
    }
}

/// The exclusive end of a member's log, as far as this node knows.
fn log_end(metrics: &Metrics, id: u64) -> Offset {
    if id == metrics.id {
        return end_after(metrics.last_log_index);
    }
    let replication = metrics.replication.as_ref();
    end_after(replication.and_then(|matched| *matched.get(&id)?).map(|id| id.index))
}

/// The offset that follows the entry of an index.
fn end_after(index: Option<u64>) -> Offset {
    let end = index.map_or(0, |index| index.saturating_add(1));
    Offset(i64::try_from(end).unwrap_or(i64::MAX))
}

fn config(shared: &Shared, entries_kept: u64) -> Config {
    let lease_ms = u64::try_from(shared.timings.lease.as_millis()).unwrap_or(NEVER_MS);
    Config {
        cluster_name: "logway".to_owned(),
        heartbeat_interval: NEVER_MS,
        // A candidate waits so long for votes …
        election_timeout_min: lease_ms.saturating_sub(1),
        // … and this is the lease within which openraft itself refuses votes.
        election_timeout_max: lease_ms,
        install_snapshot_timeout: NEVER_MS,
        enable_tick: false,
        enable_heartbeat: false,
        enable_elect: false,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: entries_kept,
        ..Config::default()
    }
}

fn stopped(error: Fatal<u64>) -> QuorumError {
    QuorumError::Stopped { reason: error.to_string() }
}

fn any_error(error: impl std::error::Error) -> AnyError {
    AnyError::error(error)
}
