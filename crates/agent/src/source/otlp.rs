//! The source `otlp`: OpenTelemetry's logs, by gRPC and by HTTP, at one port.
//!
//! A message of gRPC is a flag whether it is compressed, its length in four bytes, and its bytes; a status follows as
//! trailers. Sources: the specification of OTLP, and `doc/PROTOCOL-HTTP2.md` of grpc/grpc.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serde_json::json;
use tokio::sync::Notify;

use super::body::{NoBody, read_body};
use super::listener::{BUFFERS, CONNECTIONS, start_calls};
use super::{SourceContext, Starting};
use crate::codec::Unread;
use crate::codec::budget::{Budget, Exhausted, Share};
use crate::codec::deflated::{NotUnpacked, gunzip};
use crate::codec::otlp::{EXPORT, PATH, encode_reply, encode_status, read_json, read_proto};
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::delivery::Dropped;
use crate::event::Event;
use crate::tls::{self, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "otlp",
    aliases: &["opentelemetry"],
    doc: "Takes OpenTelemetry's logs (OTLP) by gRPC and by HTTP, in Protocol Buffers and JSON, with or without gzip, all at \
          one port. A request is answered when its records are in their channels. Records that no channel will ever take \
          are told of as a partial success; while channels have no room, the sender is asked to try again. The body of an \
          event is the record's; `timestamp`, `otlp.severity`, `otlp.severityText`, `otlp.traceId`, `attribute.NAME`, \
          `resource.NAME` and so on are headers, from which the sink `otlp` makes the same record.",
    keys: &[
        key("bind", Kind::Text, Fallback::Is("0.0.0.0"), "The address to listen at."),
        key("port", PORT, Fallback::Is("4317"), "The port, for gRPC and HTTP."),
    ],
    shared: &[tls::OF_SOURCE, CONNECTIONS, BUFFERS],
};

/// How long a client may take to its first request, and to send the head of one.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// Requests that a connection may have under way, and what each may send before it is read.
const STREAMS_MAX: u32 = 32;
const WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// The most that a request's head may have.
const HEAD_BYTES_MAX: u32 = 16 << 10;

/// Clients of HTTP/2 are asked so often whether they are there.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// gRPC's prefix of a message.
const PREFIX_BYTES: usize = 5;

const PROTO: &str = "application/x-protobuf";
const JSON: &str = "application/json";

pub(crate) fn start(context: SourceContext) -> Starting {
    start_calls(context, None, &["h2", "http/1.1"], serve_requests)
}

