//! Events as records.

use std::collections::HashMap;

use serde_json::Value;

use super::super::protobuf::{put_bytes, put_fixed32, put_fixed64, put_number};
use crate::event::Event;

/// An event as a record, with what it came from.
#[derive(Debug)]
pub(crate) struct EncodedRecord {
    /// A `Resource`, and an `InstrumentationScope`.
    resource: Vec<u8>,
    scope: Vec<u8>,
    record: Vec<u8>,
}

impl EncodedRecord {
    /// What it takes in a request, at most.
    pub(crate) fn size_bytes(&self) -> usize {
        const PREFIXES_BYTES: usize = 50;
        PREFIXES_BYTES + self.resource.len() + self.scope.len() + self.record.len()
    }
}

/// An event as a record. Headers that say nothing of a record are attributes; `resource` are attributes of its origin
/// beside those that it has.
pub(crate) fn encode_record(
    event: &Event,
    resource: &[(String, String)],
    now_ns: u64,
) -> EncodedRecord {
    let mut encoded = EncodedRecord { resource: Vec::new(), scope: Vec::new(), record: Vec::new() };
    let header = |name: &str| event.headers.get(name).unwrap_or_default();
    let number = |name: &str| header(name).trim().parse::<u64>().ok();
    let millis = || number("timestamp").and_then(|ms| ms.checked_mul(1_000_000));
    let record = &mut encoded.record;
    put_fixed64(record, 1, number("otlp.time").or_else(millis).unwrap_or(0));
    put_number(record, 2, number("otlp.severity").unwrap_or(0).min(24));
    put_text(record, 3, header("otlp.severityText"));
    put_bytes(record, 5, &body(event));
    put_text(&mut encoded.scope, 1, header("otlp.scope"));
    put_text(&mut encoded.scope, 2, header("otlp.scopeVersion"));
    for (name, value) in resource {
        if event.headers.get(&format!("resource.{name}")).is_none() {
            put_bytes(&mut encoded.resource, 1, &attribute(name, value));
        }
    }
    for (name, value) in event.headers.iter() {
        if name == "timestamp" || name.starts_with("otlp.") {
            continue;
        }
        match name.split_once('.') {
            Some(("resource", name)) => {
                put_bytes(&mut encoded.resource, 1, &attribute(name, value))
            }
            Some(("scope", name)) => put_bytes(&mut encoded.scope, 3, &attribute(name, value)),
            Some(("attribute", name)) => put_bytes(record, 6, &attribute(name, value)),
            _ => put_bytes(record, 6, &attribute(name, value)),
        }
    }
    put_fixed32(record, 8, number("otlp.flags").and_then(|it| it.try_into().ok()).unwrap_or(0));
    for (field, name, bytes) in [(9, "otlp.traceId", 16), (10, "otlp.spanId", 8)] {
        if let Some(id) = unhex(header(name)).filter(|id| id.len() == bytes) {
            put_bytes(record, field, &id);
        }
    }
    put_fixed64(record, 11, number("otlp.observed").unwrap_or(now_ns));
    put_text(record, 12, header("otlp.eventName"));
    encoded
}

fn put_text(out: &mut Vec<u8>, field: u64, text: &str) {
    if !text.is_empty() {
        put_bytes(out, field, text.as_bytes());
    }
}

/// A `KeyValue` with a text.
fn attribute(name: &str, value: &str) -> Vec<u8> {
    let (mut any, mut pair) = (Vec::new(), Vec::new());
    put_bytes(&mut any, 1, value.as_bytes());
    put_bytes(&mut pair, 1, name.as_bytes());
    put_bytes(&mut pair, 2, &any);
    pair
}

/// The body as an `AnyValue`.
fn body(event: &Event) -> Vec<u8> {
    let mut any = Vec::new();
    let stated = event.headers.get("otlp.body");
    let value = match stated {
        Some("json") => serde_json::from_slice::<Value>(&event.body).ok(),
        _ => None,
    };
    match value {
        Some(value) => put_any(&mut any, &value),
        None if stated == Some("bytes") || std::str::from_utf8(&event.body).is_err() => {
            put_bytes(&mut any, 7, &event.body);
        }
        None => put_bytes(&mut any, 1, &event.body),
    }
    any
}

/// The depth of a value that was read from JSON is bounded.
fn put_any(out: &mut Vec<u8>, value: &Value) {
    let inner = |value: &Value| {
        let mut any = Vec::new();
        put_any(&mut any, value);
        any
    };
    match value {
        Value::Null => {}
        Value::String(text) => put_bytes(out, 1, text.as_bytes()),
        // Not left away if they are zero: which field is there says what it is.
        Value::Bool(flag) => out.extend([2 << 3, u8::from(*flag)]),
        Value::Number(number) => match number.as_i64() {
            Some(0) => out.extend([3 << 3, 0]),
            Some(number) => put_number(out, 3, number as u64),
            None => put_fixed64(out, 4, number.as_f64().unwrap_or(0.0).to_bits()),
        },
        Value::Array(values) => {
            let mut list = Vec::new();
            values.iter().for_each(|value| put_bytes(&mut list, 1, &inner(value)));
            put_bytes(out, 5, &list);
        }
        Value::Object(fields) => {
            let mut map = Vec::new();
            for (name, value) in fields {
                let mut pair = Vec::new();
                put_bytes(&mut pair, 1, name.as_bytes());
                put_bytes(&mut pair, 2, &inner(value));
                put_bytes(&mut map, 1, &pair);
            }
            put_bytes(out, 6, &map);
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// A resource and a scope, encoded.
type Origin<'a> = (&'a [u8], &'a [u8]);

/// The records of a request, those of the same origin together.
#[derive(Debug, Default)]
pub(crate) struct Groups<'a> {
    places: HashMap<Origin<'a>, usize>,
    /// The records of each, as fields of `ScopeLogs`.
    records: Vec<Vec<u8>>,
}

impl<'a> Groups<'a> {
    pub(crate) fn add(&mut self, record: &'a EncodedRecord) {
        let next = self.records.len();
        let place = *self.places.entry((&record.resource, &record.scope)).or_insert(next);
        if place == next {
            self.records.push(Vec::new());
        }
        put_bytes(&mut self.records[place], 2, &record.record);
    }

    /// An `ExportLogsServiceRequest`.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut origins: Vec<(Origin<'_>, usize)> = self.places.into_iter().collect();
        origins.sort_by_key(|(_, place)| *place);
        let mut request = Vec::new();
        for (((resource, scope), _), records) in origins.into_iter().zip(self.records) {
            let (mut scope_logs, mut resource_logs) = (Vec::new(), Vec::new());
            put_bytes(&mut scope_logs, 1, scope);
            scope_logs.extend(records);
            put_bytes(&mut resource_logs, 1, resource);
            put_bytes(&mut resource_logs, 2, &scope_logs);
            put_bytes(&mut request, 1, &resource_logs);
        }
        request
    }
}
