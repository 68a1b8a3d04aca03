//! The sink `loki`: lines by Loki's push API.
//!
//! `{"streams":[{"stream":{"job":"a"},"values":[["NANOSECONDS","line",{"name":"value"}]]}]}`. Loki keeps what is good of
//! a request, and answers 400 if anything in it is not; a line that it has already, at the same time, it has once.
//! Source: Loki's HTTP API, "Ingest logs".

use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::ops::Range;

use axum::http::{HeaderValue, header};
use serde_json::{Value, json};

use super::parts::{Fate, Parts, Verdict, send_parts};
use super::template::{NamedTemplates, time_ms};
use super::web::{WEB, WebSink};
use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{SinkError, StartError, because};
use crate::event::Event;
use crate::http_client::{Endpoint, Version};
use crate::settings::Settings;
use crate::tls;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "loki",
    aliases: &[],
    doc: "Pushes bodies as lines to Grafana Loki, at the time in the header `timestamp` or else now. Lines that Loki will \
          not have (400: out of order, too old, too long) and bodies that are no UTF-8 go to the sink's dead-letter \
          channel; while it is busy (429, 5xx) nothing is lost. A line that is sent again with its `timestamp` is there \
          once.",
    keys: &[
        key(
            "endpoint",
            Kind::Address,
            Fallback::Required,
            "Loki, as `http://HOST:3100` or `https://HOST:3100`.",
        ),
        key(
            "labels.*",
            Kind::Text,
            Fallback::Nothing,
            "`labels.NAME`: a label of streams; at least one is needed. Headers and times may be in it, as in the `index` of \
             `elasticsearch`. One that is empty is left away.",
        ),
        key(
            "metadata.*",
            Kind::Text,
            Fallback::Nothing,
            "`metadata.NAME`: a line's structured metadata, in the same way.",
        ),
        key("tenant", Kind::Text, Fallback::Nothing, "The tenant (`X-Scope-OrgID`)."),
    ],
    shared: &[WEB, tls::OF_HTTPS],
};

/// An answer names lines that were refused.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What a line has in a request beside its texts, about.
const LINE_OVERHEAD_BYTES: usize = 64;

struct Loki {
    web: WebSink,
    path: String,
    tenant: Option<HeaderValue>,
    form: Form,
}

struct Form {
    labels: NamedTemplates,
    metadata: NamedTemplates,
}

/// An event as Loki has it.
#[derive(Debug)]
struct Line {
    labels: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
    text: String,
    time_ns: String,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let settings = &context.settings;
    let endpoint = Endpoint::parse(settings.required("endpoint").trim())?;
    let web = WebSink::new(&context, endpoint, Version::Http1)?;
    let path = web.path("/loki/api/v1/push");
    let form = Form {
        labels: templates(settings, "labels.")?,
        metadata: templates(settings, "metadata.")?,
    };
    if form.labels.is_empty() {
        return Err("there are no labels; Loki wants at least one: labels.job = \"...\"".to_owned());
    }
    let tenant = settings.text("tenant").map(|name| HeaderValue::from_str(name.trim()));
    let tenant = tenant.transpose().map_err(because("tenant"))?;
    Ok(Box::new(Loki { web, path, tenant, form }))
}

/// Values by names that Prometheus would have for labels.
fn templates(settings: &Settings, stem: &str) -> Result<NamedTemplates, StartError> {
    for (name, _) in settings.below(stem) {
        let is_sound = |(at, byte): (usize, u8)| {
            byte.is_ascii_alphabetic() || byte == b'_' || (at > 0 && byte.is_ascii_digit())
        };
        if !name.bytes().enumerate().all(is_sound) {
            return Err(format!("{stem}{name}: a label has letters, digits and _"));
        }
    }
    NamedTemplates::below(settings, stem)
}

impl Form {
    fn line(&self, event: &Event) -> Result<Line, String> {
        let labels: BTreeMap<_, _> = self.labels.of(event).collect();
        if labels.is_empty() {
            return Err("all labels of the event are empty".to_owned());
        }
        let text = std::str::from_utf8(&event.body);
        let text = text.map_err(|_| "the body is no UTF-8".to_owned())?.to_owned();
        let time_ns = (i128::from(time_ms(event)) * 1_000_000).to_string();
        Ok(Line { labels, metadata: self.metadata.of(event).collect(), text, time_ns })
    }
}

