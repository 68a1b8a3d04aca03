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

/// Packs a chunk at a time.
pub(crate) struct Packer {
    encoder: Encoder,
    /// What is not yet a chunk.
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Packer {
    pub(super) fn new() -> Packer {
        let (plain, packed) = (Vec::new(), FRAMING_HEADER.to_vec());
        Packer { encoder: Encoder::new(), plain, packed }
    }

    pub(super) fn pack(&mut self, mut plain: &[u8]) {
        while !plain.is_empty() {
            let (front, rest) = plain.split_at(plain.len().min(CHUNK_BYTES - self.plain.len()));
            self.plain.extend_from_slice(front);
            plain = rest;
            if self.plain.len() == CHUNK_BYTES {
                self.pack_chunk();
            }
        }
    }

    pub(super) fn packed(&mut self) -> &mut Vec<u8> {
        &mut self.packed
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if !self.plain.is_empty() {
            self.pack_chunk();
        }
        self.packed
    }

    fn pack_chunk(&mut self) {
        let block = self.encoder.compress_vec(&self.plain);
        let block = block.expect("a chunk is far below the codec's 4 GiB");
        self.packed.extend_from_slice(&(block.len() as u32).to_be_bytes());
        self.packed.extend_from_slice(&block);
        self.plain.clear();
    }
}

/// Unpacks a block at a time. A block cannot be unpacked in part, so all of one is held.
pub(super) struct Blocks<'a> {
    /// The chunks that come, or a bare block.
    rest: &'a [u8],
    is_framed: bool,
    /// What is left of the limit.
    left_bytes: usize,
    block: Vec<u8>,
    /// How much of the block was given out.
    given_bytes: usize,
}

impl<'a> Blocks<'a> {
    /// The blocks of `compressed`, which must not unpack to more than the limit.
    pub(super) fn new(compressed: &'a [u8], limit: DecodeLimit) -> Blocks<'a> {
        let framed = framed_chunks(compressed);
        Blocks {
            rest: framed.unwrap_or(compressed),
            is_framed: framed.is_some(),
            left_bytes: limit.bytes(),
            block: Vec::new(),
            given_bytes: 0,
        }
    }

    /// Gives out some of what comes next; 0 bytes at the end.
    pub(super) fn read(&mut self, piece: &mut [u8]) -> Result<usize, DecompressFailure> {
        while self.given_bytes == self.block.len() {
            match self.next_block()? {
                Some(packed) => self.unpack(packed)?,
                None => return Ok(0),
            }
        }
        let ready = &self.block[self.given_bytes..];
        let bytes = ready.len().min(piece.len());
        piece[..bytes].copy_from_slice(&ready[..bytes]);
        self.given_bytes += bytes;
        Ok(bytes)
    }

    fn next_block(&mut self) -> Result<Option<&'a [u8]>, DecompressFailure> {
        if self.is_framed {
            return next_chunk(&mut self.rest);
        }
        // Behind it, nothing is left, as after the last chunk.
        self.is_framed = true;
        Ok(Some(std::mem::take(&mut self.rest)))
    }

    /// The block's claim of its size is believed only as far as its length allows.
    fn unpack(&mut self, packed: &[u8]) -> Result<(), DecompressFailure> {
        let malformed = |error: snap::Error| DecompressFailure::Malformed(error.to_string());
        let block_bytes = decompress_len(packed).map_err(malformed)?;
        if block_bytes > packed.len().saturating_mul(MAX_EXPANSION) {
            let reason = format!("{} bytes claim to hold {block_bytes}", packed.len());
            return Err(DecompressFailure::Malformed(reason));
        }
        if block_bytes > BLOCK_BYTES_MAX {
            let reason = format!("a block of {block_bytes} bytes; {BLOCK_BYTES_MAX} are allowed");
            return Err(DecompressFailure::Malformed(reason));
        }
        self.left_bytes =
            self.left_bytes.checked_sub(block_bytes).ok_or(DecompressFailure::TooLarge)?;
        self.block.resize(block_bytes, 0);
        let written = Decoder::new().decompress(packed, &mut self.block).map_err(malformed)?;
        debug_assert_eq!(written, block_bytes, "a block fills the length that it announces");
        self.given_bytes = 0;
        Ok(())
    }
}

const MAGIC: &[u8; 8] = b"\x82SNAPPY\0";

/// The magic and twice the version 1.
const FRAMING_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// How much goes in a block: what snappy-java takes by default.
const CHUNK_BYTES: usize = 32 << 10;

/// The most that an input byte can stand for: what expands most is a copy of 64 bytes, in three.
const MAX_EXPANSION: usize = 22;

/// The largest block that is unpacked, because it is held in memory: 64 times what a message is by
/// default allowed to have, and clients that write bare blocks count before they compress.
const BLOCK_BYTES_MAX: usize = 64 << 20;

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
