//! Zstandard frames, possibly several in a row.

use std::io::{self, Write};

use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

/// What the Zstandard library itself takes as its default.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The largest window that a frame may ask for: 128 MiB, as every Kafka client has it. Level 22
/// uses it. The decoder reserves as much address space, of which a short frame touches little.
const WINDOW_LOG_MAX: u32 = 27;

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, LEVEL).expect("compression to memory succeeds")
}

/// Packs piece by piece. What stays short is packed at once in the end: then its frame says how long
/// it is, and neither who packs nor who unpacks takes the memory for a long one.
pub(crate) enum Packer {
    Short(Vec<u8>),
    Long(Encoder<'static, Vec<u8>>),
}

impl Packer {
    pub(super) fn new() -> Packer {
        Packer::Short(Vec::new())
    }

    pub(super) fn pack(&mut self, plain: &[u8]) -> io::Result<()> {
        match self {
            Packer::Short(gathered) if gathered.len() + plain.len() <= SHORT_MAX_BYTES => {
                gathered.extend_from_slice(plain);
            }
            Packer::Short(gathered) => {
                let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
                encoder.write_all(gathered)?;
                encoder.write_all(plain)?;
                *self = Packer::Long(encoder);
            }
            Packer::Long(encoder) => encoder.write_all(plain)?,
        }
        Ok(())
    }

    pub(super) fn packed(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Packer::Short(_) => None,
            Packer::Long(encoder) => Some(encoder.get_mut()),
        }
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Packer::Short(gathered) => Ok(compress(&gathered)),
            Packer::Long(encoder) => encoder.finish(),
        }
    }
}

/// What is packed at once.
const SHORT_MAX_BYTES: usize = 256 << 10;

/// Unpacks frames that are in memory.
pub(super) type FrameReader<'a> = Decoder<'static, &'a [u8]>;

pub(super) fn decompressor(compressed: &[u8]) -> io::Result<FrameReader<'_>> {
    let mut decoder = Decoder::with_buffer(compressed)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}
