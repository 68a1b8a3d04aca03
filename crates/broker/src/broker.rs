//! The broker: what its handlers share.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, Guard};
use logway_log::{Log, LogCleaner, LogError, ReadRequest, ReadSlice};
use logway_metadata::controller::{Command, RegisterBroker};
use logway_metadata::record::Endpoint;
use logway_metadata::settings::BrokerSettings;
use logway_metadata::settings::broker::{CONNECTION_RATE_SETTING, CONNECTIONS_SETTING};
use logway_metadata::{ConfigResource, MetadataImage};
use logway_model::{ClusterId, ErrorCode, TimestampMs};
use logway_quorum::MetadataQuorum;
use logway_record::{AppendRules, Batch, BatchSummary, Compression, validate_for_append};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, watch};
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connection::{AddressCounts, Attention, Held, MemoryBudget, RequestMemory};
use crate::disk_space::DiskSpaces;
use crate::failure::Failure;
use crate::fetch_session::FetchSessions;
use crate::group_lag::GroupLag;
use crate::groups::GroupCoordinator;
use crate::heavy_work::HeavyWork;
use crate::inline_appends::InlineAppends;
use crate::log_dirs::{LogDirs, LostDirectories};
use crate::log_levels::LogLevels;
use crate::metrics::BrokerMetrics;
use crate::partition::Partition;
use crate::producer_ids::ProducerIds;
use crate::quotas::{ConnectionRates, QuotaUse};
use crate::recompression::Recompression;
use crate::reconcile::Reconciliation;
use crate::replica_moves::ReplicaMoves;
use crate::telemetry::ClientTelemetry;
use crate::topics::TopicTable;
use crate::unpacking::{UnpackingPlaces, is_cut_short};

/// What every handler can reach. There is one in a process, shared by all connections.
pub struct Broker {
    /// What the broker was started with.
    pub settings: Arc<BrokerSettings>,
    /// What the log of the process tells.
    pub log_levels: LogLevels,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// The metadata of the cluster.
    pub quorum: MetadataQuorum,
    /// The logs.
    pub log_dirs: LogDirs,
    /// Compacts the logs.
    pub log_cleaner: LogCleaner,
    /// The replicas that move from one log directory to another.
    pub replica_moves: ReplicaMoves,
    /// What requests may hold.
    pub memory: RequestMemory,
    /// What answering may take beyond that, for answers that are much larger than their requests.
    pub building: MemoryBudget,
    /// Where batches are compressed anew. Its memory is of its own, since who waits for it may hold
    /// memory for an answer: two such requests could wait for each other.
    pub recompression: Recompression,
    /// What large replies may hold until their clients have read them.
    pub reply_memory: MemoryBudget,
    /// Calls the connections.
    pub(crate) attention: Arc<Attention>,
    /// What consumers have told us once and need not repeat.
    pub fetch_sessions: FetchSessions,
    /// Looks after the groups.
    pub groups: GroupCoordinator,
    /// How full the disks are.
    pub(crate) disk_spaces: DiskSpaces,
    /// How far groups are behind.
    pub group_lag: GroupLag,
    /// Gives out producer ids.
    pub producer_ids: ProducerIds,
    /// What clients have used of their quotas.
    pub quota_use: QuotaUse,
    /// How many connections are open from each address.
    pub(crate) connections_by_address: AddressCounts,
    /// How many connections are opened.
    pub(crate) connection_rates: ConnectionRates,
    /// The metrics of clients that were asked for theirs.
    pub telemetry: ClientTelemetry,
    /// What is counted.
    pub metrics: BrokerMetrics,
    /// Where what producers send is unpacked.
    pub(crate) append_unpacking: UnpackingPlaces,
    /// Where batches are unpacked that are searched for a timestamp.
    pub(crate) search_unpacking: UnpackingPlaces,
    /// Held by whoever unpacks a batch for the age of a record.
    pub(crate) age_unpacking: Mutex<()>,
    /// Does the work on large requests.
    pub(crate) heavy_work: HeavyWork,
    /// Appends what clients send.
    pub(crate) inline_appends: InlineAppends,
    pub(crate) topics: ArcSwap<TopicTable>,
    /// Bounds the admin commands in work, with those that nobody waits for any more.
    pub(crate) admin_slots: Arc<Semaphore>,
    /// How far what is served is with the metadata.
    pub(crate) reconciliation: Reconciliation,
    /// Held while the topics are brought in line with the metadata, and while a replica changes its log directory.
    pub(crate) reconciling: tokio::sync::Mutex<()>,
    /// Says when a log directory was lost without which the broker cannot go on.
    pub(crate) lost_directories: watch::Sender<Option<LostDirectories>>,
}

impl Broker {
    /// The topics as they are now.
    pub fn topics(&self) -> Guard<Arc<TopicTable>> {
        self.topics.load()
    }

