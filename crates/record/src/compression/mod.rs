//! Compression of the records of a batch.
//!
//! One file per codec. Each reads whatever the Java client, librdkafka and franz-go write, and
//! writes what all of them read.

mod compressor;
mod decompressor;
mod gzip;
mod lz4;
mod output;
mod plain_bytes;
mod snappy;
mod target;
mod zstd;

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

pub(crate) use self::compressor::Compressor;
use self::decompressor::{Decompressor, PIECE_BYTES};
pub(crate) use self::output::DecompressFailure;
use self::output::read_bounded;
pub(crate) use self::plain_bytes::{PlainBytes, Unpacking};
pub use self::target::TargetCompression;
use crate::{DecodeLimit, RecordError};

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// A gzip file (RFC 1952).
    Gzip,
    /// Snappy blocks in the framing of the Java library.
    Snappy,
    /// An LZ4 frame.
    Lz4,
    /// A Zstandard frame (RFC 8878, KIP-110).
    Zstd,
}

impl Compression {
    /// Every codec, by its number.
    pub const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    /// The number in the attributes.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// The codec of a number; [`RecordError::UnknownCompression`] if there is none.
    pub fn from_id(codec: u8) -> Result<Compression, RecordError> {
        Compression::ALL
            .get(usize::from(codec))
            .copied()
            .ok_or(RecordError::UnknownCompression { codec })
    }

    /// The name as in Kafka's `compression.type` setting.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// Compresses `plain` at the codec's usual level.
    pub fn compress(self, plain: Bytes) -> Bytes {
        TargetCompression::from(self).compress(plain)
    }

    /// Decompresses all of `compressed`; bytes that are not compressed are given back as they
    /// are, whatever the limit.
    ///
    /// # Errors
    ///
    /// [`RecordError::Decompress`], and [`RecordError::DecompressedTooLarge`] as soon as the
    /// output passes the limit.
    pub fn decompress(self, compressed: Bytes, limit: DecodeLimit) -> Result<Bytes, RecordError> {
        if self == Compression::None {
            return Ok(compressed);
        }
        Decompressor::new(self, &compressed, limit)
            .and_then(|decompressor| read_bounded(decompressor, limit))
            .map(Bytes::from)
            .map_err(|failure| failure.into_error(self, limit))
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compression '{0}' is none of none, gzip, snappy, lz4 and zstd")]
pub struct UnknownCompressionName(String);

impl FromStr for Compression {
    type Err = UnknownCompressionName;

    fn from_str(name: &str) -> Result<Compression, UnknownCompressionName> {
        Compression::ALL
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| UnknownCompressionName(name.to_owned()))
    }
}
