//! The HTTP front door: health for orchestrators, metrics for Prometheus.
//!
//! | path              | answer                                                                  |
//! |-------------------|-------------------------------------------------------------------------|
//! | `/health/live`    | 200 as long as the process can answer                                   |
//! | `/health/ready`   | 200 while the broker accepts requests, else 503                         |
//! | `/health/in-sync` | 200 while it is ready and all its replicas are in sync, else 503        |
//! | `/metrics`        | every metric, in Prometheus' text or in OpenMetrics', as `Accept` says  |
//! | `/`, `/health`    | which of these there are                                                |
//!
//! `HEAD` gets the head of what `GET` gets. `Accept-Encoding: gzip` gets the metrics compressed.
//!
//! Listeners have the certificates, users and rules of all front doors. One that asks clients who they are shows metrics to
//! those who may describe the cluster. Health has no secrets, and what probes it can seldom log in: it is told to everybody.

mod accept;
mod connections;
mod exposition;
mod process;
mod server;

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Weak};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use flate2::Compression;
use flate2::write::GzEncoder;
use logway_node::Node;
use logway_node::access::{Operation, Requester, Resource};
use logway_node::http_callers::HttpCaller;
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;

use exposition::Format;
pub use process::ProcessCollector;
pub use server::{HttpListeners, serve};

/// What the listener shows.
#[derive(Clone)]
pub struct HttpState {
    /// Every metric of the process.
    pub registry: Arc<Registry>,
    /// Whether the broker accepts requests and can do what they ask; must not block.
    pub is_ready: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether it is ready, and all its replicas are in sync; must not block.
    pub is_in_sync: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Brings metrics up to date that are measured when they are asked for; must end soon.
    pub refresh: Refresh,
    /// Knows users and what they may do.
    pub node: Weak<Node>,
}

/// What is done before metrics are shown.
pub type Refresh = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// For whoever looks what there is.
const INDEX: &str = "\
/health/live     200 as long as the process can answer
/health/ready    200 while the broker accepts requests, else 503
/health/in-sync  200 while it is ready and all its replicas are in sync, else 503
/metrics         every metric, for Prometheus
";

/// What answers requests. Each has its [`HttpCaller`] among its extensions.
fn router(state: HttpState) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/health", get(|| async { INDEX }))
        .route("/health/live", get(|| async { health(StatusCode::OK, "live\n") }))
        .route("/health/ready", get(ready))
        .route("/health/in-sync", get(in_sync))
        .route("/metrics", get(metrics))
        .fallback(|| async {
            (StatusCode::NOT_FOUND, format!("nothing is here; there are:\n{INDEX}"))
        })
        .method_not_allowed_fallback(|| async {
            (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n")
        })
        .with_state(state)
}

