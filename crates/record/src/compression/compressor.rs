//! Any codec's compressor.

use std::io::Write;

use flate2::write::GzEncoder;
use lz4_flex::frame::FrameEncoder;

use super::target::{LZ4_FAST_LEVEL, TargetCompression};
use super::{gzip, lz4, snappy, zstd};

/// Packs piece by piece, into memory from which what is packed can be taken as it comes. Then it
/// holds what the codec looks back at, and a block: some hundred KiB, or, with Zstandard, some MiB
/// ([`TargetCompression::working_bytes`]).
pub(crate) enum Compressor {
    None(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Snappy(Box<snappy::Packer>),
    Lz4(FrameEncoder<Vec<u8>>),
    Lz4High(lz4::HighPacker),
    Zstd(zstd::Packer),
}

impl Compressor {
    /// A compressor at a level.
    pub(crate) fn new(target: TargetCompression) -> Compressor {
        match target {
            TargetCompression::None => Compressor::None(Vec::new()),
            TargetCompression::Gzip { level } => Compressor::Gzip(gzip::compressor(level)),
            TargetCompression::Snappy => Compressor::Snappy(Box::new(snappy::Packer::new())),
            TargetCompression::Lz4 { level: LZ4_FAST_LEVEL } => Compressor::Lz4(lz4::compressor()),
            TargetCompression::Lz4 { level } => Compressor::Lz4High(lz4::HighPacker::new(level)),
            TargetCompression::Zstd { level } => Compressor::Zstd(zstd::Packer::new(level)),
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
            Compressor::Lz4High(packer) => packer.pack(plain),
            Compressor::Zstd(packer) => packer.pack(plain),
        };
        packed.expect(IN_MEMORY);
    }

    /// Takes what is packed so far, if it is at least so much.
    pub(crate) fn take_piece(&mut self, least_bytes: usize) -> Option<Vec<u8>> {
        let packed = self.packed()?;
        (packed.len() >= least_bytes).then(|| std::mem::take(packed))
    }

    /// How much is packed and was not taken yet.
    pub(crate) fn packed_bytes(&mut self) -> usize {
        self.packed().map_or(0, |packed| packed.len())
    }

    /// Packs what is left, and gives what was not taken.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Compressor::None(packed) => packed,
            Compressor::Gzip(encoder) => encoder.finish().expect(IN_MEMORY),
            Compressor::Snappy(packer) => packer.finish(),
            Compressor::Lz4(encoder) => encoder.finish().expect(IN_MEMORY),
            Compressor::Lz4High(packer) => packer.finish().expect(IN_MEMORY),
            Compressor::Zstd(packer) => packer.finish().expect(IN_MEMORY),
        }
    }

    /// What is packed; `None` while nothing can be.
    fn packed(&mut self) -> Option<&mut Vec<u8>> {
        Some(match self {
            Compressor::None(packed) => packed,
            Compressor::Gzip(encoder) => encoder.get_mut(),
            Compressor::Snappy(packer) => packer.packed(),
            Compressor::Lz4(encoder) => encoder.get_mut(),
            Compressor::Lz4High(packer) => packer.packed(),
            Compressor::Zstd(packer) => packer.packed()?,
        })
    }
}

const IN_MEMORY: &str = "compression to memory succeeds";
