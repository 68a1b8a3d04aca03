//! Consensus, by openraft. Its types are used in this module and nowhere else.

mod log_store;
mod network;
mod snapshot_file;
mod state_machine;
#[cfg(test)]
mod storage_suite;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use logway_metadata::MetadataRecord;
use logway_model::{BrokerId, LeaderEpoch, Offset};
use openraft::error::{ClientWriteError, Fatal, RaftError};
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{AnyError, BasicNode, Config, Raft, ServerState, SnapshotPolicy};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use self::log_store::LogStore;
use self::network::NoNetwork;
use self::state_machine::StateMachine;
use crate::directory::{Directory, LOG_FILE, SNAPSHOT_FILE};
use crate::error::QuorumError;
use crate::log_file::LogFile;
use crate::published::{MetadataIndex, Published};
use crate::quorum::QuorumOptions;
use crate::space::SpaceWait;
use crate::status::{QuorumStatus, VoterStatus};

openraft::declare_raft_types!(
    /// What openraft is told about our types.
    pub(crate) TypeConfig:
        D = Batch,
        R = (),
        NodeId = u64,
        Node = BasicNode,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = Cursor<Vec<u8>>,
);

type Entry = openraft::Entry<TypeConfig>;
type LogId = openraft::LogId<u64>;
type Vote = openraft::Vote<u64>;
type StoredMembership = openraft::StoredMembership<u64, BasicNode>;
type SnapshotMeta = openraft::SnapshotMeta<u64, BasicNode>;
type Metrics = openraft::RaftMetrics<u64, BasicNode>;
type StorageError = openraft::StorageError<u64>;

/// The records of one commit; applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Batch(Vec<MetadataRecord>);

/// How many entries before a snapshot stay in the log, for followers that are a little behind.
const ENTRIES_KEPT_BEHIND_SNAPSHOT: u64 = 1_000;

/// Nothing happens at intervals in a quorum of one: no heartbeat, no election. openraft's ticker
/// cannot be left out, so it gets a long sleep.
const TICK_OF_ONE_VOTER_MS: u64 = 24 * 60 * 60 * 1_000;

/// Refuses a log and a snapshot that do not belong together: one of them was lost, or put back from
/// an older copy, and with it what was committed.
///
/// An entry is in the log before it is applied, and a snapshot has it before the log drops it.
async fn check_history(
    log: &mut LogStore,
    state_machine: &mut StateMachine,
    dir: &Path,
) -> Result<(), QuorumError> {
    let unusable = |error: StorageError| QuorumError::Stopped { reason: error.to_string() };
    let state = log.get_log_state().await.map_err(unusable)?;
    let vote = log.read_vote().await.map_err(unusable)?;
    let (applied, _) = state_machine.applied_state().await.map_err(unusable)?;
    let path = dir.join(LOG_FILE);
    let position = |id: Option<LogId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
    if state.last_purged_log_id > applied {
        let reason = format!(
            "the metadata up to {} is in the snapshot, and that is gone or older: put the newest one \
             back",
            position(state.last_purged_log_id)
        );
        return Err(QuorumError::Snapshot { path: dir.join(SNAPSHOT_FILE), reason });
    }
    if applied > state.last_log_id {
        let reason = format!(
            "it ends with {}, but the snapshot knows {}: it was lost, or is an older copy; put the \
             newest one back",
            position(state.last_log_id),
            position(applied)
        );
        return Err(QuorumError::Log { path, reason });
    }
    // The entry of term 0, with the first membership, is written before there is a vote.
    let has_led = state.last_log_id.is_some_and(|id| id.leader_id.term > 0);
    if has_led && vote.is_none() {
        return Err(QuorumError::Log { path, reason: "it has entries and no vote".to_owned() });
    }
    Ok(())
}

/// A running Raft node. Clones are handles on the same node.
#[derive(Clone)]
pub(crate) struct Consensus {
    raft: Raft<TypeConfig>,
    /// Not an owner: the files are closed when the log and the state machine let them go.
    directory: Weak<Directory>,
    path: PathBuf,
    space: Arc<SpaceWait>,
    snapshot_interval_entries: u64,
    /// Its sender goes when the files are closed.
    closed: watch::Receiver<()>,
}

