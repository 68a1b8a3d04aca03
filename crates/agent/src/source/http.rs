//! The source `http`: events in JSON by POST.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::body::{NoBody, read_body};
use super::listener::{BUFFERS, CONNECTIONS, start_calls};
use super::{SourceContext, Starting};
use crate::codec::Unread;
use crate::codec::budget::{Budget, Exhausted};
use crate::codec::intake::Intake;
use crate::codec::json::read_events;
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::error::ChannelError;
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
                &["org.apache.flume.source.http.JSONHandler", "json"],
                "handlers are Java's classes",
            ),
            Fallback::Is("json"),
            "What reads requests.",
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
    let refuse = |status: StatusCode, why: String| {
        context.delivery.counters().malformed.add(1);
        (status, format!("{why}\n")).into_response()
    };
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let charset = kind
        .to_lowercase()
        .split(';')
        .find_map(|part| Some(part.trim().strip_prefix("charset=")?.trim_matches('"').to_owned()));
    if let Some(charset) =
        charset.filter(|charset| !matches!(charset.as_str(), "utf-8" | "us-ascii"))
    {
        return refuse(
            StatusCode::BAD_REQUEST,
            format!("charset {charset} is not served; UTF-8 is"),
        );
    }
    let mut share = budget.share();
    let max = context.settings.size("maxMessageBytes");
    let bytes = match read_body(request.into_body(), max, &mut share).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let status = match &error {
                NoBody::Cut => StatusCode::BAD_REQUEST,
                NoBody::TooSlow => StatusCode::REQUEST_TIMEOUT,
                NoBody::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                NoBody::Exhausted(why) => status_of_exhausted(*why),
            };
            return refuse(status, error.to_string());
        }
    };
    let intake = Intake::new(&mut share, context.delivery.events_max());
    let events = match read_events(&bytes, intake) {
        Ok(events) => events,
        Err(error) => {
            let status = match &error {
                Unread::Malformed(_) => StatusCode::BAD_REQUEST,
                Unread::TooMany(_) => StatusCode::PAYLOAD_TOO_LARGE,
                Unread::Exhausted(why) => status_of_exhausted(*why),
            };
            return refuse(status, error.to_string());
        }
    };
    drop(bytes);
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

/// Of a request that takes more memory than there is: others may give some back, or it is too large by itself.
fn status_of_exhausted(why: Exhausted) -> StatusCode {
    match why.is_final() {
        true => StatusCode::PAYLOAD_TOO_LARGE,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}
