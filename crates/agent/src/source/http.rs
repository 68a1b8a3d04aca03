//! The source `http`: events in JSON by POST.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::body::{NoBody, read_body};
use super::listener::{BUFFERS, CONNECTIONS, start_calls};
use super::{SourceContext, Starting};
use crate::codec::Unread;
use crate::codec::budget::{Budget, Exhausted, Share};
use crate::codec::intake::Intake;
use crate::codec::json::read_events;
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::error::ChannelError;
use crate::event::Event;
use crate::tls::{self, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "http",
    aliases: &["org.apache.flume.source.http.HTTPSource"],
    doc: "Takes events by POST, as a list in JSON: `[{\"headers\": {\"a\": \"b\"}, \"body\": \"text\"}]`. All of a request go \
          into channels together. It is answered with 200 then, with 400 if it is malformed, with 408 if it comes too \
          slowly, with 413 if no channel would ever take it, as a list above `transactionCapacity`, and with 503 while \
          channels have no room.",
    keys: &[
        key("bind", Kind::Text, Fallback::Is("0.0.0.0"), "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        key(
            "handler",
            Kind::Only(
                &["org.apache.flume.source.http.JSONHandler", "json", BLOB[0], BLOB[1]],
                "handlers are Java's classes",
            ),
            Fallback::Is("json"),
            "What reads requests: `json` a list of events; `blob` makes the body one event, with the parameters of the \
             request as headers.",
        ),
        key(
            BLOB_MAX,
            Kind::Number(1, 1 << 31, "bytes"),
            Fallback::Is("100000000"),
            "How large a body may be for `blob`, if `maxMessageBytes` allows it. A larger one is refused with 413; Flume cuts it \
             off.",
        ),
        key(
            "enableSSL",
            Kind::Only(&["false"], "say ssl, keystore and perhaps truststore, with PEM files"),
            Fallback::Is("false"),
            "Flume's older word for `ssl`.",
        ),
        key(
            "QueuedThreadPool.*",
            Kind::Ignored("there is no Jetty"),
            Fallback::Nothing,
            "Jetty's.",
        ),
        key(
            "HttpConfiguration.*",
            Kind::Ignored("there is no Jetty"),
            Fallback::Nothing,
            "Jetty's.",
        ),
        key("ServerConnector.*", Kind::Ignored("there is no Jetty"), Fallback::Nothing, "Jetty's."),
    ],
    shared: &[tls::OF_SOURCE, CONNECTIONS, BUFFERS],
};

/// The names of the handler that makes a body one event.
const BLOB: [&str; 2] = ["org.apache.flume.sink.solr.morphline.BlobHandler", "blob"];

/// A key of that handler.
const BLOB_MAX: &str = "handler.maxBlobLength";

/// How long a client may take to send the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(30);

pub(crate) fn start(context: SourceContext) -> Starting {
    start_calls(context, None, &["http/1.1"], serve_requests)
}

