//! Listening, serving and stopping.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use logway_metadata::record::Endpoint;
use logway_metadata::settings::{BrokerSettings, KINESIS_LISTENER};
use logway_node::Node;
use logway_node::accept::stopped;
use logway_node::handshake::shake_hands;
use logway_node::listener_files::{follow_files, look_at_certificate};
use logway_node::quotas::ListenerLimits;
use logway_security::{ServerTls, TlsError};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::body::InWork;
use crate::caller::Peer;
use crate::http::answer;
use crate::monitoring::gauges::Gauges;
use crate::names::Account;
use crate::service::{Service, Subscriptions};
use crate::stream_metrics::{StreamMetrics, StreamMetricsCollector};
use crate::tables::Tables;
use crate::timed_io::{Patience, Requests, TimedIo};

/// What clients can agree on by ALPN.
const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

/// How long a client may take to say anything.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(30);

/// How long it may take to send the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// How long it may take to read anything of a response.
const WRITE_MAX: Duration = Duration::from_secs(30);

/// Connections with a request under way are never idle for longer: an event stream lives for five minutes.
const IDLE_MIN: Duration = Duration::from_secs(360);

/// Requests that a connection may have under way.
const STREAMS_MAX: u32 = 128;

/// The most that a request's head may have, in bytes.
const HEAD_BYTES_MAX: u32 = 32 << 10;

/// Clients over HTTP/2 are asked so often whether they are there.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Why the address to listen on cannot be had.
#[derive(Debug, Error)]
pub enum ListenError {
    /// It cannot be bound.
    #[error("cannot listen on {address} (Kinesis): {source}")]
    Bind {
        /// The configured address.
        address: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// Other machines could reach it, and it is not guarded.
    #[error(
        "other machines could reach {address} (Kinesis): it needs kinesis.tls and kinesis.signatures"
    )]
    Exposed {
        /// Where.
        address: SocketAddr,
    },
    /// Its certificate cannot be used.
    #[error("cannot use the certificate for {address} (Kinesis): {source}")]
    Tls {
        /// The configured address.
        address: Endpoint,
        /// Why.
        source: TlsError,
    },
}

/// An address that is bound. Connections to it wait until they are served.
#[derive(Debug)]
pub struct BoundListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<ServerTls>,
}

impl BoundListener {
    /// Binds the configured address; `None` if there is none. To be done before a node starts, so that a port in use is known
    /// before any file is touched.
    pub async fn bind(settings: &BrokerSettings) -> Result<Option<BoundListener>, ListenError> {
        let Some(endpoint) = &settings.kinesis.listen else { return Ok(None) };
        let fail = |source| ListenError::Bind { address: endpoint.clone(), source };
        let addresses = lookup_host((endpoint.host.as_str(), endpoint.port)).await.map_err(fail)?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let is_guarded = settings.kinesis.is_guarded();
        let is_exposed = |address: &&SocketAddr| !settings.may_listen(address.ip(), is_guarded);
        if let Some(&address) = addresses.iter().find(is_exposed) {
            return Err(ListenError::Exposed { address });
        }
        let load = |tls| ServerTls::load(tls, &PROTOCOLS, SystemTime::now());
        let tls = settings.kinesis.tls.as_ref().map(load).transpose();
        let tls = tls.map_err(|source| ListenError::Tls { address: endpoint.clone(), source })?;
        let listener = TcpListener::bind(&addresses[..]).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Some(BoundListener { listener, address, tls }))
    }

    /// What was bound: port 0 becomes a free one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The front door, open.
pub struct KinesisServer {
    address: SocketAddr,
    stopping: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl KinesisServer {
    /// Serves a node's streams to Kinesis clients.
    pub fn start(node: Arc<Node>, bound: BoundListener, registry: &mut Registry) -> KinesisServer {
        let gauges = Gauges::default();
        registry.register_collector(Box::new(gauges.clone()));
        let stream_metrics = StreamMetrics::default();
        let collector = StreamMetricsCollector::new(stream_metrics.clone(), Arc::downgrade(&node));
        registry.register_collector(Box::new(collector));
        let BoundListener { listener, address, tls } = bound;
        let (stopping, stop) = watch::channel(false);
        let settings = &node.settings.kinesis;
        let account = Account { id: settings.account_id.clone(), region: settings.region.clone() };
        let stream_delay_ms = i64::try_from(settings.stream_delay.as_millis()).unwrap_or(i64::MAX);
        let checks_signatures = settings.checks_signatures;
        if !checks_signatures {
            tracing::warn!(%address, "Kinesis clients are served with any access key: signatures are not checked");
        }
        let service = Arc::new(Service {
            node,
            account,
            stream_delay_ms,
            checks_signatures,
            subscriptions: Arc::new(Subscriptions::default()),
            tables: Tables::default(),
            gauges,
            stream_metrics,
            stopping: stop.clone(),
        });
        let mut tasks = JoinSet::new();
        let tls = tls.map(Arc::new);
        if let Some(tls) = &tls {
            let tls = Arc::clone(tls);
            tasks.spawn(follow_files(
                move || look_at_certificate(KINESIS_LISTENER, &tls),
                stop.clone(),
            ));
        }
        tasks.spawn(async move {
            let node = Arc::clone(&service.node);
            let serve = |socket, peer, stopping| {
                accept(socket, peer, tls.clone(), Arc::clone(&service), stopping)
            };
            let limits = ListenerLimits::none(KINESIS_LISTENER);
            node.accept_connections(listener, &limits, stop, serve).await;
        });
        KinesisServer { address, stopping, tasks }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, and answers those that are under way.
    pub async fn stop(mut self) {
        // Nobody listens any more if every task has ended by itself.
        let _ = self.stopping.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Serves a connection, by TLS where that is spoken.
async fn accept(
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerTls>>,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let node = Arc::clone(&service.node);
    let _open = node.metrics.connections.opened();
    if let Err(error) = socket.set_nodelay(true) {
        return tracing::debug!(%peer, %error, "connection lost");
    }
    let Some(tls) = tls else { return serve(socket, peer, service, stopping).await };
    match shake_hands(&tls, socket, &mut stopping).await {
        Some(Ok(stream)) => serve(stream, peer, service, stopping).await,
        Some(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
        None => {}
    }
}

/// Serves a stream, in HTTP/1.1 or, where the client begins so, in HTTP/2.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let node = Arc::clone(&service.node);
    let idle_max = node.settings.connections_max_idle.unwrap_or(Duration::MAX);
    let idle_max = idle_max.clamp(IDLE_MIN, Duration::from_secs(u32::MAX.into()));
    let patience =
        Patience { first: FIRST_BYTE_MAX, head: HEAD_MAX, read: idle_max, write: WRITE_MAX };
    let requests = Arc::new(Requests::default());
    let io = TimedIo::new(stream, patience, Arc::clone(&requests));
    let give_up = Arc::new(Notify::new());
    let client = Peer { address: peer, told: Arc::default(), give_up: Arc::clone(&give_up) };
    let handler = service_fn(move |request| {
        let (service, client, in_work) = (Arc::clone(&service), client.clone(), requests.begin());
        async move {
            let response = answer(service, client, request).await;
            Ok::<_, Infallible>(response.map(|body| InWork { body, _request: in_work }))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL);
    let connection = builder.serve_connection(TokioIo::new(io), handler);
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = &mut connection => outcome,
        () = give_up.notified() => {
            return tracing::debug!(%peer, "connection closed: its client does not read a response");
        }
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "connection lost");
    }
}
