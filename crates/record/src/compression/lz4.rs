//! LZ4 frames.
//!
//! The Java client reads only frames whose blocks are independent of each other. It writes, as
//! we do, blocks of 64 KiB without checksums, since the batch has one; other clients also write
//! linked blocks, other sizes and checksums, all of which we read. A frame that breaks off between
//! two blocks looks like a whole one here; the count of the records tells.

use std::io;

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer};
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

pub(super) fn compressor() -> FrameEncoder<Vec<u8>> {
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    FrameEncoder::with_frame_info(info, Vec::new())
}

pub(super) fn decompressor(compressed: &[u8]) -> FrameDecoder<&[u8]> {
    FrameDecoder::new(compressed)
}

/// Packs blocks with the packer that looks for the longest match, into the same kind of frame.
pub(crate) struct HighPacker {
    level: i32,
    /// What is not yet a block.
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl HighPacker {
    pub(super) fn new(level: i32) -> HighPacker {
        HighPacker { level, plain: Vec::new(), packed: FRAME_HEADER.to_vec() }
    }

    pub(super) fn pack(&mut self, mut plain: &[u8]) -> io::Result<()> {
        while !plain.is_empty() {
            let (front, rest) = plain.split_at(plain.len().min(BLOCK_BYTES - self.plain.len()));
            self.plain.extend_from_slice(front);
            plain = rest;
            if self.plain.len() == BLOCK_BYTES {
                self.pack_block()?;
            }
        }
        Ok(())
    }

    pub(super) fn packed(&mut self) -> &mut Vec<u8> {
        &mut self.packed
    }

    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        if !self.plain.is_empty() {
            self.pack_block()?;
        }
        self.packed.extend_from_slice(&END_MARK);
        Ok(self.packed)
    }

    /// A block that does not become shorter is stored as it is.
    fn pack_block(&mut self) -> io::Result<()> {
        let mode = CompressionMode::HIGHCOMPRESSION(self.level);
        let block_at = self.packed.len() + size_of::<u32>();
        self.packed.resize(block_at + compress_bound(self.plain.len())?, 0);
        let block = &mut self.packed[block_at..];
        let mut block_bytes = compress_to_buffer(&self.plain, Some(mode), false, block)?;
        let mut length = block_bytes as u32;
        if block_bytes >= self.plain.len() {
            block_bytes = self.plain.len();
            block[..block_bytes].copy_from_slice(&self.plain);
            length = block_bytes as u32 | IS_STORED;
        }
        self.packed[block_at - size_of::<u32>()..block_at].copy_from_slice(&length.to_le_bytes());
        self.packed.truncate(block_at + block_bytes);
        self.plain.clear();
        Ok(())
    }
}

/// The magic, version 1 with independent blocks, blocks of 64 KiB, and the checksum of these two.
const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

const BLOCK_BYTES: usize = 64 << 10;

/// The bit of a block's length that says that the block is not packed.
const IS_STORED: u32 = 1 << 31;

const END_MARK: [u8; 4] = [0; 4];
