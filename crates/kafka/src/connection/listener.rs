//! Accepts connections, up to a number and at a rate, and outlives whatever goes wrong with one of
//! them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use logway_metadata::quota::QuotaKey;
use logway_node::quotas::{AddressSeat, Admission};
use logway_node::{CLIENTS, Node};
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

/// Connections that wait because their addresses open too many take no more than this part of
/// `max.connections`.
const WAITING_PART: usize = 4;

/// How long connections may take to send their last replies when the broker stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Serves connections until `stopping` turns true, then waits for those that are open to finish.
pub(crate) async fn accept_connections(
    listener: TcpListener,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let admissions = Admissions::default();
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
        let node = &service.node;
        let admission = node.connection_rates.admit(&node.image(), peer.ip());
        if let Admission::In(_) = admission {
            next_accept =
                Instant::now() + node.connection_rates.count(node.connections_per_second_max());
        }
        let Some(mut admitted) = admissions.take(admission, peer, node) else { continue };
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

/// The connections that there are. How many there may be can change at any time.
#[derive(Default)]
struct Admissions {
    all: Seats,
    waiting: Seats,
}

/// A connection that is let in, as long as it lives.
struct Admitted {
    _of_all: Seat,
    _of_address: AddressSeat,
    /// Until when it waits, and its seat among those that do.
    waiting: Option<(Instant, Seat)>,
}

/// Counts what there may be so many of.
#[derive(Default)]
struct Seats(Arc<AtomicUsize>);

/// One of them, as long as it lives.
struct Seat(Arc<AtomicUsize>);

impl Seats {
    /// One more, if there are fewer than `max`.
    fn take(&self, max: usize) -> Option<Seat> {
        let more = |taken| (taken < max).then_some(taken + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Seat(Arc::clone(&self.0)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admissions {
    /// A seat for a new connection; `None` if it must be closed.
    fn take(&self, admission: Admission, peer: SocketAddr, node: &Node) -> Option<Admitted> {
        let (metrics, max) = (&node.metrics, node.connections_max());
        let Some(of_all) = self.all.take(max) else {
            metrics.connections.refused.inc();
            tracing::warn!(target: CLIENTS, %peer, max,
                "connection refused: max.connections is reached");
            return None;
        };
        let max = node.connections_max_of(peer.ip());
        let Some(of_address) = node.connections_by_address.take(peer.ip(), max) else {
            metrics.connections.refused.inc();
            tracing::warn!(target: CLIENTS, %peer, max,
                "connection refused: max.connections.per.ip is reached");
            return None;
        };
        let Admission::In(wait) = admission else { return refuse_for_now(peer, node) };
        if wait.is_zero() {
            return Some(Admitted { _of_all: of_all, _of_address: of_address, waiting: None });
        }
        let Some(seat) = self.waiting.take(node.connections_max().div_ceil(WAITING_PART)) else {
            return refuse_for_now(peer, node);
        };
        metrics.quotas.throttled(QuotaKey::ConnectionCreationRate, wait);
        let waiting = Some((Instant::now() + wait, seat));
        Some(Admitted { _of_all: of_all, _of_address: of_address, waiting })
    }
}

/// Its address has opened too many connections for this one to wait.
fn refuse_for_now(peer: SocketAddr, node: &Node) -> Option<Admitted> {
    node.metrics.connections.over_rate.inc();
    tracing::debug!(%peer, "connection refused: its address opens too many per second");
    None
}

impl Admitted {
    /// Ends when the connection may be served. Nothing is read from it before.
    async fn turn(&mut self) {
        if let Some((time, seat)) = self.waiting.take() {
            sleep_until(time).await;
            drop(seat);
        }
    }
}

async fn serve(socket: TcpStream, peer: SocketAddr, service: Arc<Service>) {
    let metrics = &Arc::clone(&service.node).metrics.connections;
    let _open = metrics.opened();
    let transport = Transport::plain(socket, peer);
    let connection = transport.and_then(|plain| Connection::new(plain, peer, service));
    let outcome = match connection {
        Ok(connection) => connection.run().await,
        Err(error) => Err(ConnectionError::Send(error)),
    };
    match outcome {
        Ok(()) => {}
        Err(ConnectionError::Send(error)) => tracing::debug!(%peer, %error, "connection lost"),
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
