//! A socket that gives up on clients that do nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream with deadlines: for the first byte, for each next one, and for writing anything.
pub(crate) struct TimedIo<S> {
    stream: S,
    read_max: Duration,
    write_max: Duration,
    read_deadline: Pin<Box<Sleep>>,
    /// While a write waits.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedIo<S> {
    /// With time for the first byte, between bytes, and for a client to take something.
    pub(crate) fn new(
        stream: S,
        first_max: Duration,
        read_max: Duration,
        write_max: Duration,
    ) -> TimedIo<S> {
        let read_deadline = Box::pin(sleep(first_max));
        TimedIo { stream, read_max, write_max, read_deadline, write_deadline: None }
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
        let write_max = self.write_max;
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
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            let deadline = Instant::now() + self.read_max;
            self.read_deadline.as_mut().reset(deadline);
            return Poll::Ready(read);
        }
        ready!(self.read_deadline.as_mut().poll(context));
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_or_takes_nothing_is_given_up() {
        let second = Duration::from_secs(1);
        let (ours, mut theirs) = duplex(16);
        let mut io = TimedIo::new(ours, second, 3 * second, 2 * second);
        let begun = Instant::now();
        theirs.write_all(b"x").await.expect("there is room");
        assert_eq!(io.read_u8().await.expect("is there"), b'x');
        let error = io.read_u8().await.expect_err("nothing comes");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, 3 * second));
        let error = io.write_all(&[0; 17]).await.expect_err("nobody reads");
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, 5 * second));
    }
}
