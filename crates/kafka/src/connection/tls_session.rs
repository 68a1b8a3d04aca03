//! A TLS session on a socket, driven by the questions that a connection asks.
//!
//! Raw bytes are read in large pieces and given to the session as far as there is room for what they hold. What the
//! session has to send is there until the socket takes it: nothing new is encrypted before.

use std::io::{self, BufRead as _, IoSlice, Write};
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use rustls::pki_types::CertificateDer;
use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;

/// What one read of the socket asks for: a few records of TLS.
const READ_BYTES: usize = 64 * 1024;

/// What is encrypted at a time; so much, and a little more, a session holds that its client does not read.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// A client's session.
#[derive(Debug)]
pub(super) struct TlsSession {
    session: ServerConnection,
    /// Read from the socket, and not yet seen by the session.
    raw: BytesMut,
    /// The client has said that it closes, or closed without a word.
    has_ended: bool,
}

impl TlsSession {
    /// Shakes hands with a client. It may take as long as the client likes: who waits for it has a deadline.
    pub(super) async fn accept(
        socket: &TcpStream,
        config: Arc<ServerConfig>,
    ) -> io::Result<TlsSession> {
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        // The bound is how much is given to it at a time.
        session.set_buffer_limit(None);
        let mut tls = TlsSession { session, raw: BytesMut::new(), has_ended: false };
        while tls.session.is_handshaking() {
            if tls.session.wants_write() {
                tls.flush(socket).await?;
            } else if tls.fill(socket).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if let Err(error) = tls.digest() {
                // The client is told why, if its socket takes that.
                let _ = tls.try_flush(socket);
                return Err(error);
            }
        }
        tls.flush(socket).await?;
        Ok(tls)
    }

    /// The certificates that the client has shown, its own first.
    pub(super) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.session.peer_certificates().unwrap_or_default()
    }

    /// Whether something was read from the socket that the connection has not got yet.
    pub(super) fn has_more(&mut self) -> bool {
        !self.raw.is_empty()
            || self.session.reader().fill_buf().is_ok_and(|bytes| !bytes.is_empty())
    }

    /// Reads what has come, as far as the buffer has room; 0 at the end. Cancel safe.
    pub(super) async fn read(
        &mut self,
        socket: &TcpStream,
        buffer: &mut BytesMut,
    ) -> io::Result<usize> {
        let before = buffer.len();
        loop {
            self.decrypt_into(buffer)?;
            // An answer of the protocol itself, such as to an update of keys; it may wait for the next reply.
            if self.session.wants_write()
                && let Err(error) = self.try_flush(socket)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                return Err(error);
            }
            if buffer.len() > before || self.has_ended {
                return Ok(buffer.len() - before);
            }
            if self.raw.is_empty() {
                // An idle connection keeps no buffer.
                self.raw = BytesMut::new();
            }
            self.fill(socket).await?;
        }
    }

    /// Takes what the socket has. 0 is its end.
    async fn fill(&mut self, socket: &TcpStream) -> io::Result<usize> {
        loop {
            socket.readable().await?;
            self.raw.reserve(READ_BYTES);
            match socket.try_read_buf(&mut self.raw) {
                Ok(0) => {
                    self.has_ended = true;
                    return Ok(0);
                }
                Ok(read_bytes) => return Ok(read_bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Decrypts as much as there is room for.
    fn decrypt_into(&mut self, buffer: &mut BytesMut) -> io::Result<()> {
        loop {
            self.take_plain(buffer)?;
            if buffer.len() == buffer.capacity() || self.raw.is_empty() || self.has_ended {
                return Ok(());
            }
            self.digest()?;
        }
    }

    /// Moves what was decrypted.
    fn take_plain(&mut self, buffer: &mut BytesMut) -> io::Result<()> {
        let mut reader = self.session.reader();
        while buffer.len() < buffer.capacity() {
            match reader.fill_buf() {
                Ok([]) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok(bytes) => {
                    let room = buffer.capacity() - buffer.len();
                    let taken = bytes.len().min(room);
                    buffer.extend_from_slice(&bytes[..taken]);
                    reader.consume(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives the session some of what was read. Its plain text has been taken before, so that there is room for more.
    fn digest(&mut self) -> io::Result<()> {
        let mut raw = &self.raw[..];
        let mut taken_bytes = self.session.read_tls(&mut raw)?;
        // The handshake has no plain text that could fill up; one look at all of it saves turns.
        while self.session.is_handshaking() && taken_bytes < self.raw.len() {
            let more = self.session.read_tls(&mut raw)?;
            if more == 0 {
                break;
            }
            taken_bytes += more;
        }
        self.raw.advance(taken_bytes);
        let processed = self.session.process_new_packets();
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(())
    }

    /// Encrypts and writes what can be taken now. Fails with [`io::ErrorKind::WouldBlock`] if that is nothing.
    pub(super) fn try_write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.try_flush(socket)?;
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        let taken = self.session.writer().write(piece)?;
        match self.try_flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what was encrypted. Fails with [`io::ErrorKind::WouldBlock`] if the socket does not take all of it.
    pub(super) fn try_flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut Unblocking(socket))?;
        }
        Ok(())
    }

    async fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        loop {
            match self.try_flush(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable().await?
                }
                done => return done,
            }
        }
    }

    /// Tells the client that nothing more comes, if its socket takes that.
    pub(super) fn close(&mut self, socket: &TcpStream) {
        self.session.send_close_notify();
        let _ = self.try_flush(socket);
    }
}

/// Writes to a socket what it takes now.
struct Unblocking<'a>(&'a TcpStream);

impl Write for Unblocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
