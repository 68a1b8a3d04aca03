//! Zstandard frames, possibly several in a row.

use std::io::{self, Write};

use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

/// What the Zstandard library itself takes as its default.
pub(super) const DEFAULT_LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The window of long frames, 2 MiB, at the levels that would take a larger one: 8 MiB at level 19,
/// 128 MiB at 22, and their tables twenty times as much. Most batches unpack to less than the window
/// that is left, and a consumer needs as much memory as the window has.
const PACKED_WINDOW_LOG: u32 = 21;

/// The lowest level that has a larger window by itself.
const LARGE_WINDOW_LEVEL: i32 = 9;

/// The largest window that a frame may ask for: 128 MiB, as every Kafka client has it. Level 22
/// uses it. The decoder reserves as much address space, of which a short frame touches little.
const WINDOW_LOG_MAX: u32 = 27;

pub(super) fn compress(plain: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(plain, level).expect("compression to memory succeeds")
}

/// What a packer takes at most, beside what is packed. A test holds it against what the library says.
pub(super) fn working_bytes(level: i32) -> usize {
    match level {
        ..=DEFAULT_LEVEL => 6 << 20,
        ..LARGE_WINDOW_LEVEL => 16 << 20,
        _ => 48 << 20,
    }
}

fn encoder(level: i32) -> io::Result<Encoder<'static, Vec<u8>>> {
    let mut encoder = Encoder::new(Vec::new(), level)?;
    if level >= LARGE_WINDOW_LEVEL {
        encoder.window_log(PACKED_WINDOW_LOG)?;
    }
    Ok(encoder)
}

/// Packs piece by piece. What stays short is packed at once in the end: then its frame says how long
/// it is, and neither who packs nor who unpacks takes the memory for a long one.
pub(crate) enum Packer {
    Short { gathered: Vec<u8>, level: i32 },
    Long(Encoder<'static, Vec<u8>>),
}

impl Packer {
    pub(super) fn new(level: i32) -> Packer {
        Packer::Short { gathered: Vec::new(), level }
    }

    pub(super) fn pack(&mut self, plain: &[u8]) -> io::Result<()> {
        match self {
            Packer::Short { gathered, .. } if gathered.len() + plain.len() <= SHORT_MAX_BYTES => {
                gathered.extend_from_slice(plain);
            }
            Packer::Short { gathered, level } => {
                let mut encoder = encoder(*level)?;
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
            Packer::Short { .. } => None,
            Packer::Long(encoder) => Some(encoder.get_mut()),
        }
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Packer::Short { gathered, level } => Ok(compress(&gathered, level)),
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
