//! What is in objects.

use std::io;

use crate::codec::packing::Packing;
use crate::codec::serializer::Serializer;
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

/// How many events make a block of an Avro file.
const BLOCK_EVENTS: usize = 1000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    serializer: Serializer,
    packing: Option<Packing>,
}

impl Form {
    pub(super) fn new(settings: &Settings) -> Result<Form, StartError> {
        let serializer = Serializer::of(settings.required("format").trim(), true);
        let serializer = serializer.expect("it was checked");
        let is_avro = serializer == Serializer::AvroEvent;
        let packing = match is_avro && !settings.is_set("compression") {
            true => None,
            false => Packing::of(settings.required("compression").trim()),
        };
        if is_avro && packing.is_some() {
            return Err("avro_event is not compressed: readers of Avro want plain files".to_owned());
        }
        Ok(Form { serializer, packing })
    }

    pub(super) fn extension(self) -> String {
        let kind = match self.serializer {
            Serializer::Json => ".jsonl",
            Serializer::Text { .. } | Serializer::HeaderAndText => ".txt",
            Serializer::AvroEvent => ".avro",
        };
        let packed = self.packing.map_or("", Packing::extension);
        format!("{kind}{packed}")
    }

    /// An object of these events. The same events make the same bytes.
    pub(super) fn body(self, events: &[Event]) -> io::Result<Vec<u8>> {
        let mut plain = self.serializer.begin();
        events.chunks(BLOCK_EVENTS).for_each(|some| plain.extend(self.serializer.events(some)));
        match self.packing {
            Some(packing) => packing.pack(&plain),
            None => Ok(plain),
        }
    }
}
