//! Requests and replies in Protocol Buffers.

use serde_json::{Map, Value};

use super::super::protobuf::{Field, Fields, put_bytes, put_number};
use super::{Any, DEPTH_MAX, Malformed, Origin, Reader, Record, Share, Unread, hex, too_deep};
use crate::event::Event;

/// The records of an `ExportLogsServiceRequest`; what they take is charged.
pub(crate) fn read_proto(message: &[u8], share: &mut Share) -> Result<Vec<Event>, Unread> {
    let mut reader = Reader { share, events: Vec::new() };
    for field in Fields::of(message) {
        if let (1, field) = field? {
            reader.resource_logs(field.bytes()?)?;
        }
    }
    Ok(reader.events)
}

impl Reader<'_> {
    fn resource_logs(&mut self, message: &[u8]) -> Result<(), Unread> {
        let mut origin = Origin::default();
        // It may stand behind its records.
        for field in Fields::of(message) {
            if let (1, field) = field? {
                self.attributes(field.bytes()?, 1, "resource.", &mut origin.0)?;
            }
        }
        for field in Fields::of(message) {
            if let (2, field) = field? {
                self.scope_logs(field.bytes()?, &origin)?;
            }
        }
        Ok(())
    }

    fn scope_logs(&mut self, message: &[u8], origin: &Origin) -> Result<(), Unread> {
        let mut origin = origin.clone();
        for field in Fields::of(message) {
            let (1, field) = field? else { continue };
            for field in Fields::of(field.bytes()?) {
                let name = match field? {
                    (1, field) => ("otlp.scope", field),
                    (2, field) => ("otlp.scopeVersion", field),
                    _ => continue,
                };
                let text = name.1.text()?;
                if !text.is_empty() {
                    self.charge(text.len())?;
                    origin.0.push((name.0.to_owned(), text.to_owned()));
                }
            }
            self.attributes(field.bytes()?, 3, "scope.", &mut origin.0)?;
        }
        for field in Fields::of(message) {
            if let (2, field) = field? {
                let record = self.record(field.bytes()?)?;
                self.push(&origin, record)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, message: &[u8]) -> Result<Record, Unread> {
        let mut record = Record::default();
        // The texts of a record are in the message once; its parts are charged as they are kept.
        self.charge(message.len())?;
        for field in Fields::of(message) {
            let (number, field) = field?;
            match number {
                1 => record.time_ns = field.number()?,
                2 => record.severity = field.number()?,
                3 => record.severity_text = field.text()?.to_owned(),
                5 => record.body = self.any(field.bytes()?, 0)?,
                8 => record.flags = field.number()?,
                9 => record.trace_id = hex(field.bytes()?),
                10 => record.span_id = hex(field.bytes()?),
                11 => record.observed_ns = field.number()?,
                12 => record.event_name = field.text()?.to_owned(),
                _ => {}
            }
        }
        self.attributes(message, 6, "attribute.", &mut record.attributes)?;
        Ok(record)
    }

    /// The attributes of a message, which are in a field of this number.
    fn attributes(
        &mut self,
        message: &[u8],
        number: u64,
        stem: &str,
        into: &mut Vec<(String, String)>,
    ) -> Result<(), Unread> {
        for field in Fields::of(message) {
            let (found, field) = field?;
            if found == number {
                let (name, value) = self.pair(field.bytes()?, 0)?;
                into.push((format!("{stem}{name}"), value.map(Any::into_text).unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn pair(&mut self, message: &[u8], depth: usize) -> Result<(String, Option<Any>), Unread> {
        let (mut name, mut value) = (String::new(), None);
        self.charge(message.len())?;
        for field in Fields::of(message) {
            match field? {
                (1, field) => name = field.text()?.to_owned(),
                (2, field) => value = self.any(field.bytes()?, depth)?,
                _ => {}
            }
        }
        Ok((name, value))
    }

    fn any(&mut self, message: &[u8], depth: usize) -> Result<Option<Any>, Unread> {
        if depth > DEPTH_MAX {
            return Err(too_deep().into());
        }
        self.charge(0)?;
        let mut value = None;
        for field in Fields::of(message) {
            value = match field? {
                (1, field) => Some(Any::Text(field.text()?.to_owned())),
                (2, field) => Some(Any::Other(Value::Bool(field.number()? != 0))),
                (3, field) => Some(Any::Other(Value::from(field.number()? as i64))),
                (4, Field::Fixed64(bits)) => Some(Any::Other(double(f64::from_bits(bits)))),
                (5, field) => Some(Any::Other(self.list(field.bytes()?, depth)?)),
                (6, field) => Some(Any::Other(self.map(field.bytes()?, depth)?)),
                (7, field) => Some(Any::Bytes(field.bytes()?.to_vec())),
                _ => value,
            };
        }
        Ok(value)
    }

    fn list(&mut self, message: &[u8], depth: usize) -> Result<Value, Unread> {
        let mut values = Vec::new();
        for field in Fields::of(message) {
            if let (1, field) = field? {
                let value = self.any(field.bytes()?, depth + 1)?;
                values.push(value.map_or(Value::Null, Any::into_json));
            }
        }
        Ok(Value::Array(values))
    }

    fn map(&mut self, message: &[u8], depth: usize) -> Result<Value, Unread> {
        let mut values = Map::new();
        for field in Fields::of(message) {
            if let (1, field) = field? {
                let (name, value) = self.pair(field.bytes()?, depth + 1)?;
                values.insert(name, value.map_or(Value::Null, Any::into_json));
            }
        }
        Ok(Value::Object(values))
    }
}

/// JSON has no infinity: such are texts, as in the mapping of Protocol Buffers to JSON.
pub(super) fn double(number: f64) -> Value {
    match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => Value::from("NaN"),
        None => Value::from(if number > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}

/// An `ExportLogsServiceResponse`: how many records were not taken, and why.
pub(crate) fn encode_reply(rejected: usize, why: &str) -> Vec<u8> {
    let mut reply = Vec::new();
    if rejected > 0 {
        let mut partial = Vec::new();
        put_number(&mut partial, 1, rejected as u64);
        put_bytes(&mut partial, 2, why.as_bytes());
        put_bytes(&mut reply, 1, &partial);
    }
    reply
}

/// How many records were not taken, and why.
pub(crate) fn read_reply(message: &[u8]) -> Result<(u64, String), Malformed> {
    let (mut rejected, mut why) = (0, String::new());
    for field in Fields::of(message) {
        let (1, field) = field? else { continue };
        for field in Fields::of(field.bytes()?) {
            match field? {
                (1, field) => rejected = field.number()?,
                (2, field) => why = field.text()?.to_owned(),
                _ => {}
            }
        }
    }
    Ok((rejected, why))
}

/// A `google.rpc.Status`: what HTTP's errors have as a body.
pub(crate) fn encode_status(code: u64, message: &str) -> Vec<u8> {
    let mut status = Vec::new();
    put_number(&mut status, 1, code);
    put_bytes(&mut status, 2, message.as_bytes());
    status
}
