//! What sinks have in common that send many events in one POST.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue, Method, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::SinkContext;
use super::parts::{Fate, Verdict};
use crate::codec::deflated::gzip;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{StartError, because};
use crate::http_client::{Answer, CONNECT_TIMEOUT, Endpoint, HttpClient, Version};

/// What they can be told.
pub(super) const WEB: &[Key] = &[
    key(
        "batchSize",
        Kind::Number(1, 1_000_000, "events"),
        Fallback::Is("500"),
        "How many events are taken at once.",
    ),
    key(
        "maxRequestBytes",
        Kind::Number(1024, 1 << 30, "bytes"),
        Fallback::Is("8388608"),
        "How large a request may be before it is compressed. More goes in several; one event always goes.",
    ),
    key(
        "compression",
        Kind::Choice(&["none", "gzip"]),
        Fallback::Is("gzip"),
        "How requests are compressed.",
    ),
    CONNECT_TIMEOUT,
    key(
        "requestTimeout",
        Kind::Number(1, i64::MAX, "ms"),
        Fallback::Is("30000"),
        "How long an answer may take. Then what was sent is sent again.",
    ),
    key("user", Kind::Text, Fallback::Nothing, "A user's name (HTTP's basic authentication)."),
    key("password", Kind::MaybeEmpty, Fallback::Is(""), "The user's password."),
    key(
        "header.*",
        Kind::Text,
        Fallback::Nothing,
        "`header.NAME`: a header of requests, such as `header.Authorization = \"Bearer ${env:TOKEN}\"`.",
    ),
];

/// The most that a server may ask us to wait.
const WAIT_MAX: Duration = Duration::from_secs(300);

pub(super) struct WebSink {
    client: HttpClient,
    headers: Vec<(HeaderName, HeaderValue)>,
    is_compressed: bool,
    pub(super) request_bytes_max: usize,
    /// The server has asked us to leave it alone until then.
    not_before: Option<Instant>,
}

impl WebSink {
    pub(super) fn new(
        context: &SinkContext,
        endpoint: Endpoint,
        version: Version,
    ) -> Result<WebSink, StartError> {
        let settings = &context.settings;
        let counters = Arc::clone(&context.counters);
        let client = HttpClient::new(settings, endpoint, version, Some(counters))?;
        let mut headers = Vec::new();
        for (name, value) in settings.below("header.") {
            let wrong = format!("header.{name}");
            let value = HeaderValue::from_str(value).map_err(because(&wrong))?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(because(&wrong))?;
            headers.push((name, value));
        }
        if let Some(user) = settings.text("user") {
            let password = settings.required("password");
            let text = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            let value = HeaderValue::from_str(&text).map_err(because("user"))?;
            headers.push((header::AUTHORIZATION, value));
        }
        Ok(WebSink {
            client,
            headers,
            is_compressed: settings.is("compression", "gzip"),
            request_bytes_max: settings.size("maxRequestBytes"),
            not_before: None,
        })
    }

    /// The path of the endpoint with something behind it.
    pub(super) fn path(&self, behind: &str) -> String {
        format!("{}{behind}", self.client.endpoint.path.trim_end_matches('/'))
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Sends a body that is encoded as the configuration says; why there is no answer.
    pub(super) async fn post(
        &mut self,
        path: &str,
        more: &[(&str, HeaderValue)],
        body: Vec<u8>,
        answer_bytes_max: usize,
    ) -> Result<Answer, String> {
        let mut headers = more.to_vec();
        let body = match self.is_compressed {
            true => {
                let encoding = HeaderValue::from_static("gzip");
                headers.push((header::CONTENT_ENCODING.as_str(), encoding));
                gzip(&body)
            }
            false => body,
        };
        self.post_as_is(path, &headers, body.into(), answer_bytes_max).await
    }

    /// Sends a body.
    pub(super) async fn post_as_is(
        &mut self,
        path: &str,
        more: &[(&str, HeaderValue)],
        body: Bytes,
        answer_bytes_max: usize,
    ) -> Result<Answer, String> {
        let endpoint = &self.client.endpoint;
        if let Some(until) = self.not_before {
            let left = until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let seconds = left.as_secs_f32();
                return Err(format!("{endpoint} asks us to wait {seconds:.1} s more"));
            }
            self.not_before = None;
        }
        let named = format!("{endpoint}");
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let headers: Vec<(&str, HeaderValue)> = more.iter().cloned().chain(own).collect();
        let answered = self.client.call(Method::POST, path, &headers, body, answer_bytes_max).await;
        let answer = answered.map_err(|error| format!("{named}: {error}"))?;
        if matches!(answer.status, 429 | 503) {
            let wait = answer.headers.get(header::RETRY_AFTER);
            let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
            self.not_before = wait.and_then(|seconds| {
                Instant::now().checked_add(Duration::from_secs(seconds).min(WAIT_MAX))
            });
        }
        Ok(answer)
    }

    /// Why an answer is none, although its status is one of success: a proxy may have given it, or a page to log in at.
    pub(super) fn strange(&self, answer: &Answer, whose: &str) -> String {
        let (endpoint, status) = (&self.client.endpoint, answer.status);
        let kind = answer.media_type();
        let kind = if kind.is_empty() { "no content type" } else { kind };
        format!(
            "{endpoint} answered {status} with {kind}, which is no answer of {whose}{}",
            answer.said()
        )
    }

    /// What a status means that is no success: of what was sent something is not wanted, or all of it has to wait. A server
    /// that does not know us or has no such path is a mistake of the configuration, and no event is to blame.
    pub(super) fn failure(&self, answer: &Answer) -> Verdict {
        let reason =
            format!("{} answered {}{}", self.client.endpoint, answer.status, answer.said());
        match answer.status {
            400 | 413 | 422 => Verdict::Apart(reason),
            _ => Verdict::All(Fate::Later(reason)),
        }
    }
}