impl Line {
    fn size_bytes(&self) -> usize {
        let of = |texts: &BTreeMap<String, String>| -> usize {
            texts.iter().map(|(name, value)| name.len() + value.len()).sum()
        };
        LINE_OVERHEAD_BYTES + self.text.len() + of(&self.metadata) + of(&self.labels)
    }
}

/// The lines by streams, in their order.
fn body<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<u8> {
    let mut places: HashMap<&BTreeMap<String, String>, usize> = HashMap::new();
    let mut streams: Vec<(&BTreeMap<String, String>, Vec<Value>)> = Vec::new();
    for line in lines {
        let place = *places.entry(&line.labels).or_insert_with(|| {
            streams.push((&line.labels, Vec::new()));
            streams.len() - 1
        });
        let value = match line.metadata.is_empty() {
            true => json!([line.time_ns, line.text]),
            false => json!([line.time_ns, line.text, line.metadata]),
        };
        streams[place].1.push(value);
    }
    let stream = |(labels, values)| json!({ "stream": labels, "values": Value::Array(values) });
    let streams: Vec<Value> = streams.into_iter().map(stream).collect();
    json!({ "streams": streams }).to_string().into_bytes()
}

struct Request<'a> {
    sink: &'a mut Loki,
    lines: &'a [Result<Line, String>],
}

impl Parts for Request<'_> {
    async fn send_part(&mut self, events: Range<usize>) -> Verdict {
        let lines = &self.lines[events];
        let all_arrived = || Verdict::of_each(lines, iter::repeat(Fate::Arrived));
        if lines.iter().flatten().next().is_none() {
            return all_arrived();
        }
        let kind = HeaderValue::from_static("application/json");
        let mut headers = vec![(header::CONTENT_TYPE.as_str(), kind)];
        let Loki { web, path, tenant, .. } = &mut *self.sink;
        headers.extend(tenant.clone().map(|tenant| ("x-scope-orgid", tenant)));
        let body = body(lines.iter().flatten());
        match web.post(path, &headers, body, ANSWER_BYTES_MAX).await {
            // Loki says nothing beside 204.
            Ok(answer) if (200..300).contains(&answer.status) => match answer.body.is_empty() {
                true => all_arrived(),
                false => Verdict::All(Fate::Later(web.strange(&answer, "Loki"))),
            },
            Ok(answer) => web.failure(&answer),
            Err(reason) => Verdict::All(Fate::Later(reason)),
        }
    }
}

impl Loki {
    async fn push(&mut self, batch: &Taken) -> Result<(), SinkError> {
        let lines: Vec<Result<Line, String>> =
            batch.events.iter().map(|event| self.form.line(event)).collect();
        let sizes: Vec<usize> =
            lines.iter().map(|line| line.as_ref().map_or(0, Line::size_bytes)).collect();
        let max = self.web.request_bytes_max;
        send_parts(&mut Request { sink: self, lines: &lines }, &sizes, max).await
    }
}

impl Sink for Loki {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(self.push(batch))
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::Template;
    use super::*;

    #[test]
    fn lines_are_sorted_by_streams() {
        let template = |text| Template::parse(text).expect("is one");
        let form = Form {
            labels: NamedTemplates(vec![
                ("host".to_owned(), template("%{host}")),
                ("job".to_owned(), template("nginx")),
            ]),
            metadata: NamedTemplates(vec![("trace".to_owned(), template("%{trace}"))]),
        };
        let event = |body: &'static str, host: &str| {
            let mut event = Event::new(body);
            event.headers.set("timestamp", "1795791845678");
            event.headers.set("host", host);
            event
        };
        let mut traced = event("one", "a");
        traced.headers.set("trace", "t");
        let events = [traced, event("two", ""), event("three", "a")];
        let lines: Vec<Line> =
            events.iter().map(|event| form.line(event).expect("is one")).collect();
        assert_eq!(
            String::from_utf8(body(lines.iter())).expect("is text"),
            r#"{"streams":[{"stream":{"host":"a","job":"nginx"},"values":[["1795791845678000000","one",{"trace":"t"}],["1795791845678000000","three"]]},{"stream":{"job":"nginx"},"values":[["1795791845678000000","two"]]}]}"#
        );
        let refused = form.line(&Event::new(&b"\xff"[..])).expect_err("is no text");
        assert_eq!(refused, "the body is no UTF-8");
        let labels = NamedTemplates(vec![("a".to_owned(), template("%{a}"))]);
        let form = Form { labels, metadata: NamedTemplates(Vec::new()) };
        assert!(form.line(&Event::new("x")).is_err_and(|error| error.contains("empty")));
    }
}
