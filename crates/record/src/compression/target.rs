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

    /// The memory that compressing up to `plain_bytes` takes at most, beside what it is given and what
    /// it gives out.
    pub fn working_bytes(self, plain_bytes: usize) -> usize {
        match self {
            TargetCompression::None => 0,
            TargetCompression::Gzip { .. }
            | TargetCompression::Snappy
            | TargetCompression::Lz4 { .. } => 768 << 10,
            TargetCompression::Zstd { level } => zstd::working_bytes(level, plain_bytes),
        }
    }

    /// How many bytes a millisecond compresses at least, on one processor, whatever is in them.
    ///
    /// The slowest found are random choices of two letters, of which each match finder looks at very
    /// many; a server's log takes between the same time and a tenth of it
    /// (`docs/experiments/compression-type.md`).
    pub fn least_bytes_per_ms(self) -> usize {
        const KIB: usize = 1 << 10;
        match self {
            TargetCompression::None
            | TargetCompression::Snappy
            | TargetCompression::Lz4 { level: ..=2 | LZ4_FAST_LEVEL } => 500 * KIB,
            TargetCompression::Lz4 { level: ..=4 } => 80 * KIB,
            TargetCompression::Lz4 { level: ..=8 } => 10 * KIB,
            TargetCompression::Lz4 { level: ..=11 } => 5 * KIB,
            TargetCompression::Lz4 { .. } => KIB / 2,
            TargetCompression::Gzip { level: 1 } => 240 * KIB,
            TargetCompression::Gzip { level: 2..=4 } => 40 * KIB,
            TargetCompression::Gzip { level: ..=6 } => 12 * KIB,
            TargetCompression::Gzip { .. } => 3 * KIB,
            TargetCompression::Zstd { level: ..=3 } => 400 * KIB,
            TargetCompression::Zstd { level: ..=6 } => 80 * KIB,
            TargetCompression::Zstd { level: ..=9 } => 32 * KIB,
            TargetCompression::Zstd { level: 10 } => 20 * KIB,
            TargetCompression::Zstd { level: ..=14 } => 6 * KIB,
            TargetCompression::Zstd { .. } => 2 * KIB,
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
