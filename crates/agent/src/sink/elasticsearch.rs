//! The sink `elasticsearch`: documents by the bulk API, which OpenSearch has too.
//!
//! A request is lines of JSON: for each event what is to be done (`{"create":{"_index":"logs","_id":"1"}}`) and the
//! document. Its answer has a status for each event. Source: Elasticsearch Reference, "Bulk API".

use std::iter;
use std::ops::Range;

use axum::http::{HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::parts::{Fate, Parts, Verdict, send_parts};
use super::template::{Template, rfc3339, time_ms};
use super::web::{WEB, WebSink};
use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError};
use crate::event::Event;
use crate::http_client::{Endpoint, Version};
use crate::tls;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "elasticsearch",
    aliases: &[
        "opensearch",
        "elastic_search",
        "org.apache.flume.sink.elasticsearch.ElasticSearchSink",
    ],
    doc: "Writes events as documents into Elasticsearch or OpenSearch, by the bulk API. A document that is refused for good \
          (400, 404, 413) goes to the sink's dead-letter channel. Those that may pass later (429, 5xx) go back into the \
          channel, and only those. With a durable channel or `idHeader` documents have ids: what is sent once more is \
          there once.",
    keys: &[
        key(
            "endpoint",
            Kind::Address,
            Fallback::Required,
            "The cluster, as `http://HOST:9200` or `https://HOST:9200`.",
        ),
        key(
            "index",
            Kind::Text,
            Fallback::Required,
            "The index or data stream. `%{NAME}` is the value of a header; `%Y %y %m %d %e %j %H %k %I %M %S %p %b %a %D %s \
             %t` are parts of the time in the header `timestamp`, or else of now, in UTC; `%%` is a percent sign.",
        ),
        key(
            "operation",
            Kind::Choice(&["create", "index"]),
            Fallback::Is("create"),
            "What is done: `create` leaves a document of the same id as it is, and is what data streams take; `index` \
             writes over it.",
        ),
        key(
            "document",
            Kind::Choice(&["event", "body"]),
            Fallback::Is("event"),
            "What is written: `event` is an object with `@timestamp`, `message` (`messageBase64` if it is no UTF-8) and \
             `headers`; `body` is the body, which has to be an object in JSON.",
        ),
        key(
            "idHeader",
            Kind::Text,
            Fallback::Nothing,
            "A header with the document's id. Events without it have their place in a durable channel; in a channel in \
             memory they have none, unless the interceptor `uuid` gives them one.",
        ),
        key("pipeline", Kind::Text, Fallback::Nothing, "An ingest pipeline for all documents."),
    ],
    shared: &[WEB, tls::OF_HTTPS],
};

/// What is read of an answer: some hundred bytes for each event that was refused.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Ids are bounded by the server.
const ID_BYTES_MAX: usize = 512;

struct Elasticsearch {
    web: WebSink,
    path: String,
    form: Form,
}

/// How an event becomes two lines.
struct Form {
    index: Template,
    operation: &'static str,
    is_body: bool,
    id_header: Option<String>,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let endpoint = Endpoint::parse(settings.required("endpoint").trim())?;
    let web = WebSink::new(&context, endpoint, Version::Http1)?;
    let mut path = web
        .path("/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason");
    if let Some(pipeline) = settings.text("pipeline") {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !pipeline.bytes().all(is_sound) {
            return Err(format!(
                "pipeline '{pipeline}' has other characters than letters, digits and - _ ."
            ));
        }
        path += &format!("&pipeline={pipeline}");
    }
    let form = Form {
        index: Template::parse(settings.required("index").trim())?,
        operation: if settings.is("operation", "index") { "index" } else { "create" },
        is_body: settings.is("document", "body"),
        id_header: settings.text("idHeader").map(str::to_owned),
    };
    Ok(Box::new(Elasticsearch { web, path, form }))
}

