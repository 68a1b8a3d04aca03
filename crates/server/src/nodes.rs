//! Where nodes of a cluster listen for each other, as the settings say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_client::{BrokerAddress, Client, ClientOptions, ConnectionOptions};
use logway_kafka::Listeners;
use logway_metadata::settings::BrokerSettings;
use logway_node::cluster::{ClusterOptions, FindNodes, NODE_LISTENER};
use logway_peers::{PeerListener, TcpCarrier};
use thiserror::Error;

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
    /// Other machines could reach it, and nobody there is asked who he is.
    #[error(
        "other machines could reach {address}, where nodes talk to each other: nothing there is encrypted yet, and \
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
) -> Result<Option<ClusterOptions>, NodeListenError> {
    let cluster = &settings.cluster;
    // Nodes do not talk by TLS yet.
    if settings.secure {
        return Ok(None);
    }
    let is_asked_for = cluster.listen.is_some() || !cluster.join.is_empty();
    let Some(address) = address(settings, clients) else { return Ok(None) };
    let listener = PeerListener::bind(&address).await;
    let listener = match listener {
        Ok(listener) => listener,
        Err(source) if is_asked_for => return Err(NodeListenError::Bind { address, source }),
        Err(error) => {
            tracing::info!(address, %error, "no other node can join this one");
            return Ok(None);
        }
    };
    if !settings.may_listen(listener.address().ip(), false) {
        return match is_asked_for {
            true => Err(NodeListenError::Exposed { address }),
            false => Ok(None),
        };
    }
    tracing::info!(address = %listener.address(), "other nodes can join here");
    Ok(Some(ClusterOptions {
        carrier: Arc::new(TcpCarrier::new(listener)),
        host: cluster.advertised.clone(),
        clients: clients.first_of_each(),
        join: cluster.join.clone(),
        find_nodes: find_nodes(),
        mutation: None,
    }))
}

/// Where to listen: what is configured, or the port after that of clients. Where clients get a free port, so do nodes.
fn address(settings: &BrokerSettings, clients: &Listeners) -> Option<String> {
    if let Some(configured) = &settings.cluster.listen {
        return Some(configured.to_string());
    }
    let bound = clients.addresses().next()?;
    let asked = settings.listeners.first()?.addresses.first()?;
    let port = if asked.port == 0 { 0 } else { bound.port().checked_add(1)? };
    Some(SocketAddr::new(bound.ip(), port).to_string())
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
