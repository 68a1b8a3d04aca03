//! A broker: a node with its front doors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_kafka::{KafkaServer, ListenError, Listeners};
use logway_metadata::settings::BrokerSettings;
use logway_node::log_levels::LogLevels;
use logway_node::{Node, NodeError};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::task::JoinSet;

use crate::nodes::{self, NodeListenError};

/// Why a broker did not start, or did not stop cleanly.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// An address to listen on cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Nor can one for other nodes.
    #[error(transparent)]
    ListenForNodes(#[from] NodeListenError),
    /// The node could not do it.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// A broker that serves clients.
pub struct RunningBroker {
    node: Arc<Node>,
    kafka: KafkaServer,
    /// Ends with the broker.
    _reminder: JoinSet<()>,
}

impl RunningBroker {
    /// Opens the log directories, recovers what a crash left, and listens.
    ///
    /// When this returns, clients are served.
    pub async fn start(
        settings: BrokerSettings,
        log_levels: LogLevels,
        registry: &mut Registry,
    ) -> Result<RunningBroker, BrokerError> {
        // First, so that a port in use is known before anything is touched.
        let listeners = Listeners::bind(&settings).await?;
        let cluster = nodes::listen(&settings, &listeners).await?;
        let nodes = cluster.iter().map(|cluster| cluster.carrier.address());
        let nodes = nodes.filter(|address| !address.ip().is_loopback());
        let exposed = listeners.exposed().chain(nodes.map(|address| format!("nodes {address}")));
        let reminder = remind_of(exposed.collect());
        let node = Node::start(settings, cluster, log_levels, registry).await?;
        let kafka = KafkaServer::start(Arc::clone(&node), listeners, registry);
        Ok(RunningBroker { node, kafka, _reminder: reminder })
    }

    /// Where Kafka clients connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.kafka.addresses()
    }

    /// The node behind the front doors.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Waits until the broker cannot go on, which may never be; returns why.
    pub async fn failed(&self) -> BrokerError {
        self.node.failed().await.into()
    }

    /// Stops taking requests, answers those that were read, puts everything on disk and marks the
    /// shutdown as clean.
    pub async fn stop(self) -> Result<(), BrokerError> {
        // First, while clients are still told who leads instead.
        self.node.leave().await;
        self.node.begin_stop();
        self.kafka.stop().await;
        Ok(self.node.stop().await?)
    }
}

/// Says now and each hour what others can reach without being asked who they are.
fn remind_of(exposed: Vec<String>) -> JoinSet<()> {
    let mut reminder = JoinSet::new();
    if !exposed.is_empty() {
        let exposed = exposed.join(", ");
        reminder.spawn(async move {
            let mut hours = tokio::time::interval(Duration::from_secs(3_600));
            loop {
                hours.tick().await;
                tracing::warn!(%exposed, "other machines reach this without encryption or without being asked who they are (--insecure)");
            }
        });
    }
    reminder
}