impl Form {
    /// The lines of an event; why there are none.
    fn lines(&self, event: &Event, id: Option<String>) -> Result<Vec<u8>, String> {
        let index = self.index.of(event);
        if index.is_empty() {
            return Err("the event's index is empty".to_owned());
        }
        let mut action = Map::from_iter([("_index".to_owned(), Value::String(index))]);
        let stated = self.id_header.as_ref().and_then(|name| event.headers.get(name));
        if let Some(id) = stated.map(str::to_owned).or(id).filter(|id| !id.is_empty()) {
            if id.len() > ID_BYTES_MAX {
                return Err(format!("the event's id has more than {ID_BYTES_MAX} bytes"));
            }
            action.insert("_id".to_owned(), Value::String(id));
        }
        let mut lines = json!({ self.operation: action }).to_string().into_bytes();
        lines.push(b'\n');
        match self.is_body {
            true => lines.extend(one_line(&event.body)?),
            false => lines.extend_from_slice(document(event).to_string().as_bytes()),
        }
        lines.push(b'\n');
        Ok(lines)
    }
}

fn document(event: &Event) -> Value {
    let mut fields = Map::new();
    fields.insert("@timestamp".to_owned(), Value::String(rfc3339(time_ms(event))));
    match std::str::from_utf8(&event.body) {
        Ok(text) => fields.insert("message".to_owned(), Value::String(text.to_owned())),
        Err(_) => {
            let text = STANDARD.encode(&event.body);
            fields.insert("messageBase64".to_owned(), Value::String(text))
        }
    };
    if !event.headers.is_empty() {
        let headers = event.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), Value::from(value)));
        fields.insert("headers".to_owned(), Value::Object(headers.collect()));
    }
    Value::Object(fields)
}

/// A body that is an object, with blanks in place of line ends. Such are between its values only: within a text JSON
/// wants them escaped.
fn one_line(body: &[u8]) -> Result<Vec<u8>, String> {
    let is_object = body.trim_ascii_start().starts_with(b"{");
    if !is_object || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
        return Err("the body is no object in JSON".to_owned());
    }
    let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    Ok(body.iter().map(blank).collect())
}

/// A request, by the lines of each event.
struct Request<'a> {
    sink: &'a mut Elasticsearch,
    lines: &'a [Result<Vec<u8>, String>],
}

impl Parts for Request<'_> {
    async fn send_part(&mut self, events: Range<usize>) -> Verdict {
        let lines = &self.lines[events];
        let body: Vec<u8> = lines.iter().flatten().flatten().copied().collect();
        if body.is_empty() {
            return Verdict::of_each(lines, iter::empty());
        }
        let kind = HeaderValue::from_static("application/x-ndjson");
        let headers = [(header::CONTENT_TYPE.as_str(), kind)];
        let Elasticsearch { web, path, form } = &mut *self.sink;
        let answer = match web.post(path, &headers, body, ANSWER_BYTES_MAX).await {
            Ok(answer) => answer,
            Err(reason) => return Verdict::All(Fate::Later(reason)),
        };
        if answer.status != 200 {
            return web.failure(&answer);
        }
        let sent = lines.iter().flatten().count();
        match outcomes(&answer.body, sent, form.operation) {
            Ok(outcomes) => Verdict::of_each(lines, outcomes),
            Err(reason) => Verdict::All(Fate::Later(reason)),
        }
    }
}

/// What an answer says of each document.
fn outcomes(answer: &[u8], sent: usize, operation: &str) -> Result<Vec<Fate>, String> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|error| format!("the answer to a bulk request is no JSON: {error}"))?;
    if !answer["errors"].is_boolean() {
        return Err("the answer to a bulk request does not say whether there are errors".to_owned());
    }
    let items = answer["items"].as_array().filter(|items| items.len() == sent);
    let items = items.ok_or_else(|| format!("the answer does not tell of {sent} documents"))?;
    let fate = |item: &Value| {
        let item = &item[operation];
        let status = item["status"].as_u64().unwrap_or(0);
        let kind = item["error"]["type"].as_str().unwrap_or("no reason");
        let why = item["error"]["reason"].as_str().unwrap_or_default();
        let reason = format!("{status} {kind}: {why}");
        match status {
            200..=299 => Fate::Arrived,
            // It is there since it was sent before.
            409 if operation == "create" => Fate::Arrived,
            400 | 404 | 413 => Fate::Refused(reason),
            _ => Fate::Later(reason),
        }
    };
    Ok(items.iter().map(fate).collect())
}