async fn serve_requests(
    stream: Box<dyn Stream>,
    context: Arc<SourceContext>,
    budget: Arc<Budget>,
) -> io::Result<()> {
    let of_service = Arc::clone(&context);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (context, budget) = (Arc::clone(&of_service), Arc::clone(&budget));
        async move { Ok::<_, Infallible>(answer(request.map(Body::new), &context, &budget).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = context.stop.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(source = context.delivery.source(), %error, "an HTTP connection is lost");
    }
    Ok(())
}

async fn answer(request: Request<Body>, context: &SourceContext, budget: &Arc<Budget>) -> Response {
    if request.method() != Method::POST {
        let allow = [(header::ALLOW, "POST")];
        return (StatusCode::METHOD_NOT_ALLOWED, allow, "events come by POST\n").into_response();
    }
    let mut share = budget.share();
    let events = match read_request(request, context, &mut share).await {
        Ok(events) => events,
        Err((status, why)) => {
            context.delivery.counters().malformed.add(1);
            return (status, format!("{why}\n")).into_response();
        }
    };
    let Err(error) = context.delivery.deliver(events).await else {
        return StatusCode::OK.into_response();
    };
    tracing::warn!(source = context.delivery.source(), %error, "a request is refused");
    let status = match &error {
        ChannelError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        error if error.is_final() => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{error}\n")).into_response()
}

/// The events of a request, or how it is refused.
async fn read_request(
    request: Request<Body>,
    context: &SourceContext,
    share: &mut Share,
) -> Result<Vec<Event>, (StatusCode, String)> {
    let settings = &context.settings;
    let handler = settings.required("handler").trim();
    let is_blob = BLOB.iter().any(|name| name.eq_ignore_ascii_case(handler));
    let (mut max, mut key) = (settings.size("maxMessageBytes"), "maxMessageBytes");
    if is_blob && settings.size(BLOB_MAX) < max {
        (max, key) = (settings.size(BLOB_MAX), BLOB_MAX);
    }
    if !is_blob {
        check_charset(request.headers())?;
    }
    let (head, body) = request.into_parts();
    let bytes = read_body(body, max, share).await.map_err(|error| match error {
        NoBody::Cut => (StatusCode::BAD_REQUEST, error.to_string()),
        NoBody::TooSlow => (StatusCode::REQUEST_TIMEOUT, error.to_string()),
        NoBody::TooLarge(max) => {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is above {max} bytes ({key})"))
        }
        NoBody::Exhausted(why) => (status_of_exhausted(why), why.to_string()),
    })?;
    let intake = Intake::new(share, context.delivery.events_max());
    let events = match is_blob {
        true => read_blob(head.uri.query().unwrap_or_default(), bytes, intake),
        false => read_events(&bytes, intake),
    };
    events.map_err(|error| {
        let status = match &error {
            Unread::Malformed(_) => StatusCode::BAD_REQUEST,
            Unread::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Unread::Exhausted(why) => status_of_exhausted(*why),
        };
        (status, error.to_string())
    })
}

/// JSON is in UTF-8 here.
fn check_charset(headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let charset =
        kind.unwrap_or_default().to_lowercase().split(';').find_map(|part| {
            Some(part.trim().strip_prefix("charset=")?.trim_matches('"').to_owned())
        });
    match charset.as_deref() {
        None | Some("utf-8" | "us-ascii") => Ok(()),
        Some(other) => {
            Err((StatusCode::BAD_REQUEST, format!("charset {other} is not served; UTF-8 is")))
        }
    }
}

/// A body as one event, whose headers are the parameters of the request.
fn read_blob(query: &str, body: Bytes, mut intake: Intake<'_>) -> Result<Vec<Event>, Unread> {
    intake.begin()?;
    let mut headers = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        intake.header(&name, &value)?;
        headers.push((name.into(), value.into()));
    }
    // The first of several holds, as Java's getParameter has it. The last of equal names holds in an event.
    headers.reverse();
    intake.push(headers, body);
    Ok(intake.take())
}

/// Of a request that takes more memory than there is: others may give some back, or it is too large by itself.
fn status_of_exhausted(why: Exhausted) -> StatusCode {
    match why.is_final() {
        true => StatusCode::PAYLOAD_TOO_LARGE,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_becomes_an_event_with_the_parameters_of_its_request() {
        let budget = Budget::new(1 << 20);
        let read = |query| {
            let mut share = budget.share();
            let events =
                read_blob(query, Bytes::from_static(b"\xff\x00"), Intake::new(&mut share, 1));
            let headers = events.expect("is one").remove(0).headers;
            headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(read(""), [] as [&str; 0]);
        assert_eq!(read("a=b+c%20d&e%3D=%c3%A4&a=z&&f"), ["f=", "e==ä", "a=b c d"]);
        assert_eq!(read("a=%&b=%4&c=%+1&d=%ff"), ["d=\u{fffd}", "c=% 1", "b=%4", "a=%"]);
    }
}
