//! Requests over HTTP, 1.1 or 2, one after the other on a connection that is kept.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::counters::SinkCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::StartError;
use crate::settings::Settings;
use crate::tls::{self, SinkTls, Stream};

/// A connection that was unused for so long is not used again: the other side may be about to close it.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// `http://HOST[:PORT]/PATH`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    port: u16,
    /// Begins with a slash.
    pub(crate) path: String,
}

impl Endpoint {
    /// # Errors
    ///
    /// Why it is none. What may be secret is not in that: a query, and all of a text with a user.
    pub(crate) fn parse(text: &str) -> Result<Endpoint, String> {
        let shown = text.split('?').next().unwrap_or_default();
        if shown.contains('@') {
            return Err("it has an '@': a user and a password do not belong into an address, but into \
                        keys such as user and password, accessKeyId and secretAccessKey, or header.Authorization"
                .to_owned());
        }
        let plain = text.strip_prefix("http://").map(|rest| (rest, false, 80));
        let tls = || text.strip_prefix("https://").map(|rest| (rest, true, 443));
        let (rest, is_tls, port) = plain
            .or_else(tls)
            .ok_or_else(|| format!("'{shown}' begins neither with http:// nor with https://"))?;
        let (address, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("'{shown}' has no sound port"))?)
            }
            _ => (address, port),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_sound =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sound(host) || !is_sound(path) || path.parse::<Uri>().is_err() {
            return Err(format!("'{shown}' is no address"));
        }
        Ok(Endpoint { is_tls, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// As requests say it: a port that goes without saying is left out, as those who sign expect it.
    pub(crate) fn host_header(&self) -> String {
        let authority = self.authority();
        let default = if self.is_tls { ":443" } else { ":80" };
        authority.strip_suffix(default).map_or_else(|| authority.clone(), str::to_owned)
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// As messages say it: without a query, which may have a secret in it.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}

/// The times that a request has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) connect: Duration,
    pub(crate) request: Duration,
}

/// A key of components that have an [`HttpClient`].
pub(crate) const CONNECT_TIMEOUT: Key = key(
    "connectTimeout",
    Kind::Number(1, i64::MAX, "ms"),
    Fallback::Is("5000"),
    "How long a connection may take.",
);

impl Times {
    /// Those of a component, by [`CONNECT_TIMEOUT`] and its own `requestTimeout`.
    fn of(settings: &Settings) -> Times {
        Times {
            connect: settings.millis(CONNECT_TIMEOUT.name),
            request: settings.millis("requestTimeout"),
        }
    }
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// What is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// There was more of it than was wanted.
    pub(crate) is_cut: bool,
    /// What HTTP/2 has behind the body.
    pub(crate) trailers: HeaderMap,
}

/// Asks one server. Dropped within a request, its connection is closed.
pub(crate) struct HttpClient {
    pub(crate) endpoint: Endpoint,
    version: Version,
    times: Times,
    tls: Option<SinkTls>,
    counters: Option<Arc<SinkCounters>>,
    connection: Option<(Sender, Instant)>,
}

enum Sender {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

impl HttpClient {
    /// One that speaks HTTP/1.1 without TLS.
    pub(crate) fn plain(endpoint: Endpoint, times: Times) -> Result<HttpClient, String> {
        if endpoint.is_tls {
            return Err(format!("{endpoint}: https:// is not spoken here"));
        }
        let version = Version::Http1;
        Ok(HttpClient { endpoint, version, times, tls: None, counters: None, connection: None })
    }

    /// One with the keys of [`tls::OF_HTTPS`], [`CONNECT_TIMEOUT`] and `requestTimeout`. That of a sink counts its connections.
    pub(crate) fn new(
        settings: &Settings,
        endpoint: Endpoint,
        version: Version,
        counters: Option<Arc<SinkCounters>>,
    ) -> Result<HttpClient, StartError> {
        let times = Times::of(settings);
        let protocols: &[&str] = if version == Version::Http2 { &["h2"] } else { &[] };
        let tls = endpoint.is_tls.then(|| tls::to_host(settings, &endpoint.host, protocols));
        let tls = tls.transpose()?;
        Ok(HttpClient { endpoint, version, times, tls, counters, connection: None })
    }

    /// Sends a request to a path of the server, and reads the answer, up to so many bytes. After an error, and after an
    /// answer that has more, the next request has a connection of its own.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, HeaderValue)],
        body: Bytes,
        answer_bytes_max: usize,
    ) -> io::Result<Answer> {
        let kept = self
            .connection
            .take()
            .filter(|(sender, since)| since.elapsed() < IDLE_MAX && !sender.is_closed());
        if let Some((sender, _)) = kept {
            let request = self.request(method.clone(), path, headers, body.clone())?;
            match self.exchange(sender, request, answer_bytes_max).await {
                // The server had closed it, or was about to.
                Err(Failed::Unanswered(_)) => {}
                Err(Failed::Other(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
            }
        }
        let sender = self.connect().await?;
        let request = self.request(method, path, headers, body)?;
        self.exchange(sender, request, answer_bytes_max).await.map_err(io::Error::from)
    }

    /// Keeps the connection if it can be used again.
    async fn exchange(
        &mut self,
        mut sender: Sender,
        request: Request<Body>,
        answer_bytes_max: usize,
    ) -> Result<Answer, Failed> {
        let exchange = sender.exchange(request, answer_bytes_max);
        let answer = timeout(self.times.request, exchange).await;
        let answer = answer.map_err(|elapsed| Failed::Other(late(elapsed)))??;
        if !answer.is_cut {
            self.connection = Some((sender, Instant::now()));
        }
        Ok(answer)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, HeaderValue)],
        body: Bytes,
    ) -> io::Result<Request<Body>> {
        let authority = self.endpoint.authority();
        let mut request = match self.version {
            Version::Http1 => {
                Request::builder().uri(path).header(header::HOST, self.endpoint.host_header())
            }
            Version::Http2 => {
                let scheme = if self.endpoint.is_tls { "https" } else { "http" };
                Request::builder().uri(format!("{scheme}://{authority}{path}"))
            }
        };
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.method(method).body(Body::from(body)).map_err(io::Error::other)
    }

    async fn connect(&self) -> io::Result<Sender> {
        let connected = timeout(self.times.connect, self.handshake()).await.map_err(late);
        let connected = connected.and_then(|connected| connected);
        if let Some(counters) = &self.counters {
            match &connected {
                Ok(_) => counters.connections_created.add(1),
                Err(_) => counters.connections_failed.add(1),
            }
        }
        connected
    }

    async fn handshake(&self) -> io::Result<Sender> {
        let socket = TcpStream::connect((self.endpoint.host.as_str(), self.endpoint.port)).await?;
        socket.set_nodelay(true)?;
        let mut stream: Box<dyn Stream> = Box::new(socket);
        if let Some(tls) = &self.tls {
            stream = tls.connect(stream).await?;
        }
        let stream = TokioIo::new(stream);
        // A connection ends with its sender; what was wrong with it, the sender is told.
        match self.version {
            Version::Http1 => {
                let (sender, connection) =
                    http1::handshake(stream).await.map_err(io::Error::other)?;
                tokio::spawn(async move { _ = connection.await });
                Ok(Sender::One(sender))
            }
            Version::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
                    .await
                    .map_err(io::Error::other)?;
                tokio::spawn(async move { _ = connection.await });
                Ok(Sender::Two(sender))
            }
        }
    }
}

/// Why there is no answer.
enum Failed {
    /// The connection ended before there was a byte of one.
    Unanswered(hyper::Error),
    Other(io::Error),
}

impl Failed {
    fn of(error: hyper::Error) -> Failed {
        let is_io = error.source().is_some_and(|source| source.is::<io::Error>());
        match error.is_incomplete_message() || error.is_canceled() || error.is_closed() || is_io {
            true => Failed::Unanswered(error),
            false => Failed::Other(io::Error::other(error)),
        }
    }
}

impl From<Failed> for io::Error {
    fn from(failed: Failed) -> io::Error {
        match failed {
            Failed::Unanswered(error) => io::Error::other(error),
            Failed::Other(error) => error,
        }
    }
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

impl Sender {
    fn is_closed(&self) -> bool {
        match self {
            Sender::One(sender) => sender.is_closed(),
            Sender::Two(sender) => sender.is_closed(),
        }
    }

    async fn exchange(
        &mut self,
        request: Request<Body>,
        answer_bytes_max: usize,
    ) -> Result<Answer, Failed> {
        let answered = match self {
            Sender::One(sender) => {
                sender.ready().await.map_err(Failed::Unanswered)?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => {
                sender.ready().await.map_err(Failed::Unanswered)?;
                sender.send_request(request).await
            }
        };
        let (head, body) = answered.map_err(Failed::of)?.into_parts();
        let mut answer = Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: Bytes::new(),
            is_cut: false,
            trailers: HeaderMap::new(),
        };
        answer.read(body, answer_bytes_max).await.map_err(Failed::Other)?;
        Ok(answer)
    }
}

impl Answer {
    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// What kind of body it has, without parameters; empty if it does not say.
    pub(crate) fn media_type(&self) -> &str {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// What it says, for a message: a colon and some of its body, or nothing.
    pub(crate) fn said(&self) -> String {
        const CHARS_MAX: usize = 400;
        let text: String = self.text().trim().chars().take(CHARS_MAX).collect();
        match text.is_empty() {
            true => String::new(),
            false => format!(": {}", text.escape_debug()),
        }
    }

    async fn read(&mut self, mut body: Incoming, bytes_max: usize) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        let mut next = async || poll_fn(|task| Pin::new(&mut body).poll_frame(task)).await;
        while let Some(frame) = next().await {
            match frame.map_err(io::Error::other)?.into_data() {
                Ok(data) => {
                    let part = data.len().min(bytes_max - bytes.len());
                    bytes.extend_from_slice(&data[..part]);
                    self.is_cut = part < data.len();
                }
                Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
            }
            if self.is_cut {
                break;
            }
        }
        self.body = bytes.freeze();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let endpoint = Endpoint::parse("http://a:81/b?c").expect("is one");
        assert_eq!(endpoint.to_string(), "http://a:81/b");
        assert_eq!(endpoint.path, "/b?c");
        assert_eq!(Endpoint::parse("http://a").expect("is one").to_string(), "http://a:80/");
        let endpoint = Endpoint::parse("https://[::1]/b").expect("is one");
        assert_eq!((endpoint.host.as_str(), endpoint.is_tls), ("::1", true));
        assert_eq!(endpoint.to_string(), "https://[::1]:443/b");
        for text in ["ftp://a", "http://", "http://a:x/", "http://a b/", "a:80"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
        for text in
            ["http://joe:SECRET@a:9", "http://SECRET@a/b", "joe:SECRET@a", "http://a:x/?SECRET"]
        {
            let error = Endpoint::parse(text).expect_err(text);
            assert!(!error.contains("SECRET"), "{error}");
        }
    }

    /// A server that answers one request of a connection, and closes it when the next one comes.
    #[tokio::test]
    async fn a_kept_connection_that_the_server_closes_is_no_failure() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("has one");
        let served = tokio::spawn(async move {
            for _ in 0..3 {
                let (mut socket, _) = listener.accept().await.expect("is called");
                let mut request = Vec::new();
                while !request.ends_with(b"body") {
                    assert_ne!(socket.read_buf(&mut request).await.expect("is read"), 0);
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                socket.write_all(answer).await.expect("is answered");
                let _ = socket.read(&mut [0]).await;
            }
        });
        let endpoint = Endpoint::parse(&format!("http://{address}/")).expect("is one");
        let patience = Duration::from_secs(60);
        let times = Times { connect: patience, request: patience };
        let mut client = HttpClient::plain(endpoint, times).expect("is made");
        for _ in 0..3 {
            let body = Bytes::from_static(b"body");
            let answer = client.call(Method::POST, "/", &[], body, 100).await.expect("is answered");
            assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
        }
        drop(client);
        served.await.expect("no panic");
    }
}
