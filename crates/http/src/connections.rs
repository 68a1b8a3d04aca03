//! The listener's connections: few, and each for one request and a short time.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use logway_node::CLIENTS;
use logway_node::http_callers::HttpCaller;
use logway_node::listener::Listener;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Connections that may be open. Probes and scrapes are few and short; what floods this port must not
/// take the descriptors that clients of the log need.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send the head of its request.
pub(crate) const HEAD_MAX: Duration = Duration::from_secs(5);

/// How long a connection may take in all, with its answer read.
const CONNECTION_MAX: Duration = Duration::from_secs(30);

/// How long to leave the listener alone when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves each connection until it ends. When there are too many, the oldest gives way: who has
/// something to ask does so at once and is answered at once, so that is one that does not.
///
/// Ended by dropping it, with its connections.
pub(crate) async fn serve_connections(
    socket: TcpListener,
    listener: Arc<Listener>,
    router: Router,
    stopping: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (client, peer) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                pause_after(&error).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            tracing::warn!(target: CLIENTS, max = CONNECTIONS_MAX,
                "the oldest HTTP connection is closed: too many are open");
        }
        let (listener, router, mut stopping) =
            (Arc::clone(&listener), router.clone(), stopping.clone());
        open.push_back(connections.spawn(async move {
            let served = serve_one(client, peer, listener, router, &mut stopping);
            if timeout(CONNECTION_MAX, served).await.is_err() {
                tracing::debug!(%peer, "HTTP connection closed: its client does not read the answer");
            }
        }));
    }
}

/// The handshake, where there is one, and what follows.
async fn serve_one(
    client: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    router: Router,
    stopping: &mut watch::Receiver<bool>,
) {
    let Some(tls) = &listener.tls else {
        return answer(client, HttpCaller::plain(peer, listener), router).await;
    };
    // Who is no caller has been told of.
    if let Ok((stream, caller)) = HttpCaller::over_tls(client, peer, &listener, tls, stopping).await
    {
        answer(stream, caller, router).await;
    }
}

/// One request, and no more: a connection that is kept would be idle nearly all the time.
async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    caller: HttpCaller,
    router: Router,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).keep_alive(false);
    let service = TowerToHyperService::new(router.layer(Extension(Arc::new(caller))));
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "HTTP connection lost");
    }
}

async fn pause_after(error: &io::Error) {
    let one_connection_failed =
        matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset);
    if !one_connection_failed {
        tracing::error!(target: CLIENTS, %error,
            "cannot accept HTTP connections (out of files? raise `ulimit -n`)");
        sleep(ACCEPT_RETRY).await;
    }
}
