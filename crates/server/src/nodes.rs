//! Where nodes of a cluster listen for each other, as the settings say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_client::{BrokerAddress, Client, ClientOptions, ConnectionOptions};
use logway_kafka::Listeners;
use logway_metadata::record::Endpoint;
use logway_metadata::settings::{BrokerSettings, NodeRole};
use logway_node::cluster::{ClusterOptions, FindNodes, NODE_LISTENER};
use logway_peers::{PeerListener, TcpCarrier};
use logway_security::authority::has_node_key;
use thiserror::Error;

use crate::secure::{self, Secure};

/// How long a node that clients know may take to say where nodes are.
const FIND_MAX: Duration = Duration::from_secs(2);

/// Why a node cannot listen for others.
#[derive(Debug, Error)]
pub enum NodeListenError {
    /// The address cannot be had.
    #[error("cannot listen for other nodes on {address}: {source}")]
    Bind {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The nodes of its cluster talk by TLS.
    #[error("the nodes of this cluster talk by TLS, and logway.secure is not set")]
    NotSecure,
    /// Other machines could reach it, and nobody there is asked who he is.
    #[error(
        "other machines could reach {address}, where nodes talk to each other: nothing there is encrypted without logway.secure, and \
         whoever reaches it can read and change all data"
    )]
    Exposed {
        /// Where.
        address: String,
    },
}

/// Listens for other nodes; `None` where nobody asked for it and it cannot be had: the node is then alone.
///
/// `clients` is what was bound for Kafka clients. Not told otherwise, the port after that is taken.
pub(crate) async fn listen(
    settings: &BrokerSettings,
    clients: &Listeners,
    secure: Option<&Secure>,
) -> Result<Option<ClusterOptions>, NodeListenError> {
    let cluster = &settings.cluster;
    let is_voter = cluster.role == NodeRole::Voter;
    let is_asked_for = cluster.listen.is_some() || !cluster.join.is_empty() || is_voter;
    let Some(address) = address(settings, clients) else { return Ok(None) };
    // Its nodes talk by TLS, and somebody who listens in the clear is no node of it.
    if secure.is_none() && has_node_key(&secure::directory(&settings.log_dirs[0])) {
        return match is_asked_for {
            true => Err(NodeListenError::NotSecure),
            false => Ok(None),
        };
    }
    let listener = PeerListener::bind(&address).await;
    let listener = match listener {
        Ok(listener) => listener,
        Err(source) if is_asked_for => return Err(NodeListenError::Bind { address, source }),
        Err(error) => {
            tracing::info!(address, %error, "no other node can join this one");
            return Ok(None);
        }
    };
    if !settings.may_listen(listener.address().ip(), secure.is_some()) {
        return match is_asked_for {
            true => Err(NodeListenError::Exposed { address }),
            false => Ok(None),
        };
    }
    tracing::info!(address = %listener.address(), "other nodes can join here");
    Ok(Some(ClusterOptions {
        carrier: Arc::new(TcpCarrier::new(listener, secure.map(Secure::peer_tls))),
        host: cluster.advertised.clone(),
        clients: clients.first_of_each(),
        join: cluster
            .join
            .iter()
            .cloned()
            .chain(secure.iter().flat_map(|secure| secure.addresses_of_token()))
            .collect(),
        replaces: false,
        find_nodes: match secure {
            Some(_) => find_by_default_port(),
            None => find_nodes(),
        },
        secure: secure.map(Secure::nodes),
        mutation: None,
    }))
}

/// Where to listen: what is configured, or the port after that of clients. Where clients get a free port, so do nodes.
fn address(settings: &BrokerSettings, clients: &Listeners) -> Option<String> {
    if let Some(configured) = &settings.cluster.listen {
        return Some(configured.to_string());
    }
    let asked = settings.listeners.first()?.addresses.first()?;
    let Some(bound) = clients.addresses().next() else {
        // A voter serves no clients: what it was to listen on for them says where nodes find it.
        let port = if asked.port == 0 { 0 } else { asked.port.checked_add(1)? };
        return Some(Endpoint { host: asked.host.clone(), port }.to_string());
    };
    let port = if asked.port == 0 { 0 } else { bound.port().checked_add(1)? };
    Some(SocketAddr::new(bound.ip(), port).to_string())
}

/// Where a node listens for nodes if nothing else is configured. Brokers of a secure cluster tell nobody who has no password.
fn find_by_default_port() -> FindNodes {
    Arc::new(|address: String| Box::pin(async move { Some(vec![next_port(&address)?]) }))
}

/// The same of one address.
pub(crate) fn next_port(address: &str) -> Option<String> {
    let Endpoint { host, port } = address.parse().ok()?;
    Some(Endpoint { host, port: port.checked_add(1)? }.to_string())
}

/// Asks a node at an address that clients know where nodes listen: it is in what it says of the quorum (KIP-853).
fn find_nodes() -> FindNodes {
    Arc::new(|address: String| {
        Box::pin(async move {
            let address: BrokerAddress = address.parse().ok()?;
            let connection = ConnectionOptions { connect_timeout: FIND_MAX, ..Default::default() };
            let options = ClientOptions { connection, ..ClientOptions::default() };
            let client = Client::new(vec![address], options);
            let described = tokio::time::timeout(FIND_MAX, client.describe_quorum()).await;
            let Ok(Ok(quorum)) = described else { return None };
            let listeners = quorum.nodes.into_iter().flat_map(|node| node.listeners);
            let of_nodes = listeners.filter(|(name, _)| name == NODE_LISTENER);
            Some(of_nodes.map(|(_, address)| address.to_string()).collect())
        })
    })
}
