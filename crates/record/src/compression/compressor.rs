//! Any codec's compressor.

use std::io::Write;

use flate2::write::GzEncoder;
use lz4_flex::frame::FrameEncoder;

use super::{Compression, gzip, lz4, snappy, zstd};

/// Packs piece by piece, into memory from which what is packed can be taken as it comes. Then it
/// holds what the codec looks back at, and a block: some hundred KiB, or, with Zstandard, some MiB.
pub(crate) enum Compressor {
    None(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Snappy(Box<snappy::Packer>),
    Lz4(FrameEncoder<Vec<u8>>),
    Zstd(zstd::Packer),
}

impl Compressor {
    /// A compressor at the codec's usual level.
    pub(crate) fn new(codec: Compression) -> Compressor {
        match codec {
            Compression::None => Compressor::None(Vec::new()),
            Compression::Gzip => Compressor::Gzip(gzip::compressor()),
            Compression::Snappy => Compressor::Snappy(Box::new(snappy::Packer::new())),
            Compression::Lz4 => Compressor::Lz4(lz4::compressor()),
            Compression::Zstd => Compressor::Zstd(zstd::Packer::new()),
        }
    }

    /// Packs what comes next.
    pub(crate) fn pack(&mut self, plain: &[u8]) {
        let packed = match self {
            Compressor::None(packed) => packed.write_all(plain),
            Compressor::Gzip(encoder) => encoder.write_all(plain),
            Compressor::Snappy(packer) => {
                packer.pack(plain);
                Ok(())
            }
            Compressor::Lz4(encoder) => encoder.write_all(plain),
            Compressor::Zstd(packer) => packer.pack(plain),
        };
        packed.expect(IN_MEMORY);
    }

    /// Takes what is packed so far, if it is at least so much.
    pub(crate) fn take_piece(&mut self, least_bytes: usize) -> Option<Vec<u8>> {
        let packed = match self {
            Compressor::None(packed) => packed,
            Compressor::Gzip(encoder) => encoder.get_mut(),
            Compressor::Snappy(packer) => packer.packed(),
            Compressor::Lz4(encoder) => encoder.get_mut(),
            Compressor::Zstd(packer) => packer.packed()?,
        };
        (packed.len() >= least_bytes).then(|| std::mem::take(packed))
    }

    /// Packs what is left, and gives what was not taken.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Compressor::None(packed) => packed,
            Compressor::Gzip(encoder) => encoder.finish().expect(IN_MEMORY),
            Compressor::Snappy(packer) => packer.finish(),
            Compressor::Lz4(encoder) => encoder.finish().expect(IN_MEMORY),
            Compressor::Zstd(packer) => packer.finish().expect(IN_MEMORY),
        }
    }
}

const IN_MEMORY: &str = "compression to memory succeeds";
