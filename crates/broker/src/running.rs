//! Starting and stopping a broker.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use logway_log::checkpoint::MetaProperties;
use logway_log::fs::RealFs;
use logway_log::{LogConfig, LogDir, LogDirOptions, LogError, LogMetrics, random_uuid};
use logway_metadata::controller::RegisterBroker;
use logway_metadata::record::Endpoint;
use logway_metadata::settings::BrokerSettings;
use logway_model::ClusterId;
use logway_quorum::{MetadataQuorum, QuorumError, QuorumOptions};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::broker::{Broker, off_thread};
use crate::connection::{Attention, MemoryBudget, accept_connections};
use crate::failure::Failure;
use crate::fetch_session::FetchSessions;
use crate::group_lag::GroupLag;
use crate::groups::GroupCoordinator;
use crate::metrics::{BrokerMetrics, BrokerState};
use crate::producer_ids::ProducerIds;
use crate::quotas::{ConnectionRates, QuotaUse};
use crate::telemetry::ClientTelemetry;
use crate::topics::TopicTable;

/// The metadata's place in the data directory. Partition directories end in `-` and a number, so
/// none can have this name.
const METADATA_DIR: &str = "metadata";

/// What large replies may hold, as a part of what requests may hold; and what may be taken to make
/// such replies, too.
const REPLY_MEMORY_PART: usize = 2;

/// Admin commands that may be in work; further ones wait their turn.
const ADMIN_COMMANDS_MAX: usize = 256;

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
    /// The data directory cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The metadata cannot be used.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
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
    /// Opens the data directory, recovers what a crash left, and listens.
    ///
    /// When this returns, clients are served.
    pub async fn start(
        settings: BrokerSettings,
        registry: &mut Registry,
    ) -> Result<RunningBroker, BrokerError> {
        let settings = Arc::new(settings);
        // First, so that a port in use is known before anything is touched.
        let listeners = listen(&settings.listeners).await?;
        let broker = Arc::new(open(&settings, registry).await?);
        broker.set_strays_aside();
        let registration = RegisterBroker {
            id: settings.node_id,
            endpoint: settings.advertised.clone(),
            rack: None,
        };
        broker.submit(registration, None, None).await.map_err(BrokerError::Register)?;
        broker.metrics.register(registry);
        registry.register_collector(Box::new(BrokerState::new(&broker)));

        tokio::spawn(Broker::retry_offline_logs(Arc::downgrade(&broker)));
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

    /// Stops taking requests, answers those that were read, puts everything on disk and marks the
    /// shutdown as clean.
    pub async fn stop(mut self) -> Result<(), BrokerError> {
        // Nobody listens any more if every acceptor has ended by itself.
        let _ = self.stopping.send(true);
        self.broker.attention.stop();
        while self.acceptors.join_next().await.is_some() {}
        self.broker.groups.stop().await;
        let metadata_stopped = self.broker.quorum.shutdown().await;
        let broker = Arc::clone(&self.broker);
        off_thread(move || broker.log_dir.close()).await?;
        Ok(metadata_stopped?)
    }
}

async fn open(
    settings: &Arc<BrokerSettings>,
    registry: &mut Registry,
) -> Result<Broker, BrokerError> {
    let (log_dir, cluster_id) = open_log_dir(settings, registry).await?;
    let metadata_dir = settings.data_dir.join(METADATA_DIR);
    let quorum =
        MetadataQuorum::open(QuorumOptions::new(&metadata_dir, Arc::clone(settings))).await?;
    let attention = Arc::new(Attention::default());
    let requests_bytes = settings.requests_memory_max_bytes;
    let budget = |limit_bytes| MemoryBudget::new(limit_bytes, Arc::clone(&attention));
    Ok(Broker {
        cluster_id,
        quorum,
        log_dir,
        memory: budget(requests_bytes),
        building: budget(requests_bytes / REPLY_MEMORY_PART),
        reply_memory: budget(requests_bytes / REPLY_MEMORY_PART),
        attention,
        fetch_sessions: FetchSessions::new(settings.fetch_sessions_max, SESSION_PARTITIONS_MAX),
        groups: GroupCoordinator::new(settings),
        group_lag: GroupLag::new(settings.group_lag_partitions_max),
        producer_ids: ProducerIds::default(),
        quota_use: QuotaUse::new(settings),
        connection_rates: ConnectionRates::new(settings),
        telemetry: ClientTelemetry::new(settings.telemetry_max_bytes),
        metrics: BrokerMetrics::default(),
        unpacking: Mutex::new(()),
        topics: ArcSwap::from_pointee(TopicTable::default()),
        admin_slots: Arc::new(Semaphore::new(ADMIN_COMMANDS_MAX)),
        reconciling: tokio::sync::Mutex::new(()),
        settings: Arc::clone(settings),
    })
}

async fn open_log_dir(
    settings: &BrokerSettings,
    registry: &mut Registry,
) -> Result<(LogDir, ClusterId), BrokerError> {
    let log_metrics = LogMetrics::new();
    log_metrics.register(registry);
    let path = settings.data_dir.clone();
    let node_id = settings.node_id;
    let options = LogDirOptions {
        checkpoint_interval: settings.checkpoint_interval,
        retention_check_interval: settings.retention_check_interval,
        producer_expiration_ms: i64::try_from(settings.producer_id_expiration.as_millis())
            .unwrap_or(i64::MAX),
        // Until the topics' own settings are known nothing may be deleted.
        default_config: Arc::new(LogConfig { retention_ms: None, ..LogConfig::default() }),
        ..LogDirOptions::new(path.clone(), node_id, ClusterId::default())
    };
    off_thread(move || {
        let known = MetaProperties::read(&RealFs, &path.join(MetaProperties::FILE))?;
        let cluster_id = known.map_or_else(|| ClusterId(random_uuid()), |known| known.cluster_id);
        let log_dir = LogDir::open(LogDirOptions { cluster_id, ..options }, log_metrics)?;
        Ok((log_dir, cluster_id))
    })
    .await
}

async fn listen(endpoints: &[Endpoint]) -> Result<Vec<(TcpListener, SocketAddr)>, BrokerError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        let fail = |source| BrokerError::Listen { address: endpoint.clone(), source };
        let addresses = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let mut bound = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses.map_err(fail)? {
            bound = TcpListener::bind(address).await;
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

#[cfg(test)]
mod tests {
    use logway_log::AppendBatches;
    use logway_log::NewLog;
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

        let (log_dir, _) = open_log_dir(&settings, &mut Registry::default()).await.expect("opens");
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

        let (log_dir, _) = open_log_dir(&settings, &mut Registry::default()).await.expect("opens");
        log_dir.enforce_retention().await.expect("has looked");
        let log = log_dir.log(&partition).expect("is there");
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(1)));
    }
}
