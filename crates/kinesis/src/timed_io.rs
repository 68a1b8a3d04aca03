//! A socket that gives up on clients that do nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the first byte.
    pub(crate) first: Duration,
    /// For the rest of a request's head, from its first byte on.
    pub(crate) head: Duration,
    /// Between bytes.
    pub(crate) read: Duration,
    /// To take something.
    pub(crate) write: Duration,
}

/// The requests of a connection whose heads have come. Each is in work until its response is sent.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    begun: AtomicU64,
    in_work: AtomicUsize,
}

impl Requests {
    /// The head of one has come.
    pub(crate) fn begin(self: &Arc<Self>) -> RequestInWork {
        self.in_work.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        RequestInWork(Arc::clone(self))
    }
}

/// A request, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInWork(Arc<Requests>);

impl Drop for RequestInWork {
    fn drop(&mut self) {
        self.0.in_work.fetch_sub(1, Ordering::SeqCst);
    }
}

/// HTTP/2 begins so, and no request of HTTP/1.
const HTTP2: &[u8] = b"PRI";

/// A stream with deadlines: for the first byte, for each next one, for the head of a request, and for writing anything.
///
/// A head is seen only of HTTP/1: what comes while no request is in work begins one. hyper's own deadline for heads begins
/// with the response before, and so ends connections that are kept for later.
pub(crate) struct TimedIo<S> {
    stream: S,
    patience: Patience,
    requests: Arc<Requests>,
    read_deadline: Pin<Box<Sleep>>,
    /// While a head has begun to come, with the number of requests that had begun before.
    head_deadline: Option<(u64, Pin<Box<Sleep>>)>,
    /// The first bytes of all, as many as tell HTTP/2.
    opening: Vec<u8>,
    /// While a write waits.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedIo<S> {
    /// The stream of a client whose requests are counted in `requests`.
    pub(crate) fn new(stream: S, patience: Patience, requests: Arc<Requests>) -> TimedIo<S> {
        TimedIo {
            stream,
            patience,
            requests,
            read_deadline: Box::pin(sleep(patience.first)),
            head_deadline: None,
            opening: Vec::new(),
            write_deadline: None,
        }
    }

    /// Bytes have come.
    fn note_read(&mut self, bytes: &[u8]) {
        self.read_deadline.as_mut().reset(Instant::now() + self.patience.read);
        let missing = HTTP2.len() - self.opening.len();
        self.opening.extend(bytes.iter().take(missing));
        let begun = self.requests.begun.load(Ordering::SeqCst);
        let is_known = self.head_deadline.as_ref().is_some_and(|(before, _)| *before == begun);
        let may_begin = self.opening != HTTP2 && self.requests.in_work.load(Ordering::SeqCst) == 0;
        if !bytes.is_empty() && may_begin && !is_known {
            self.head_deadline = Some((begun, Box::pin(sleep(self.patience.head))));
        }
    }

    /// Ends when the client has taken too long to send anything.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let begun = self.requests.begun.load(Ordering::SeqCst);
        let is_http2 = self.opening == HTTP2;
        self.head_deadline.take_if(|(before, _)| is_http2 || *before != begun);
        if let Some((_, deadline)) = &mut self.head_deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(());
        }
        self.read_deadline.as_mut().poll(context)
    }

    /// What a write came to. One that waits for too long has failed.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.write_deadline = None;
            return outcome;
        }
        let write_max = self.patience.write;
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(write_max)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            self.note_read(&buffer.filled()[before..]);
            return Poll::Ready(read);
        }
        ready!(self.poll_late(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.written(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timed(room_bytes: usize) -> (TimedIo<DuplexStream>, DuplexStream, Arc<Requests>) {
        let (ours, theirs) = duplex(room_bytes);
        let patience =
            Patience { first: SECOND, head: 5 * SECOND, read: 3 * SECOND, write: 2 * SECOND };
        let requests = Arc::default();
        (TimedIo::new(ours, patience, Arc::clone(&requests)), theirs, requests)
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_or_takes_nothing_is_given_up() {
        let (mut io, mut theirs, _requests) = timed(16);
        let begun = Instant::now();
        theirs.write_all(b"x").await.expect("there is room");
        assert_eq!(io.read_u8().await.expect("is there"), b'x');
        let error = io.read_u8().await.expect_err("nothing comes");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, 3 * SECOND));
        let error = io.write_all(&[0; 17]).await.expect_err("nobody reads");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, 5 * SECOND));
    }

    /// Reads while a byte comes each second, until that fails; says how long it took.
    async fn trickle(mut io: TimedIo<DuplexStream>, mut theirs: DuplexStream) -> Duration {
        let begun = Instant::now();
        let sending = async {
            for _ in 0..20 {
                sleep(SECOND).await;
                theirs.write_all(b"x").await.expect("there is room");
            }
        };
        let reading = async {
            while io.read_u8().await.is_ok() {}
            begun.elapsed()
        };
        tokio::join!(reading, sending).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_a_deadline_from_its_first_byte_on() {
        let (mut io, mut theirs, requests) = timed(100);
        theirs.write_all(b"x").await.expect("there is room");
        io.read_u8().await.expect("is there");
        assert_eq!(trickle(io, theirs).await, 5 * SECOND);
        // Between two requests there is none, nor while one is in work.
        let (mut io, mut theirs, again) = timed(100);
        theirs.write_all(b"x").await.expect("there is room");
        io.read_u8().await.expect("is there");
        drop(again.begin());
        let pausing = async {
            sleep(2 * SECOND).await;
            theirs.write_all(b"x").await.expect("there is room");
        };
        let (next, ()) = tokio::join!(io.read_u8(), pausing);
        next.expect("the connection was kept");
        let in_work = again.begin();
        assert_eq!(trickle(io, theirs).await, (20 + 3) * SECOND, "only the end is silent");
        drop((in_work, requests));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_by_http2_is_no_head() {
        let (mut io, mut theirs, _requests) = timed(100);
        for byte in HTTP2 {
            theirs.write_all(&[*byte]).await.expect("there is room");
            io.read_u8().await.expect("is there");
        }
        assert_eq!(trickle(io, theirs).await, (20 + 3) * SECOND);
    }
}
