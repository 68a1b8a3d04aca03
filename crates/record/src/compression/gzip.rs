//! Gzip files, possibly several in a row.

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

/// A level that is negative stands for gzip's own default.
pub(super) fn compressor(level: i32) -> GzEncoder<Vec<u8>> {
    const LEVEL_MAX: u32 = 9;
    let level = u32::try_from(level)
        .map_or(Compression::default(), |level| Compression::new(level.min(LEVEL_MAX)));
    GzEncoder::new(Vec::new(), level)
}

pub(super) fn decompressor(compressed: &[u8]) -> MultiGzDecoder<&[u8]> {
    MultiGzDecoder::new(compressed)
}
