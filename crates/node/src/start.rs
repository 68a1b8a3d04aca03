//! Starting and stopping a node.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_core::future::BoxFuture;
use logway_log::fs::{Fs, RealFs};
use logway_log::{CleanerMetrics, CleanerOptions, LogCleaner, LogError, LogMetrics};
use logway_metadata::settings::{BrokerSettings, CleanerSettings, NodeRole};
use logway_peers::QuorumCalls;
use logway_quorum::{MetadataQuorum, QuorumError, QuorumOptions};
use logway_security::delegation_token::TokenKey;
use logway_security::sasl::Strangers;
use logway_security::scram::NoRandomness;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::Node;
use crate::access::Access;
use crate::append::Appends;
use crate::append::unpacking::UnpackingPlaces;
use crate::cluster::{
    Cluster, ClusterOptions, Identified, Joined, WrongCluster, balance_unasked, finalize_unasked,
    forget_joining, live, look_after_brokers,
};
use crate::coordinator_counts::CoordinatorCounts;
use crate::delegation_tokens::look_after_tokens;
use crate::disk_space::DiskSpaces;
use crate::events::ClusterEvents;
use crate::failure::Failure;
use crate::group_lag::GroupLag;
use crate::groups::GroupCoordinator;
use crate::heavy_work::HeavyWork;
use crate::log_dirs::{FailureReports, LogDirs, LostDirectories, OpenedDirs, Opening};
use crate::log_levels::LogLevels;
use crate::memory::Memory;
use crate::metrics::{NodeMetrics, NodeState};
use crate::producer_ids::ProducerIds;
use crate::quotas::{AddressCounts, ConnectionRates, ConnectionSeats, QuotaUse};
use crate::reconcile::{Reconciliation, follow_metadata};
use crate::replica_moves::ReplicaMoves;
use crate::replication::CatchUps;
use crate::replication::{fetch_from_leaders, keep_isrs};
use crate::streams::{ShardEnds, ShardMeters, delete_streams};
use crate::tasks::off_thread;
use crate::topics::TopicTable;
use crate::transactions::TransactionCoordinator;
use crate::users::PasswordTurns;

/// The metadata's place in the first log directory. Partition directories end in `-` and a number,
/// so none can have this name.
pub const METADATA_DIR: &str = "metadata";

/// Admin commands that may be in work; further ones wait their turn.
const ADMIN_COMMANDS_MAX: usize = 256;

/// A start that has failed may take so long to end what it has begun.
const LET_GO_MAX: Duration = Duration::from_secs(5);

/// Why a node did not start, or did not stop cleanly.
#[derive(Debug, Error)]
pub enum NodeError {
    /// A log directory cannot be used without which there is no broker.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The first log directory is not the one with the metadata.
    #[error(
        "{} is the first of log.dirs and must hold the metadata, but it is new, and {} is not: \
         is the disk of the first mounted, and has the order of log.dirs changed?",
        first.display(), other.display()
    )]
    MetadataElsewhere {
        /// The first directory.
        first: PathBuf,
        /// One that belongs to a cluster, with its metadata if any has that.
        other: PathBuf,
    },
    /// There are logs, and no directory holds the metadata that tells what they are of.
    #[error(
        "{} holds logs, but no directory of log.dirs holds the metadata: is the one that does \
         missing from log.dirs, or its disk not mounted?",
        .0.display()
    )]
    MetadataMissing(PathBuf),
    /// The directory of the metadata was in use and its log is gone.
    #[error(
        "{} is gone, and with it the metadata that tells which topics there are: put it back, from a \
         copy if need be. To begin anew with no topics, move away all that the log directories hold",
        .0.display()
    )]
    MetadataLogMissing(PathBuf),
    /// A log directory has failed without which the broker cannot go on.
    #[error(transparent)]
    LostDirectories(#[from] LostDirectories),
    /// The metadata cannot be used.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// Secrets cannot be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// What it was told to join is not the one cluster that it can join.
    #[error(transparent)]
    WrongCluster(#[from] WrongCluster),
    /// It belongs to a cluster whose other nodes could not reach it.
    #[error(
        "this node belongs to a cluster of {members} nodes, and does not listen for them: its address for nodes is in \
         use, or other machines could reach it without logway.insecure"
    )]
    NoNodeListener {
        /// How many there are.
        members: usize,
    },
    /// It was made secure, and the others of its cluster are not.
    #[error(
        "this node belongs to a cluster of {members} nodes that talk to each other in the clear: only a node that is alone \
         can be given logway.secure, and others join it then"
    )]
    NodesInTheClear {
        /// How many there are.
        members: usize,
    },
    /// A voter was to found a cluster.
    #[error(
        "a voter joins a cluster, and none was named: a cluster of voters alone could hold nothing"
    )]
    LonelyVoter,
    /// It was a broker, and is to be a voter.
    #[error("this node cannot be a voter, which holds no replicas: {reason}")]
    VoterWasBroker {
        /// What says that it is a broker.
        reason: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// The broker could not join its cluster.
    #[error("the broker could not register itself: {}", .0.message)]
    Register(Failure),
}

