//! Gzip files, possibly several in a row.

use std::io::Write;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).expect("a write to memory succeeds");
    encoder.finish().expect("a write to memory succeeds")
}

pub(super) fn decompressor(compressed: &[u8]) -> MultiGzDecoder<&[u8]> {
    MultiGzDecoder::new(compressed)
}
