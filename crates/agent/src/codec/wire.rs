//! Reading and writing messages of known lengths.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::budget::Share;

/// How much is read at once.
const PIECE_BYTES: usize = 32 << 10;

pub(crate) struct Wire<S> {
    stream: S,
    /// Plain bytes that nobody has asked for yet.
    plain: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Wire<S> {
        Wire { stream, plain: BytesMut::new() }
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

    /// Reads some more; `false` at the end. Who leaves TLS without a farewell has come to an end like any other: a
    /// message that is not whole is noticed by its length.
    async fn fill(&mut self) -> io::Result<bool> {
        self.plain.reserve(PIECE_BYTES);
        let mut limited = (&mut self.stream).take(PIECE_BYTES as u64);
        match limited.read_buf(&mut self.plain).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            outcome => Ok(outcome? > 0),
        }
    }

    /// Writes a message.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;

    #[tokio::test]
    async fn lengths_are_read_as_they_are_asked_for() {
        let (a, b) = tokio::io::duplex(100);
        let (mut a, mut b) = (Wire::new(a), Wire::new(b));
        let sent: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move { a.write(&sent).await.map(|()| drop(a)) });
        let budget = Budget::new(1 << 20);
        let head: [u8; 8] = b.read_head().await.expect("is read").expect("is there");
        let rest = b.read(expected.len() - 8, &mut budget.share()).await.expect("is read");
        assert!(head == expected[..8] && rest == expected[8..]);
        writer.await.expect("no panic").expect("is written");
        assert_eq!(b.read_head::<8>().await.expect("is the end"), None);
    }
}
