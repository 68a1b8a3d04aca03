//! How files and objects are packed. Pieces that are packed one after the other are, together, a sound file.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use zstd::stream::write::Encoder;

use super::deflated::gzip;

/// Files are written once and kept for long.
const ZSTD_LEVEL: i32 = 3;

/// What Hadoop's reader unpacks at once is at most 256 KiB.
const SNAPPY_BLOCK_BYTES: usize = 128 << 10;

/// A way of packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// RFC 1952.
    Gzip,
    /// RFC 1950; Hadoop's `DefaultCodec`.
    Zlib,
    /// Hadoop's `SnappyCodec`: blocks with their lengths, unpacked and packed, as `u32` before them.
    HadoopSnappy,
    /// RFC 8878.
    Zstd,
}

impl Packing {
    /// The one that a name means: short, as Hadoop's class, or as that with its package.
    pub(crate) fn of(name: &str) -> Option<Packing> {
        let name = name.rsplit('.').next().unwrap_or_default().to_lowercase();
        Some(match name.strip_suffix("codec").unwrap_or(&name) {
            "gzip" => Packing::Gzip,
            "default" | "deflate" => Packing::Zlib,
            "snappy" => Packing::HadoopSnappy,
            "zstd" | "zstandard" => Packing::Zstd,
            _ => return None,
        })
    }

    /// What names of files end in.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Packing::Gzip => ".gz",
            Packing::Zlib => ".deflate",
            Packing::HadoopSnappy => ".snappy",
            Packing::Zstd => ".zst",
        }
    }

    /// Hadoop's class that unpacks it.
    pub(crate) fn hadoop_class(self) -> &'static str {
        match self {
            Packing::Gzip => "org.apache.hadoop.io.compress.GzipCodec",
            Packing::Zlib => "org.apache.hadoop.io.compress.DefaultCodec",
            Packing::HadoopSnappy => "org.apache.hadoop.io.compress.SnappyCodec",
            Packing::Zstd => "org.apache.hadoop.io.compress.ZStandardCodec",
        }
    }

    /// Packs a piece.
    ///
    /// # Errors
    ///
    /// The packer fails, for want of memory for instance.
    pub(crate) fn pack(self, plain: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Packing::Gzip => Ok(gzip(plain)),
            Packing::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(plain)?;
                encoder.finish()
            }
            Packing::HadoopSnappy => {
                let mut packed = Vec::new();
                for block in plain.chunks(SNAPPY_BLOCK_BYTES) {
                    let body = snap::raw::Encoder::new().compress_vec(block)?;
                    packed.extend_from_slice(&(block.len() as u32).to_be_bytes());
                    packed.extend_from_slice(&(body.len() as u32).to_be_bytes());
                    packed.extend_from_slice(&body);
                }
                Ok(packed)
            }
            Packing::Zstd => {
                let mut encoder = Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.write_all(plain)?;
                encoder.finish()
            }
        }
    }
}

/// A piece as it is, or packed.
///
/// # Errors
///
/// As [`Packing::pack`].
pub(crate) fn packed(plain: Vec<u8>, packing: Option<Packing>) -> io::Result<Vec<u8>> {
    match packing {
        Some(packing) => packing.pack(&plain),
        None => Ok(plain),
    }
}
