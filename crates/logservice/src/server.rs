//! Listening, serving and stopping.

use std::net::SocketAddr;
use std::sync::Arc;

use logway_metadata::settings::BrokerSettings;
use logway_node::Node;
use logway_node::listener::{Bound, ListenError, follow_files};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::serve;
use crate::metrics::Metrics;
use crate::routes::Door;
use crate::service::Service;

/// What clients can agree on by ALPN.
const PROTOCOLS: &[&str] = &["h2"];

/// Addresses that are bound. Connections to them wait until they are served.
#[derive(Debug)]
pub struct LogListeners(Vec<(Bound, Door)>);

impl LogListeners {
    /// Binds the configured addresses; `None` if there are none. To be done before a node starts, so that a port in use is
    /// known before any file is touched.
    pub async fn bind(settings: &BrokerSettings) -> Result<Option<LogListeners>, ListenError> {
        let mut bound = Vec::new();
        for of_log in Bound::bind(settings, &settings.log_service.listeners, PROTOCOLS).await? {
            bound.push((of_log, Door::Log));
        }
        for logspec in &settings.log_service.logspec {
            for of_logspec in
                Bound::bind(settings, std::slice::from_ref(&logspec.listener), PROTOCOLS).await?
            {
                bound.push((of_logspec, Door::Logspec(logspec.topic.clone())));
            }
        }
        Ok(Some(bound).filter(|bound| !bound.is_empty()).map(LogListeners))
    }

    /// What other machines can reach without a guard, by name and address.
    pub fn exposed(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|(bound, _)| bound.exposed())
    }
}

/// The front door, open.
pub struct LogServer {
    /// Of the log service.
    addresses: Vec<SocketAddr>,
    /// Of `logspec`, in the order of the setting.
    logspec_addresses: Vec<SocketAddr>,
    stopping: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl LogServer {
    /// Serves a node's partitions to clients of the log service.
    pub fn start(node: Arc<Node>, listeners: LogListeners, registry: &mut Registry) -> LogServer {
        let metrics = Metrics::default();
        metrics.register(registry);
        let (stopping, stop) = watch::channel(false);
        let LogListeners(bound) = listeners;
        let service = Arc::new(Service::new(node, metrics, stop.clone()));
        let (mut addresses, mut logspec_addresses, mut tasks) =
            (Vec::new(), Vec::new(), JoinSet::new());
        follow_files(bound.iter().map(|(bound, _)| bound), &stop, &mut tasks);
        for (Bound { socket, address, listener }, door) in bound {
            match door {
                Door::Log => addresses.push(address),
                Door::Logspec(_) => logspec_addresses.push(address),
            }
            let (service, stop, door) = (Arc::clone(&service), stop.clone(), Arc::new(door));
            tasks.spawn(async move {
                let node = Arc::clone(&service.node);
                let serve = |client, peer, stopping| {
                    let (listener, door) = (Arc::clone(&listener), Arc::clone(&door));
                    serve(client, peer, listener, door, Arc::clone(&service), stopping)
                };
                node.accept_connections(socket, &listener.limits, stop, serve).await;
            });
        }
        LogServer { addresses, logspec_addresses, stopping, tasks }
    }

    /// Where clients of the log service connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where clients of `logspec` connect.
    pub fn logspec_addresses(&self) -> &[SocketAddr] {
        &self.logspec_addresses
    }

    /// Takes no more calls, and ends those that are under way.
    pub async fn stop(mut self) {
        // Nobody listens any more if every task has ended by itself.
        let _ = self.stopping.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}
