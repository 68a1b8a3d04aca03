//! Any codec's decompressor.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;

use super::output::DecompressFailure;
use super::{Compression, gzip, lz4, snappy, zstd};
use crate::DecodeLimit;

/// As much is unpacked at once: enough that the calls cost little, and it fits in a processor's cache.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// Unpacks piece by piece, with what memory the codec's format asks for: a window of 32 KiB
/// (gzip), two blocks of at most 8 MiB (LZ4), a window of at most 128 MiB, of which no more is
/// touched than was unpacked (Zstandard), or a whole block (Snappy).
pub(super) enum Decompressor<'a> {
    None(&'a [u8]),
    Gzip(MultiGzDecoder<&'a [u8]>),
    Snappy(snappy::Blocks<'a>),
    Lz4(FrameDecoder<&'a [u8]>),
    Zstd(zstd::FrameReader<'a>),
}

impl<'a> Decompressor<'a> {
    /// A decompressor of all of `compressed`. Only a Snappy block, which comes as one piece, is held
    /// against the limit here; all else is for the caller to count.
    pub(super) fn new(
        codec: Compression,
        compressed: &'a [u8],
        limit: DecodeLimit,
    ) -> Result<Decompressor<'a>, DecompressFailure> {
        Ok(match codec {
            Compression::None => Decompressor::None(compressed),
            Compression::Gzip => Decompressor::Gzip(gzip::decompressor(compressed)),
            Compression::Snappy => Decompressor::Snappy(snappy::Blocks::new(compressed, limit)),
            Compression::Lz4 => Decompressor::Lz4(lz4::decompressor(compressed)),
            Compression::Zstd => Decompressor::Zstd(zstd::decompressor(compressed)?),
        })
    }

    /// Unpacks more, into the front of `piece`; 0 bytes at the end.
    pub(super) fn read(&mut self, piece: &mut [u8]) -> Result<usize, DecompressFailure> {
        Ok(match self {
            Decompressor::None(plain) => plain.read(piece)?,
            Decompressor::Gzip(reader) => reader.read(piece)?,
            Decompressor::Snappy(blocks) => return blocks.read(piece),
            Decompressor::Lz4(reader) => reader.read(piece)?,
            Decompressor::Zstd(reader) => reader.read(piece)?,
        })
    }
}