impl Node {
    /// Opens the log directories, and recovers what a crash left. When this returns, partitions are served.
    ///
    /// With `cluster` it can be one of several nodes: it asks a cluster to be admitted, is back in the one that it belongs
    /// to, or founds one that others can join. A node that comes back waits until a majority of the cluster is there.
    /// One that was removed meanwhile is told so, and starts nothing.
    ///
    /// The future is boxed, as is that of [`Node::stop`], so that a node is compiled here alone: an `async fn` is compiled by
    /// whoever awaits it.
    pub fn start(
        settings: BrokerSettings,
        cluster: Option<ClusterOptions>,
        log_levels: LogLevels,
        registry: &mut Registry,
    ) -> BoxFuture<'_, Result<Arc<Node>, NodeError>> {
        Node::start_on(Arc::new(RealFs), settings, cluster, log_levels, registry)
    }

    /// As [`Node::start`], with another way to its files.
    pub fn start_on(
        fs: Arc<dyn Fs>,
        settings: BrokerSettings,
        cluster: Option<ClusterOptions>,
        log_levels: LogLevels,
        registry: &mut Registry,
    ) -> BoxFuture<'_, Result<Arc<Node>, NodeError>> {
        Box::pin(async move {
            let settings = Arc::new(settings);
            let (reports, failures) = FailureReports::new(Arc::clone(&fs));
            let identified = match cluster {
                Some(options) => Identified::of(&fs, settings, options).await?,
                None => Identified::alone(settings),
            };
            let node = Arc::new(open(fs, identified, log_levels, reports, registry).await?);
            if let Some(cluster) = &node.cluster {
                cluster.answer_calls(&node);
            }
            if let Err(error) = node.serve().await {
                node.let_go().await;
                return Err(error);
            }
            node.metrics.register(registry);
            registry.register_collector(Box::new(NodeState::new(&node)));
            tokio::spawn(failures.run(Arc::downgrade(&node)));
            Ok(node)
        })
    }

    /// Takes the node's place in its cluster, and serves what it holds.
    async fn serve(self: &Arc<Self>) -> Result<(), NodeError> {
        self.catch_up().await?;
        self.check_role()?;
        self.events.is_current();
        self.set_strays_aside();
        self.report_absent_dirs();
        self.report_missing_logs();
        if self.cluster.is_some() {
            // It may be the controller, who has to say that its own predecessor is gone.
            tokio::spawn(look_after_brokers(Arc::downgrade(self)));
            tokio::spawn(balance_unasked(Arc::downgrade(self)));
            tokio::spawn(finalize_unasked(Arc::downgrade(self)));
        }
        let life = self.begin_life().await?;
        tokio::spawn(follow_metadata(Arc::downgrade(self)));
        tokio::spawn(delete_streams(Arc::downgrade(self)));
        tokio::spawn(look_after_tokens(Arc::downgrade(self)));
        if !self.lives_in_cluster() {
            self.register().await.map_err(NodeError::Register)?;
        }
        if self.cluster.is_some() && !self.is_voter() {
            tokio::spawn(live(Arc::downgrade(self), life));
            tokio::spawn(fetch_from_leaders(Arc::downgrade(self)));
            tokio::spawn(keep_isrs(Arc::downgrade(self)));
        }
        tokio::select! {
            () = self.wait_until_active() => {}
            removed = self.quorum.removed() => return Err(removed.into()),
        }
        self.reconciliation.assigned().await;
        self.resume_moves().await;
        self.log_cleaner.start()?;
        Ok(())
    }

    /// Refuses to only vote as long as the metadata takes this node for a broker: its replicas would be nowhere.
    fn check_role(&self) -> Result<(), NodeError> {
        if !self.is_voter() {
            return Ok(());
        }
        let (id, image) = (self.settings.node_id, self.image());
        let partitions = image.topics().flat_map(|topic| &topic.partitions);
        let assigned = partitions.filter(|partition| partition.replicas.contains(&id)).count();
        let reason = match (assigned, image.broker(id)) {
            (0, None) => return Ok(()),
            (0, Some(_)) => format!("the cluster knows node {id} as a broker"),
            (count, _) => format!("the cluster has {count} partitions with a replica on node {id}"),
        };
        Err(NodeError::VoterWasBroker { reason })
    }

    /// Ends what a start has begun that has failed: the address is free again, and so is the metadata.
    async fn let_go(&self) {
        let ending = async {
            if let Some(cluster) = &self.cluster {
                cluster.stop().await;
            }
            // It may be why the start has failed.
            _ = self.quorum.shutdown().await;
        };
        // A disk that does not answer is not waited for.
        _ = timeout(LET_GO_MAX, ending).await;
    }

    /// Waits until the node cannot go on, which may never be; returns why.
    pub async fn failed(&self) -> NodeError {
        let mut lost = self.lost_directories.subscribe();
        let lost = async {
            let lost = lost.wait_for(Option::is_some).await;
            let lost = lost.expect("the node, which has the sender, exists").clone();
            lost.expect("it was waited for")
        };
        tokio::select! {
            lost = lost => lost.into(),
            removed = self.quorum.removed() => removed.into(),
        }
    }

    /// Tells all front doors that the node stops: their connections read nothing more, and answer what they have read.
    pub fn begin_stop(&self) {
        self.memory.attention.stop();
    }

    /// Puts everything on disk and marks the shutdown as clean. The front doors have stopped before.
    pub fn stop(self: Arc<Self>) -> BoxFuture<'static, Result<(), NodeError>> {
        Box::pin(async move {
            self.transactions.stop().await;
            self.groups.stop().await;
            // Before the moves, which keep it from the logs that they copy.
            let node = Arc::clone(&self);
            off_thread(move || node.log_cleaner.stop()).await;
            self.replica_moves.stop().await;
            if let Some(cluster) = &self.cluster {
                cluster.stop().await;
            }
            let metadata_stopped = self.quorum.shutdown().await;
            let node = Arc::clone(&self);
            off_thread(move || node.log_dirs.close()).await?;
            Ok(metadata_stopped?)
        })
    }
}