    /// The metadata as it is now.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.quorum.image()
    }

    /// The value in force of a setting that can be changed while the broker runs: this broker's, that
    /// of all brokers, or what file or flags gave; `None` for the default.
    pub(crate) fn changeable_setting<T: FromStr>(&self, name: &str) -> Option<T> {
        let image = self.image();
        let of_brokers =
            [ConfigResource::Broker(self.settings.node_id), ConfigResource::BrokerDefault];
        let set = of_brokers
            .iter()
            .find_map(|resource| image.overrides(resource)?.get(name)?.parse().ok());
        set.or_else(|| self.settings.given(name)?.parse().ok())
    }

    /// `max.connections` as it is in force.
    pub(crate) fn connections_max(&self) -> usize {
        self.changeable_setting(CONNECTIONS_SETTING).unwrap_or(self.settings.connections_max)
    }

    /// `max.connection.creation.rate` as it is in force.
    pub(crate) fn connections_per_second_max(&self) -> u32 {
        let changed = self.changeable_setting(CONNECTION_RATE_SETTING);
        changed.unwrap_or(self.settings.connections_per_second_max)
    }

    /// Commits a change of the metadata. When this returns, the change is in force here: the logs
    /// of a new topic are open.
    ///
    /// After `time_max`, or when nobody waits for it any more, the work goes on: what is committed
    /// must come into force. Fails with `REQUEST_TIMED_OUT` then. `held` lives as long as the work.
    pub async fn submit<C: Command>(
        self: &Arc<Self>,
        command: C,
        time_max: Option<Duration>,
        held: Held,
    ) -> Result<C::Reply, Failure> {
        let broker = Arc::clone(self);
        let work = async move {
            let slot = Arc::clone(&broker.admin_slots).acquire_owned().await;
            to_its_end(async move {
                let _held = (slot, held);
                let committed = broker.quorum.submit(command).await?;
                broker.reconciliation.reached(committed.index).await?;
                Ok(committed.reply)
            })
            .await
        };
        let Some(time_max) = time_max else { return work.await };
        match timeout(time_max, work).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                let message = format!("not done within {time_max:?}; it may still be done");
                Err(Failure::new(ErrorCode::RequestTimedOut, message))
            }
        }
    }

    /// Tells the metadata how the broker is reached and which log directories it can use.
    pub(crate) async fn register(self: &Arc<Self>) -> Result<(), Failure> {
        let registration = RegisterBroker {
            id: self.settings.node_id,
            endpoint: self.settings.advertised.clone(),
            rack: None,
            log_dirs: self.log_dirs.online_ids(),
        };
        self.submit(registration, None, None).await
    }

    /// Whether somebody waits for memory that connections hold.
    pub(crate) fn is_memory_contended(&self) -> bool {
        self.memory.is_contended() || self.building.is_contended()
    }

    /// The time, for the timestamps of records.
    pub fn now(&self) -> TimestampMs {
        wall_clock()
    }

    /// Judges a batch against its topic's rules, and gives it as the topic stores it.
    ///
    /// Records that are not compressed, and stay so, are looked at where they are, at some
    /// nanoseconds for each. All others are unpacked piece by piece, at a place for that.
    pub(crate) async fn admit(
        &self,
        batch: Batch,
        rules: &AppendRules,
    ) -> Result<(Batch, BatchSummary), Failure> {
        if let Some(target) = rules.recompression(batch.header()) {
            let admitted = self.recompression.recompress(&batch, rules, target).await?;
            let (bytes_in, bytes_out) = (batch.size_bytes(), admitted.0.size_bytes());
            self.metrics.recompressed.recompressed(target.codec(), bytes_in, bytes_out);
            return Ok(admitted);
        }
        if batch.header().attributes.codec() == Compression::None.id() {
            let summary = validate_for_append(&batch, rules)?;
            return Ok((batch, summary));
        }
        let validate =
            |decode_limit| validate_for_append(&batch, &AppendRules { decode_limit, ..*rules });
        let summary = self.append_unpacking.run(validate, is_cut_short).await??;
        Ok((batch, summary))
    }

    /// Finds records to send. At the end of a log that takes no I/O and is done at once; the
    /// index of older segments may have to come from the disk, and is looked at elsewhere.
    pub async fn read(
        &self,
        partition: &Partition,
        request: ReadRequest,
    ) -> Result<ReadSlice, LogError> {
        let log = partition.log();
        match read(&log, request).await {
            // The replica has just moved to another log directory, and its log was removed here.
            Err(LogError::Closed { .. }) if !Arc::ptr_eq(&log, &partition.log()) => {
                read(&partition.log(), request).await
            }
            result => result,
        }
    }

    /// The address to give to a client that reached us at `local`: that one, unless another is
    /// configured. So what a client is told to connect to is what it could connect to.
    pub fn advertised(&self, local: SocketAddr) -> Endpoint {
        match &self.settings.advertised {
            Some(endpoint) => endpoint.clone(),
            None => Endpoint { host: local.ip().to_canonical().to_string(), port: local.port() },
        }
    }
}

/// What the disk may have damaged since it was written is checked first: not every consumer looks.
async fn read(log: &Arc<Log>, request: ReadRequest) -> Result<ReadSlice, LogError> {
    let check = |slice: ReadSlice| match slice.is_trusted(wall_clock()) {
        true => Ok(slice),
        false => slice.checked(),
    };
    if log.is_hot(request.offset) {
        let slice = log.read(request)?;
        return match slice.is_trusted(wall_clock()) {
            true => Ok(slice),
            false => off_thread(move || slice.checked()).await,
        };
    }
    let log = Arc::clone(log);
    off_thread(move || log.read(request).and_then(check)).await
}

/// Ends at this time, if there is one.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// The time of day.
pub(crate) fn wall_clock() -> TimestampMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Does work that must not be given up halfway: it goes on when nobody waits for it any more.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Runs work that may wait for the disk where no connection has to wait with it.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Runs work that takes long where it is, and hands the worker's other connections to another
/// thread meanwhile. A runtime of one thread, as in tests, has no other.
pub(crate) fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => work(),
    }
}
