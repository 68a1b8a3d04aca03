//! Listening, serving and stopping.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use logway_metadata::record::Endpoint;
use logway_metadata::settings::BrokerSettings;
use logway_node::Node;
use logway_node::cluster::BoundListener;
use logway_node::listener::{Bound, ListenError, follow_files};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::accept_connections;
use crate::metrics::RequestMetrics;
use crate::routes::SERVED_APIS;
use crate::service::{Service, ServiceState};

/// Addresses that are bound. Connections to them wait until they are served.
#[derive(Debug)]
pub struct Listeners(Vec<Bound>);

impl Listeners {
    /// Binds each address of each listener. To be done before a node starts, so that a port in use is known before
    /// any file is touched.
    pub async fn bind(settings: &BrokerSettings) -> Result<Listeners, ListenError> {
        Bound::bind(settings, &settings.listeners, &[]).await.map(Listeners)
    }

    /// None: of a node that serves no clients.
    pub fn none() -> Listeners {
        Listeners(Vec::new())
    }

    /// What was bound: port 0 becomes a free one.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().map(|bound| bound.address)
    }

    /// Where clients find each guarded listener: what is advertised, or the address that is bound.
    pub fn for_clients(&self) -> Vec<Endpoint> {
        let guarded = self.0.iter().filter(|bound| bound.listener.settings.is_guarded());
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
        self.0.iter().filter_map(Bound::exposed)
    }

    /// The first address of each listener, as nodes of a cluster tell their clients of each other.
    pub fn first_of_each(&self) -> Vec<BoundListener> {
        let mut listeners: Vec<BoundListener> = Vec::new();
        for Bound { address, listener, .. } in &self.0 {
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
        let service = Arc::new(Service::new(node, metrics));
        registry.register_collector(Box::new(ServiceState(Arc::downgrade(&service))));
        let (stopping, stop) = watch::channel(false);
        let mut acceptors = JoinSet::new();
        let mut addresses = Vec::new();
        follow_files(listeners.0.iter(), &stop, &mut acceptors);
        for Bound { socket, address, listener } in listeners.0 {
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
