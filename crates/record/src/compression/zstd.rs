//! Zstandard frames, possibly several in a row.

use std::io::{self, Write};

use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;
use zstd::zstd_safe::CParameter;

/// What the Zstandard library itself takes as its default.
pub(super) const DEFAULT_LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The largest window that a frame may ask for: 128 MiB, as every Kafka client has it. Level 22
/// uses it. The decoder reserves as much address space, of which a short frame touches little.
const WINDOW_LOG_MAX: u32 = 27;

/// From this level on the library takes more than [`working_bytes`] has room for: up to 675 MB.
const LARGE_LEVEL: i32 = 10;

/// What long frames take at these levels instead: a window of 2 MiB, as at level 3, and tables of 8 and
/// 16 MiB. Most batches unpack to less than the window, and a consumer needs as much memory as it has.
const LARGE_LEVEL_PARAMETERS: [CParameter; 3] =
    [CParameter::WindowLog(21), CParameter::HashLog(21), CParameter::ChainLog(22)];

pub(super) fn compress(plain: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(plain, level).expect("compression to memory succeeds")
}

/// What packing so much takes at most, beside what is packed. A test holds it against what the library
/// says.
pub(super) fn working_bytes(level: i32, plain_bytes: usize) -> usize {
    const MIDDLE_LEVEL: i32 = DEFAULT_LEVEL + 1;
    match level {
        ..MIDDLE_LEVEL if plain_bytes <= SHORT_MAX_BYTES => 1 << 20,
        _ if plain_bytes <= SHORT_MAX_BYTES => 8 << 20,
        ..MIDDLE_LEVEL => 4 << 20,
        MIDDLE_LEVEL..LARGE_LEVEL => 16 << 20,
        LARGE_LEVEL.. => 32 << 20,
    }
}

fn encoder(level: i32) -> io::Result<Encoder<'static, Vec<u8>>> {
    let mut encoder = Encoder::new(Vec::new(), level)?;
    if level >= LARGE_LEVEL {
        for parameter in LARGE_LEVEL_PARAMETERS {
            encoder.set_parameter(parameter)?;
        }
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

#[cfg(test)]
mod tests {
    use zstd::zstd_safe::{CCtx, InBuffer, OutBuffer};

    use super::*;

    /// The library's own count of a context that has packed at once.
    #[test]
    fn packing_at_once_takes_no_more_than_is_charged() {
        let plain: Vec<u8> = (0..=255).cycle().take(SHORT_MAX_BYTES).collect();
        for level in [-131_072, -1].into_iter().chain(1..=22) {
            let mut context = CCtx::create();
            let mut packed = vec![0; 2 * SHORT_MAX_BYTES];
            context.compress(&mut packed[..], &plain, level).expect("is packed");
            let (taken, charged) = (context.sizeof(), working_bytes(level, SHORT_MAX_BYTES));
            assert!(taken <= charged, "level {level}: {taken} of {charged} bytes");
        }
    }

    /// The library's own count of a context that has begun to pack, as [`Packer`] does it.
    #[test]
    fn packing_takes_no_more_than_is_charged() {
        let plain: Vec<u8> = (0..=255).cycle().take(SHORT_MAX_BYTES).collect();
        for level in [-131_072, -1].into_iter().chain(1..=22) {
            let mut context = CCtx::create();
            let mut set = |parameter| context.set_parameter(parameter).expect("is known");
            set(CParameter::CompressionLevel(level));
            if level >= LARGE_LEVEL {
                for parameter in LARGE_LEVEL_PARAMETERS {
                    set(parameter);
                }
            }
            let mut packed = vec![0; 2 * SHORT_MAX_BYTES];
            let mut output = OutBuffer::around(&mut packed[..]);
            let mut input = InBuffer::around(&plain[..]);
            context.compress_stream(&mut output, &mut input).expect("is packed");
            let (taken, charged) = (context.sizeof(), working_bytes(level, usize::MAX));
            assert!(taken <= charged, "level {level}: {taken} of {charged} bytes");
        }
    }
}
