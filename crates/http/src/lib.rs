//! The HTTP listener: health for orchestrators, metrics for Prometheus.
//!
//! | path            | answer                                                                  |
//! |-----------------|-------------------------------------------------------------------------|
//! | `/health/live`  | 200 as long as the process can answer                                   |
//! | `/health/ready` | 200 while the broker accepts requests, else 503                         |
//! | `/metrics`      | every metric in OpenMetrics' text format                                |
//! | `/`, `/health`  | which of these there are                                                |

mod connections;
mod process;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

pub use process::ProcessCollector;

/// What the listener shows.
#[derive(Clone)]
pub struct HttpState {
    /// Every metric of the process.
    pub registry: Arc<Registry>,
    /// Whether the broker accepts requests and can do what they ask; must not block.
    pub is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Brings metrics up to date that are measured when they are asked for; must end soon.
    pub refresh: Refresh,
}

/// What is done before metrics are shown.
pub type Refresh = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Serves until it is dropped, and all connections with it.
pub async fn serve(listener: TcpListener, state: HttpState) {
    connections::serve_connections(listener, router(state)).await;
}

/// For whoever looks what there is.
const INDEX: &str = "\
/health/live   200 as long as the process can answer
/health/ready  200 while the broker accepts requests, else 503
/metrics       every metric, for Prometheus
";

fn router(state: HttpState) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/health", get(|| async { INDEX }))
        .route("/health/live", get(|| async { "live\n" }))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(state)
}

async fn ready(State(state): State<HttpState>) -> Response {
    if (state.is_ready)() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}

async fn metrics(State(state): State<HttpState>) -> Response {
    (state.refresh)().await;
    let mut text = String::new();
    match encode(&mut text, &state.registry) {
        Ok(()) => {
            const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "metrics could not be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.expect("connect");
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.expect("write");
        let mut reply = String::new();
        socket.read_to_string(&mut reply).await.expect("read");
        reply
    }

    #[tokio::test]
    async fn health_and_metrics_are_served() {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        counter.inc_by(3);
        registry.register("test_events", "Events", counter);
        registry.register_collector(Box::new(ProcessCollector));
        let ready = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ready);
        let is_ready = Arc::new(move || seen.load(Ordering::Relaxed));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let refreshed: Counter = Counter::default();
        registry.register("test_refreshes", "Refreshes", refreshed.clone());
        let refresh: Refresh = Arc::new(move || {
            let refreshed = refreshed.clone();
            Box::pin(async move {
                refreshed.inc();
            })
        });
        let state = HttpState { registry: Arc::new(registry), is_ready, refresh };
        let server = tokio::spawn(serve(listener, state));

        assert!(get(address, "/health/live").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/health/ready").await.starts_with("HTTP/1.1 503"));
        ready.store(true, Ordering::Relaxed);
        assert!(get(address, "/health/ready").await.starts_with("HTTP/1.1 200"));
        for path in ["/", "/health"] {
            let index = get(address, path).await;
            assert!(index.starts_with("HTTP/1.1 200"), "{index}");
            assert!(index.contains("/health/ready") && index.contains("/metrics"), "{index}");
        }
        let metrics = get(address, "/metrics").await;
        assert!(metrics.contains("test_events_total 3"), "{metrics}");
        assert!(metrics.contains("test_refreshes_total 1"), "{metrics}");
        assert!(metrics.contains("process_resident_memory_bytes"), "{metrics}");

        server.abort();
    }

    #[tokio::test]
    async fn who_sends_no_request_is_cut_off_and_keeps_nobody_from_asking() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let state = HttpState {
            registry: Arc::default(),
            is_ready: Arc::new(|| true),
            refresh: Arc::new(|| Box::pin(async {})),
        };
        let server = tokio::spawn(serve(listener, state));
        let mut slow = Vec::new();
        for _ in 0..2 * connections::CONNECTIONS_MAX {
            let mut socket = TcpStream::connect(address).await.expect("connect");
            socket.write_all(b"GET /health/live HTTP/1.1\r\n").await.expect("write");
            slow.push(socket);
        }
        assert!(get(address, "/health/live").await.starts_with("HTTP/1.1 200"));
        // The first half had to give way, the second takes too long.
        let started = std::time::Instant::now();
        for mut socket in slow {
            // A reset is as good an end.
            _ = socket.read_to_end(&mut Vec::new()).await;
        }
        assert!(started.elapsed() < 4 * connections::HEAD_MAX);
        server.abort();
    }
}
