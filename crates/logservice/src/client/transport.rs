//! Whether the other side speaks HTTP/2, and whether it is still there: what the library of HTTP/2 does not tell.

use std::fmt::{self, Display};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// The head of a frame of HTTP/2 (RFC 9113, section 4.1): length (3 bytes), type (1), flags (1), stream (4).
const HEAD_BYTES: usize = 9;

/// Where the type stands in a head.
const TYPE_AT: usize = 3;

/// The type of the frame with which a server begins (RFC 9113, section 3.4).
const SETTINGS: u8 = 4;

/// So much of another answer is told.
const TOLD_BYTES: usize = 60;

/// What a server did instead of speaking HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoHttp2 {
    /// It said something else, which begins like this.
    Answered(String),
    /// It closed the connection without a word, or within its first frame.
    Closed,
    /// It said nothing for so long.
    Silent(Duration),
}

impl Display for NoHttp2 {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoHttp2::Answered(beginning) => write!(to, "it answered '{beginning}'"),
            NoHttp2::Closed => write!(to, "it closed the connection"),
            NoHttp2::Silent(patience) => write!(to, "no answer within {} ms", patience.as_millis()),
        }
    }
}

type Greeted = Result<(), NoHttp2>;

/// A connection whose first frame is looked at, and whose end is told.
pub(super) struct Transport<S> {
    stream: S,
    /// Until it is known whether the server speaks HTTP/2.
    greeting: Option<Greeting>,
    _open: watch::Sender<()>,
}

struct Greeting {
    come: Vec<u8>,
    told: oneshot::Sender<Greeted>,
}

/// The other end of a [`Transport`].
pub(super) struct TransportWatch {
    greeted: oneshot::Receiver<Greeted>,
    end: TransportEnd,
}

/// Tells when the library has let go of a connection: no response comes any more.
#[derive(Debug, Clone)]
pub(super) struct TransportEnd(watch::Receiver<()>);

impl TransportEnd {
    /// Ends when the connection has ended, also if that was before.
    pub(super) async fn reached(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl TransportWatch {
    /// Waits until the server has begun to speak HTTP/2.
    pub(super) async fn greeted(self, patience: Duration) -> Result<TransportEnd, NoHttp2> {
        match timeout(patience, self.greeted).await {
            Ok(Ok(greeted)) => greeted.map(|()| self.end),
            // It broke while the client wrote.
            Ok(Err(_)) => Err(NoHttp2::Closed),
            Err(_) => Err(NoHttp2::Silent(patience)),
        }
    }
}

impl<S> Transport<S> {
    pub(super) fn new(stream: S) -> (Transport<S>, TransportWatch) {
        let (told, greeted) = oneshot::channel();
        let (open, end) = watch::channel(());
        let greeting = Some(Greeting { come: Vec::new(), told });
        let watch = TransportWatch { greeted, end: TransportEnd(end) };
        (Transport { stream, greeting, _open: open }, watch)
    }

    /// Looks at what has come of the first frame; nothing more comes where that is empty.
    fn look(&mut self, came: &[u8]) -> io::Result<()> {
        let Some(mut greeting) = self.greeting.take() else { return Ok(()) };
        greeting.come.extend_from_slice(&came[..came.len().min(TOLD_BYTES)]);
        let Some(judged) = judge(&greeting.come, came.is_empty()) else {
            self.greeting = Some(greeting);
            return Ok(());
        };
        let speaks = judged.is_ok();
        // Who does not wait for it any more needs no word.
        let _ = greeting.told.send(judged);
        match speaks {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "no HTTP/2")),
        }
    }
}

/// Whether the first bytes of a server are of HTTP/2; `None` where there are too few to say.
fn judge(come: &[u8], is_all: bool) -> Option<Greeted> {
    let is_settings = come.get(TYPE_AT).map(|it| *it == SETTINGS);
    // The length of the first frame is 16 KiB at most: its first byte is none of a text.
    let is_length = come.first().map(|it| *it == 0);
    if is_settings == Some(false) || is_length == Some(false) {
        let beginning = &come[..come.len().min(TOLD_BYTES)];
        let line = beginning.split(|it| matches!(it, b'\r' | b'\n')).next().unwrap_or_default();
        return Some(Err(NoHttp2::Answered(line.escape_ascii().to_string())));
    }
    match come.len() >= HEAD_BYTES {
        true => Some(Ok(())),
        false => is_all.then_some(Err(NoHttp2::Closed)),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Transport<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let transport = self.get_mut();
        let before = buffer.filled().len();
        let has_room = buffer.remaining() > 0;
        ready!(Pin::new(&mut transport.stream).poll_read(context, buffer))?;
        if has_room {
            transport.look(&buffer.filled()[before..])?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Transport<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_judged_as_soon_as_its_bytes_say_what_it_speaks() {
        let settings = [0, 0, 18, SETTINGS, 0, 0, 0, 0, 0, 7];
        for (come, is_all, expected) in [
            (&settings[..], false, Some(Ok(()))),
            (&settings[..9], true, Some(Ok(()))),
            (&settings[..8], false, None),
            (&settings[..8], true, Some(Err(NoHttp2::Closed))),
            (&[][..], false, None),
            (&[][..], true, Some(Err(NoHttp2::Closed))),
            (b"H", false, Some(Err(NoHttp2::Answered("H".to_owned())))),
            (
                b"HTTP/1.1 400 Bad Request\r\nserver: x\r\n",
                false,
                Some(Err(NoHttp2::Answered("HTTP/1.1 400 Bad Request".to_owned()))),
            ),
            // An alert of TLS, and a response of Kafka.
            (b"\x15\x03\x03", false, Some(Err(NoHttp2::Answered("\\x15\\x03\\x03".to_owned())))),
            (b"\0\0\0\x10", false, Some(Err(NoHttp2::Answered("\\x00\\x00\\x00\\x10".to_owned())))),
        ] {
            assert_eq!(judge(come, is_all), expected, "{come:?}, all: {is_all}");
        }
    }
}
