//! How events are written into files.

use super::avro::{put_bytes, put_event, put_long};
use super::json;
use crate::event::Event;

/// A form of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serializer {
    /// The body and a line feed.
    Text { with_newline: bool },
    /// Headers and body, with a line feed (Flume's `HEADER_AND_TEXT`).
    HeaderAndText,
    /// An object a line.
    Json,
    /// An Avro container file of Flume's events.
    AvroEvent,
}

/// What separates blocks of an Avro file. It need not differ between files.
const AVRO_SYNC: [u8; 16] = *b"logway-agent-syn";

const AVRO_SCHEMA: &str = r#"{"type":"record","name":"Event","fields":[{"name":"headers","type":{"type":"map","values":"string"}},{"name":"body","type":"bytes"}]}"#;

impl Serializer {
    pub(crate) fn of(name: &str, with_newline: bool) -> Option<Serializer> {
        Some(match name.to_lowercase().as_str() {
            "text" => Serializer::Text { with_newline },
            "header_and_text" => Serializer::HeaderAndText,
            "json" => Serializer::Json,
            "avro_event" => Serializer::AvroEvent,
            _ => return None,
        })
    }

    /// What a file begins with.
    pub(crate) fn begin(self) -> Vec<u8> {
        if self != Serializer::AvroEvent {
            return Vec::new();
        }
        let mut head = b"Obj\x01".to_vec();
        put_long(&mut head, 2);
        put_bytes(&mut head, b"avro.schema");
        put_bytes(&mut head, AVRO_SCHEMA.as_bytes());
        put_bytes(&mut head, b"avro.codec");
        put_bytes(&mut head, b"null");
        put_long(&mut head, 0);
        head.extend_from_slice(&AVRO_SYNC);
        head
    }

    /// Some events.
    pub(crate) fn events(self, events: &[Event]) -> Vec<u8> {
        let mut out = Vec::new();
        if self == Serializer::AvroEvent {
            let mut block = Vec::new();
            events.iter().for_each(|event| put_event(&mut block, event));
            put_long(&mut out, events.len() as i64);
            put_bytes(&mut out, &block);
            out.extend_from_slice(&AVRO_SYNC);
            return out;
        }
        for event in events {
            match self {
                Serializer::Text { with_newline } => {
                    out.extend_from_slice(&event.body);
                    if with_newline {
                        out.push(b'\n');
                    }
                }
                Serializer::HeaderAndText => {
                    let headers =
                        event.headers.iter().map(|(name, value)| format!("{name}={value}"));
                    let headers = headers.collect::<Vec<_>>().join(", ");
                    out.extend_from_slice(format!("{{{headers}}} ").as_bytes());
                    out.extend_from_slice(&event.body);
                    out.push(b'\n');
                }
                Serializer::Json => {
                    out.extend_from_slice(json::to_value(event).to_string().as_bytes());
                    out.push(b'\n');
                }
                Serializer::AvroEvent => {}
            }
        }
        out
    }
}