impl Consensus {
    /// Starts the node on its directory, and returns when it leads and all entries are applied.
    pub(crate) async fn open(
        options: QuorumOptions,
        published: Arc<Published>,
    ) -> Result<Consensus, QuorumError> {
        let node_id = options.settings.node_id;
        let raft_id = u64::try_from(node_id.0).expect("the setting node.id is not negative");
        let snapshot_interval_entries = options.snapshot_interval_entries;
        let (directory, closed, log_file, state_machine) = blocking(move || {
            let (directory, closed) = Directory::open(options.fs, &options.dir)?;
            let log_file = LogFile::open(directory.clone(), node_id)?;
            let state_machine = StateMachine::open(directory.clone(), published)?;
            Ok((directory, closed, log_file, state_machine))
        })
        .await?;
        let (config, mut log_store) = (Arc::new(config()), LogStore::new(log_file));
        let mut state_machine = state_machine;
        check_history(&mut log_store, &mut state_machine, &directory.path).await?;
        let (path, space) = (directory.path.clone(), Arc::clone(&directory.space));
        let directory = Arc::downgrade(&directory);
        let raft = Raft::new(raft_id, config, NoNetwork, log_store, state_machine)
            .await
            .map_err(stopped)?;
        let consensus =
            Consensus { raft, directory, path, space, snapshot_interval_entries, closed };
        consensus.lead(raft_id).await?;
        consensus.space.begin();
        Ok(consensus)
    }

    /// Commits records, and returns when they are applied: at which index.
    pub(crate) async fn commit(
        &self,
        records: Vec<MetadataRecord>,
    ) -> Result<MetadataIndex, QuorumError> {
        match self.raft.client_write(Batch(records)).await {
            Ok(written) => Ok(MetadataIndex(written.log_id.index)),
            Err(RaftError::Fatal(error)) => Err(stopped(error)),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
                Err(QuorumError::NotLeader)
            }
            Err(error @ RaftError::APIError(ClientWriteError::ChangeMembershipError(_))) => {
                Err(QuorumError::Stopped { reason: error.to_string() })
            }
        }
    }

    /// Tells whether commits wait for space on the disk.
    pub(crate) fn watch_space(&self) -> watch::Receiver<bool> {
        self.space.watch()
    }

    /// What is said of a command while commits wait for space.
    pub(crate) fn waits_for_space(&self) -> QuorumError {
        QuorumError::WaitsForSpace { path: self.path.clone() }
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
        self.raft.metrics().borrow().running_state.clone().map_err(stopped)
    }

    /// Who leads, and how far everybody is.
    pub(crate) fn status(&self) -> QuorumStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let matched = |id: &u64| {
            let replication = metrics.replication.as_ref();
            replication.and_then(|matched| *matched.get(id)?).map(|id| id.index)
        };
        let voter = |id: u64| {
            let last = if id == metrics.id { metrics.last_log_index } else { matched(&id) };
            VoterStatus { id: broker_id(id), log_end: end_after(last) }
        };
        QuorumStatus {
            leader: metrics.current_leader.map(broker_id),
            epoch: LeaderEpoch(i32::try_from(metrics.current_term).unwrap_or(i32::MAX)),
            high_watermark: end_after(metrics.last_applied.map(|id| id.index)),
            voters: metrics.membership_config.voter_ids().map(voter).collect(),
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

    /// Makes the only voter the leader, at once instead of after a timeout.
    async fn lead(&self, raft_id: u64) -> Result<(), QuorumError> {
        let is_initialized = self.raft.is_initialized().await.map_err(stopped)?;
        if !is_initialized {
            let voters = BTreeMap::from([(raft_id, BasicNode::default())]);
            let initialized = self.raft.initialize(voters).await;
            initialized.map_err(|error| QuorumError::Stopped { reason: error.to_string() })?;
        } else if self.raft.metrics().borrow().state != ServerState::Leader {
            self.raft.trigger().elect().await.map_err(stopped)?;
        }
        self.wait_until("this node led", |metrics| {
            let applied = metrics.last_applied.map(|id| id.index);
            metrics.state == ServerState::Leader && applied == metrics.last_log_index
        })
        .await
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

/// Raft's ids are made of brokers' numbers.
fn broker_id(raft_id: u64) -> BrokerId {
    BrokerId(i32::try_from(raft_id).expect("it was made of a broker's number"))
}

/// The offset that follows the entry of an index.
fn end_after(index: Option<u64>) -> Offset {
    let end = index.map_or(0, |index| index.saturating_add(1));
    Offset(i64::try_from(end).unwrap_or(i64::MAX))
}

fn config() -> Config {
    Config {
        cluster_name: "logway".to_owned(),
        heartbeat_interval: TICK_OF_ONE_VOTER_MS,
        enable_tick: false,
        enable_heartbeat: false,
        enable_elect: false,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: ENTRIES_KEPT_BEHIND_SNAPSHOT,
        ..Config::default()
    }
}

/// Runs work that waits for the disk where it holds up no other task.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, QuorumError> + Send + 'static,
) -> Result<T, QuorumError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(QuorumError::Stopped { reason: error.to_string() }),
    }
}

fn stopped(error: Fatal<u64>) -> QuorumError {
    QuorumError::Stopped { reason: error.to_string() }
}

fn any_error(error: impl std::error::Error) -> AnyError {
    AnyError::error(error)
}
