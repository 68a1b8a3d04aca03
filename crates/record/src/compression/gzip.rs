//! Gzip files, possibly several in a row.

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

pub(super) fn compressor() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::default())
}

pub(super) fn decompressor(compressed: &[u8]) -> MultiGzDecoder<&[u8]> {
    MultiGzDecoder::new(compressed)
}
