//! Listening, serving and stopping.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use logway_metadata::record::Endpoint;
use logway_metadata::settings::{BrokerSettings, SecurityProtocol};
use logway_node::Node;
use logway_node::cluster::BoundListener;
use logway_node::listener_files::follow_files;
use logway_security::sasl::Strangers;
use logway_security::scram::NoRandomness;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::accept_connections;
use crate::listener::{Listener, ListenerError};
use crate::metrics::RequestMetrics;
use crate::routes::SERVED_APIS;
use crate::service::{Service, ServiceState};

/// Connections of one listener that may wait to be accepted. The kernel may allow fewer
/// (`net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4_096;

/// Why a listener cannot be opened.
#[derive(Debug, Error)]
pub enum ListenError {
    /// An address to listen on cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The configured address.
        address: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// Other machines could reach it, and it is not guarded.
    #[error(
        "listener {listener}: other machines could reach {address}, and it is {protocol}: clients there are not asked \
         who they are, or nothing is encrypted"
    )]
    Exposed {
        /// Which one.
        listener: String,
        /// Where.
        address: SocketAddr,
        /// What is spoken there.
        protocol: SecurityProtocol,
    },
    /// Secrets cannot be made.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// It cannot have TLS, or judge its clients' tokens.
    #[error("listener {listener}: {source}")]
    Files {
        /// Which one.
        listener: String,
        /// Why.
        source: ListenerError,
    },
}

/// Addresses that are bound. Connections to them wait until they are served.
#[derive(Debug)]
pub struct Listeners {
    bound: Vec<Bound>,
    strangers: Strangers,
}

/// An address that is bound, and the listener that it belongs to.
#[derive(Debug)]
struct Bound {
    socket: TcpListener,
    address: SocketAddr,
    listener: Arc<Listener>,
}

impl Listeners {
    /// Binds each address of each listener. To be done before a node starts, so that a port in use is known before
    /// any file is touched.
    pub async fn bind(settings: &BrokerSettings) -> Result<Listeners, ListenError> {
        let mut bound = Vec::new();
        for of_listener in &settings.listeners {
            let name = || of_listener.name.clone();
            let listener = Listener::new(settings, of_listener)
                .map_err(|source| ListenError::Files { listener: name(), source })?;
            let listener = Arc::new(listener);
            let check = |address: SocketAddr| {
                let protocol = of_listener.protocol;
                match settings.may_listen(address.ip(), of_listener.is_guarded()) {
                    true => Ok(()),
                    false => Err(ListenError::Exposed { listener: name(), address, protocol }),
                }
            };
            for (socket, address) in listen(&of_listener.addresses, check).await? {
                bound.push(Bound { socket, address, listener: Arc::clone(&listener) });
            }
        }
        Ok(Listeners { bound, strangers: Strangers::new()? })
    }

    /// What was bound: port 0 becomes a free one.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.bound.iter().map(|bound| bound.address)
    }

    /// Where clients find each guarded listener: what is advertised, or the address that is bound.
    pub fn for_clients(&self) -> Vec<Endpoint> {
        let guarded = self.bound.iter().filter(|bound| bound.listener.settings.is_guarded());
        let told = guarded.map(|Bound { address, listener, .. }| {
            let own = |ip: IpAddr| SocketAddr::new(ip, address.port());
            let local = match address.ip().is_unspecified() {
                true => own(Ipv4Addr::LOCALHOST.into()),
                false => *address,
            };
            listener.settings.advertised_to(local)
        });
        told.collect()
    }

    /// What other machines can reach without a guard, by name and address.
    pub fn exposed(&self) -> impl Iterator<Item = String> {
        let is_exposed = |bound: &&Bound| {
            !bound.listener.settings.is_guarded() && !bound.address.ip().is_loopback()
        };
        let described =
            |bound: &Bound| format!("{} {}", bound.listener.settings.name, bound.address);
        self.bound.iter().filter(is_exposed).map(described)
    }

    /// The first address of each listener, as nodes of a cluster tell their clients of each other.
    pub fn first_of_each(&self) -> Vec<BoundListener> {
        let mut listeners: Vec<BoundListener> = Vec::new();
        for Bound { address, listener, .. } in &self.bound {
            let name = &listener.settings.name;
            if listeners.iter().all(|known| known.name != *name) {
                let ip = Some(address.ip()).filter(|ip| !ip.is_unspecified());
                listeners.push(BoundListener { name: name.clone(), ip, port: address.port() });
            }
        }
        listeners
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
        let service = Arc::new(Service::new(node, listeners.strangers, metrics));
        registry.register_collector(Box::new(ServiceState(Arc::downgrade(&service))));
        let (stopping, stop) = watch::channel(false);
        let mut acceptors = JoinSet::new();
        let mut addresses = Vec::new();
        let opened = listeners.bound.iter().map(|bound| &bound.listener);
        for listener in opened.filter(|listener| listener.has_files()) {
            let listener = Arc::clone(listener);
            acceptors.spawn(follow_files(move || listener.look_at_files(), stop.clone()));
        }
        for Bound { socket, address, listener } in listeners.bound {
            addresses.push(address);
            let service = Arc::clone(&service);
            acceptors.spawn(accept_connections(socket, listener, service, stop.clone()));
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

/// `check` refuses addresses before they are bound.
async fn listen(
    endpoints: &[Endpoint],
    check: impl Fn(SocketAddr) -> Result<(), ListenError>,
) -> Result<Vec<(TcpListener, SocketAddr)>, ListenError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        let fail = |source| ListenError::Bind { address: endpoint.clone(), source };
        let addresses = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let mut bound = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses.map_err(fail)? {
            check(address)?;
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
