//! Zstandard frames, possibly several in a row.

use std::io;

use zstd::stream::read::Decoder;

/// What the Zstandard library itself takes as its default.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The largest window that a frame may ask for: 128 MiB, as every Kafka client has it. Level 22
/// uses it. The decoder reserves as much address space, of which a short frame touches little.
const WINDOW_LOG_MAX: u32 = 27;

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, LEVEL).expect("compression to memory succeeds")
}

/// Unpacks frames that are in memory.
pub(super) type FrameReader<'a> = Decoder<'static, &'a [u8]>;

pub(super) fn decompressor(compressed: &[u8]) -> io::Result<FrameReader<'_>> {
    let mut decoder = Decoder::with_buffer(compressed)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}
