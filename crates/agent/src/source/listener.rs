//! Listening: so many connections and no more, each with a task of its own, all ended with the source.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::SourceContext;
use crate::codec::budget::Budget;
use crate::counters::SourceCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{StartError, because};

/// What all that listen for connections can be told, beside what Flume's can.
pub(super) const CONNECTIONS: &[Key] = &[key(
    "maxConnections",
    Kind::Number(1, 100_000, "connections"),
    Fallback::Is("1024"),
    "How many connections may be open. Further ones are closed at once, and counted.",
)];

/// And those that take whole messages.
pub(super) const BUFFERS: &[Key] = &[
    key(
        "maxBufferBytes",
        Kind::Number(1 << 20, i64::MAX, "bytes"),
        Fallback::Is("268435456"),
        "How much all connections may hold of messages that are not in a channel yet. The connection that wants \
         more is closed.",
    ),
    key(
        "maxMessageBytes",
        Kind::Number(1024, 1 << 31, "bytes"),
        Fallback::Is("67108864"),
        "How large a message may be.",
    ),
];

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
