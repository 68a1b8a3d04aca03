//! Gzip files, possibly several in a row.

use std::io::Write;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::output::{DecompressFailure, read_bounded};
use crate::DecodeLimit;

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).expect("a write to memory succeeds");
    encoder.finish().expect("a write to memory succeeds")
}

pub(super) fn decompress(
    compressed: &[u8],
    limit: DecodeLimit,
) -> Result<Vec<u8>, DecompressFailure> {
    read_bounded(MultiGzDecoder::new(compressed), limit)
}
