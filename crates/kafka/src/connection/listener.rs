//! From an accepted socket to a connection that is served, and what is told of its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use logway_node::CLIENTS;
use logway_node::accept::stopped;
use logway_node::access::Principal;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::transport::Transport;
use super::{Connection, ConnectionError};
use crate::service::Service;
use logway_node::handshake::HANDSHAKE_MAX;
use logway_node::listener::Listener;

/// Serves connections until `stopping` turns true, then waits for those that are open to finish.
pub(crate) async fn accept_connections(
    socket: TcpListener,
    listener: Arc<Listener>,
    service: Arc<Service>,
    stopping: watch::Receiver<bool>,
) {
    let node = Arc::clone(&service.node);
    let serve = |client, peer, stopping| {
        serve(client, peer, Arc::clone(&listener), Arc::clone(&service), stopping)
    };
    node.accept_connections(socket, &listener.limits, stopping, serve).await;
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
