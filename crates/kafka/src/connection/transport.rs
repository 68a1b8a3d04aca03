//! What the bytes of a connection go through: plain TCP, or TLS.
//!
//! A connection sees no socket; it asks what is in this table.
//!
//! | question | plain TCP | TLS |
//! |---|---|---|
//! | [`readable`](Transport::readable) | the socket is | or something was read and not taken |
//! | [`read`](Transport::read) | what is in the socket | what was decrypted |
//! | [`has_emptied`](Transport::has_emptied) | the last read found room to spare | and nothing that was read is left |
//! | [`closed`](Transport::closed) | a look at the socket, which takes nothing | the same: what is left is too short for a request |
//! | [`lost`](Transport::lost) | the socket has an error | the same |
//! | [`try_write`](Transport::try_write) | what the socket takes | what the session takes |
//! | [`try_flush`](Transport::try_flush) | nothing to do | the session has sent what it took |
//! | [`file_to_send`](Transport::file_to_send) | any that has a descriptor, by `sendfile` | none |
//! | [`close`](Transport::close) | nothing to say | that nothing more comes |
//!
//! What [`readable`](Transport::readable) says holds until a read finds less than it had room for.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::BytesMut;
use logway_log::FileRange;
use rustix::net::sockopt::set_tcp_congestion;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

use super::tls_session::TlsSession;

/// How often it is looked whether a client has closed whose requests are not read now.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What TLS makes of the end of a session is shorter, and of any request longer.
const TLS_END_MAX_BYTES: usize = 32;

/// The congestion control that every Linux has and everybody may choose.
const UNPACED: &str = "reno";

/// One client's end of the line.
#[derive(Debug)]
pub(super) struct Transport {
    socket: TcpStream,
    /// `None` for plain TCP.
    tls: Option<Box<TlsSession>>,
    /// The last read left nothing in the socket.
    has_emptied: bool,
}

impl Transport {
    /// Plain TCP, to a client at `peer`.
    pub(super) fn plain(socket: TcpStream, peer: SocketAddr) -> io::Result<Transport> {
        socket.set_nodelay(true)?;
        unpace_within_machine(&socket, peer, socket.local_addr()?);
        Ok(Transport { socket, tls: None, has_emptied: false })
    }

    /// TLS, to a client at `peer` that has yet to shake hands, for which it may take as long as it likes.
    pub(super) async fn tls(
        socket: TcpStream,
        peer: SocketAddr,
        config: Arc<ServerConfig>,
    ) -> io::Result<Transport> {
        let mut transport = Transport::plain(socket, peer)?;
        transport.tls = Some(Box::new(TlsSession::accept(&transport.socket, config).await?));
        Ok(transport)
    }

    /// The certificates that the client has shown, its own first.
    pub(super) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.tls.as_ref().map_or(&[], |tls| tls.peer_certificates())
    }

    /// Our end.
    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Ends when there is something to read, which may be the end.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        match self.tls.as_mut().is_some_and(|tls| tls.has_more()) {
            true => Ok(()),
            false => self.socket.readable().await,
        }
    }

    /// Reads what has come, as far as the buffer has room; 0 at the end.
    ///
    /// Cancel safe: what was read is in the buffer.
    pub(super) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let read_bytes = match &mut self.tls {
            Some(tls) => tls.read(&self.socket, buffer).await?,
            None => self.socket.read_buf(buffer).await?,
        };
        self.has_emptied = buffer.len() < buffer.capacity();
        Ok(read_bytes)
    }

    /// Whether the client had sent no more than what was read last.
    pub(super) fn has_emptied(&self) -> bool {
        self.has_emptied
    }

    /// Waits until the client has closed with nothing sent that was not read: nothing more will come, so its place is
    /// free although the connection is not read now.
    pub(super) async fn closed(&self) {
        loop {
            match self.has_closed().await {
                Ok(true) | Err(_) => return,
                // Its next request waits until it may be read.
                Ok(false) => sleep(LOOK_INTERVAL).await,
            }
        }
    }

    async fn has_closed(&self) -> io::Result<bool> {
        if self.tls.is_none() {
            return Ok(self.socket.peek(&mut [0]).await? == 0);
        }
        let mut left = [0; TLS_END_MAX_BYTES];
        let ready = self.socket.ready(Interest::READABLE).await?;
        Ok(ready.is_read_closed() && self.socket.peek(&mut left).await? < TLS_END_MAX_BYTES)
    }

    /// Waits until no answer can reach the client any more, whatever it has sent, and says why.
    ///
    /// A client that has only said that it will send no more is there: it may read its answers still, and cannot be
    /// told from one that has closed, until something is sent to it.
    pub(super) async fn lost(&self) -> io::Error {
        // The reactor tells of an error unasked, so that waiting for it takes no system call.
        match self.socket.ready(Interest::ERROR).await {
            Ok(_) => match self.socket.take_error() {
                Ok(Some(error)) | Err(error) => error,
                Ok(None) => io::ErrorKind::ConnectionReset.into(),
            },
            Err(error) => error,
        }
    }

    /// Ends when more can be written.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Writes what can be taken now. Fails with [`io::ErrorKind::WouldBlock`] if that is nothing.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.try_write(&self.socket, bytes),
            None => self.socket.try_write(bytes),
        }
    }

    /// Has the socket take what was written; behind each piece of a reply. Fails with
    /// [`io::ErrorKind::WouldBlock`] if it does not take all of that now.
    pub(super) fn try_flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.try_flush(&self.socket),
            None => Ok(()),
        }
    }

    /// Tells the client that nothing more comes.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }

    /// The file of a range, if it can be sent as it is; else its bytes have to be written.
    pub(super) fn file_to_send<'a>(&self, range: &'a FileRange) -> Option<BorrowedFd<'a>> {
        match self.tls {
            Some(_) => None,
            None => range.file.fd(),
        }
    }

    /// Sends as much of a file as can be taken now, from a position on, which moves on. Fails with
    /// [`io::ErrorKind::WouldBlock`] if that is nothing.
    pub(super) fn try_send_file(
        &self,
        file: BorrowedFd<'_>,
        position: &mut u64,
        wanted_bytes: usize,
    ) -> io::Result<usize> {
        self.socket.try_io(Interest::WRITABLE, || {
            let sent = rustix::fs::sendfile(&self.socket, file, Some(position), wanted_bytes);
            sent.map_err(io::Error::from)
        })
    }
}

