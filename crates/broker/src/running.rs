//! Starting and stopping a broker.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use logway_log::fs::{Fs, RealFs};
use logway_log::{CleanerMetrics, CleanerOptions, LogCleaner, LogError, LogMetrics};
use logway_metadata::record::Endpoint;
use logway_metadata::settings::{BrokerSettings, CleanerSettings};
use logway_quorum::{MetadataQuorum, QuorumError, QuorumOptions};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::broker::{Broker, off_thread};
use crate::connection::{
    AddressCounts, Attention, MemoryBudget, RequestMemory, accept_connections,
};
use crate::disk_space::DiskSpaces;
use crate::failure::Failure;
use crate::fetch_session::FetchSessions;
use crate::group_lag::GroupLag;
use crate::groups::GroupCoordinator;
use crate::heavy_work::HeavyWork;
use crate::inline_appends::InlineAppends;
use crate::log_dirs::{FailureReports, LogDirs, LostDirectories, OpenedDirs, Opening};
use crate::log_levels::LogLevels;
use crate::metrics::{BrokerMetrics, BrokerState};
use crate::producer_ids::ProducerIds;
use crate::quotas::{ConnectionRates, QuotaUse};
use crate::recompression::Recompression;
use crate::reconcile::{Reconciliation, follow_metadata};
use crate::replica_moves::ReplicaMoves;
use crate::telemetry::ClientTelemetry;
use crate::topics::TopicTable;
use crate::unpacking::UnpackingPlaces;

/// The metadata's place in the first log directory. Partition directories end in `-` and a number,
/// so none can have this name.
pub const METADATA_DIR: &str = "metadata";

/// What large replies may hold, as a part of what requests may hold; and what may be taken to make
/// such replies, and to compress batches anew, too.
const REPLY_MEMORY_PART: usize = 2;

/// Admin commands that may be in work; further ones wait their turn.
const ADMIN_COMMANDS_MAX: usize = 256;

/// Connections of one listener that may wait to be accepted. The kernel may allow fewer
/// (`net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4_096;

/// Partitions that all fetch sessions together may remember: some tens of MiB.
const SESSION_PARTITIONS_MAX: usize = 200_000;

/// Why a broker did not start, or did not stop cleanly.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// An address to listen on cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The configured address.
        address: Endpoint,
        /// Why.
        source: io::Error,
    },
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
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// The broker could not join its cluster.
    #[error("the broker could not register itself: {}", .0.message)]
    Register(Failure),
}

/// A broker that serves clients.
pub struct RunningBroker {
    broker: Arc<Broker>,
    addresses: Vec<SocketAddr>,
    stopping: watch::Sender<bool>,
    acceptors: JoinSet<()>,
}

impl RunningBroker {
    /// Opens the log directories, recovers what a crash left, and listens.
    ///
    /// When this returns, clients are served.
    pub async fn start(
        settings: BrokerSettings,
        log_levels: LogLevels,
        registry: &mut Registry,
    ) -> Result<RunningBroker, BrokerError> {
        RunningBroker::start_on(Arc::new(RealFs), settings, log_levels, registry).await
    }

    /// As [`RunningBroker::start`], with another way to the files of the logs.
    pub async fn start_on(
        fs: Arc<dyn Fs>,
        settings: BrokerSettings,
        log_levels: LogLevels,
        registry: &mut Registry,
    ) -> Result<RunningBroker, BrokerError> {
        let settings = Arc::new(settings);
        // First, so that a port in use is known before anything is touched.
        let listeners = listen(&settings.listeners).await?;
        let (reports, failures) = FailureReports::new(Arc::clone(&fs));
        let broker = Arc::new(open(fs, &settings, log_levels, reports, registry).await?);
        broker.set_strays_aside();
        broker.report_absent_dirs();
        broker.report_missing_logs();
        tokio::spawn(follow_metadata(Arc::downgrade(&broker)));
        broker.register().await.map_err(BrokerError::Register)?;
        broker.reconciliation.assigned().await;
        broker.resume_moves().await;
        broker.log_cleaner.start()?;
        broker.metrics.register(registry);
        registry.register_collector(Box::new(BrokerState::new(&broker)));

        tokio::spawn(failures.run(Arc::downgrade(&broker)));
        let (stopping, stop) = watch::channel(false);
        let mut acceptors = JoinSet::new();
        let mut addresses = Vec::new();
        for (listener, address) in listeners {
            addresses.push(address);
            acceptors.spawn(accept_connections(listener, Arc::clone(&broker), stop.clone()));
        }
        Ok(RunningBroker { broker, addresses, stopping, acceptors })
    }

    /// Where clients connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The broker itself.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Waits until the broker cannot go on, which may never be; returns why.
    pub async fn failed(&self) -> BrokerError {
        let mut lost = self.broker.lost_directories.subscribe();
        let lost = lost.wait_for(Option::is_some).await;
        let lost = lost.expect("the broker, which has the sender, exists").clone();
        lost.expect("it was waited for").into()
    }

