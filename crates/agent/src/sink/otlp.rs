//! The sink `otlp`: OpenTelemetry's logs, by gRPC or by HTTP.

use std::ops::Range;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use serde_json::Value;

use super::parts::{Fate, Parts, Verdict, send_parts};
use super::template::NamedTemplates;
use super::web::{WEB, WebSink};
use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::codec::deflated::gzip;
use crate::codec::otlp::{EXPORT, EncodedRecord, Groups, PATH, encode_record, read_reply};
use crate::counters::SinkCounters;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError};
use crate::event::Event;
use crate::http_client::{Answer, Endpoint, Version};
use crate::interceptor::now_ms;
use crate::tls;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "otlp",
    aliases: &[],
    doc: "Sends events as OpenTelemetry's log records (OTLP) to a collector. What the source `otlp` has put into headers is \
          put back into its place; other headers become attributes, and the header `timestamp` the time. A request that \
          is refused for good goes to the sink's dead-letter channel, as far as it takes one event, and what a collector \
          says it did not take of a request (a partial success) is counted in `EventDroppedCount`, with a line: it does \
          not say which.",
    keys: &[
        key(
            "endpoint",
            Kind::Address,
            Fallback::Required,
            "The collector, as `http://HOST:4317`, or `https://`; for HTTP, `/v1/logs` is put behind it.",
        ),
        key(
            "protocol",
            Kind::Choice(&["grpc", "http/protobuf"]),
            Fallback::Is("grpc"),
            "How it is spoken to.",
        ),
        key(
            "resource.*",
            Kind::Text,
            Fallback::Nothing,
            "`resource.NAME`: an attribute of the resource of events that have none of this name. Headers and times may be \
             in it, as in the `index` of `elasticsearch`.",
        ),
    ],
    shared: &[WEB, tls::OF_HTTPS],
};

/// How many records were not taken, and why.
type Reply = (u64, String);

/// What is read of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

struct Otlp {
    web: WebSink,
    is_grpc: bool,
    path: String,
    resource: NamedTemplates,
    counters: Arc<SinkCounters>,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let endpoint = Endpoint::parse(settings.required("endpoint").trim())?;
    let is_grpc = settings.is("protocol", "grpc");
    let version = if is_grpc { Version::Http2 } else { Version::Http1 };
    let web = WebSink::new(&context, endpoint, version)?;
    let path = if is_grpc { EXPORT.to_owned() } else { web.path(PATH) };
    let resource = NamedTemplates::below(settings, "resource.")?;
    Ok(Box::new(Otlp { web, is_grpc, path, resource, counters: context.counters }))
}

struct Request<'a> {
    sink: &'a mut Otlp,
    records: &'a [EncodedRecord],
}

impl Parts for Request<'_> {
    async fn send_part(&mut self, events: Range<usize>) -> Verdict {
        let records = &self.records[events];
        let mut groups = Groups::default();
        records.iter().for_each(|record| groups.add(record));
        let request = groups.finish();
        let answered = match self.sink.is_grpc {
            true => self.sink.call(request).await,
            false => self.sink.post(request).await,
        };
        match answered {
            Err(verdict) => verdict,
            Ok(reply) => self.sink.accepted(reply, records.len()),
        }
    }
}

impl Otlp {
    /// The reply to a request of HTTP.
    async fn post(&mut self, request: Vec<u8>) -> Result<Reply, Verdict> {
        let kind = HeaderValue::from_static("application/x-protobuf");
        let headers = [(header::CONTENT_TYPE.as_str(), kind)];
        let answered = self.web.post(&self.path, &headers, request, ANSWER_BYTES_MAX).await;
        let answer = answered.map_err(|reason| Verdict::All(Fate::Later(reason)))?;
        match answer.status {
            200..=299 => http_reply(&answer).ok_or_else(|| self.strange(&answer)),
            _ => Err(self.web.failure(&answer)),
        }
    }

    /// The reply to a call of gRPC.
    async fn call(&mut self, request: Vec<u8>) -> Result<Reply, Verdict> {
        let value = HeaderValue::from_static;
        let mut headers = vec![
            (header::CONTENT_TYPE.as_str(), value("application/grpc")),
            (header::TE.as_str(), value("trailers")),
        ];
        let is_packed = self.web.is_compressed();
        if is_packed {
            headers.push(("grpc-encoding", value("gzip")));
        }
        let message = if is_packed { gzip(&request) } else { request };
        let mut body = vec![u8::from(is_packed)];
        body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.extend(message);
        let answered =
            self.web.post_as_is(&self.path, &headers, body.into(), ANSWER_BYTES_MAX).await;
        let answer = answered.map_err(|reason| Verdict::All(Fate::Later(reason)))?;
        if answer.status != 200 {
            return Err(self.web.failure(&answer));
        }
        read_reply(&outcome(&answer)?).map_err(|_| self.strange(&answer))
    }

