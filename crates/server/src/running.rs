//! A broker: a node with its front doors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_http::HttpListeners;
use logway_kafka::{KafkaServer, Listeners};
use logway_kinesis::{BoundListener, KinesisServer};
use logway_logservice::{LogListeners, LogServer};
use logway_metadata::settings::{BrokerSettings, NodeRole};
use logway_node::cluster::ClusterOptions;
use logway_node::listener::ListenError;
use logway_node::log_levels::LogLevels;
use logway_node::{Node, NodeError};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::task::JoinSet;

use crate::nodes::{self, NodeListenError};
use crate::secure::{Secure, SecureError};

/// Why a broker did not start, or did not stop cleanly.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// An address to listen on cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Nor can one for health and metrics.
    #[error("HTTP: {0}")]
    ListenForHttp(#[source] ListenError),
    /// Nor can one for clients of the log service.
    #[error(transparent)]
    ListenForLog(ListenError),
    /// There can be no TLS or no user.
    #[error(transparent)]
    Secure(#[from] SecureError),
    /// Nor can one for Kinesis clients.
    #[error(transparent)]
    ListenForKinesis(#[from] logway_kinesis::ListenError),
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
    /// What ends with the broker.
    _tasks: JoinSet<()>,
    /// `None` where nobody asked for it.
    kinesis: Option<KinesisServer>,
    /// Likewise.
    log_service: Option<LogServer>,
}

impl RunningBroker {
    /// Opens the log directories, recovers what a crash left, and listens.
    ///
    /// `replaces` says whether a node without data takes the place of the one that has its number. When this returns, clients are
    /// served; a voter serves none. What is to serve health and metrics is bound: its connections wait.
    pub async fn start(
        mut settings: BrokerSettings,
        replaces: bool,
        log_levels: LogLevels,
        registry: &mut Registry,
    ) -> Result<(RunningBroker, HttpListeners), BrokerError> {
        let secure = match settings.secure {
            true => Some(Secure::prepare(&settings).await?),
            false => None,
        };
        if let Some(secure) = &secure {
            settings.delegation_tokens.secret_key.get_or_insert_with(|| secure.token_key());
        }
        // First, so that a port in use is known before anything of the logs is touched.
        let is_voter = settings.cluster.role == NodeRole::Voter;
        let listeners = match is_voter {
            true => Listeners::none(),
            false => Listeners::bind(&settings).await?,
        };
        let kinesis = BoundListener::bind(&settings).await?;
        let log_service = LogListeners::bind(&settings).await.map_err(BrokerError::ListenForLog)?;
        let http = HttpListeners::bind(&settings).await.map_err(BrokerError::ListenForHttp)?;
        let cluster = nodes::listen(&settings, &listeners, secure.as_ref()).await?;
        let cluster = cluster.map(|cluster| ClusterOptions { replaces, ..cluster });
        let nodes = cluster.iter().map(|cluster| cluster.carrier.address());
        let nodes = nodes.filter(|address| secure.is_none() && !address.ip().is_loopback());
        let exposed = listeners.exposed().chain(nodes.map(|address| format!("nodes {address}")));
        let of_kinesis = kinesis.iter().filter(|_| !settings.kinesis.is_guarded());
        let of_kinesis = of_kinesis.map(BoundListener::address);
        let of_kinesis = of_kinesis.filter(|address| !address.ip().is_loopback());
        let exposed = exposed.chain(of_kinesis.map(|address| format!("Kinesis {address}")));
        let exposed = exposed.chain(log_service.iter().flat_map(LogListeners::exposed));
        let exposed = exposed.chain(http.exposed().map(|address| format!("HTTP {address}")));
        let mut tasks = JoinSet::new();
        remind_of(exposed.collect(), &mut tasks);
        let addresses = listeners.for_clients();
        let node = Node::start(settings, cluster, log_levels, registry).await?;
        if let Some(secure) = secure {
            secure.found(&node).await?;
            if !is_voter {
                secure.make_admin(&node, &addresses).await?;
            }
            tasks.spawn(secure.renew_in_time());
        }
        let kafka = KafkaServer::start(Arc::clone(&node), listeners, registry);
        let kinesis = kinesis.map(|bound| KinesisServer::start(Arc::clone(&node), bound, registry));
        let log_service =
            log_service.map(|bound| LogServer::start(Arc::clone(&node), bound, registry));
        Ok((RunningBroker { node, kafka, kinesis, log_service, _tasks: tasks }, http))
    }

    /// Where Kafka clients connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.kafka.addresses()
    }

    /// Where Kinesis clients connect, if they can.
    pub fn kinesis_address(&self) -> Option<SocketAddr> {
        self.kinesis.as_ref().map(KinesisServer::address)
    }

    /// The log service, if there is one.
    pub fn log_service(&self) -> Option<&LogServer> {
        self.log_service.as_ref()
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
        if let Some(kinesis) = self.kinesis {
            kinesis.stop().await;
        }
        if let Some(log_service) = self.log_service {
            log_service.stop().await;
        }
        self.kafka.stop().await;
        Ok(self.node.stop().await?)
    }
}

/// Says now and each hour what others can reach without being asked who they are.
fn remind_of(exposed: Vec<String>, tasks: &mut JoinSet<()>) {
    if !exposed.is_empty() {
        let exposed = exposed.join(", ");
        tasks.spawn(async move {
            let mut hours = tokio::time::interval(Duration::from_secs(3_600));
            loop {
                hours.tick().await;
                tracing::warn!(%exposed, "other machines reach this without encryption or without being asked who they are (--insecure)");
            }
        });
    }
}
