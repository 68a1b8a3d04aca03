//! What is in objects.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

use crate::codec::deflated::gzip;
use crate::codec::serializer::Serializer;
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

/// Objects are written once and kept for long.
const ZSTD_LEVEL: i32 = 3;

/// How many events make a block of an Avro file.
const BLOCK_EVENTS: usize = 1000;

#[derive(Debug, Clone, Copy)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    serializer: Serializer,
    compression: Compression,
}

impl Form {
    pub(super) fn new(settings: &Settings) -> Result<Form, StartError> {
        let serializer = Serializer::of(settings.required("format").trim(), true);
        let serializer = serializer.expect("it was checked");
        let is_avro = serializer == Serializer::AvroEvent;
        let compression = match settings.required("compression").trim().to_lowercase().as_str() {
            _ if is_avro && !settings.is_set("compression") => Compression::None,
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        };
        if is_avro && !matches!(compression, Compression::None) {
            return Err("avro_event is not compressed: readers of Avro want plain files".to_owned());
        }
        Ok(Form { serializer, compression })
    }

    pub(super) fn extension(self) -> String {
        let kind = match self.serializer {
            Serializer::Json => ".jsonl",
            Serializer::Text { .. } | Serializer::HeaderAndText => ".txt",
            Serializer::AvroEvent => ".avro",
        };
        let packed = match self.compression {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        };
        format!("{kind}{packed}")
    }

    /// An object of these events. The same events make the same bytes.
    pub(super) fn body(self, events: &[Event]) -> io::Result<Vec<u8>> {
        let mut plain = self.serializer.begin();
        events.chunks(BLOCK_EVENTS).for_each(|some| plain.extend(self.serializer.events(some)));
        match self.compression {
            Compression::None => Ok(plain),
            Compression::Gzip => Ok(gzip(&plain)),
            Compression::Zstd => {
                let mut encoder = Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.write_all(&plain)?;
                encoder.finish()
            }
        }
    }
}
