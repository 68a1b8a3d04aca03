//! What is in objects.

use std::io;

use super::parquet;
use crate::channel::Place;
use crate::codec::packing::{Packing, packed};
use crate::codec::serializer::Serializer;
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

/// How many events make a block of an Avro file.
const BLOCK_EVENTS: usize = 1000;

#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// Events one after the other, packed as a whole.
    Serial { serializer: Serializer, packing: Option<Packing> },
    /// With columns, packed within.
    Parquet { is_packed: bool },
}

impl Form {
    pub(super) fn new(settings: &Settings) -> Result<Form, StartError> {
        let compression =
            settings.is_set("compression").then(|| settings.required("compression").trim());
        let compression = compression.map(str::to_lowercase);
        let format = settings.required("format").trim();
        let Some(serializer) = Serializer::of(format, true) else {
            return match compression.as_deref() {
                None | Some("snappy") => Ok(Form::Parquet { is_packed: true }),
                Some("none") => Ok(Form::Parquet { is_packed: false }),
                Some(other) => {
                    Err(format!("parquet is compressed by snappy or none, and not by {other}"))
                }
            };
        };
        if compression.as_deref() == Some("snappy") {
            return Err(format!("{format} is not compressed by snappy: take gzip or zstd"));
        }
        let is_avro = matches!(serializer, Serializer::AvroEvent(_));
        let packing = match is_avro && compression.is_none() {
            true => None,
            false => Packing::of(settings.required("compression").trim()),
        };
        if is_avro && packing.is_some() {
            return Err("avro_event is not compressed: readers of Avro want plain files".to_owned());
        }
        Ok(Form::Serial { serializer, packing })
    }

    pub(super) fn extension(self) -> String {
        let (kind, packing) = match self {
            Form::Parquet { .. } => (".parquet", None),
            Form::Serial { serializer: Serializer::Json, packing } => (".jsonl", packing),
            Form::Serial { serializer: Serializer::AvroEvent(_), packing } => (".avro", packing),
            Form::Serial {
                serializer: Serializer::Text { .. } | Serializer::HeaderAndText,
                packing,
            } => (".txt", packing),
        };
        format!("{kind}{}", packing.map_or("", Packing::extension))
    }

    /// An object of these events, with the place in a topic of each that has one. The same events make the same bytes.
    pub(super) fn body(self, events: &[Event], places: &[Option<Place>]) -> io::Result<Vec<u8>> {
        let (serializer, packing) = match self {
            Form::Serial { serializer, packing } => (serializer, packing),
            Form::Parquet { is_packed } => {
                return parquet::body(events, places, is_packed).map_err(io::Error::other);
            }
        };
        let mut plain = serializer.begin();
        events.chunks(BLOCK_EVENTS).for_each(|some| plain.extend(serializer.events(some)));
        packed(plain, packing)
    }
}
