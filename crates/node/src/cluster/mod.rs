//! This node among the others of its cluster.
//!
//! | file | idea |
//! |---|---|
//! | [`identity`] | who this node is, before its directories are opened: known, new, or admitted by a cluster |
//! | [`admission`] | who is believed to be a node, where nodes talk by TLS, and how one is admitted |
//! | [`seeds`] | the addresses that it was told to join: which cluster is there |
//! | [`calls`] | what other nodes ask of this one |
//! | [`session`] | this broker's life: it starts, says that it lives, and leaves |
//! | [`controller`] | the active controller hears the brokers, and fences those that are silent |
//! | [`balancing`] | the active controller moves partitions that nobody has asked it to move |
//! | [`levels`] | which metadata levels the nodes know, and how the cluster comes to the next one |
//! | [`holdings`] | what a broker's replicas take, and how full its disks are, in bytes |
//! | [`mutation`] | rules that a node breaks in a simulation of one |
//! | [`heartbeat`] | what a broker and the controller say to each other, in bytes |
//!
//! A node that was not told to listen for others has none of it: it is alone and stays so.

mod admission;
mod balancing;
mod calls;
mod controller;
mod heartbeat;
mod holdings;
mod identity;
mod levels;
mod mutation;
mod seeds;
mod session;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::future::BoxFuture;
use logway_log::random_uuid;
use logway_metadata::record::{BrokerEpoch, BrokerState, Endpoint, Listener};
use logway_metadata::{MetadataImage, MetadataLevel};
use logway_model::{BrokerId, Uuid};
use logway_peers::Carrier;
use tokio::sync::{Notify, watch};

use crate::replication::FetchSessions;
pub use admission::{AdmissionError, Admitted, AuthorityPem, KnownNodes, be_admitted};
pub(crate) use balancing::balance_unasked;
use controller::Controller;
pub(crate) use controller::look_after_brokers;
pub use identity::{FirstDirectory, way_out};
pub(crate) use identity::{Identified, Joined, forget_joining};
pub use levels::LevelRefusal;
pub(crate) use levels::finalize_unasked;
#[doc(hidden)]
pub use mutation::Mutation;
pub use seeds::WrongCluster;
pub(crate) use session::live;

pub use logway_metadata::record::NODE_LISTENER;

/// Finds out where nodes listen for nodes, through an address that clients know; `None` if no broker is there.
pub type FindNodes = Arc<dyn Fn(String) -> BoxFuture<'static, Option<Vec<String>>> + Send + Sync>;

/// How a node takes part in a cluster.
pub struct ClusterOptions {
    /// Where other nodes connect, and how they are reached.
    pub carrier: Arc<dyn Carrier>,
    /// The host that other nodes are told, if one is configured.
    pub host: Option<String>,
    /// Where clients connect, each listener once and in the order of the settings.
    pub clients: Vec<BoundListener>,
    /// Addresses of nodes, for other nodes or for clients, of a cluster to join; none to found one.
    pub join: Vec<String>,
    /// Whether it takes the place of the node that has its number, whose directories are lost. It says nothing to a node that has
    /// data.
    pub replaces: bool,
    /// Looks behind an address for clients.
    pub find_nodes: FindNodes,
    /// What the carrier's TLS needs; `None` where nodes talk in the clear.
    pub secure: Option<SecureNodes>,
    /// A rule that this node breaks, to see whether a simulation notices.
    #[doc(hidden)]
    pub mutation: Option<Mutation>,
}

/// What TLS between nodes needs.
pub struct SecureNodes {
    /// Who is believed to be a node. The carrier asks it, too.
    pub known: Arc<KnownNodes>,
    /// For those that are admitted.
    pub authority: AuthorityPem,
}

/// A listener for clients that is bound: what they are told, where no address is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundListener {
    /// Its name.
    pub name: String,
    /// The host, if it is a certain one.
    pub ip: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

/// What a node has that other nodes can reach.
pub(crate) struct Cluster {
    pub(crate) carrier: Arc<dyn Carrier>,
    /// Where other nodes reach this one.
    pub(crate) address: Endpoint,
    /// Where clients reach it, by listener, at least one.
    client_listeners: Vec<Listener>,
    /// This start of the process.
    incarnation: Uuid,
    /// The life that this start has begun, once the cluster knows of it.
    session: watch::Sender<Option<BrokerEpoch>>,
    /// What the broker wants to be.
    wanted: Mutex<BrokerState>,
    controller: Controller,
    /// Somebody may be in sync who was not.
    pub(crate) isr_due: Arc<Notify>,
    /// What this leader's followers have told.
    pub(crate) fetch_sessions: FetchSessions,
    /// `None` where nodes talk in the clear.
    secure: Option<SecureNodes>,
    mutation: Option<Mutation>,
}

impl Cluster {
    fn new(
        carrier: Arc<dyn Carrier>,
        address: Endpoint,
        client_listeners: Vec<Listener>,
        secure: Option<SecureNodes>,
        mutation: Option<Mutation>,
    ) -> Cluster {
        Cluster {
            carrier,
            address,
            client_listeners,
            incarnation: random_uuid(),
            session: watch::Sender::new(None),
            wanted: Mutex::new(BrokerState::Active),
            controller: Controller::default(),
            isr_due: Arc::default(),
            fetch_sessions: FetchSessions::default(),
            secure,
            mutation,
        }
    }

    /// The rule that the quorum breaks.
    pub(crate) fn quorum_mutation(&self) -> Option<logway_quorum::Mutation> {
        self.mutation.and_then(Mutation::of_quorum)
    }

    /// Whether nodes have to be known, and the cluster has told of none.
    pub(crate) fn was_told_of_nobody(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.known.is_empty())
    }

    /// The epoch of this life, once it has begun.
    pub(crate) fn session(&self) -> Option<BrokerEpoch> {
        *self.session.borrow()
    }

    /// Where clients reach it that name no listener.
    pub(crate) fn endpoint(&self) -> Option<Endpoint> {
        self.client_listeners.first().map(|listener| listener.endpoint.clone())
    }

    /// How other nodes and clients reach this broker.
    fn listeners(&self) -> Vec<Listener> {
        let of_nodes = Listener { name: NODE_LISTENER.to_owned(), endpoint: self.address.clone() };
        [of_nodes].into_iter().chain(self.client_listeners.iter().cloned()).collect()
    }

    fn wanted(&self) -> BrokerState {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, state: BrokerState) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Ends the connections of other nodes.
    pub(crate) async fn stop(&self) {
        self.carrier.stop().await;
    }
}

/// Whether the cluster has, or had, several nodes: then its brokers have sessions.
fn has_sessions(image: &MetadataImage) -> bool {
    image.metadata_level() >= MetadataLevel::CLUSTER
}

/// Where a broker listens for other nodes.
pub(crate) fn node_address(image: &MetadataImage, broker: BrokerId) -> Option<String> {
    let listeners = &image.broker_session(broker)?.listeners;
    let listener = listeners.iter().find(|listener| listener.name == NODE_LISTENER)?;
    Some(listener.endpoint.to_string())
}
