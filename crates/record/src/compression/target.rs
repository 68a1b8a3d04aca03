//! A codec, and how hard it tries.

use bytes::Bytes;

use super::{Compression, Compressor, zstd};

/// What a batch is compressed with: a codec at a level (KIP-390).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetCompression {
    /// Nothing.
    None,
    /// Gzip.
    Gzip {
        /// 1 to 9, or -1 for gzip's own default, which is 6.
        level: i32,
    },
    /// Snappy, which has no levels.
    Snappy,
    /// LZ4.
    Lz4 {
        /// 1 to 17. As in Kafka 9, the default, is the fast packer; every other level is one of the
        /// packer that looks for the longest match.
        level: i32,
    },
    /// Zstandard.
    Zstd {
        /// -131072 to 22.
        level: i32,
    },
}

/// The level that stands for gzip's own default.
const GZIP_DEFAULT_LEVEL: i32 = -1;

/// The level that stands for LZ4's fast packer.
pub(super) const LZ4_FAST_LEVEL: i32 = 9;

impl TargetCompression {
    /// The codec.
    pub fn codec(self) -> Compression {
        match self {
            TargetCompression::None => Compression::None,
            TargetCompression::Gzip { .. } => Compression::Gzip,
            TargetCompression::Snappy => Compression::Snappy,
            TargetCompression::Lz4 { .. } => Compression::Lz4,
            TargetCompression::Zstd { .. } => Compression::Zstd,
        }
    }

    /// Compresses `plain`.
    pub fn compress(self, plain: Bytes) -> Bytes {
        match self {
            TargetCompression::None => plain,
            // It does better when it knows how much there is.
            TargetCompression::Zstd { level } => zstd::compress(&plain, level).into(),
            _ => {
                let mut compressor = Compressor::new(self);
                compressor.pack(&plain);
                compressor.finish().into()
            }
        }
    }

    /// The memory that compressing takes at most, beside what it is given and what it gives out.
    pub fn working_bytes(self) -> usize {
        match self {
            TargetCompression::None => 0,
            TargetCompression::Gzip { .. }
            | TargetCompression::Snappy
            | TargetCompression::Lz4 { .. } => 768 << 10,
            TargetCompression::Zstd { level } => zstd::working_bytes(level),
        }
    }
}

/// At the codec's usual level, which is the default of Kafka's setting.
impl From<Compression> for TargetCompression {
    fn from(codec: Compression) -> TargetCompression {
        match codec {
            Compression::None => TargetCompression::None,
            Compression::Gzip => TargetCompression::Gzip { level: GZIP_DEFAULT_LEVEL },
            Compression::Snappy => TargetCompression::Snappy,
            Compression::Lz4 => TargetCompression::Lz4 { level: LZ4_FAST_LEVEL },
            Compression::Zstd => TargetCompression::Zstd { level: zstd::DEFAULT_LEVEL },
        }
    }
}
