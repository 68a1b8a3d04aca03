//! A stream of bytes, perhaps deflated: Flume's `compression-type=deflate` is one zlib stream each way, with a
//! flush behind each message. What is unpacked is bounded by what is asked for, so that a bomb is read piece by piece.

use std::io;

use bytes::{Buf, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::budget::Share;

/// How much is read or unpacked at once.
const PIECE_BYTES: usize = 32 << 10;

pub(crate) struct Wire<S> {
    stream: S,
    /// Plain bytes that nobody has asked for yet.
    plain: BytesMut,
    packing: Option<Box<Packing>>,
}

struct Packing {
    inflate: Decompress,
    deflate: Compress,
    raw: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// With a level of compression, bytes are deflated both ways.
    pub(crate) fn new(stream: S, level: Option<u32>) -> Wire<S> {
        let packing = level.map(|level| {
            let deflate = Compress::new(Compression::new(level), true);
            Box::new(Packing { inflate: Decompress::new(true), deflate, raw: BytesMut::new() })
        });
        Wire { stream, plain: BytesMut::new(), packing }
    }

    /// So many bytes exactly; each piece is charged when it has come.
    pub(crate) async fn read(&mut self, count: usize, share: &mut Share) -> io::Result<BytesMut> {
        let mut read = BytesMut::with_capacity(count.min(PIECE_BYTES));
        while read.len() < count {
            if self.plain.is_empty() && !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let part = self.plain.len().min(count - read.len());
            share.grow(part).map_err(io::Error::other)?;
            read.extend_from_slice(&self.plain[..part]);
            self.plain.advance(part);
        }
        Ok(read)
    }

    /// The next so many bytes of a fixed length, or `None` at the end of the stream.
    pub(crate) async fn read_head<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while self.plain.len() < N {
            if !self.fill().await? {
                return match self.plain.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
        let mut head = [0; N];
        self.plain.copy_to_slice(&mut head);
        Ok(Some(head))
    }

    /// Reads some more; `false` at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        let Some(packing) = &mut self.packing else {
            self.plain.reserve(PIECE_BYTES);
            let mut limited = (&mut self.stream).take(PIECE_BYTES as u64);
            return Ok(limited.read_buf(&mut self.plain).await? > 0);
        };
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let Packing { inflate, raw, .. } = &mut **packing;
            let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(raw, &mut piece, FlushDecompress::None);
            let status = status.map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("not deflated: {error}"))
            })?;
            raw.advance((inflate.total_in() - before_in) as usize);
            let unpacked = (inflate.total_out() - before_out) as usize;
            if unpacked > 0 {
                self.plain.extend_from_slice(&piece[..unpacked]);
                return Ok(true);
            }
            if status == Status::StreamEnd {
                return Ok(false);
            }
            raw.reserve(PIECE_BYTES);
            let mut limited = (&mut self.stream).take(PIECE_BYTES as u64);
            if limited.read_buf(raw).await? == 0 {
                return Ok(false);
            }
        }
    }

    /// Writes a message.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.packing {
            None => self.stream.write_all(bytes).await?,
            Some(packing) => {
                let packed = packing.packed(bytes)?;
                self.stream.write_all(&packed).await?;
            }
        }
        self.stream.flush().await
    }
}

impl Packing {
    fn packed(&mut self, mut bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut packed = Vec::with_capacity(bytes.len() / 2 + 64);
        loop {
            packed.reserve(PIECE_BYTES);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(bytes, &mut packed, FlushCompress::Sync);
            status.map_err(io::Error::other)?;
            bytes = &bytes[(self.deflate.total_in() - before) as usize..];
            // A flush is whole when it did not fill what it had.
            if bytes.is_empty() && packed.len() < packed.capacity() {
                return Ok(packed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;

    #[tokio::test]
    async fn what_is_deflated_is_read_as_it_was() {
        for level in [None, Some(0), Some(6), Some(9)] {
            let (a, b) = tokio::io::duplex(100);
            let (mut a, mut b) = (Wire::new(a, level), Wire::new(b, level));
            let budget = Budget::new(1 << 20);
            let sent: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
            let expected = sent.clone();
            let writer = tokio::spawn(async move {
                for part in sent.chunks(70_000) {
                    a.write(part).await.expect("is written");
                }
                a
            });
            let mut share = budget.share();
            let head: [u8; 8] = b.read_head().await.expect("is read").expect("is there");
            let rest = b.read(expected.len() - 8, &mut share).await.expect("is read");
            assert_eq!(head, expected[..8]);
            assert!(rest == expected[8..], "level {level:?}");
            drop(writer.await.expect("no panic"));
            assert_eq!(b.read_head::<8>().await.expect("is the end"), None);
        }
    }

    #[tokio::test]
    async fn a_bomb_costs_what_is_asked_for() {
        let (mut a, b) = tokio::io::duplex(1 << 20);
        let mut packer = Compress::new(Compression::best(), true);
        let mut packed = Vec::with_capacity(1 << 20);
        packer.compress_vec(&vec![0; 64 << 20], &mut packed, FlushCompress::Sync).expect("packs");
        assert!(packed.len() < 1 << 17);
        tokio::io::AsyncWriteExt::write_all(&mut a, &packed).await.expect("is written");
        let mut wire = Wire::new(b, Some(6));
        let budget = Budget::new(1 << 20);
        let error = wire.read(64 << 20, &mut budget.share()).await.expect_err("it is too much");
        assert!(error.to_string().contains("maxBufferBytes"), "{error}");
        assert!(wire.plain.len() <= 2 * PIECE_BYTES);
    }
}