    /// Stops taking requests, answers those that were read, puts everything on disk and marks the
    /// shutdown as clean.
    pub async fn stop(mut self) -> Result<(), BrokerError> {
        // Nobody listens any more if every acceptor has ended by itself.
        let _ = self.stopping.send(true);
        self.broker.attention.stop();
        while self.acceptors.join_next().await.is_some() {}
        self.broker.groups.stop().await;
        // Before the moves, which keep it from the logs that they copy.
        let broker = Arc::clone(&self.broker);
        off_thread(move || broker.log_cleaner.stop()).await;
        self.broker.replica_moves.stop().await;
        let metadata_stopped = self.broker.quorum.shutdown().await;
        let broker = Arc::clone(&self.broker);
        off_thread(move || broker.log_dirs.close()).await?;
        Ok(metadata_stopped?)
    }
}

async fn open(
    fs: Arc<dyn Fs>,
    settings: &Arc<BrokerSettings>,
    log_levels: LogLevels,
    reports: FailureReports,
    registry: &mut Registry,
) -> Result<Broker, BrokerError> {
    let OpenedDirs { log_dirs, cluster_id } =
        open_log_dirs(Arc::clone(&fs), Arc::clone(settings), reports, registry).await?;
    let metadata_dir = log_dirs.all()[0].path().join(METADATA_DIR);
    let quorum =
        MetadataQuorum::open(QuorumOptions::new(&metadata_dir, Arc::clone(settings))).await?;
    let log_dirs = off_thread(move || log_dirs.write_known(&*fs).map(|()| log_dirs)).await?;
    let attention = Arc::new(Attention::default());
    let requests_bytes = settings.requests_memory_max_bytes;
    let budget = |limit_bytes| MemoryBudget::new(limit_bytes, Arc::clone(&attention));
    let reply_memory = budget(requests_bytes / REPLY_MEMORY_PART);
    let log_cleaner = log_cleaner(settings, &log_dirs, registry);
    Ok(Broker {
        disk_spaces: DiskSpaces::new(log_dirs.all().len()),
        log_levels,
        cluster_id,
        quorum,
        log_dirs,
        log_cleaner,
        replica_moves: ReplicaMoves::default(),
        memory: RequestMemory::new(requests_bytes, &attention),
        building: budget(requests_bytes / REPLY_MEMORY_PART),
        recompression: Recompression::new(requests_bytes / REPLY_MEMORY_PART, &attention),
        attention,
        fetch_sessions: FetchSessions::new(settings.fetch_sessions_max, SESSION_PARTITIONS_MAX),
        groups: GroupCoordinator::new(settings, reply_memory.clone()),
        group_lag: GroupLag::new(settings.group_lag_partitions_max),
        reply_memory,
        producer_ids: ProducerIds::default(),
        quota_use: QuotaUse::new(settings),
        connections_by_address: AddressCounts::default(),
        connection_rates: ConnectionRates::new(settings),
        telemetry: ClientTelemetry::new(settings.telemetry_max_bytes),
        metrics: BrokerMetrics::default(),
        append_unpacking: UnpackingPlaces::new(),
        search_unpacking: UnpackingPlaces::new(),
        age_unpacking: Mutex::new(()),
        heavy_work: HeavyWork::default(),
        inline_appends: InlineAppends::new().map_err(BrokerError::Threads)?,
        topics: ArcSwap::from_pointee(TopicTable::default()),
        admin_slots: Arc::new(Semaphore::new(ADMIN_COMMANDS_MAX)),
        reconciliation: Reconciliation::default(),
        reconciling: tokio::sync::Mutex::new(()),
        lost_directories: watch::Sender::default(),
        settings: Arc::clone(settings),
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
    registry: &mut Registry,
) -> Result<OpenedDirs, BrokerError> {
    let metrics = LogMetrics::new();
    metrics.register(registry);
    off_thread(move || LogDirs::open(&Opening { settings: &settings, fs, metrics, reports })).await
}

async fn listen(endpoints: &[Endpoint]) -> Result<Vec<(TcpListener, SocketAddr)>, BrokerError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        let fail = |source| BrokerError::Listen { address: endpoint.clone(), source };
        let addresses = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let mut bound = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses.map_err(fail)? {
            bound = bind(address);
            if bound.is_ok() {
                break;
            }
        }
        let listener = bound.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        listeners.push((listener, address));
    }
    Ok(listeners)
}

/// As [`TcpListener::bind`], but with room for more connections that are about to be accepted: one
/// that finds none begins anew a second later, and after a restart all clients come at once.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // The connections of a broker that has just ended keep its address for a while.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_MAX)
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
            let opened = open_log_dirs(fs, settings, reports, &mut Registry::default()).await;
            opened.expect("opens").log_dirs.online().next().expect("is online")
        };
        let log_dir = open().await;
        let new = NewLog {
            partition: partition.clone(),
            topic_id: TopicId(Uuid([1; 16])),
            config: Arc::new(LogConfig { retention_ms: None, ..LogConfig::default() }),
        };
        let log = log_dir.create_logs(&[new]).remove(0).expect("is made");
        let append = AppendBatches { batches, leader_epoch: LeaderEpoch(0) };
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
