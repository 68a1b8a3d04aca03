//! Listening: so many connections and no more, each with a task of its own, all ended with the source.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_security::tls::ServerTls;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::{Running, SourceContext, Starting};
use crate::codec::budget::Budget;
use crate::config::SourceConfig;
use crate::counters::SourceCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{StartError, because};
use crate::event::Event;
use crate::settings::Settings;
use crate::tls::{self, Stream};

/// What all that listen for connections can be told, beside what Flume's can.
pub(super) const CONNECTIONS: &[Key] = &[key(
    "maxConnections",
    Kind::Number(1, 100_000, "connections"),
    Fallback::Is("1024"),
    "How many connections may be open. Further ones are closed at once, and counted.",
)];

/// What a process needs descriptors for beside connections of sources, about.
const OTHER_DESCRIPTORS: u64 = 128;

/// Says so if the connections of all sources could take all descriptors that the process may have: then one source could keep
/// others from accepting any.
pub(crate) fn above_descriptors(sources: &[SourceConfig], descriptors: u64) -> Option<String> {
    let listens = |settings: &&Settings| settings.declaration.key("maxConnections").is_some();
    let listening = sources.iter().map(|source| &source.settings).filter(listens);
    let connections: u64 = listening.map(|settings| settings.number("maxConnections")).sum();
    (connections > 0 && connections + OTHER_DESCRIPTORS > descriptors).then(|| {
        format!(
            "sources take {connections} connections (maxConnections), and the process may have {descriptors} open files: raise \
             that limit (ulimit -n, LimitNOFILE), or lower maxConnections, or connections to one source keep out those to others"
        )
    })
}

/// And those that take whole messages.
pub(super) const BUFFERS: &[Key] = &[
    key(
        "maxBufferBytes",
        Kind::Number(1 << 20, i64::MAX, "bytes"),
        Fallback::Is("268435456"),
        "How much all connections may hold of messages that are not in a channel yet, as they came and as events. \
         The connection that wants more is closed, or its request refused.",
    ),
    key(
        "maxMessageBytes",
        Kind::Number(1024, 1 << 31, "bytes"),
        Fallback::Is("67108864"),
        "How large a message may be.",
    ),
];

/// The largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// How many datagrams go into channels at once.
const DATAGRAMS_MAX: usize = 100;

/// How long connections have to finish what they are at.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How long to leave the listener alone when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// An address from two keys.
pub(super) async fn bind(host: &str, port: u16) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind((host.trim(), port)).await;
    listener.map_err(because(format_args!("cannot listen at {host}:{port}")))
}

pub(super) async fn bind_udp(host: &str, port: u16) -> Result<UdpSocket, StartError> {
    let socket = UdpSocket::bind((host.trim(), port)).await;
    socket.map_err(because(format_args!("cannot listen at {host}:{port} (UDP)")))
}

pub(super) fn budget(context: &SourceContext) -> Arc<Budget> {
    Budget::new(context.settings.number("maxBufferBytes"))
}

/// Counts a connection for as long as it is open.
struct Open(Arc<SourceContext>);

impl Open {
    fn counters(&self) -> &SourceCounters {
        self.0.delivery.counters()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counters().open_connections.sub(1);
    }
}

