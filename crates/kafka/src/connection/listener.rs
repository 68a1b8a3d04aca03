//! Accepts connections, up to a number and at a rate, and outlives whatever goes wrong with one of
//! them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_node::CLIENTS;
use logway_node::access::Principal;
use logway_node::quotas::Admission;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::transport::Transport;
use super::{Connection, ConnectionError};
use crate::listener::Listener;
use crate::service::Service;

/// How long to leave the listener alone when the process is out of descriptors: the waiting
/// connections stay in the kernel's queue meanwhile.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a client may take to shake hands.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long connections may take to send their last replies when the broker stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Serves connections until `stopping` turns true, then waits for those that are open to finish.
pub(crate) async fn accept_connections(
    socket: TcpListener,
    listener: Arc<Listener>,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut next_accept = Instant::now();
    loop {
        let accepted = tokio::select! {
            accepted = accept_at(next_accept, &socket) => accepted,
            Some(_) = connections.join_next() => continue,
            () = stopped(&mut stopping) => break,
        };
        let (client, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        let Admission { admitted, pause } = service.node.admit(peer, &listener.limits);
        if !pause.is_zero() {
            next_accept = Instant::now() + pause;
        }
        let Some(mut admitted) = admitted else { continue };
        let (service, mut stopping) = (Arc::clone(&service), stopping.clone());
        let listener = Arc::clone(&listener);
        connections.spawn(async move {
            tokio::select! {
                () = admitted.turn() => {}
                () = stopped(&mut stopping) => return,
            }
            serve(client, peer, listener, service, stopping).await;
        });
    }
    drop(socket);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::warn!("some clients did not take their last replies in time");
    }
    connections.shutdown().await;
}

/// Accepts the next connection, and leaves those that come before `time` in the kernel's queue.
async fn accept_at(time: Instant, socket: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    if Instant::now() < time {
        sleep_until(time).await;
    }
    socket.accept().await
}

async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let metrics = &Arc::clone(&service.node).metrics.connections;
    let _open = metrics.opened();
    let opened = tokio::select! {
        opened = open(socket, peer, listener, service) => opened,
        // Nothing was read that could be answered.
        () = stopped(&mut stopping) => return,
    };
    let outcome = match opened {
        Ok(Some(connection)) => connection.run().await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => {}
        Err(ConnectionError::Lost(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(error) => {
            metrics.broken.inc();
            tracing::info!(target: CLIENTS, %peer, %error, "connection closed");
        }
    }
}

/// Shakes hands where the listener has TLS, and asks who the client is where it has SASL; `None` if the client has
/// closed meanwhile.
async fn open(
    socket: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    service: Arc<Service>,
) -> Result<Option<Connection>, ConnectionError> {
    let mut connection = shake_hands(socket, peer, listener, service).await?;
    let is_there = connection.ask_who().await?;
    Ok(is_there.then_some(connection))
}

async fn shake_hands(
    socket: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    service: Arc<Service>,
) -> Result<Connection, ConnectionError> {
    let Some(tls) = &listener.tls else {
        let transport = Transport::plain(socket, peer)?;
        return Ok(Connection::new(transport, peer, listener, service)?);
    };
    let transport = timeout(HANDSHAKE_MAX, Transport::tls(socket, peer, tls.config())).await;
    let transport = transport.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let transport = transport.map_err(ConnectionError::Handshake)?;
    let user = tls.user_of(transport.peer_certificates());
    let user = user.map_err(|subject| ConnectionError::NoUser { subject })?;
    let is_asked_later = listener.settings.sasl.is_some();
    let connection = Connection::new(transport, peer, listener, service)?;
    if let Some(user) = user.filter(|_| !is_asked_later) {
        connection.authenticate(Principal::user(user));
    }
    Ok(connection)
}

/// Ends when the broker stops, or when nobody is left who could stop it.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|&stop| stop).await;
}

async fn pause_after(error: &io::Error) {
    let one_connection_failed =
        matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset);
    if !one_connection_failed {
        tracing::error!(target: CLIENTS, %error,
            "cannot accept connections (out of files? raise `ulimit -n`, or lower max.connections)");
        sleep(ACCEPT_RETRY).await;
    }
}
