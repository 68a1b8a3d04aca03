//! What a connection is made of: a socket, or TLS on one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::client::TlsStream;

/// What is read from.
#[derive(Debug)]
pub(crate) enum Incoming {
    Plain(OwnedReadHalf),
    Tls(Box<ReadHalf<TlsStream<TcpStream>>>),
}

/// What is written to.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Plain(OwnedWriteHalf),
    Tls(Box<WriteHalf<TlsStream<TcpStream>>>),
}

/// Both halves of a socket.
pub(crate) fn plain(stream: TcpStream) -> (Incoming, Outgoing) {
    let (incoming, outgoing) = stream.into_split();
    (Incoming::Plain(incoming), Outgoing::Plain(outgoing))
}

/// Both halves of a session.
pub(crate) fn tls(stream: TlsStream<TcpStream>) -> (Incoming, Outgoing) {
    let (incoming, outgoing) = split(stream);
    (Incoming::Tls(Box::new(incoming)), Outgoing::Tls(Box::new(outgoing)))
}

impl AsyncRead for Incoming {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Incoming::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Incoming::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Outgoing::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Outgoing::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Outgoing::Plain(stream) => Pin::new(stream).poll_flush(context),
            Outgoing::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Outgoing::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Outgoing::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