    fn strange(&self, answer: &Answer) -> Verdict {
        Verdict::All(Fate::Later(self.web.strange(answer, "a collector")))
    }

    /// What a reply says of records that were not taken.
    fn accepted(&self, (rejected, why): Reply, sent: usize) -> Verdict {
        match rejected {
            0 => Verdict::All(Fate::Arrived),
            _ if rejected >= sent as u64 => Verdict::All(Fate::Refused(why)),
            _ => {
                self.counters.dropped.add(usize::try_from(rejected).unwrap_or(sent));
                tracing::error!(
                    rejected,
                    sent,
                    why,
                    "a collector did not take all records of a request, and does not say which"
                );
                Verdict::All(Fate::Arrived)
            }
        }
    }
}

/// The reply that an answer of HTTP has; none if it has another kind of body. An empty one is a message without fields.
fn http_reply(answer: &Answer) -> Option<Reply> {
    if answer.body.is_empty() {
        return Some((0, String::new()));
    }
    match answer.media_type() {
        "application/x-protobuf" => read_reply(&answer.body).ok(),
        // As some collectors answer whatever was sent.
        "application/json" => {
            let reply: Value = serde_json::from_slice(&answer.body).ok()?;
            let partial = &reply.as_object()?.get("partialSuccess").unwrap_or(&Value::Null);
            let why = partial["errorMessage"].as_str().unwrap_or_default().to_owned();
            let rejected = match &partial["rejectedLogRecords"] {
                Value::Null => 0,
                Value::String(text) => text.parse().ok()?,
                number => number.as_u64()?,
            };
            Some((rejected, why))
        }
        _ => None,
    }
}

/// The message of an answer, if its status says that there is one.
fn outcome(answer: &Answer) -> Result<Vec<u8>, Verdict> {
    // If there is nothing but a status, it is among the headers.
    let field = |name: &str| {
        let field = answer.trailers.get(name).or_else(|| answer.headers.get(name));
        field.and_then(|value| value.to_str().ok())
    };
    let code = field("grpc-status").and_then(|code| code.parse::<u32>().ok());
    let reason = || format!("gRPC status {code:?}: {}", field("grpc-message").unwrap_or_default());
    match code {
        Some(0) => match answer.body.split_first_chunk::<5>() {
            Some(([0, ..], message)) => Ok(message.to_vec()),
            // Compression was not offered, and a call has an answer.
            _ => Ok(Vec::new()),
        },
        // INVALID_ARGUMENT; and OUT_OF_RANGE is what a message is that is too large for some.
        Some(3 | 11) => Err(Verdict::Apart(reason())),
        // RESOURCE_EXHAUSTED is both: too many requests, and a message that is too large.
        Some(8) if field("grpc-message").is_some_and(|why| why.contains("larger than max")) => {
            Err(Verdict::Apart(reason()))
        }
        _ => Err(Verdict::All(Fate::Later(reason()))),
    }
}

impl Otlp {
    async fn export(&mut self, batch: &Taken) -> Result<(), SinkError> {
        let now_ns = u64::try_from(now_ms()).unwrap_or(0) * 1_000_000;
        let encode = |event: &Event| {
            let resource: Vec<_> = self.resource.of(event).collect();
            encode_record(event, &resource, now_ns)
        };
        let records: Vec<EncodedRecord> = batch.events.iter().map(encode).collect();
        let sizes: Vec<usize> = records.iter().map(EncodedRecord::size_bytes).collect();
        let max = self.web.request_bytes_max;
        send_parts(&mut Request { sink: self, records: &records }, &sizes, max).await
    }
}

impl Sink for Otlp {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.export(batch))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;
    use crate::codec::otlp::encode_reply;

    #[test]
    fn what_is_no_reply_is_not_taken_for_one() {
        let reply = |kind: &'static str, body: &[u8]| {
            let mut headers = HeaderMap::new();
            if !kind.is_empty() {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            let (body, trailers) = (body.to_vec().into(), HeaderMap::new());
            http_reply(&Answer { status: 200, headers, body, is_cut: false, trailers })
        };
        let (proto, json) = ("application/x-protobuf", "application/json; charset=utf-8");
        assert_eq!(reply("", b""), Some((0, String::new())));
        assert_eq!(reply(proto, &encode_reply(2, "no")), Some((2, "no".to_owned())));
        assert_eq!(reply(json, b"{}"), Some((0, String::new())));
        let partial = br#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"no"}}"#;
        assert_eq!(reply(json, partial), Some((3, "no".to_owned())));
        for (kind, body) in [
            ("text/html", "<html>login</html>"),
            ("", "ok"),
            (proto, "<html>"),
            (json, "[]"),
            (json, "{\"partialSuccess\":{\"rejectedLogRecords\":\"x\"}}"),
        ] {
            assert_eq!(reply(kind, body.as_bytes()), None, "{kind} {body}");
        }
    }
}
