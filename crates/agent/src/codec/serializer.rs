//! How events are written into files.

use super::avro_file::AvroFile;
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
    AvroEvent(AvroFile),
}

impl Serializer {
    pub(crate) fn of(name: &str, with_newline: bool) -> Option<Serializer> {
        Some(match name.to_lowercase().as_str() {
            "text" => Serializer::Text { with_newline },
            "header_and_text" => Serializer::HeaderAndText,
            "json" => Serializer::Json,
            "avro_event" => Serializer::AvroEvent(AvroFile::PLAIN),
            _ => return None,
        })
    }

    /// With Avro files that are made so, if it makes such.
    pub(crate) fn with_avro(self, file: AvroFile) -> Serializer {
        if let Serializer::AvroEvent(_) = self { Serializer::AvroEvent(file) } else { self }
    }

    /// What a file begins with.
    pub(crate) fn begin(self) -> Vec<u8> {
        if let Serializer::AvroEvent(file) = self { file.begin() } else { Vec::new() }
    }

    /// Some events.
    pub(crate) fn events(self, events: &[Event]) -> Vec<u8> {
        if let Serializer::AvroEvent(file) = self {
            return file.events(events);
        }
        let mut out = Vec::new();
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
                Serializer::AvroEvent(_) => {}
            }
        }
        out
    }
}
