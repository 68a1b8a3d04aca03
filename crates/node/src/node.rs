//! A node: what its front doors and its own tasks share.

use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use logway_log::LogCleaner;
use logway_metadata::controller::{Command, RegisterBroker};
use logway_metadata::settings::broker::{CONNECTION_RATE_SETTING, CONNECTIONS_SETTING};
use logway_metadata::settings::{BrokerSettings, NodeRole};
use logway_metadata::{ConfigResource, MetadataImage};
use logway_model::{ClusterId, ErrorCode};
use logway_quorum::{MembersChange, MetadataQuorum};
use logway_security::delegation_token::TokenKey;
use logway_security::sasl::Strangers;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::access::Access;
use crate::append::Appends;
use crate::append::unpacking::UnpackingPlaces;
use crate::cluster::Cluster;
use crate::coordinator_counts::CoordinatorCounts;
use crate::disk_space::DiskSpaces;
use crate::events::ClusterEvents;
use crate::failure::Failure;
use crate::group_lag::GroupLag;
use crate::groups::GroupCoordinator;
use crate::heavy_work::HeavyWork;
use crate::log_dirs::{LogDirs, LostDirectories};
use crate::log_levels::LogLevels;
use crate::memory::{Held, Memory};
use crate::metrics::NodeMetrics;
use crate::producer_ids::ProducerIds;
use crate::quotas::{AddressCounts, ConnectionRates, ConnectionSeats, QuotaUse};
use crate::reconcile::Reconciliation;
use crate::replica_moves::ReplicaMoves;
use crate::replication::CatchUps;
use crate::streams::{ShardEnds, ShardMeters};
use crate::tasks::to_its_end;
use crate::topics::TopicTable;
use crate::transactions::TransactionCoordinator;
use crate::users::PasswordTurns;

/// One node of a cluster. There is one in a process, shared by all front doors.
pub struct Node {
    /// What the node was started with.
    pub settings: Arc<BrokerSettings>,
    /// What the log of the process tells.
    pub log_levels: LogLevels,
    /// The last changes of the cluster.
    pub events: Arc<ClusterEvents>,
    /// The cluster it belongs to.
    pub cluster_id: ClusterId,
    /// The metadata of the cluster.
    pub quorum: MetadataQuorum,
    /// The logs.
    pub log_dirs: LogDirs,
    /// The replicas that move from one log directory to another.
    pub replica_moves: ReplicaMoves,
    /// What replicas that are not in sync are copied at.
    pub(crate) catch_ups: CatchUps,
    /// What clients may do.
    pub access: Access,
    /// Who has a password checked.
    pub(crate) password_turns: PasswordTurns,
    /// What clients are told apart by that do not exist, at every front door.
    pub(crate) strangers: Strangers,
    /// The key of delegation tokens, where there are any.
    pub(crate) token_key: Option<TokenKey>,
    /// What clients may hold.
    pub memory: Memory,
    /// Looks after the groups.
    pub groups: GroupCoordinator,
    /// Looks after the transactional ids.
    pub transactions: TransactionCoordinator,
    /// How full the disks are.
    pub(crate) disk_spaces: DiskSpaces,
    /// How far groups are behind.
    pub group_lag: GroupLag,
    pub(crate) coordinator_counts: CoordinatorCounts,
    /// Gives out producer ids.
    pub producer_ids: ProducerIds,
    /// What clients have used of their quotas.
    pub quota_use: QuotaUse,
    /// The connections that there are.
    pub(crate) connection_seats: ConnectionSeats,
    /// How many connections are open from each address.
    pub connections_by_address: AddressCounts,
    /// How many connections are opened.
    pub connection_rates: ConnectionRates,
    /// What is counted.
    pub metrics: NodeMetrics,
    /// Where batches are unpacked that are searched for a timestamp.
    pub search_unpacking: UnpackingPlaces,
    /// Held by whoever unpacks a batch for the age of a record.
    pub age_unpacking: Mutex<()>,
    /// Does the work on large requests.
    pub heavy_work: HeavyWork,
    /// The way in.
    pub(crate) appends: Appends,
    /// Compacts the logs.
    pub log_cleaner: LogCleaner,
    pub(crate) topics: ArcSwap<TopicTable>,
    /// Bounds the admin commands in work, with those that nobody waits for any more.
    pub(crate) admin_slots: Arc<Semaphore>,
    /// How far what is served is with the metadata.
    pub(crate) reconciliation: Reconciliation,
    /// Held while the topics are brought in line with the metadata, and while a replica changes its log directory.
    pub(crate) reconciling: tokio::sync::Mutex<()>,
    /// What other nodes can reach; `None` for a node that is alone and stays so.
    pub(crate) cluster: Option<Cluster>,
    /// The closed shards whose ends are on their way to the metadata.
    pub(crate) shard_ends: ShardEnds,
    /// What is used of the limits of the shards that are led here.
    pub(crate) shard_meters: ShardMeters,
    /// Says when a log directory was lost without which the node cannot go on.
    pub(crate) lost_directories: watch::Sender<Option<LostDirectories>>,
}

