//! What is in files: bodies as they are, packed, or as a SequenceFile.

use std::io;

use logway_log::random_uuid;

use super::sequence::{SequenceFile, Value};
use crate::codec::avro_file::AvroFile;
use crate::codec::packing::{Packing, packed};
use crate::codec::serializer::Serializer;
use crate::error::StartError;
use crate::event::Event;
use crate::settings::Settings;

/// A form of files (`hdfs.fileType`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Stream { serializer: Serializer, packing: Option<Packing> },
    Sequence { value: Value, packing: Option<Packing> },
}

/// One file.
#[derive(Debug)]
pub(super) struct Encoder {
    is_begun: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Stream { serializer: Serializer, packing: Option<Packing> },
    Sequence(SequenceFile),
}

impl Form {
    pub(super) fn new(settings: &Settings) -> Result<Form, StartError> {
        let packing = settings.text("hdfs.codeC").and_then(|name| Packing::of(name.trim()));
        if settings.is("hdfs.fileType", "SequenceFile") {
            let value = match settings.is("hdfs.writeFormat", "Text") {
                true => Value::Text,
                false => Value::Bytes,
            };
            return Ok(Form::Sequence { value, packing });
        }
        let is_packed = settings.is("hdfs.fileType", "CompressedStream");
        match (is_packed, packing) {
            (true, None) => return Err("fileType CompressedStream needs hdfs.codeC".to_owned()),
            (false, Some(_)) => {
                return Err(
                    "fileType DataStream is not packed: leave hdfs.codeC away, or take CompressedStream"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let with_newline = settings.flag("serializer.appendNewline");
        let serializer = Serializer::of(settings.required("serializer").trim(), with_newline);
        let (codec, block) = ("serializer.compressionCodec", "serializer.syncIntervalBytes");
        let avro = AvroFile::of(settings, codec, block);
        let serializer = serializer.expect("it was checked").with_avro(avro);
        Ok(Form::Stream { serializer, packing })
    }

    /// What a packed file's name ends in, if the configuration does not say it.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Form::Stream { packing, .. } | Form::Sequence { packing, .. } => {
                packing.map_or("", Packing::extension)
            }
        }
    }

    pub(super) fn encoder(self) -> Encoder {
        let kind = match self {
            Form::Stream { serializer, packing } => Kind::Stream { serializer, packing },
            Form::Sequence { value, packing } => {
                let mark = random_uuid().0;
                Kind::Sequence(SequenceFile { value, packing, mark, unmarked_bytes: 0 })
            }
        };
        Encoder { is_begun: false, kind }
    }
}

impl Encoder {
    /// The next bytes of the file. After them the file can be read, even if nothing more comes.
    pub(super) fn encode(&mut self, events: &[Event]) -> io::Result<Vec<u8>> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match &mut self.kind {
            Kind::Stream { serializer, packing } => {
                let mut plain = if is_first { serializer.begin() } else { Vec::new() };
                plain.extend(serializer.events(events));
                packed(plain, *packing)
            }
            Kind::Sequence(file) => {
                let mut bytes = if is_first { file.head() } else { Vec::new() };
                bytes.extend(file.events(events)?);
                Ok(bytes)
            }
        }
    }
}
