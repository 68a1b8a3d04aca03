//! LZ4 frames.
//!
//! The Java client reads only frames whose blocks are independent of each other. It writes, as
//! we do, blocks of 64 KiB without checksums, since the batch has one; other clients also write
//! linked blocks, other sizes and checksums, all of which we read. A frame that breaks off between
//! two blocks looks like a whole one here; the count of the records tells.

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

pub(super) fn compressor() -> FrameEncoder<Vec<u8>> {
    let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
    FrameEncoder::with_frame_info(info, Vec::new())
}

pub(super) fn decompressor(compressed: &[u8]) -> FrameDecoder<&[u8]> {
    FrameDecoder::new(compressed)
}
