//! Avro's container files with Flume's events (Avro specification 1.11, "Object Container Files").
//!
//! | part  | bytes                                                                                            |
//! |-------|--------------------------------------------------------------------------------------------------|
//! | head  | `Obj` and 1, a map with `avro.schema` and `avro.codec`, sixteen bytes that separate blocks         |
//! | block | a long with the count of events, a long with the size, the events as the codec has them, the sixteen |
//!
//! With `deflate` a block is deflated without a head (RFC 1951); with `snappy` the CRC-32 of its plain bytes is behind it.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::avro::{put_bytes, put_event, put_long};
use crate::declaration::Kind;
use crate::event::Event;
use crate::settings::Settings;

/// What separates blocks. It need not differ between files.
const SYNC: [u8; 16] = *b"logway-agent-syn";

const SCHEMA: &str = r#"{"type":"record","name":"Event","fields":[{"name":"headers","type":{"type":"map","values":"string"}},{"name":"body","type":"bytes"}]}"#;

/// The kind of keys for how blocks are compressed.
pub(crate) const AVRO_CODECS: Kind = Kind::Choice(&["null", "deflate", "snappy"]);

/// The kind of keys for how large blocks become.
pub(crate) const AVRO_BLOCK_BYTES: Kind = Kind::Number(32, 1 << 30, "bytes");

/// How files are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AvroFile {
    codec: Codec,
    /// A block ends with the event that makes it so large, or with what is written at once.
    block_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Null,
    Deflate,
    Snappy,
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Codec::Null => "null",
            Codec::Deflate => "deflate",
            Codec::Snappy => "snappy",
        }
    }

    fn packed(self, plain: &[u8]) -> Vec<u8> {
        match self {
            Codec::Null => plain.to_vec(),
            Codec::Deflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(plain).and_then(|()| encoder.finish()).expect("memory takes all")
            }
            Codec::Snappy => {
                let packed = snap::raw::Encoder::new().compress_vec(plain);
                let mut packed = packed.expect("a block is below 4 GiB");
                let mut crc = Crc::new();
                crc.update(plain);
                packed.extend_from_slice(&crc.sum().to_be_bytes());
                packed
            }
        }
    }
}

impl AvroFile {
    /// Without compression, and a block for what is written at once.
    pub(crate) const PLAIN: AvroFile = AvroFile { codec: Codec::Null, block_bytes: usize::MAX };

    /// As two keys of a component say it.
    pub(crate) fn of(settings: &Settings, codec: &str, block_bytes: &str) -> AvroFile {
        let codec = match settings.required(codec).trim().to_lowercase().as_str() {
            "deflate" => Codec::Deflate,
            "snappy" => Codec::Snappy,
            _ => Codec::Null,
        };
        AvroFile { codec, block_bytes: settings.size(block_bytes) }
    }

    /// What a file begins with.
    pub(crate) fn begin(self) -> Vec<u8> {
        let mut head = b"Obj\x01".to_vec();
        put_long(&mut head, 2);
        put_bytes(&mut head, b"avro.schema");
        put_bytes(&mut head, SCHEMA.as_bytes());
        put_bytes(&mut head, b"avro.codec");
        put_bytes(&mut head, self.codec.name().as_bytes());
        put_long(&mut head, 0);
        head.extend_from_slice(&SYNC);
        head
    }

    /// Some events, in blocks of their own.
    pub(crate) fn events(self, events: &[Event]) -> Vec<u8> {
        let (mut out, mut block, mut count) = (Vec::new(), Vec::new(), 0);
        for (index, event) in events.iter().enumerate() {
            put_event(&mut block, event);
            count += 1;
            if block.len() >= self.block_bytes || index + 1 == events.len() {
                put_long(&mut out, count);
                put_bytes(&mut out, &self.codec.packed(&block));
                out.extend_from_slice(&SYNC);
                block.clear();
                count = 0;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::avro::Reader;
    use super::*;

    /// What is in a block, by the specification.
    fn plain(codec: Codec, packed: &[u8]) -> Vec<u8> {
        match codec {
            Codec::Null => packed.to_vec(),
            Codec::Deflate => {
                let mut plain = Vec::new();
                let mut decoder = flate2::read::DeflateDecoder::new(packed);
                decoder.read_to_end(&mut plain).expect("is deflated");
                plain
            }
            Codec::Snappy => {
                let (packed, sum) = packed.split_last_chunk::<4>().expect("has a sum");
                let plain = snap::raw::Decoder::new().decompress_vec(packed).expect("is packed");
                let mut crc = Crc::new();
                crc.update(&plain);
                assert_eq!(crc.sum(), u32::from_be_bytes(*sum));
                plain
            }
        }
    }

    #[test]
    fn events_are_read_back_from_blocks_of_each_codec() {
        let events: Vec<Event> = (0..100)
            .map(|number| Event {
                headers: [("n", number.to_string())].into_iter().collect(),
                body: vec![7; 50].into(),
            })
            .collect();
        for (codec, block_bytes, blocks) in
            [(Codec::Null, usize::MAX, 1), (Codec::Deflate, 1000, 6), (Codec::Snappy, 32, 100)]
        {
            let file = AvroFile { codec, block_bytes };
            let head = file.begin();
            assert!(head.starts_with(b"Obj\x01") && head.ends_with(&SYNC));
            let name =
                format!("avro.codec{}{}\0", char::from(codec.name().len() as u8 * 2), codec.name());
            assert!(head[..head.len() - 16].ends_with(name.as_bytes()));
            let bytes = file.events(&events);
            let (mut reader, mut found, mut count) = (Reader::new(&bytes), Vec::new(), 0);
            while !reader.is_empty() {
                let events = reader.long().expect("is a count");
                let block = plain(codec, reader.bytes().expect("is a block"));
                assert_eq!(reader.fixed(16), Ok(&SYNC[..]));
                let mut block = Reader::new(&block);
                found.extend((0..events).map(|_| block.event().expect("is one")));
                assert!(block.is_empty());
                count += 1;
            }
            assert_eq!((count, &found), (blocks, &events), "{codec:?}");
        }
    }
}
