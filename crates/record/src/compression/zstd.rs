//! Zstandard frames, possibly several in a row.

use zstd::stream::read::Decoder;

use super::output::{DecompressFailure, read_bounded};
use crate::DecodeLimit;

/// What the Zstandard library itself takes as its default.
const LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// The largest window that a frame may ask for: 128 MiB, as every Kafka client has it. Level 22
/// uses it. The decoder reserves as much address space, of which a short frame touches little.
const WINDOW_LOG_MAX: u32 = 27;

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(plain, LEVEL).expect("compression to memory succeeds")
}

pub(super) fn decompress(
    compressed: &[u8],
    limit: DecodeLimit,
) -> Result<Vec<u8>, DecompressFailure> {
    let mut decoder = Decoder::with_buffer(compressed)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    read_bounded(decoder, limit)
}
