//! Accepts connections, up to a number, and outlives whatever goes wrong with one of them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Connection, ConnectionError};
use crate::Broker;

/// How long to leave the listener alone when the process is out of descriptors: the waiting
/// connections stay in the kernel's queue meanwhile.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long connections may take to send their last replies when the broker stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Serves connections until `stopping` turns true, then waits for those that are open to finish.
pub(crate) async fn accept_connections(
    listener: TcpListener,
    broker: Arc<Broker>,
    mut stopping: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(broker.settings.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = stopped(&mut stopping) => break,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            broker.metrics.connections.refused.inc();
            tracing::warn!(%peer, max = broker.settings.connections_max,
                "connection refused: max.connections is reached");
            continue;
        };
        let broker = Arc::clone(&broker);
        connections.spawn(async move {
            let _slot = slot;
            serve(socket, peer, broker).await;
        });
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::warn!("some clients did not take their last replies in time");
    }
    connections.shutdown().await;
}

async fn serve(socket: TcpStream, peer: SocketAddr, broker: Arc<Broker>) {
    let _open = broker.metrics.connections.opened();
    let outcome = match Connection::new(socket, peer, Arc::clone(&broker)) {
        Ok(connection) => connection.run().await,
        Err(error) => Err(ConnectionError::Send(error)),
    };
    match outcome {
        Ok(()) => {}
        Err(ConnectionError::Send(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(error) => {
            broker.metrics.connections.broken.inc();
            tracing::info!(%peer, %error, "connection closed");
        }
    }
}

/// Ends when the broker stops, or when nobody is left who could stop it.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|&stop| stop).await;
}

async fn pause_after(error: &io::Error) {
    let one_connection_failed =
        matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset);
    if !one_connection_failed {
        tracing::error!(%error, "cannot accept connections");
        sleep(ACCEPT_RETRY).await;
    }
}
