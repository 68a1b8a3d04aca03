//! Accepts connections of clients, up to a number and at a rate, and outlives whatever goes wrong with one of them. What is
//! spoken on them is the front door's affair.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::quotas::{Admission, ListenerLimits};
use crate::{CLIENTS, Node};

/// How long to leave the listener alone when the process is out of descriptors: the waiting
/// connections stay in the kernel's queue meanwhile.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long connections may take to send their last replies when the broker stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

impl Node {
    /// Serves connections until `stopping` turns true, then waits for those that are open to finish. Each is served when
    /// it is its turn, and is told of the stop, too.
    pub async fn accept_connections<F: Future<Output = ()> + Send + 'static>(
        &self,
        socket: TcpListener,
        limits: &ListenerLimits,
        mut stopping: watch::Receiver<bool>,
        serve: impl Fn(TcpStream, SocketAddr, watch::Receiver<bool>) -> F,
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
            let Admission { admitted, pause } = self.admit(peer, limits);
            if !pause.is_zero() {
                next_accept = Instant::now() + pause;
            }
            let Some(mut admitted) = admitted else { continue };
            let (serving, mut stopping) = (serve(client, peer, stopping.clone()), stopping.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = admitted.turn() => {}
                    () = stopped(&mut stopping) => return,
                }
                serving.await;
            });
        }
        drop(socket);
        let drained = async { while connections.join_next().await.is_some() {} };
        if timeout(DRAIN_MAX, drained).await.is_err() {
            tracing::warn!("some clients did not take their last replies in time");
        }
        connections.shutdown().await;
    }
}

/// Accepts the next connection, and leaves those that come before `time` in the kernel's queue.
async fn accept_at(time: Instant, socket: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    if Instant::now() < time {
        sleep_until(time).await;
    }
    socket.accept().await
}

/// Ends when the broker stops, or when nobody is left who could stop it.
pub async fn stopped(stopping: &mut watch::Receiver<bool>) {
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