async fn open(
    fs: Arc<dyn Fs>,
    identified: Identified,
    log_levels: LogLevels,
    reports: FailureReports,
    registry: &mut Registry,
) -> Result<Node, NodeError> {
    let Identified { settings, cluster, joined, start } = identified;
    let settings = &settings;
    let opening = open_log_dirs(Arc::clone(&fs), Arc::clone(settings), reports, joined, registry);
    let OpenedDirs { log_dirs, cluster_id } = opening.await?;
    let role = settings.cluster.role;
    let replicas = log_dirs.logs().len();
    if role == NodeRole::Voter && replicas > 0 {
        let reason = format!("its log directories hold {replicas}");
        return Err(NodeError::VoterWasBroker { reason });
    }
    let root = log_dirs.all()[0].path().to_owned();
    let events = Arc::new(ClusterEvents::default());
    let mut quorum = QuorumOptions {
        fs: Arc::clone(&fs),
        on_events: Some(events.listener()),
        ..QuorumOptions::new(&root.join(METADATA_DIR), Arc::clone(settings))
    };
    if let Some(cluster) = &cluster {
        let directory = log_dirs.metadata_directory_id();
        cluster.belongs_to(cluster_id, settings.node_id, directory);
        quorum = QuorumOptions {
            start,
            directory,
            address: cluster.address.to_string(),
            votes_only: role == NodeRole::Voter,
            mutation: cluster.quorum_mutation(),
            network: Some(Arc::new(QuorumCalls(Arc::clone(&cluster.carrier)))),
            ..quorum
        };
    }
    let quorum = MetadataQuorum::open(quorum).await?;
    let members = quorum.members().len();
    let knows_nobody = cluster.as_ref().is_some_and(Cluster::was_told_of_nobody);
    if knows_nobody && members > 1 && quorum.image().node_keys().next().is_none() {
        quorum.shutdown().await?;
        return Err(NodeError::NodesInTheClear { members });
    }
    if cluster.is_none() && members > 1 {
        quorum.shutdown().await?;
        return Err(NodeError::NoNodeListener { members });
    }
    if cluster.is_some() {
        forget_joining(&fs, &root).await?;
    }
    let log_dirs = off_thread(move || log_dirs.write_known(&*fs).map(|()| log_dirs)).await?;
    let memory = Memory::new(settings.requests_memory_max_bytes);
    let log_cleaner = log_cleaner(settings, &log_dirs, registry);
    Ok(Node {
        disk_spaces: DiskSpaces::new(log_dirs.all().len()),
        log_levels,
        events,
        access: Access::new(settings),
        password_turns: PasswordTurns::default(),
        strangers: Strangers::new()?,
        token_key: settings.delegation_tokens.secret_key.as_ref().map(TokenKey::new),
        cluster_id,
        quorum,
        log_dirs,
        log_cleaner,
        replica_moves: ReplicaMoves::default(),
        catch_ups: CatchUps::default(),
        group_lag: GroupLag::new(settings.group_lag_partitions_max),
        coordinator_counts: CoordinatorCounts::default(),
        producer_ids: ProducerIds::default(),
        quota_use: QuotaUse::new(settings),
        connection_seats: ConnectionSeats::default(),
        connections_by_address: AddressCounts::default(),
        connection_rates: ConnectionRates::new(settings, settings.connections_per_second_max),
        metrics: NodeMetrics::default(),
        search_unpacking: UnpackingPlaces::new(),
        age_unpacking: Mutex::new(()),
        heavy_work: HeavyWork::default(),
        groups: GroupCoordinator::new(settings, memory.replies.clone()),
        transactions: TransactionCoordinator::new(settings, memory.replies.clone()),
        appends: Appends::new(settings.inline_appends, &memory).map_err(NodeError::Threads)?,
        memory,
        topics: ArcSwap::from_pointee(TopicTable::default()),
        admin_slots: Arc::new(Semaphore::new(ADMIN_COMMANDS_MAX)),
        reconciliation: Reconciliation::default(),
        reconciling: tokio::sync::Mutex::new(()),
        shard_ends: ShardEnds::default(),
        shard_meters: ShardMeters::default(),
        lost_directories: watch::Sender::default(),
        settings: Arc::clone(settings),
        cluster,
    })
}

