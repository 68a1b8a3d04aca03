//! The broker: what its handlers share.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, Guard};
use logway_log::{LogDir, LogError, ReadRequest, ReadSlice};
use logway_metadata::MetadataImage;
use logway_metadata::controller::Command;
use logway_metadata::record::Endpoint;
use logway_metadata::settings::BrokerSettings;
use logway_model::{ClusterId, TimestampMs};
use logway_quorum::MetadataQuorum;
use logway_record::{
    AppendRules, Batch, BatchSummary, Compression, InvalidBatch, validate_for_append,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::connection::MemoryBudget;
use crate::failure::Failure;
use crate::fetch_session::FetchSessions;
use crate::groups::GroupCoordinator;
use crate::metrics::BrokerMetrics;
use crate::partition::Partition;
use crate::producer_ids::ProducerIds;
use crate::topics::TopicTable;

/// What every handler can reach. There is one in a process, shared by all connections.
pub struct Broker {
    /// What the broker was started with.
    pub settings: Arc<BrokerSettings>,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// The metadata of the cluster.
    pub quorum: MetadataQuorum,
    /// The logs.
    pub log_dir: LogDir,
    /// What requests may hold.
    pub memory: MemoryBudget,
    /// What large replies may hold until their clients have read them.
    pub reply_memory: MemoryBudget,
    /// What consumers have told us once and need not repeat.
    pub fetch_sessions: FetchSessions,
    /// Looks after the groups.
    pub groups: GroupCoordinator,
    /// Gives out producer ids.
    pub producer_ids: ProducerIds,
    /// What is counted.
    pub metrics: BrokerMetrics,
    /// Held by whoever unpacks compressed records: one at a time, so that the memory for it is
    /// bounded and the processors are not all taken.
    pub(crate) unpacking: Mutex<()>,
    pub(crate) topics: ArcSwap<TopicTable>,
    /// Held while the topics are brought in line with the metadata.
    pub(crate) reconciling: tokio::sync::Mutex<()>,
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

    /// Commits a change of the metadata. When this returns, the change is in force here: the logs
    /// of a new topic are open.
    pub async fn submit<C: Command>(self: &Arc<Self>, command: C) -> Result<C::Reply, Failure> {
        let reply = self.quorum.submit(command).await?;
        self.reconcile().await;
        Ok(reply)
    }

    /// The time, for the timestamps of records.
    pub fn now(&self) -> TimestampMs {
        wall_clock()
    }

    /// Judges a batch against its topic's rules.
    ///
    /// That looks at headers only, except on compacted topics, whose batches are unpacked for
    /// their keys. The worker's other connections are then handed to another thread.
    pub fn validate(
        &self,
        batch: &Batch,
        rules: &AppendRules,
    ) -> Result<BatchSummary, InvalidBatch> {
        let is_compressed =
            !matches!(batch.header().attributes.compression(), Ok(Compression::None));
        if !(rules.keys_required && is_compressed) {
            return validate_for_append(batch, rules);
        }
        let unpack = || {
            let _one_at_a_time = self.unpacking.lock().unwrap_or_else(PoisonError::into_inner);
            validate_for_append(batch, rules)
        };
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => block_in_place(unpack),
            _ => unpack(),
        }
    }

    /// Finds records to send. At the end of a log that takes no I/O and is done at once; the
    /// index of older segments may have to come from the disk, and is looked at elsewhere.
    pub async fn read(
        &self,
        partition: &Partition,
        request: ReadRequest,
    ) -> Result<ReadSlice, LogError> {
        if partition.log().is_hot(request.offset) {
            return partition.log().read(request);
        }
        let log = Arc::clone(partition.log());
        off_thread(move || log.read(request)).await
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

/// The time of day.
pub(crate) fn wall_clock() -> TimestampMs {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Runs work that may wait for the disk where no connection has to wait with it.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