/// Serves connections until the source is to stop.
pub(super) async fn serve<F>(
    listener: TcpListener,
    context: Arc<SourceContext>,
    connection: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let max = context.settings.size("maxConnections");
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = context.stop.wait() => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(source = context.delivery.source(), %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let counters = context.delivery.counters();
        if connections.len() >= max {
            counters.refused_connections.add(1);
            tracing::debug!(source = context.delivery.source(), %peer, max, "a connection is refused: maxConnections are open");
            continue;
        }
        counters.open_connections.add(1);
        let open = Open(Arc::clone(&context));
        let served = connection(socket, peer);
        connections.spawn(async move {
            served.await;
            drop(open);
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(END_PATIENCE, ended).await.is_err() {
        tracing::warn!(
            source = context.delivery.source(),
            "connections are cut off in the middle of a message"
        );
    }
}

/// Starts a source that is called at `bind` and `port` by connections which share a budget. One that ends badly is
/// counted and told. With `ssl` the calls are in TLS, where both sides agree on one of `protocols`, and with a level of
/// compression what they are in is deflated.
pub(super) fn start_calls<F>(
    context: SourceContext,
    level: Option<u32>,
    protocols: &'static [&'static str],
    serve_calls: fn(Box<dyn Stream>, Arc<SourceContext>, Arc<Budget>) -> F,
) -> Starting
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    Box::pin(async move {
        let settings = &context.settings;
        let tls = tls::of_source(settings, protocols)?;
        let listener = bind(settings.required("bind"), settings.port("port")).await?;
        let (budget, context) = (budget(&context), Arc::new(context));
        let of_connection = Arc::clone(&context);
        let of_connections = tls.clone();
        let connection = move |socket: TcpStream, peer| {
            let (context, budget) = (Arc::clone(&of_connection), Arc::clone(&budget));
            let tls = of_connections.clone();
            let of_call = Arc::clone(&context);
            let served = async move {
                let stream = secured(socket, tls.as_deref(), level).await?;
                serve_calls(stream, of_call, budget).await
            };
            async move {
                if let Err(error) = served.await {
                    tell_closed(&context, peer, &error);
                }
            }
        };
        Ok(Box::pin(async move {
            tokio::join!(
                serve(listener, Arc::clone(&context), connection),
                keep_certificate(&context, tls)
            );
        }) as Running)
    })
}

/// A connection's stream: in TLS if the source is, and inflated where it has a level of compression.
pub(super) async fn secured(
    socket: TcpStream,
    tls: Option<&ServerTls>,
    level: Option<u32>,
) -> io::Result<Box<dyn Stream>> {
    socket.set_nodelay(true)?;
    let stream = tls::packed(socket, level);
    match tls {
        Some(tls) => tls::accept(tls, stream).await,
        None => Ok(stream),
    }
}

/// Counts a connection that ends badly, and tells why.
pub(super) fn tell_closed(context: &SourceContext, peer: SocketAddr, error: &io::Error) {
    context.delivery.counters().malformed.add(1);
    tracing::warn!(source = context.delivery.source(), %peer, %error, "a connection is closed");
}

/// Puts a new certificate in force when its file changes, until the source is to stop.
pub(super) async fn keep_certificate(context: &SourceContext, tls: Option<Arc<ServerTls>>) {
    let Some(tls) = tls else { return };
    while !context.stop.sleep(tls::RELOAD_INTERVAL).await {
        tls::reload(context.delivery.source(), &tls).await;
    }
}

/// Makes events of datagrams until the source is to stop; those that are there already go into channels together. What
/// channels do not take is lost: nobody can be told. A header may have the sender's address.
pub(super) async fn receive(
    socket: UdpSocket,
    context: &SourceContext,
    address_header: Option<&str>,
    to_event: impl Fn(&[u8]) -> Option<Event>,
) {
    let batch_max = context.delivery.batch_max().min(DATAGRAMS_MAX);
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let received = tokio::select! {
            () = context.stop.wait() => return,
            received = socket.recv_from(&mut buffer) => received,
        };
        let mut events = Vec::new();
        let mut next = received.ok();
        while let Some((length, peer)) = next {
            if let Some(mut event) = to_event(&buffer[..length]) {
                if let Some(header) = address_header {
                    event.headers.set(header, peer.ip().to_string());
                }
                events.push(event);
            }
            let has_room = events.len() < batch_max;
            next = if has_room { socket.try_recv_from(&mut buffer).ok() } else { None };
        }
        let count = events.len();
        if count > 0
            && let Err(error) = context.delivery.deliver(events).await
        {
            context.delivery.drop_events(count, &error);
        }
    }
}
