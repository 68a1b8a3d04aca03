//! Snappy blocks, framed as the Java library snappy-java does or bare.
//!
//! ```text
//! at  bytes  field
//!  0  8      magic: 0x82 "SNAPPY" 0x00
//!  8  4      version of the writer: 1
//! 12  4      lowest version of a reader: 1
//! 16  …      chunks: a length of 4 bytes, big-endian, then a Snappy block of that length
//! ```
//!
//! Java writes the framing and reads both; librdkafka writes one bare block and reads both; so
//! does franz-go. Some older clients read only the framing, so that is what we write.

use snap::raw::{Decoder, Encoder, decompress_len};

use super::output::DecompressFailure;
use crate::DecodeLimit;

pub(super) fn compress(plain: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut framed = FRAMING_HEADER.to_vec();
    for part in plain.chunks(CHUNK_BYTES) {
        let block = encoder.compress_vec(part).expect("a part is far below the codec's 4 GiB");
        framed.extend_from_slice(&(block.len() as u32).to_be_bytes());
        framed.extend_from_slice(&block);
    }
    framed
}

pub(super) fn decompress(
    compressed: &[u8],
    limit: DecodeLimit,
) -> Result<Vec<u8>, DecompressFailure> {
    let mut output = Vec::new();
    match framed_chunks(compressed) {
        Some(mut chunks) => {
            while let Some(block) = next_chunk(&mut chunks)? {
                append_block(&mut output, block, limit)?;
            }
        }
        None => append_block(&mut output, compressed, limit)?,
    }
    Ok(output)
}

const MAGIC: &[u8; 8] = b"\x82SNAPPY\0";

/// The magic and twice the version 1.
const FRAMING_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// How much goes in a block: what snappy-java takes by default.
const CHUNK_BYTES: usize = 32 << 10;

/// The most that an input byte can stand for: what expands most is a copy of 64 bytes, in three.
const MAX_EXPANSION: usize = 22;

/// The chunks, if the framing is there. Readers do not look at the versions.
fn framed_chunks(compressed: &[u8]) -> Option<&[u8]> {
    compressed.starts_with(MAGIC).then(|| compressed.get(FRAMING_HEADER.len()..)).flatten()
}

fn next_chunk<'a>(chunks: &mut &'a [u8]) -> Result<Option<&'a [u8]>, DecompressFailure> {
    if chunks.is_empty() {
        return Ok(None);
    }
    let cut_off = || DecompressFailure::Malformed("a chunk is cut off".to_owned());
    let (length, rest) = chunks.split_first_chunk::<4>().ok_or_else(cut_off)?;
    let length_bytes = u32::from_be_bytes(*length) as usize;
    let (block, rest) = rest.split_at_checked(length_bytes).ok_or_else(cut_off)?;
    *chunks = rest;
    Ok(Some(block))
}

/// Decompresses a block to the end of `output`.
///
/// The block's claim of its size is believed only as far as its length allows.
fn append_block(
    output: &mut Vec<u8>,
    block: &[u8],
    limit: DecodeLimit,
) -> Result<(), DecompressFailure> {
    let malformed = |error: snap::Error| DecompressFailure::Malformed(error.to_string());
    let block_bytes = decompress_len(block).map_err(malformed)?;
    if block_bytes > block.len().saturating_mul(MAX_EXPANSION) {
        let reason = format!("{} bytes claim to hold {block_bytes}", block.len());
        return Err(DecompressFailure::Malformed(reason));
    }
    let start = output.len();
    if block_bytes > limit.bytes() - start {
        return Err(DecompressFailure::TooLarge);
    }
    output.resize(start + block_bytes, 0);
    let written = Decoder::new().decompress(block, &mut output[start..]).map_err(malformed)?;
    debug_assert_eq!(written, block_bytes, "a block fills the length that it announces");
    Ok(())
}
