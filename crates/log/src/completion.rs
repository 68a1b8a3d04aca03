//! The answer of the writer thread, in the future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use futures_channel::oneshot;

use crate::LogError;

/// What the writer thread will answer to one command.
///
/// A future for an async caller; [`Completion::wait`] for a thread. Dropping it gives up the
/// answer, not the work. If the writer ends before it answers, the result is
/// [`LogError::Closed`].
#[derive(Debug)]
pub struct Completion<T> {
    receiver: oneshot::Receiver<Result<T, LogError>>,
    what: Arc<str>,
}

/// The writer's end of a [`Completion`].
#[derive(Debug)]
pub(crate) struct Completer<T>(oneshot::Sender<Result<T, LogError>>);

impl<T> Completion<T> {
    /// Both ends; `what` names the log or directory if the writer ends without an answer.
    pub(crate) fn new(what: &Arc<str>) -> (Completer<T>, Completion<T>) {
        let (sender, receiver) = oneshot::channel();
        (Completer(sender), Completion { receiver, what: Arc::clone(what) })
    }

    /// Blocks the thread until the answer is there.
    pub fn wait(mut self) -> Result<T, LogError> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<T> Future for Completion<T> {
    type Output = Result<T, LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|answer| match answer {
            Ok(result) => result,
            Err(oneshot::Canceled) => Err(LogError::Closed { what: self.what.to_string() }),
        })
    }
}

impl<T> Completer<T> {
    /// Answers; nothing happens if nobody waits any more.
    pub(crate) fn complete(self, result: Result<T, LogError>) {
        // The receiver is gone when its connection is: that is no concern of the writer.
        let _ = self.0.send(result);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
