//! What a handler knows beside the request itself.

use std::sync::Arc;
use std::time::Duration;

use logway_log::VerificationGuard;
use logway_log::{LogError, TimestampLookup, TimestampedOffset};
use logway_metadata::record::Endpoint;
use logway_metadata::sasl::SaslMechanism;
use logway_metadata::settings::BrokerSettings;
use logway_metadata::{Command, MetadataLevel};
use logway_model::{BrokerId, ClusterId, ErrorCode, Offset, ProducerEpoch, ProducerId, Uuid};
use logway_node::append::{Acks, Appending};
use logway_node::groups::UnreadAges;
use logway_node::memory::{Held, MemoryBudget};
use logway_node::near::ReachedBy;
use logway_node::read::{Isolation, Patience, ReadBounds, ReadOutcome, ReadWish, Unread};
use logway_node::replica::Replica;
use logway_node::tasks::wall_clock;
use logway_node::transactions::{TransactionClaim, TransactionPart};
use logway_node::{Failure, Node};
use logway_quorum::{IndexedImage, MetadataIndex};
use logway_record::{Batch, DecodeLimit};
use logway_wire::WireString;

use super::charge::RequestCharge;
use super::connection_info::ConnectionInfo;
use crate::authentication::{Answered, Carriage, NotBelieved, take_token};
use crate::fetch_session::FetchSessions;
use crate::service::Service;
use crate::telemetry::{Push, Pusher, Subscribed};

/// What a handler knows beside the request itself.
///
/// Topics, groups and the cluster come from [`access`](super::access), by name and operation. What is here needs no
/// permission, or comes behind one: who has a replica was allowed to have it.
#[derive(Clone)]
pub(crate) struct RequestContext {
    /// What serves it. Handlers do not see it.
    service: Arc<Service>,
    /// The connection it came by.
    pub(crate) connection: Arc<ConnectionInfo>,
    /// The version of the request, and so of its answer.
    pub(crate) version: i16,
    /// Pairs the answer with the request.
    pub(crate) correlation_id: i32,
    /// What the client calls itself.
    pub(crate) client_id: Option<WireString>,
    /// The memory of the request itself. Who keeps something of the request keeps it, whatever becomes of the client.
    pub(crate) request_share: Held,
    /// The memory that answering takes, if it takes much. Work that goes on when the request is
    /// answered keeps it.
    pub(crate) building: Held,
    /// What the request uses up, if any client has a quota.
    pub(crate) charge: Option<Arc<RequestCharge>>,
}

/// What the header of a request says of it.
pub(crate) struct RequestOrigin {
    /// The version of the request.
    pub(crate) version: i16,
    /// Pairs the answer with the request.
    pub(crate) correlation_id: i32,
    /// What the client calls itself.
    pub(crate) client_id: Option<WireString>,
}

impl RequestContext {
    /// For a request that has just come.
    pub(crate) fn new(
        service: &Arc<Service>,
        connection: &Arc<ConnectionInfo>,
        origin: RequestOrigin,
        charge: Option<Arc<RequestCharge>>,
    ) -> RequestContext {
        let RequestOrigin { version, correlation_id, client_id } = origin;
        RequestContext {
            service: Arc::clone(service),
            connection: Arc::clone(connection),
            version,
            correlation_id,
            client_id,
            request_share: None,
            building: None,
            charge,
        }
    }