impl Elasticsearch {
    async fn write(&mut self, batch: &Taken) -> Result<(), SinkError> {
        let events = batch.events.iter().enumerate();
        let lines: Vec<Result<Vec<u8>, String>> =
            events.map(|(index, event)| self.form.lines(event, batch.event_id(index))).collect();
        let sizes: Vec<usize> =
            lines.iter().map(|lines| lines.as_ref().map_or(0, Vec::len)).collect();
        let max = self.web.request_bytes_max;
        send_parts(&mut Request { sink: self, lines: &lines }, &sizes, max).await
    }
}

impl Sink for Elasticsearch {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.write(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(is_body: bool) -> Form {
        Form {
            index: Template::parse("logs-%{app}").expect("is one"),
            operation: "create",
            is_body,
            id_header: Some("id".to_owned()),
        }
    }

    fn event(body: &'static [u8]) -> Event {
        let mut event = Event::new(body);
        event.headers.set("timestamp", "1000");
        event.headers.set("app", "a");
        event
    }

    #[test]
    fn an_event_is_two_lines() {
        let text = |form: &Form, event: &Event, id: Option<&str>| {
            form.lines(event, id.map(str::to_owned))
                .map(|lines| String::from_utf8(lines).expect("is text"))
        };
        assert_eq!(
            text(&form(false), &event(b"x\n\"y\""), Some("d-1")).expect("is good"),
            "{\"create\":{\"_id\":\"d-1\",\"_index\":\"logs-a\"}}\n\
             {\"@timestamp\":\"1970-01-01T00:00:01.000Z\",\"headers\":{\"app\":\"a\",\"timestamp\":\"1000\"},\
             \"message\":\"x\\n\\\"y\\\"\"}\n"
        );
        let lines = text(&form(false), &event(b"\xff"), None).expect("is good");
        assert!(
            lines.contains("{\"_index\":\"logs-a\"}")
                && lines.contains("\"messageBase64\":\"/w==\""),
            "{lines}"
        );
        let mut named = event(b"{\"n\": 12345678901234567890.1,\r\n \"a\":1}");
        named.headers.set("id", "own");
        assert_eq!(
            text(&form(true), &named, Some("d-1")).expect("is good"),
            "{\"create\":{\"_id\":\"own\",\"_index\":\"logs-a\"}}\n{\"n\": 12345678901234567890.1,   \"a\":1}\n"
        );
        for body in [&b"[1]"[..], b"{\"a\"", b"{\"a\": \"\n\"}", b""] {
            let refused = form(true).lines(&event(body), None).expect_err("is none");
            assert_eq!(refused, "the body is no object in JSON");
        }
        named.headers.set("id", "i".repeat(513));
        assert!(form(true).lines(&named, None).expect_err("is too long").contains("512"));
    }

    #[test]
    fn an_answer_is_read_by_document() {
        let answer = br#"{"errors":true,"items":[{"create":{"status":201}},{"create":{"status":409,"error":{"type":"version_conflict_engine_exception"}}},{"create":{"status":400,"error":{"type":"document_parsing_exception","reason":"no number"}}},{"create":{"status":429}}]}"#;
        let fates = outcomes(answer, 4, "create").expect("is one");
        assert_eq!(fates[..2], [Fate::Arrived, Fate::Arrived]);
        assert_eq!(fates[2], Fate::Refused("400 document_parsing_exception: no number".to_owned()));
        assert!(matches!(&fates[3], Fate::Later(reason) if reason.starts_with("429")));
        assert!(outcomes(answer, 5, "create").is_err());
        let good =
            br#"{"errors":false,"items":[{"create":{"status":201}},{"create":{"status":201}}]}"#;
        assert_eq!(outcomes(good, 2, "create"), Ok(vec![Fate::Arrived; 2]));
        // It tells of no document, or of none of ours.
        assert!(outcomes(b"{\"errors\":false,\"items\":[]}", 2, "create").is_err());
        let others = outcomes(good, 2, "index").expect("is one");
        assert!(others.iter().all(|fate| matches!(fate, Fate::Later(_))), "{others:?}");
        for odd in [&b"<html>"[..], b"{}", b"{\"errors\":true}", b"[]"] {
            assert!(outcomes(odd, 1, "create").is_err());
        }
    }
}
