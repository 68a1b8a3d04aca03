//! A stream that is deflated both ways: Flume's `compression-type=deflate` is one zlib stream each way, with a flush behind
//! each message. It lies below TLS, which Flume compresses once more. What is unpacked is bounded by what is asked
//! for, so that a bomb is read piece by piece.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::budget::{Exhausted, Share};

/// How much is read or packed at once.
const PIECE_BYTES: usize = 32 << 10;

/// With so much that is packed and not written, more waits.
const PACKED_BYTES_MAX: usize = 256 << 10;

pub(crate) struct Deflated<S> {
    stream: S,
    inflate: Decompress,
    /// What came and is not unpacked.
    raw: BytesMut,
    piece: Box<[u8]>,
    deflate: Compress,
    /// What is packed and not written.
    packed: BytesMut,
    /// Something was packed since the last flush.
    is_open: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Deflated<S> {
    /// With a level of compression from 0 to 9.
    pub(crate) fn new(stream: S, level: u32) -> Deflated<S> {
        Deflated {
            stream,
            inflate: Decompress::new(true),
            raw: BytesMut::new(),
            piece: vec![0; PIECE_BYTES].into(),
            deflate: Compress::new(Compression::new(level), true),
            packed: BytesMut::new(),
            is_open: false,
        }
    }

    /// Packs bytes, or with a flush what the packer keeps.
    fn pack(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        loop {
            let before = self.deflate.total_in();
            piece.clear();
            let packed = self.deflate.compress_vec(bytes, &mut piece, flush);
            packed.map_err(io::Error::other)?;
            bytes = &bytes[(self.deflate.total_in() - before) as usize..];
            self.packed.extend_from_slice(&piece);
            // A flush is whole when it did not fill what it had.
            if bytes.is_empty() && piece.len() < piece.capacity() {
                return Ok(());
            }
        }
    }

    /// Writes what is packed.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.packed.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.packed))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.packed.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Deflated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            let (before_in, before_out) = (this.inflate.total_in(), this.inflate.total_out());
            let unfilled = buffer.initialize_unfilled();
            let status = this.inflate.decompress(&this.raw, unfilled, FlushDecompress::None);
            let status = status.map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("not deflated: {error}"))
            })?;
            this.raw.advance((this.inflate.total_in() - before_in) as usize);
            let unpacked = (this.inflate.total_out() - before_out) as usize;
            buffer.advance(unpacked);
            if unpacked > 0 || status == Status::StreamEnd {
                return Poll::Ready(Ok(()));
            }
            let mut piece = ReadBuf::new(&mut this.piece);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.raw.extend_from_slice(piece.filled());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Deflated<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.packed.len() >= PACKED_BYTES_MAX {
            ready!(self.poll_drain(context))?;
        }
        let part = &bytes[..bytes.len().min(PACKED_BYTES_MAX)];
        self.pack(part, FlushCompress::None)?;
        self.is_open = true;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_open {
            self.pack(b"", FlushCompress::Sync)?;
            self.is_open = false;
        }
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Packs bytes in gzip's form (RFC 1952).
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("memory takes all");
    packer.finish().expect("memory takes all")
}

/// Why something is not unpacked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotUnpacked {
    #[error("no gzip: {0}")]
    Malformed(io::Error),
    #[error("above {0} bytes when it is unpacked (maxMessageBytes)")]
    TooLarge(usize),
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

/// Unpacks what is in gzip's form, perhaps several times; each piece is charged before the next one is unpacked.
pub(crate) fn gunzip(
    packed: &[u8],
    bytes_max: usize,
    share: &mut Share,
) -> Result<Vec<u8>, NotUnpacked> {
    let mut unpacked = Vec::new();
    let mut stream = MultiGzDecoder::new(packed);
    loop {
        let before = unpacked.len();
        let mut piece = (&mut stream).take(PIECE_BYTES as u64);
        piece.read_to_end(&mut unpacked).map_err(NotUnpacked::Malformed)?;
        if unpacked.len() == before {
            return Ok(unpacked);
        }
        if unpacked.len() > bytes_max {
            return Err(NotUnpacked::TooLarge(bytes_max));
        }
        share.grow(unpacked.len() - before)?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::codec::budget::Budget;
    use crate::codec::wire::Wire;

    #[tokio::test]
    async fn what_is_deflated_is_read_as_it_was() {
        for level in [0, 6, 9] {
            let (a, b) = tokio::io::duplex(100);
            let (mut a, mut b) = (Deflated::new(a, level), Deflated::new(b, level));
            let sent: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
            let expected = sent.clone();
            let writer = tokio::spawn(async move {
                for part in sent.chunks(70_000) {
                    a.write_all(part).await.expect("is written");
                    a.flush().await.expect("is flushed");
                }
            });
            let mut read = Vec::new();
            b.read_to_end(&mut read).await.expect("is read");
            assert!(read == expected, "level {level}");
            writer.await.expect("no panic");
        }
    }

    #[tokio::test]
    async fn a_bomb_costs_what_is_asked_for() {
        let (mut a, b) = tokio::io::duplex(1 << 20);
        let mut packer = Compress::new(Compression::best(), true);
        let mut packed = Vec::with_capacity(1 << 20);
        packer.compress_vec(&vec![0; 64 << 20], &mut packed, FlushCompress::Sync).expect("packs");
        assert!(packed.len() < 1 << 17);
        a.write_all(&packed).await.expect("is written");
        let mut wire = Wire::new(Deflated::new(b, 6));
        let budget = Budget::new(1 << 20);
        let error = wire.read(64 << 20, &mut budget.share()).await.expect_err("it is too much");
        assert!(error.to_string().contains("maxBufferBytes"), "{error}");
    }

    #[test]
    fn a_bomb_in_gzips_form_is_refused_before_it_is_unpacked() {
        let bomb = gzip(&vec![0; 64 << 20]);
        let budget = Budget::new(1 << 20);
        let refused = gunzip(&bomb, 64 << 20, &mut budget.share()).expect_err("is too much");
        assert!(matches!(refused, NotUnpacked::Exhausted(_)), "{refused}");
        let refused = gunzip(&bomb, 1 << 16, &mut budget.share()).expect_err("is too much");
        assert!(matches!(refused, NotUnpacked::TooLarge(65_536)), "{refused}");
        let two = [gzip(b"te"), gzip(b"xt")].concat();
        assert_eq!(gunzip(&two, 4, &mut budget.share()).expect("fits"), b"text");
        let refused = gunzip(b"no gzip", 10, &mut budget.share()).expect_err("is none");
        assert!(matches!(refused, NotUnpacked::Malformed(_)), "{refused}");
    }
}