/// Lets a socket send as fast as it can if its peer is on this machine.
///
/// BBR, the default of many machines, sends by a timetable that it makes from what it takes for the
/// bandwidth of the path. Within one machine there is no path that could be overfilled, but a timer
/// for every few packets, and an estimate that the scheduler upsets.
fn unpace_within_machine(socket: impl AsFd, peer: SocketAddr, local: SocketAddr) {
    let (peer_ip, local_ip) = (peer.ip().to_canonical(), local.ip().to_canonical());
    if !peer_ip.is_loopback() && peer_ip != local_ip {
        return;
    }
    if let Err(error) = set_tcp_congestion(socket, UNPACED) {
        tracing::debug!(%peer, %error, "the congestion control stays as it is");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rustix::net::sockopt::tcp_congestion;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("connects"), accepted.expect("a client").0)
    }

    /// A client's socket, and the server's end of it.
    pub(in crate::connection) async fn pair() -> (TcpStream, Transport) {
        let (client, accepted) = sockets().await;
        let peer = accepted.peer_addr().expect("is connected");
        (client, Transport::plain(accepted, peer).expect("is a socket"))
    }

    #[tokio::test]
    async fn a_read_that_fills_the_buffer_may_have_left_something() {
        let (mut client, mut server) = pair().await;
        client.write_all(&[7; 100]).await.expect("is written");
        let mut buffer = BytesMut::with_capacity(100);
        while buffer.len() < 100 {
            server.read(&mut buffer).await.expect("is read");
            assert_eq!(server.has_emptied(), buffer.len() < 100);
        }
        client.write_all(&[7]).await.expect("is written");
        buffer.reserve(100);
        server.read(&mut buffer).await.expect("is read");
        assert!(server.has_emptied());
    }

    #[tokio::test]
    async fn only_who_is_on_this_machine_is_sent_to_without_a_timetable() {
        let (client, socket) = sockets().await;
        let (peer, local) = (client.local_addr(), socket.local_addr());
        let (peer, local) = (peer.expect("is bound"), local.expect("is bound"));
        let default = tcp_congestion(&socket).expect("it is a TCP socket");
        let far = SocketAddr::from(([192, 0, 2, 1], 1));
        let same_as_far = "[::ffff:192.0.2.1]:2".parse().expect("it is an address");

        unpace_within_machine(&socket, far, local);
        assert_eq!(tcp_congestion(&socket).expect("it is a TCP socket"), default);
        for (peer, local) in [(peer, local), (far, same_as_far)] {
            set_tcp_congestion(&socket, &default).expect("it was so before");
            unpace_within_machine(&socket, peer, local);
            assert_eq!(tcp_congestion(&socket).expect("it is a TCP socket"), UNPACED);
        }
    }
}
