//! The HTTP listener: counters as Flume's reporter shows them, and for Prometheus.
//!
//! | path                  | answer                                                                |
//! |-----------------------|-----------------------------------------------------------------------|
//! | `/metrics`            | JSON as Flume's, or Prometheus' text if `Accept` asks for text        |
//! | `/metrics/prometheus` | Prometheus' text 0.0.4                                                |
//! | `/health/live`        | 200 as long as the process can answer                                 |

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::counters::Registry;
use crate::error::AgentError;

/// Scrapes are few and short.
const CONNECTIONS_MAX: usize = 64;

/// How long one may take.
const CONNECTION_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// Listens.
pub(crate) async fn bind(address: &str) -> Result<TcpListener, AgentError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| AgentError::Metrics { address: address.to_owned(), source })
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, registry: Registry) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/prometheus", get(prometheus))
        .route("/health/live", get(|| async { "live\n" }))
        .with_state(registry);
    let mut connections = JoinSet::new();
    loop {
        let accepted: std::io::Result<(_, SocketAddr)> = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        if connections.len() >= CONNECTIONS_MAX {
            continue;
        }
        let service = TowerToHyperService::new(router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).keep_alive(false);
        let connection = builder.serve_connection(TokioIo::new(socket), service);
        connections.spawn(async move {
            // A client that is too slow is its own loss.
            let _ = timeout(CONNECTION_MAX, connection).await;
        });
    }
}

async fn metrics(State(registry): State<Registry>, headers: HeaderMap) -> Response {
    let accept =
        headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let wants_text = accept.contains("text/plain") || accept.contains("openmetrics");
    if wants_text && !accept.contains("application/json") {
        return prometheus(State(registry)).await;
    }
    let kind = [(header::CONTENT_TYPE, "application/json;charset=utf-8")];
    (kind, registry.json().to_string()).into_response()
}

async fn prometheus(State(registry): State<Registry>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, registry.prometheus()).into_response()
}
