//! One client's connection: from the accepted socket to its last call.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use logway_node::CLIENTS;
use logway_node::accept::stopped;
use logway_node::http_callers::{HttpCaller, NoCaller};
use logway_node::listener::Listener;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::connection_info::ConnectionInfo;
use crate::routes::{Door, answer};
use crate::service::Service;

/// How long until its first call.
const FIRST_CALL_MAX: Duration = Duration::from_secs(30);

/// Calls that a connection may have under way.
const CALLS_MAX: u32 = 128;

/// Readers of a connection whose filters work at the same time.
const EVALUATIONS_MAX: usize = 2;

/// The most that a call's head may have, in bytes.
const HEAD_BYTES_MAX: u32 = 16 << 10;

/// What a client may send before it is read. It is the one thing that takes memory without being counted.
const WINDOW_BYTES: u32 = 256 << 10;

/// The same of all calls of a connection. The library closes connections whose unread frames are many and small: it allows half of
/// this for what such frames take beside their bytes, 256 each. So this is twice what a stream of appends has credit for, doubled.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// What of a stream waits for the socket, beyond its client's window.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Clients are asked so often whether they are there.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long a connection that ends may take over its last calls.
const END_MAX: Duration = Duration::from_secs(5);

/// Serves a connection.
pub(crate) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    door: Arc<Door>,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let node = Arc::clone(&service.node);
    let _open = node.metrics.connections.opened();
    if let Err(error) = socket.set_nodelay(true) {
        return tracing::debug!(%peer, %error, "connection lost");
    }
    let Some(tls) = &listener.tls else {
        return run(socket, HttpCaller::plain(peer, listener), door, service, stopping).await;
    };
    match HttpCaller::over_tls(socket, peer, &listener, tls, &mut stopping).await {
        Ok((stream, caller)) => run(stream, caller, door, service, stopping).await,
        Err(NoCaller::Broken) => _ = node.metrics.connections.broken.inc(),
        Err(NoCaller::Stopping) => {}
    }
}

async fn run<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    caller: HttpCaller,
    door: Arc<Door>,
    service: Arc<Service>,
    mut stopping: watch::Receiver<bool>,
) {
    let (calls, in_work) = watch::channel(0);
    let give_up = Arc::new(Notify::new());
    let peer = caller.peer;
    let evaluation = Arc::new(Semaphore::new(EVALUATIONS_MAX));
    let info =
        Arc::new(ConnectionInfo { caller, give_up: Arc::clone(&give_up), evaluation, calls });
    let idle_max = service.node.settings.connections_max_idle;
    let (service_of_calls, metrics) = (Arc::clone(&service), service.metrics.clone());
    let handler = service_fn(move |request| {
        let call = info.begin_call();
        let (service, info, door) =
            (Arc::clone(&service_of_calls), Arc::clone(&info), Arc::clone(&door));
        async move { Ok::<_, Infallible>(answer(service, info, door, call, request).await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(Some(PING_INTERVAL))
        .keep_alive_timeout(PING_INTERVAL);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), handler));
    let outcome = tokio::select! {
        outcome = &mut connection => Some(outcome),
        () = idle(in_work, idle_max) => None,
        () = stopped(&mut stopping) => None,
        () = give_up.notified() => {
            metrics.given_up.inc();
            return tracing::info!(target: CLIENTS, %peer,
                "connection given up: memory is short, and its client reads nothing");
        }
    };
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => {
            connection.as_mut().graceful_shutdown();
            timeout(END_MAX, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%peer, %error, "connection lost");
    }
}

/// Ends when there was no call for too long.
async fn idle(mut in_work: watch::Receiver<usize>, idle_max: Option<Duration>) {
    let mut patience = Some(FIRST_CALL_MAX);
    loop {
        let begun = in_work.wait_for(|count| *count > 0);
        match patience {
            Some(patience) => {
                if timeout(patience, begun).await.is_err() {
                    return;
                }
            }
            None => _ = begun.await,
        }
        if in_work.wait_for(|count| *count == 0).await.is_err() {
            // Its connection has ended.
            return std::future::pending().await;
        }
        patience = idle_max;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_calls_ends_and_one_with_calls_does_not() {
        let (calls, in_work) = watch::channel(0);
        let begun = Instant::now();
        idle(in_work.clone(), Some(Duration::from_secs(600))).await;
        assert_eq!(begun.elapsed(), FIRST_CALL_MAX);

        let begun = Instant::now();
        let working = async {
            calls.send_modify(|count| *count += 1);
            tokio::time::sleep(Duration::from_secs(10_000)).await;
            calls.send_modify(|count| *count -= 1);
        };
        tokio::join!(idle(in_work, Some(Duration::from_secs(600))), working);
        assert_eq!(begun.elapsed(), Duration::from_secs(10_600));
    }
}