async fn ready(State(state): State<HttpState>) -> Response {
    match (state.is_ready)() {
        true => health(StatusCode::OK, "ready\n"),
        false => health(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
    }
}

async fn in_sync(State(state): State<HttpState>) -> Response {
    match (state.is_in_sync)() {
        true => health(StatusCode::OK, "in sync\n"),
        false => health(StatusCode::SERVICE_UNAVAILABLE, "not in sync\n"),
    }
}

/// An answer that is true now, which nothing on its way may keep.
fn health(status: StatusCode, text: &'static str) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], text).into_response()
}

async fn metrics(
    State(state): State<HttpState>,
    Extension(caller): Extension<Arc<HttpCaller>>,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = admit(&state.node, &caller, &headers).await {
        return refusal;
    }
    (state.refresh)().await;
    let (format, is_compressed) = (accept::format(&headers), accept::takes_gzip(&headers));
    // With many topics it is some megabytes.
    let written =
        spawn_blocking(move || write_metrics(&state.registry, format, is_compressed)).await;
    match written.map_err(io::Error::other).flatten() {
        Ok(body) => with_head(body, format, is_compressed),
        Err(error) => {
            tracing::error!(%error, "metrics could not be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Refuses who may not describe the cluster, where the listener asks who it is.
async fn admit(
    node: &Weak<Node>,
    caller: &HttpCaller,
    headers: &HeaderMap,
) -> Result<(), Response> {
    if !caller.listener.settings.asks_clients() {
        return Ok(());
    }
    let Some(node) = node.upgrade() else {
        return Err((StatusCode::SERVICE_UNAVAILABLE, "the broker stops\n").into_response());
    };
    let said = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let known = caller.authenticate(&node, said).await.map_err(|reason| {
        let scheme = [(header::WWW_AUTHENTICATE, r#"Basic realm="logway", charset="UTF-8""#)];
        (StatusCode::UNAUTHORIZED, scheme, format!("{reason}\n")).into_response()
    })?;
    let (principal, host) = (&known.principal, caller.peer.ip().to_canonical());
    let requester = Requester { principal, host };
    match node.allows(&requester, Operation::Describe, Resource::Cluster, &known.access_memory) {
        true => Ok(()),
        false => {
            let reason = format!("{principal} may not DESCRIBE the cluster\n");
            Err((StatusCode::FORBIDDEN, reason).into_response())
        }
    }
}

fn write_metrics(
    registry: &Registry,
    format: Format,
    is_compressed: bool,
) -> Result<Vec<u8>, io::Error> {
    let text = format.write(registry).map_err(io::Error::other)?;
    if !is_compressed {
        return Ok(text.into_bytes());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

fn with_head(body: Vec<u8>, format: Format, is_compressed: bool) -> Response {
    let kind = HeaderValue::try_from(format.content_type()).expect("is visible ASCII");
    let varies = HeaderValue::from_static("accept, accept-encoding");
    let head = [(header::CONTENT_TYPE, kind), (header::VARY, varies)];
    let mut response = (head, body).into_response();
    if is_compressed {
        let coding = HeaderValue::from_static("gzip");
        response.headers_mut().insert(header::CONTENT_ENCODING, coding);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, Ordering};

    use flate2::read::GzDecoder;
    use logway_metadata::settings::BrokerSettings;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        ask(address, "GET", path, "").await
    }

    async fn ask(address: SocketAddr, method: &str, path: &str, more: &str) -> String {
        let reply = ask_for_bytes(address, method, path, more).await;
        String::from_utf8(reply).expect("is text")
    }

    async fn ask_for_bytes(address: SocketAddr, method: &str, path: &str, more: &str) -> Vec<u8> {
        let mut socket = TcpStream::connect(address).await.expect("connect");
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{more}\r\n");
        socket.write_all(request.as_bytes()).await.expect("write");
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply).await.expect("read");
        reply
    }

    /// The head in small letters, but for the date; and the body.
    fn parted(reply: &[u8]) -> (String, &[u8]) {
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends");
        let head = String::from_utf8(reply[..end].to_vec()).expect("is text").to_lowercase();
        let head = head.lines().filter(|line| !line.starts_with("date:")).collect::<Vec<_>>();
        (head.join("\n"), &reply[end + 4..])
    }

    async fn listeners() -> (HttpListeners, SocketAddr) {
        let given = [("logway.http.listen", "127.0.0.1:0"), ("log.dirs", "data")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = BrokerSettings::new(given).expect("are settings");
        let listeners = HttpListeners::bind(&settings).await.expect("bind");
        let address = listeners.addresses()[0];
        (listeners, address)
    }

    /// A listener with one counter among its metrics.
    async fn serve_one_counter() -> (SocketAddr, JoinHandle<()>) {
        let mut registry = Registry::default();
        registry.register("test_events", "Events", Counter::<u64>::default());
        let state = HttpState {
            registry: Arc::new(registry),
            is_ready: Arc::new(|| false),
            is_in_sync: Arc::new(|| false),
            refresh: Arc::new(|| Box::pin(async {})),
            node: Weak::new(),
        };
        let (listeners, address) = listeners().await;
        (address, tokio::spawn(serve(listeners, state)))
    }

    #[tokio::test]
    async fn metrics_come_in_the_form_that_is_asked_for() {
        let (address, server) = serve_one_counter().await;
        let text = get(address, "/metrics").await;
        assert!(
            text.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\nvary: accept, accept-encoding\r\n"), "{text}");
        assert!(
            text.ends_with("# TYPE test_events_total counter\ntest_events_total 0\n"),
            "{text}"
        );

        let accept = "accept: application/openmetrics-text\r\n";
        let open_metrics = ask(address, "GET", "/metrics", accept).await;
        let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(open_metrics.contains(kind), "{open_metrics}");
        let end = "# TYPE test_events counter\ntest_events_total 0\n# EOF\n";
        assert!(open_metrics.ends_with(end), "{open_metrics}");

        let reply = ask_for_bytes(address, "GET", "/metrics", "accept-encoding: gzip\r\n").await;
        let (head, body) = parted(&reply);
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut unpacked = String::new();
        GzDecoder::new(body).read_to_string(&mut unpacked).expect("is gzip's");
        assert_eq!(Some(unpacked.as_str()), text.split_once("\r\n\r\n").map(|(_, body)| body));
        server.abort();
    }

    #[tokio::test]
    async fn head_gets_the_head_of_what_get_gets() {
        let (address, server) = serve_one_counter().await;
        let paths = [
            "/",
            "/health",
            "/health/live",
            "/health/ready",
            "/health/in-sync",
            "/metrics",
            "/nowhere",
        ];
        for (path, more) in paths.map(|path| (path, "")).into_iter().chain([
            ("/metrics", "accept-encoding: gzip\r\n"),
            ("/metrics", "accept: application/openmetrics-text\r\n"),
        ]) {
            let got = ask_for_bytes(address, "GET", path, more).await;
            let (head, body) = parted(&got);
            let reply = ask_for_bytes(address, "HEAD", path, more).await;
            assert_eq!(parted(&reply), (head.clone(), &b""[..]), "{path}");
            assert!(head.contains(&format!("content-length: {}", body.len())), "{path}: {head}");
        }
        server.abort();
    }

    #[tokio::test]
    async fn what_is_not_there_or_not_allowed_is_said() {
        let (address, server) = serve_one_counter().await;
        for path in ["/nowhere", "/metrics/", "/health/", "/health/readyz", "//metrics"] {
            let reply = get(address, path).await;
            assert!(
                reply.starts_with("HTTP/1.1 404 ") && reply.contains("/health/ready "),
                "{reply}"
            );
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            for path in ["/", "/health", "/health/live", "/health/ready", "/metrics"] {
                let reply = ask(address, method, path, "content-length: 0\r\n").await;
                assert!(reply.starts_with("HTTP/1.1 405 "), "{method} {path}: {reply}");
                assert!(reply.contains("\r\nallow: GET,HEAD\r\n"), "{method} {path}: {reply}");
            }
        }
        for path in ["/health/live", "/health/ready", "/health/in-sync"] {
            let reply = get(address, path).await;
            assert!(reply.contains("\r\ncache-control: no-store\r\n"), "{reply}");
        }
        server.abort();
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
        let (listeners, address) = listeners().await;
        let refreshed: Counter = Counter::default();
        registry.register("test_refreshes", "Refreshes", refreshed.clone());
        let refresh: Refresh = Arc::new(move || {
            let refreshed = refreshed.clone();
            Box::pin(async move {
                refreshed.inc();
            })
        });
        let node = Weak::new();
        let in_sync = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&in_sync);
        let is_in_sync = Arc::new(move || seen.load(Ordering::Relaxed));
        let registry = Arc::new(registry);
        let state = HttpState { registry, is_ready, is_in_sync, refresh, node };
        let server = tokio::spawn(serve(listeners, state));

        assert!(get(address, "/health/live").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/health/ready").await.starts_with("HTTP/1.1 503"));
        ready.store(true, Ordering::Relaxed);
        assert!(get(address, "/health/ready").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/health/in-sync").await.starts_with("HTTP/1.1 503"));
        in_sync.store(true, Ordering::Relaxed);
        assert!(get(address, "/health/in-sync").await.starts_with("HTTP/1.1 200"));
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
        let (listeners, address) = listeners().await;
        let state = HttpState {
            registry: Arc::default(),
            is_ready: Arc::new(|| true),
            is_in_sync: Arc::new(|| true),
            refresh: Arc::new(|| Box::pin(async {})),
            node: Weak::new(),
        };
        let server = tokio::spawn(serve(listeners, state));
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
