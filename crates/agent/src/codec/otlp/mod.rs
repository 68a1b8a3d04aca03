//! OpenTelemetry's logs (OTLP 1.x): records with attributes, below what they came from. In an event, the body is the
//! record's, and all else are headers:
//!
//! | header | of the record |
//! |---|---|
//! | `timestamp` | the time, or else when it was observed, in milliseconds |
//! | `otlp.time`, `otlp.observed` | both, in nanoseconds |
//! | `otlp.severity`, `otlp.severityText` | the severity's number and text |
//! | `otlp.traceId`, `otlp.spanId`, `otlp.flags` | in hexadecimal digits; a number |
//! | `otlp.eventName` | the event's name |
//! | `otlp.body` | `json` if the body is no text but a value, which is written in JSON; `bytes` if it is bytes |
//! | `otlp.scope`, `otlp.scopeVersion` | who wrote it |
//! | `attribute.NAME`, `resource.NAME`, `scope.NAME` | attributes; values that are no texts are in JSON |
//!
//! Source: `opentelemetry/proto/logs/v1/logs.proto`, and the specification of OTLP.

mod encode;
mod json;
mod proto;

use serde_json::Value;

pub(crate) use self::encode::{EncodedRecord, Groups, encode_record};
pub(crate) use self::json::read_json;
pub(crate) use self::proto::{encode_reply, encode_status, read_proto, read_reply};
use super::budget::{Exhausted, Share};
use super::{Malformed, Unread};
use crate::event::{Event, Headers};

/// The method of gRPC.
pub(crate) const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// The path of HTTP.
pub(crate) const PATH: &str = "/v1/logs";

/// Values may be in values so deep.
const DEPTH_MAX: usize = 32;

/// What a value, or a header, takes beside its text, about.
const OVERHEAD_BYTES: usize = 64;

/// A value of an attribute or a body.
#[derive(Debug, Clone, PartialEq)]
enum Any {
    Text(String),
    Bytes(Vec<u8>),
    /// A number, a list and so on.
    Other(Value),
}

/// A record with its attributes, before it is an event.
#[derive(Debug, Default)]
struct Record {
    time_ns: u64,
    observed_ns: u64,
    severity: u64,
    severity_text: String,
    body: Option<Any>,
    attributes: Vec<(String, String)>,
    flags: u64,
    trace_id: String,
    span_id: String,
    event_name: String,
}

/// What records came from: headers of them all.
#[derive(Debug, Clone, Default)]
struct Origin(Vec<(String, String)>);

/// Makes events, and charges what they take.
struct Reader<'a> {
    share: &'a mut Share,
    events: Vec<Event>,
}

impl Any {
    /// In a header.
    fn into_text(self) -> String {
        match self {
            Any::Text(text) => text,
            other => other.into_json().to_string(),
        }
    }

    fn into_json(self) -> Value {
        use base64::Engine;
        match self {
            Any::Text(text) => Value::String(text),
            Any::Bytes(bytes) => {
                Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Any::Other(value) => value,
        }
    }
}

impl Reader<'_> {
    /// Something is kept that takes so many bytes, or so many of texts.
    fn charge(&mut self, text_bytes: usize) -> Result<(), Exhausted> {
        self.share.grow(OVERHEAD_BYTES + text_bytes)
    }