/// The cleaner of the logs in all directories, which has yet to be started.
fn log_cleaner(
    settings: &BrokerSettings,
    log_dirs: &LogDirs,
    registry: &mut Registry,
) -> LogCleaner {
    let CleanerSettings { threads, keys_bytes_max, backoff } = settings.cleaner;
    let defaults = CleanerOptions::default();
    let options = CleanerOptions { threads, keys_bytes_max, backoff, ..defaults };
    let metrics = CleanerMetrics::new();
    metrics.register(registry);
    let cleaner = LogCleaner::new(options, metrics);
    log_dirs.online().for_each(|dir| cleaner.watch(&dir));
    cleaner
}

async fn open_log_dirs(
    fs: Arc<dyn Fs>,
    settings: Arc<BrokerSettings>,
    reports: FailureReports,
    joined: Option<Joined>,
    registry: &mut Registry,
) -> Result<OpenedDirs, NodeError> {
    let metrics = LogMetrics::new();
    metrics.register(registry);
    off_thread(move || {
        LogDirs::open(&Opening { settings: &settings, fs, metrics, reports, joined })
    })
    .await
}

#[cfg(test)]
mod tests {
    use logway_log::{AppendBatches, LogConfig, NewLog};
    use logway_model::{LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, TopicName};
    use logway_model::{TopicPartition, Uuid};
    use logway_record::{BatchBuilder, Batches, Compression};

    use super::*;

    #[tokio::test]
    async fn nothing_is_deleted_before_the_settings_of_topics_are_known() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("is text").to_owned();
        let settings = BrokerSettings::new([("log.dirs".to_owned(), path)]).expect("are valid");
        let name = TopicName::new("t").expect("a legal name");
        let partition = TopicPartition::new(name, PartitionId(0));
        // As old as can be; its topic keeps records for ever.
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(TimestampMs(1), None, Some(b"old"), &[]).expect("fits");
        let batch = Batches::new(builder.finish().expect("fits")).next().expect("there is one");
        let batches = vec![batch.expect("is whole")];

        let open = async || {
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            let (reports, _failures) = FailureReports::new(Arc::clone(&fs));
            let settings = Arc::new(settings.clone());
            let opened = open_log_dirs(fs, settings, reports, None, &mut Registry::default()).await;
            opened.expect("opens").log_dirs.online().next().expect("is online")
        };
        let log_dir = open().await;
        let new = NewLog {
            partition: partition.clone(),
            topic_id: TopicId(Uuid([1; 16])),
            config: Arc::new(LogConfig { retention_ms: None, ..LogConfig::default() }),
        };
        let log = log_dir.create_logs(&[new]).remove(0).expect("is made");
        let append = AppendBatches::new(batches, LeaderEpoch(0));
        log.append(append).await.expect("is written");
        log_dir.close().expect("closes");
        drop(log_dir);
        // A start goes on to make it; logs without it are refused.
        let metadata_dir = dir.path().join(METADATA_DIR);
        std::fs::create_dir(&metadata_dir).expect("is new");
        std::fs::write(MetadataQuorum::log_path(&metadata_dir), "").expect("is new");

        let log_dir = open().await;
        log_dir.enforce_retention().await.expect("has looked");
        let log = log_dir.log(&partition).expect("is there");
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(1)));
    }
}