    /// The node that is asked; for [`access`](super::access), which asks for permission.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.service.node
    }

    /// What the node was started with.
    pub(crate) fn settings(&self) -> &BrokerSettings {
        &self.node().settings
    }

    /// The cluster that the node belongs to.
    pub(crate) fn cluster_id(&self) -> ClusterId {
        self.node().cluster_id
    }

    /// The finalised level of the metadata, and up to which commit the metadata is known here. No ACL guards it.
    pub(crate) fn metadata_level(&self) -> (MetadataLevel, MetadataIndex) {
        let IndexedImage { image, index, .. } = self.node().quorum.indexed_image();
        (image.metadata_level(), index)
    }

    /// The address to give to the client.
    pub(crate) fn advertised(&self) -> Endpoint {
        self.connection.listener.settings.advertised_to(self.connection.local)
    }

    /// The name of the listener that the client came by: it is told of that listener alone.
    pub(crate) fn listener_name(&self) -> &str {
        &self.connection.listener.settings.name
    }

    /// How the client can say who it is; not at all, where it is not asked.
    pub(crate) fn mechanisms(&self) -> &[SaslMechanism] {
        let sasl = self.connection.listener.settings.sasl.as_ref();
        sasl.map_or(&[], |sasl| &sasl.mechanisms)
    }

    /// The client chooses how it says who it is. See [`Authentication::choose`](crate::authentication::Authentication::choose).
    pub(crate) fn choose_mechanism(
        &self,
        asked: &str,
        carriage: Carriage,
    ) -> Result<(), ErrorCode> {
        match &self.connection.authentication {
            Some(authentication) => authentication.choose(self.mechanisms(), asked, carriage),
            None => Err(ErrorCode::IllegalSaslState),
        }
    }

    /// The client says who it is, in a request.
    pub(crate) async fn take_token(&self, token: &[u8]) -> Result<Answered, NotBelieved> {
        let connection = &self.connection;
        let Some(sasl) = &connection.listener.settings.sasl else {
            return Err(NotBelieved { message: "this listener asks nobody".to_owned() });
        };
        take_token(&self.service, connection, sasl, Carriage::Requests, token).await
    }

    /// The memory for making answers.
    pub(crate) fn building_budget(&self) -> &MemoryBudget {
        &self.node().memory.building
    }

    /// As [`Node::search`].
    pub(crate) async fn search(
        &self,
        replica: &Replica,
        look_up: impl Fn(DecodeLimit) -> Result<TimestampLookup, LogError>,
    ) -> Result<Option<TimestampedOffset>, ErrorCode> {
        self.node().search(replica, look_up).await.map_err(|failure| failure.code)
    }

    /// Looks for the ages of records for so long.
    pub(crate) fn unread_ages(&self, time_max: Duration) -> UnreadAges<'_> {
        UnreadAges::new(&self.node().age_unpacking, wall_clock(), time_max)
    }

    /// What consumers have told us once and need not repeat.
    pub(crate) fn fetch_sessions(&self) -> &FetchSessions {
        &self.service.fetch_sessions
    }

    /// Appends a batch to a replica, which the requester was given to write to. See [`Node::append_verified`].
    pub(crate) fn append<'a>(
        &'a self,
        replica: &'a Arc<Replica>,
        batch: Batch,
        acks: Acks,
        guard: Option<VerificationGuard>,
    ) -> impl Future<Output = Result<Appending, Failure>> + Send + 'a {
        self.node().append_verified(replica, batch, acks, &self.connection.appender, guard)
    }

    /// Whether batches are part of the transaction that a client claims. See [`Node::join_transaction`].
    pub(crate) async fn join_transaction(
        &self,
        claim: TransactionClaim<'_>,
        parts: &[TransactionPart],
    ) -> Vec<Result<Option<VerificationGuard>, ErrorCode>> {
        self.node().join_transaction(claim, parts).await
    }

    /// The broker that a consumer at an offset should read from instead of this replica, if it is in another rack and the
    /// broker has others read from followers.
    pub(crate) fn nearer_replica(
        &self,
        replica: &Replica,
        offset: Offset,
        rack: &str,
    ) -> Option<BrokerId> {
        if !self.settings().cluster.sends_readers_to_racks {
            return None;
        }
        let by = ReachedBy::Listener(self.listener_name());
        self.node().replica_in_rack(replica, offset, rack, by)
    }

    /// Reads what `find` finds, which has to ask for each replica, and goes on looking while the read waits.
    pub(crate) async fn read<W: AsRef<ReadWish>>(
        &self,
        wishes: &[W],
        find: impl Fn(&W) -> Result<Arc<Replica>, Unread>,
        isolation: Isolation,
        bounds: ReadBounds,
        patience: Patience<impl Future<Output = ()>>,
    ) -> Vec<ReadOutcome> {
        self.node().read(wishes, find, isolation, bounds, patience).await
    }

    /// Commits a change of the metadata, of which each part was judged. See [`Node::submit`].
    pub(crate) async fn submit<C: Command>(
        &self,
        command: C,
        time_max: Option<Duration>,
    ) -> Result<C::Reply, Failure> {
        self.node().submit(command, time_max, self.building.clone()).await
    }

    /// A new identity for an idempotent producer, which was judged.
    pub(crate) async fn next_producer_id(&self) -> Result<(ProducerId, ProducerEpoch), Failure> {
        self.node().next_producer_id().await
    }

    /// Which of its metrics the client is asked for. Every client may ask, as in Kafka.
    pub(crate) fn subscribe(&self, instance_id: Uuid) -> Result<Subscribed, ErrorCode> {
        self.service.telemetry.subscribe(&self.node().image(), self.pusher(), instance_id)
    }

    /// Takes what the client pushes.
    pub(crate) fn push(&self, push: &Push) -> Result<(), ErrorCode> {
        self.service.telemetry.push(&self.node().image(), self.pusher(), push)
    }

    /// The most that a push may unpack to, in bytes.
    pub(crate) fn unpacked_push_max_bytes(&self) -> usize {
        self.service.telemetry.unpacked_max_bytes()
    }

    /// The client, as telemetry knows it.
    fn pusher(&self) -> Pusher<'_> {
        let client_id = self.client_id.as_deref().unwrap_or_default();
        Pusher { connection: &self.connection, client_id }
    }
}