    fn push(&mut self, origin: &Origin, record: Record) -> Result<(), Unread> {
        let size = |pairs: &[(String, String)]| -> usize {
            pairs.iter().map(|(name, value)| OVERHEAD_BYTES + name.len() + value.len()).sum()
        };
        // Before it is copied for each record.
        self.charge(size(&origin.0))?;
        let mut headers = Vec::new();
        let mut set = |name: &str, value: String| {
            if !value.is_empty() {
                headers.push((name.into(), value.into_boxed_str()));
            }
        };
        let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        let time = if record.time_ns == 0 { record.observed_ns } else { record.time_ns };
        set("timestamp", number(time / 1_000_000));
        set("otlp.time", number(record.time_ns));
        set("otlp.observed", number(record.observed_ns));
        set("otlp.severity", number(record.severity));
        set("otlp.severityText", record.severity_text);
        set("otlp.traceId", record.trace_id);
        set("otlp.spanId", record.span_id);
        set("otlp.flags", number(record.flags));
        set("otlp.eventName", record.event_name);
        let body = match record.body {
            None => Vec::new(),
            Some(Any::Text(text)) => text.into_bytes(),
            Some(Any::Bytes(bytes)) => {
                set("otlp.body", "bytes".to_owned());
                bytes
            }
            Some(Any::Other(value)) => {
                set("otlp.body", "json".to_owned());
                value.to_string().into_bytes()
            }
        };
        for (name, value) in origin.0.iter().cloned().chain(record.attributes) {
            headers.push((name.into_boxed_str(), value.into_boxed_str()));
        }
        self.events.push(Event { headers: Headers::from_pairs(headers), body: body.into() });
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn too_deep() -> Malformed {
    Malformed(format!("a value has more than {DEPTH_MAX} values around it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;

    fn event() -> Event {
        let mut event = Event::new(r#"{"a":[1,-2,2.5,true,null,"x"]}"#);
        for (name, value) in [
            ("timestamp", "1795791845678"),
            ("otlp.time", "1795791845678000001"),
            ("otlp.observed", "1795791845678000002"),
            ("otlp.severity", "17"),
            ("otlp.severityText", "ERROR"),
            ("otlp.traceId", "000102030405060708090a0b0c0d0e0f"),
            ("otlp.spanId", "0001020304050607"),
            ("otlp.flags", "1"),
            ("otlp.eventName", "it"),
            ("otlp.body", "json"),
            ("resource.service.name", "shop"),
            ("otlp.scope", "lib"),
            ("otlp.scopeVersion", "1.2"),
            ("scope.s", "t"),
            ("attribute.k", "v"),
        ] {
            event.headers.set(name, value);
        }
        event
    }

    #[test]
    fn an_event_is_the_same_after_it_was_a_record() {
        let mut groups = Groups::default();
        let bytes = Event { body: bytes::Bytes::from_static(b"\xff"), ..Event::default() };
        let records = [&event(), &bytes, &event()].map(|event| encode_record(event, &[], 5));
        records.iter().for_each(|record| groups.add(record));
        let message = groups.finish();
        let budget = Budget::new(1 << 20);
        let mut share = budget.share();
        let events = read_proto(&message, &mut share).expect("are records");
        assert_eq!(events.len(), 3);
        assert_eq!(events[0], event());
        assert_eq!(events[1], event());
        assert_eq!(events[2].body, bytes.body);
        assert_eq!(events[2].headers.get("otlp.body"), Some("bytes"));
        assert_eq!(events[2].headers.get("otlp.observed"), Some("5"));
        // Nothing that is cut panics, and little memory is enough for nothing.
        for cut in 0..message.len() {
            let _ = read_proto(&message[..cut], &mut budget.share());
        }
        let small = Budget::new(1000);
        let refused = read_proto(&message, &mut small.share()).expect_err("is too much");
        assert!(matches!(refused, Unread::Exhausted(_)), "{refused}");
    }

    #[test]
    fn json_says_the_same() {
        let text = r#"{"resourceLogs":[{"scopeLogs":[{"scope":{"name":"lib","version":"1.2","attributes":[{"key":"s","value":{"stringValue":"t"}}]},
            "logRecords":[{"timeUnixNano":"1795791845678000001","observedTimeUnixNano":1795791845678000002,"severityNumber":17,
            "severityText":"ERROR","traceId":"000102030405060708090A0B0C0D0E0F","spanId":"0001020304050607","flags":1,"eventName":"it",
            "body":{"kvlistValue":{"values":[{"key":"a","value":{"arrayValue":{"values":[{"intValue":"1"},{"intValue":-2},
            {"doubleValue":2.5},{"boolValue":true},{},{"stringValue":"x"}]}}}]}},
            "attributes":[{"key":"k","value":{"stringValue":"v"}}]}]}],
            "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}}]}"#;
        let budget = Budget::new(1 << 20);
        let events = read_json(text.as_bytes(), &mut budget.share()).expect("are records");
        assert_eq!(events, [event()]);
        for odd in [
            "[]",
            "{\"resourceLogs\":1}",
            "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"traceId\":\"x\"}]}]}]}",
            "{",
        ] {
            assert!(read_json(odd.as_bytes(), &mut budget.share()).is_err(), "{odd}");
        }
        assert!(read_json(b"{}", &mut budget.share()).expect("is one").is_empty());
        let nulls = format!("{{\"none\":[{}]}}", vec!["null"; 100_000].join(","));
        let refused = read_json(nulls.as_bytes(), &mut budget.share()).expect_err("is too much");
        assert!(matches!(refused, Unread::Exhausted(_)), "{refused}");
    }

    #[test]
    fn a_value_that_is_too_deep_is_refused() {
        // AnyValue.array_value.values, again and again.
        let mut value = Vec::new();
        for _ in 0..10_000 {
            let mut list = Vec::new();
            crate::codec::protobuf::put_bytes(&mut list, 1, &value);
            value.clear();
            crate::codec::protobuf::put_bytes(&mut value, 5, &list);
        }
        let mut message = value;
        for field in [5, 2, 2, 1] {
            let inner = std::mem::take(&mut message);
            crate::codec::protobuf::put_bytes(&mut message, field, &inner);
        }
        let budget = Budget::new(1 << 20);
        let refused = read_proto(&message, &mut budget.share()).expect_err("is too deep");
        assert!(refused.to_string().contains("more than 32 values"), "{refused}");
    }

    #[test]
    fn replies_are_read() {
        assert_eq!(read_reply(&encode_reply(0, "")), Ok((0, String::new())));
        assert_eq!(read_reply(&encode_reply(3, "no")), Ok((3, "no".to_owned())));
        assert!(read_reply(b"\x0a\xff").is_err());
    }
}
