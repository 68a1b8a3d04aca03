//! Output of a decompressor, bounded.

use std::io::{self, Read};

use crate::DecodeLimit;

/// Why there is no decompressed output.
#[derive(Debug)]
pub(super) enum DecompressFailure {
    /// The input is not what the codec writes; the reason in words.
    Malformed(String),
    /// The output passes the limit.
    TooLarge,
}

impl From<io::Error> for DecompressFailure {
    fn from(error: io::Error) -> DecompressFailure {
        DecompressFailure::Malformed(error.to_string())
    }
}

/// Reads `decompressor` to its end, or to one byte past the limit, which is a failure.
pub(super) fn read_bounded(
    decompressor: impl Read,
    limit: DecodeLimit,
) -> Result<Vec<u8>, DecompressFailure> {
    let mut output = Vec::new();
    let one_too_many = (limit.bytes() as u64).saturating_add(1);
    decompressor.take(one_too_many).read_to_end(&mut output)?;
    if output.len() > limit.bytes() {
        return Err(DecompressFailure::TooLarge);
    }
    Ok(output)
}
