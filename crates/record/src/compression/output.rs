//! Output of a decompressor, bounded.

use std::io;

use super::{Compression, Decompressor, PIECE_BYTES};
use crate::{DecodeLimit, RecordError};

/// Why there is no decompressed output.
#[derive(Debug)]
pub(crate) enum DecompressFailure {
    /// The input is not what the codec writes; the reason in words.
    Malformed(String),
    /// The output passes the limit.
    TooLarge,
}

impl DecompressFailure {
    /// The failure of a codec under a limit.
    pub(crate) fn into_error(self, compression: Compression, limit: DecodeLimit) -> RecordError {
        match self {
            DecompressFailure::Malformed(reason) => RecordError::Decompress { compression, reason },
            DecompressFailure::TooLarge => {
                RecordError::DecompressedTooLarge { compression, limit_bytes: limit.bytes() }
            }
        }
    }
}

impl From<io::Error> for DecompressFailure {
    fn from(error: io::Error) -> DecompressFailure {
        DecompressFailure::Malformed(error.to_string())
    }
}

/// Reads `decompressor` to its end, or to where it passes the limit, which is a failure.
pub(super) fn read_bounded(
    mut decompressor: Decompressor<'_>,
    limit: DecodeLimit,
) -> Result<Vec<u8>, DecompressFailure> {
    let mut output = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = decompressor.read(&mut piece)?;
        if read == 0 {
            return Ok(output);
        }
        if read > limit.bytes() - output.len() {
            return Err(DecompressFailure::TooLarge);
        }
        output.extend_from_slice(&piece[..read]);
    }
}
