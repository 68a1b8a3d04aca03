//! Accepts connections, up to a number and at a rate, and outlives whatever goes wrong with one of
//! them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logway_node::CLIENTS;
use logway_node::quotas::Admission;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::transport::Transport;
use super::{Connection, ConnectionError};
use crate::service::Service;

/// How long to leave the listener alone when the process is out of descriptors: the waiting
/// connections stay in the kernel's queue meanwhile.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long connections may take to send their last replies when the broker stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Serves connections until `stopping` turns true, then waits for those that are open to finish.
pub(crate) async fn accept_connections(
    listener: TcpListener,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut next_accept = Instant::now();
    loop {
        let accepted = tokio::select! {
            accepted = accept_at(next_accept, &listener) => accepted,
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
        let Admission { admitted, pause } = service.node.admit(peer);
        if !pause.is_zero() {
            next_accept = Instant::now() + pause;
        }
        let Some(mut admitted) = admitted else { continue };
        let (service, mut stopping) = (Arc::clone(&service), stopping.clone());
        connections.spawn(async move {
            tokio::select! {
                () = admitted.turn() => serve(socket, peer, service).await,
                () = stopped(&mut stopping) => {}
            }
        });
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::warn!("some clients did not take their last replies in time");
    }
    connections.shutdown().await;
}

/// Accepts the next connection, and leaves those that come before `time` in the kernel's queue.
async fn accept_at(time: Instant, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    if Instant::now() < time {
        sleep_until(time).await;
    }
    listener.accept().await
}

async fn serve(socket: TcpStream, peer: SocketAddr, service: Arc<Service>) {
    let metrics = &Arc::clone(&service.node).metrics.connections;
    let _open = metrics.opened();
    let transport = Transport::plain(socket, peer);
    let connection = transport.and_then(|plain| Connection::new(plain, peer, service));
    let outcome = match connection {
        Ok(connection) => connection.run().await,
        Err(error) => Err(ConnectionError::Lost(error)),
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
