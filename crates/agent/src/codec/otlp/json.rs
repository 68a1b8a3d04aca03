//! Requests in JSON: Protocol Buffers' mapping, but for ids, which are in hexadecimal digits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::super::json_tree::charge_tree;
use super::proto::double;
use super::{Any, DEPTH_MAX, Malformed, Origin, Reader, Record, Share, Unread, too_deep};
use crate::event::Event;

/// The records of a request; what they take is charged.
pub(crate) fn read_json(bytes: &[u8], share: &mut Share) -> Result<Vec<Event>, Unread> {
    charge_tree(bytes, share)?;
    let request: Value =
        serde_json::from_slice(bytes).map_err(|error| Malformed(format!("no JSON: {error}")))?;
    if !request.is_object() {
        return Err(Malformed::new("the request is no object").into());
    }
    let mut reader = Reader { share, events: Vec::new() };
    for logs in list(&request, "resourceLogs")? {
        let mut origin = Origin::default();
        reader.json_attributes(&logs["resource"], "resource.", &mut origin.0)?;
        for logs in list(logs, "scopeLogs")? {
            let (mut origin, scope) = (origin.clone(), &logs["scope"]);
            for (name, header) in [("name", "otlp.scope"), ("version", "otlp.scopeVersion")] {
                let value = text(scope, name)?;
                if !value.is_empty() {
                    origin.0.push((header.to_owned(), value));
                }
            }
            reader.json_attributes(scope, "scope.", &mut origin.0)?;
            for record in list(logs, "logRecords")? {
                let record = reader.json_record(record)?;
                reader.push(&origin, record)?;
            }
        }
    }
    Ok(reader.events)
}

/// A list that may be missing.
fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Malformed> {
    match &value[name] {
        Value::Null => Ok(&[]),
        Value::Array(values) => Ok(values),
        _ => Err(Malformed(format!("{name} is no list"))),
    }
}

/// A text that may be missing.
fn text(value: &Value, name: &str) -> Result<String, Malformed> {
    match &value[name] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(Malformed(format!("{name} is no text"))),
    }
}

/// A number that may be a text, and may be missing.
fn number(value: &Value, name: &str) -> Result<u64, Malformed> {
    let read = match &value[name] {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    read.ok_or_else(|| Malformed(format!("{name} is no number that it could be")))
}

fn id(value: &Value, name: &str) -> Result<String, Malformed> {
    let text = text(value, name)?;
    match text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_lowercase()),
        false => Err(Malformed(format!("{name} is not in hexadecimal digits"))),
    }
}

impl Reader<'_> {
    fn json_record(&mut self, record: &Value) -> Result<Record, Unread> {
        if !record.is_object() {
            return Err(Malformed::new("a record is no object").into());
        }
        let mut attributes = Vec::new();
        self.json_attributes(record, "attribute.", &mut attributes)?;
        Ok(Record {
            time_ns: number(record, "timeUnixNano")?,
            observed_ns: number(record, "observedTimeUnixNano")?,
            severity: number(record, "severityNumber")?,
            severity_text: text(record, "severityText")?,
            body: self.json_any(&record["body"], 0)?,
            attributes,
            flags: number(record, "flags")?,
            trace_id: id(record, "traceId")?,
            span_id: id(record, "spanId")?,
            event_name: text(record, "eventName")?,
        })
    }

    fn json_attributes(
        &mut self,
        of: &Value,
        stem: &str,
        into: &mut Vec<(String, String)>,
    ) -> Result<(), Unread> {
        for pair in list(of, "attributes")? {
            let value = self.json_any(&pair["value"], 0)?.map(Any::into_text).unwrap_or_default();
            into.push((format!("{stem}{}", text(pair, "key")?), value));
        }
        Ok(())
    }

    fn json_any(&mut self, value: &Value, depth: usize) -> Result<Option<Any>, Unread> {
        if depth > DEPTH_MAX {
            return Err(too_deep().into());
        }
        let fields = match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => fields,
            _ => return Err(Malformed::new("a value is no object").into()),
        };
        let Some((kind, inner)) = fields.iter().next() else { return Ok(None) };
        self.charge(inner.as_str().map_or(0, str::len))?;
        let wrong = || Malformed(format!("{kind} is not what it should be"));
        let text = || inner.as_str().ok_or_else(wrong);
        Ok(Some(match kind.as_str() {
            "stringValue" => Any::Text(text()?.to_owned()),
            "boolValue" => Any::Other(inner.as_bool().map(Value::Bool).ok_or_else(wrong)?),
            "intValue" => {
                let stated = inner.as_i64().or_else(|| inner.as_str()?.parse().ok());
                Any::Other(stated.map(Value::from).ok_or_else(wrong)?)
            }
            "doubleValue" => {
                let stated = inner.as_f64().or_else(|| inner.as_str()?.parse().ok());
                Any::Other(stated.map(double).ok_or_else(wrong)?)
            }
            "bytesValue" => Any::Bytes(STANDARD.decode(text()?).map_err(|_| wrong())?),
            "arrayValue" => {
                let values = list(inner, "values")?.iter().map(|value| {
                    let value = self.json_any(value, depth + 1)?;
                    Ok(value.map_or(Value::Null, Any::into_json))
                });
                Any::Other(Value::Array(values.collect::<Result<_, Unread>>()?))
            }
            "kvlistValue" => {
                let mut map = Map::new();
                for pair in list(inner, "values")? {
                    let value = self.json_any(&pair["value"], depth + 1)?;
                    map.insert(self::text(pair, "key")?, value.map_or(Value::Null, Any::into_json));
                }
                Any::Other(Value::Object(map))
            }
            // A kind that is not known yet.
            _ => return Ok(None),
        }))
    }
}