impl Node {
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
    pub fn changeable_setting<T: FromStr>(&self, name: &str) -> Option<T> {
        let image = self.image();
        let of_brokers =
            [ConfigResource::Broker(self.settings.node_id), ConfigResource::BrokerDefault];
        let set = of_brokers
            .iter()
            .find_map(|resource| image.overrides(resource)?.get(name)?.parse().ok());
        set.or_else(|| self.settings.given(name)?.parse().ok())
    }

    /// `max.connections` as it is in force.
    pub fn connections_max(&self) -> usize {
        self.changeable_setting(CONNECTIONS_SETTING).unwrap_or(self.settings.connections_max)
    }

    /// `max.connection.creation.rate` as it is in force.
    pub fn connections_per_second_max(&self) -> u32 {
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
        let node = Arc::clone(self);
        let work = async move {
            let committed = node.quorum.submit(command).await?;
            node.reconciliation.reached(committed.index).await?;
            Ok(committed.reply)
        };
        self.administer(work, time_max, held).await
    }

    /// Admits or removes a member of the cluster, or gives or takes a vote. When this returns, this node knows of it.
    ///
    /// Bounded and held as by [`Node::submit`].
    pub async fn change_members(
        self: &Arc<Self>,
        change: MembersChange,
        time_max: Option<Duration>,
        held: Held,
    ) -> Result<(), Failure> {
        let node = Arc::clone(self);
        let work = async move {
            node.quorum.change_members(change).await?;
            Ok(())
        };
        self.administer(work, time_max, held).await
    }

    /// Waits until the metadata here has everything that was committed before this was called, on whichever node.
    ///
    /// Fails with `NOT_CONTROLLER` where no leader of the quorum is found, and with `REQUEST_TIMED_OUT` after `time_max`.
    pub async fn until_current(&self, time_max: Duration) -> Result<(), Failure> {
        match timeout(time_max, self.quorum.wait_until_current()).await {
            Ok(current) => Ok(current.map(|_index| ())?),
            Err(_elapsed) => {
                let message = format!("this node is behind the metadata quorum for {time_max:?}");
                Err(Failure::new(ErrorCode::RequestTimedOut, message))
            }
        }
    }

    /// Does the work of an admin request when it is its turn, to its end.
    async fn administer<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
        time_max: Option<Duration>,
        held: Held,
    ) -> Result<T, Failure> {
        let slots = Arc::clone(&self.admin_slots);
        let work = async move {
            let slot = slots.acquire_owned().await;
            to_its_end(async move {
                let _held = (slot, held);
                work.await
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

    /// Whether all replicas that this node is to have are in sync, as far as it knows.
    pub fn is_in_sync(&self) -> bool {
        let (id, image) = (self.settings.node_id, self.image());
        let mut partitions = image.topics().flat_map(|topic| &topic.partitions);
        partitions.all(|partition| !partition.replicas.contains(&id) || partition.isr.contains(&id))
    }

    /// Whether it only votes: then it is no broker.
    pub(crate) fn is_voter(&self) -> bool {
        self.settings.cluster.role == NodeRole::Voter
    }

    /// Tells the metadata how the broker is reached and which log directories it can use. A voter has nothing to tell.
    pub(crate) async fn register(self: &Arc<Self>) -> Result<(), Failure> {
        if self.is_voter() {
            return Ok(());
        }
        let registration = RegisterBroker {
            id: self.settings.node_id,
            endpoint: match &self.cluster {
                Some(cluster) if cluster.session().is_some() => cluster.endpoint(),
                _ => self.settings.listeners[0].advertised.clone(),
            },
            rack: self.settings.cluster.rack.clone(),
            log_dirs: self.log_dirs.online_ids(),
        };
        self.submit(registration, None, None).await
    }
}