async fn serve_requests(
    stream: Box<dyn Stream>,
    context: Arc<SourceContext>,
    budget: Arc<Budget>,
) -> io::Result<()> {
    let first = Arc::new(Notify::new());
    let (of_service, begun) = (Arc::clone(&context), Arc::clone(&first));
    let service = service_fn(move |request: Request<Incoming>| {
        begun.notify_one();
        let (context, budget) = (Arc::clone(&of_service), Arc::clone(&budget));
        async move { Ok::<_, Infallible>(answer(request, &context, &budget).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(Some(PING_INTERVAL))
        .keep_alive_timeout(PING_INTERVAL);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let is_silent = async {
        if tokio::time::timeout(HEAD_MAX, first.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = is_silent => return Ok(()),
        () = context.stop.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // A client that leaves within a request has not been told that its records are here.
    if let Err(error) = ended {
        tracing::debug!(source = context.delivery.source(), %error, "an HTTP connection is lost");
    }
    Ok(())
}

/// Why a request is refused: in the words of HTTP and of gRPC.
#[derive(Debug)]
struct Refusal {
    http: StatusCode,
    grpc: u64,
    why: String,
}

/// gRPC's codes.
const INVALID_ARGUMENT: u64 = 3;
const UNIMPLEMENTED: u64 = 12;
const UNAVAILABLE: u64 = 14;

impl Refusal {
    fn malformed(why: impl ToString) -> Refusal {
        Refusal { http: StatusCode::BAD_REQUEST, grpc: INVALID_ARGUMENT, why: why.to_string() }
    }

    fn unknown(http: StatusCode, why: impl ToString) -> Refusal {
        Refusal { http, grpc: UNIMPLEMENTED, why: why.to_string() }
    }

    /// The sender is to try again.
    fn later(why: impl ToString) -> Refusal {
        let http = StatusCode::SERVICE_UNAVAILABLE;
        Refusal { http, grpc: UNAVAILABLE, why: why.to_string() }
    }

    fn too_large(max: usize) -> Refusal {
        let why = NoBody::TooLarge(max).to_string();
        Refusal { http: StatusCode::PAYLOAD_TOO_LARGE, grpc: INVALID_ARGUMENT, why }
    }

    /// Others may give memory back, unless the request is too large by itself.
    fn exhausted(why: Exhausted) -> Refusal {
        match why.is_final() {
            true => Refusal { http: StatusCode::PAYLOAD_TOO_LARGE, ..Refusal::malformed(why) },
            false => Refusal::later(why),
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    context: &SourceContext,
    budget: &Arc<Budget>,
) -> Response {
    let kind = media_type(request.headers()).to_owned();
    let is_grpc = kind.starts_with("application/grpc");
    let mut share = budget.share();
    let taken = match is_grpc {
        true => take_grpc(request, context, &mut share).await,
        false => take_http(request, &kind, context, &mut share).await,
    };
    if let Err(refusal) = &taken {
        if refusal.http != StatusCode::SERVICE_UNAVAILABLE {
            context.delivery.counters().malformed.add(1);
        }
        tracing::warn!(
            source = context.delivery.source(),
            why = refusal.why,
            "a request is refused"
        );
    }
    match (is_grpc, taken) {
        (true, taken) => grpc_reply(taken),
        (false, Ok(dropped)) => http_reply(&kind, &dropped),
        (false, Err(refusal)) => http_refusal(&kind, &refusal),
    }
}

/// Without parameters, in small letters.
fn media_type(headers: &HeaderMap) -> String {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

async fn take_grpc(
    request: Request<Incoming>,
    context: &SourceContext,
    share: &mut Share,
) -> Result<Dropped, Refusal> {
    if request.uri().path() != EXPORT {
        let why = format!("{} is not served; {EXPORT} is", request.uri().path());
        return Err(Refusal::unknown(StatusCode::NOT_FOUND, why));
    }
    let max = context.settings.size("maxMessageBytes");
    let encoding = request.headers().get("grpc-encoding").cloned();
    let body = read_body(request.into_body(), max.saturating_add(PREFIX_BYTES), share).await?;
    let Some(([flag, length @ ..], message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Refusal::malformed("the request has no message"));
    };
    if u32::from_be_bytes(*length) as usize != message.len() {
        return Err(Refusal::malformed("the request is not one message"));
    }
    let unpacked = match (flag, encoding.as_ref().map(HeaderValue::as_bytes)) {
        (0, _) => return take(read_proto(message, share), context).await,
        (1, Some(b"gzip")) => unpack(message, max, share)?,
        _ => {
            let why = "messages are compressed by gzip or not at all";
            return Err(Refusal::unknown(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
    };
    take(read_proto(&unpacked, share), context).await
}

async fn take_http(
    request: Request<Incoming>,
    kind: &str,
    context: &SourceContext,
    share: &mut Share,
) -> Result<Dropped, Refusal> {
    if request.uri().path() != PATH {
        let why = format!("{} is not served; {PATH} is", request.uri().path());
        return Err(Refusal::unknown(StatusCode::NOT_FOUND, why));
    }
    if request.method() != Method::POST {
        return Err(Refusal::unknown(StatusCode::METHOD_NOT_ALLOWED, "logs come by POST"));
    }
    if kind != PROTO && kind != JSON {
        let why = format!("content type '{kind}' is not served; {PROTO} and {JSON} are");
        return Err(Refusal::unknown(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let max = context.settings.size("maxMessageBytes");
    let encoding = request.headers().get(header::CONTENT_ENCODING).cloned();
    let mut body = read_body(request.into_body(), max, share).await?;
    match encoding.as_ref().map(HeaderValue::as_bytes) {
        None | Some(b"identity" | b"") => {}
        Some(b"gzip") => body = unpack(&body, max, share)?.into(),
        Some(_) => {
            let why = "requests are compressed by gzip or not at all";
            return Err(Refusal::unknown(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
    }
    let read = if kind == JSON { read_json(&body, share) } else { read_proto(&body, share) };
    take(read, context).await
}

/// Puts what was read into channels.
async fn take(
    read: Result<Vec<Event>, Unread>,
    context: &SourceContext,
) -> Result<Dropped, Refusal> {
    let events = read.map_err(|error| match error {
        Unread::Malformed(_) | Unread::TooMany(_) => Refusal::malformed(error),
        Unread::Exhausted(why) => Refusal::exhausted(why),
    })?;
    match events.is_empty() {
        true => Ok(Dropped::default()),
        false => context.delivery.deliver_or_drop(events).await.map_err(Refusal::later),
    }
}

impl From<NoBody> for Refusal {
    fn from(error: NoBody) -> Refusal {
        match error {
            NoBody::Cut | NoBody::TooSlow => Refusal::malformed(error),
            NoBody::TooLarge(max) => Refusal::too_large(max),
            NoBody::Exhausted(why) => Refusal::exhausted(why),
        }
    }
}

fn unpack(packed: &[u8], max: usize, share: &mut Share) -> Result<Vec<u8>, Refusal> {
    gunzip(packed, max, share).map_err(|error| match error {
        NotUnpacked::Malformed(_) => Refusal::malformed(format!("the request is {error}")),
        NotUnpacked::TooLarge(max) => Refusal::too_large(max),
        NotUnpacked::Exhausted(why) => Refusal::exhausted(why),
    })
}

/// As the request was: what is no JSON is answered in Protocol Buffers.
fn http_reply(kind: &str, dropped: &Dropped) -> Response {
    let body = match kind {
        JSON if dropped.count > 0 => {
            let partial =
                json!({ "rejectedLogRecords": dropped.count, "errorMessage": dropped.why });
            json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
        JSON => b"{}".to_vec(),
        _ => encode_reply(dropped.count, &dropped.why),
    };
    let kind = if kind == JSON { JSON } else { PROTO };
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn http_refusal(kind: &str, refusal: &Refusal) -> Response {
    let body = match kind {
        JSON => json!({ "code": refusal.grpc, "message": refusal.why }).to_string().into_bytes(),
        _ => encode_status(refusal.grpc, &refusal.why),
    };
    let kind = if kind == JSON { JSON } else { PROTO };
    (refusal.http, [(header::CONTENT_TYPE, kind)], body).into_response()
}

/// A message, if there is one, and a status behind it.
struct GrpcBody {
    message: Option<Bytes>,
    status: Option<HeaderMap>,
}

impl HttpBody for GrpcBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.message.take() {
            Some(message) => Some(Frame::data(message)),
            None => self.status.take().map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }
}

fn grpc_reply(taken: Result<Dropped, Refusal>) -> Response {
    let (message, code, why) = match taken {
        Ok(dropped) => {
            let reply = encode_reply(dropped.count, &dropped.why);
            let mut message = vec![0];
            message.extend_from_slice(&(reply.len() as u32).to_be_bytes());
            message.extend(reply);
            (Some(message.into()), 0, String::new())
        }
        Err(refusal) => (None, refusal.grpc, refusal.why),
    };
    let mut status = HeaderMap::new();
    status.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(code));
    if let Ok(why) = HeaderValue::from_str(&percent_encoded(&why)) {
        status.insert(HeaderName::from_static("grpc-message"), why);
    }
    let body = Body::new(GrpcBody { message, status: Some(status) });
    ([(header::CONTENT_TYPE, "application/grpc")], body).into_response()
}

/// As gRPC wants its messages of errors.
fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_errors_are_plain() {
        assert_eq!(percent_encoded("50 % ä\n"), "50 %25 %C3%A4%0A");
    }
}
