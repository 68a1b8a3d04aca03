//! Listening, serving and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use logway_metadata::record::Endpoint;
use logway_node::Node;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::accept_connections;
use crate::metrics::RequestMetrics;
use crate::routes::SERVED_APIS;
use crate::service::{Service, ServiceState};

/// Connections of one listener that may wait to be accepted. The kernel may allow fewer
/// (`net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4_096;

/// An address to listen on cannot be had.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    /// The configured address.
    pub address: Endpoint,
    /// Why.
    pub source: io::Error,
}

/// Addresses that are bound. Connections to them wait until they are served.
#[derive(Debug)]
pub struct Listeners(Vec<(TcpListener, SocketAddr)>);

impl Listeners {
    /// Binds each endpoint. To be done before a node starts, so that a port in use is known before any file
    /// is touched.
    pub async fn bind(endpoints: &[Endpoint]) -> Result<Listeners, ListenError> {
        listen(endpoints).await.map(Listeners)
    }

    /// What was bound: port 0 becomes a free one.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().map(|(_, address)| *address)
    }
}

/// The front door, open.
pub struct KafkaServer {
    addresses: Vec<SocketAddr>,
    stopping: watch::Sender<bool>,
    acceptors: JoinSet<()>,
}

impl KafkaServer {
    /// Serves a node's partitions to Kafka clients.
    pub fn start(node: Arc<Node>, listeners: Listeners, registry: &mut Registry) -> KafkaServer {
        let metrics = RequestMetrics::new(SERVED_APIS.iter().map(|api| api.key));
        metrics.register(registry);
        let service = Arc::new(Service::new(node, metrics));
        registry.register_collector(Box::new(ServiceState(Arc::downgrade(&service))));
        let (stopping, stop) = watch::channel(false);
        let mut acceptors = JoinSet::new();
        let mut addresses = Vec::new();
        for (listener, address) in listeners.0 {
            addresses.push(address);
            acceptors.spawn(accept_connections(listener, Arc::clone(&service), stop.clone()));
        }
        KafkaServer { addresses, stopping, acceptors }
    }

    /// Where clients connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes no more requests, and answers those that were read. The node has told the connections before
    /// ([`Node::begin_stop`]).
    pub async fn stop(mut self) {
        // Nobody listens any more if every acceptor has ended by itself.
        let _ = self.stopping.send(true);
        while self.acceptors.join_next().await.is_some() {}
    }
}

async fn listen(endpoints: &[Endpoint]) -> Result<Vec<(TcpListener, SocketAddr)>, ListenError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        let fail = |source| ListenError { address: endpoint.clone(), source };
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
