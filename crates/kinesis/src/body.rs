//! Bodies: of requests, bounded before they are read; of responses, charged until they are sent.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use logway_node::memory::{ArrivalRules, Arriving, BudgetShare, Memory, RequestMemory, hold_with};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use crate::timed_io::RequestInWork;

/// The largest request: 10 MiB of records in base64, with 500 keys and what surrounds them.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// How long a request may take to come, with the wait for memory.
const RECEIVE_MAX: Duration = Duration::from_secs(30);

/// How long a large response may take to be sent.
const SEND_MAX: Duration = Duration::from_secs(60);

/// Requests that are smaller are charged as small ones, once they are whole.
const SMALL_BYTES: usize = 64 << 10;

/// A request is there as bytes, as values, and as batches.
const HELD_FACTOR: usize = 3;

/// Responses from this size on are charged until they are sent.
const CHARGED_BYTES: usize = 16 << 10;

/// A request's body, with the memory that it takes.
pub(crate) struct Received {
    /// All of it.
    pub(crate) bytes: Bytes,
    /// Given back when the request is done.
    pub(crate) _share: BudgetShare,
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It has more than [`BODY_BYTES_MAX`].
    TooLarge,
    /// It did not come in time.
    Late,
    /// The connection broke.
    Broken,
}

/// Receives a request's body.
pub(crate) async fn receive(body: Incoming, memory: &Memory) -> Result<Received, BodyError> {
    let announced =
        body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    if announced.is_some_and(|size| size > BODY_BYTES_MAX) {
        return Err(BodyError::TooLarge);
    }
    let size_max = announced.unwrap_or(BODY_BYTES_MAX);
    let receiving = Receiving { body, received: BytesMut::new(), size_max };
    let receiving = receiving.receive_charged(&memory.requests);
    timeout(RECEIVE_MAX, receiving).await.unwrap_or(Err(BodyError::Late))
}

/// A body on its way.
struct Receiving<B> {
    body: B,
    received: BytesMut,
    /// What was announced, or the most that may be.
    size_max: usize,
}

impl<B: Body<Data = Bytes> + Unpin + Send> Receiving<B> {
    async fn receive_charged(mut self, requests: &RequestMemory) -> Result<Received, BodyError> {
        let rules = ArrivalRules {
            uncounted_bytes: SMALL_BYTES,
            size_max: self.size_max,
            held_factor: HELD_FACTOR,
        };
        let share = requests.take_arriving(&mut self, rules).await?;
        Ok(Received { bytes: self.received.freeze(), _share: share })
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send> Arriving for Receiving<B> {
    type Error = BodyError;

    fn come_bytes(&self) -> usize {
        self.received.len()
    }

    async fn come_to(&mut self, enough: usize) -> Result<bool, BodyError> {
        while self.received.len() < enough {
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            let Some(frame) = frame else { return Ok(true) };
            let frame = frame.map_err(|_| BodyError::Broken)?;
            // Trailers say nothing to us.
            let Ok(data) = frame.into_data() else { continue };
            if self.received.len() + data.len() > self.size_max {
                return Err(BodyError::TooLarge);
            }
            self.received.extend_from_slice(&data);
        }
        Ok(self.body.is_end_stream())
    }

    fn late() -> BodyError {
        BodyError::Late
    }
}

/// A response's body.
pub(crate) enum ResponseBody {
    /// It is all there.
    Whole(Option<Bytes>),
    /// Frames of an event stream.
    Events(mpsc::Receiver<Bytes>),
}

impl ResponseBody {
    /// All of it.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> ResponseBody {
        ResponseBody::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ResponseBody::Whole(bytes) => Poll::Ready(bytes.take().map(|it| Ok(Frame::data(it)))),
            ResponseBody::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|it| Ok(Frame::data(it))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            ResponseBody::Events(_) => SizeHint::default(),
        }
    }
}

/// The body of a response whose request is in work until it is sent.
pub(crate) struct InWork {
    /// What is sent.
    pub(crate) body: ResponseBody,
    /// Ends with it.
    pub(crate) _request: RequestInWork,
}

impl Body for InWork {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The same bytes, charged to replies until the last of them is sent. If that takes too long, the connection is given up: over
/// HTTP/2 a client can be there and leave no room for a response, and others would wait for the memory.
pub(crate) async fn charged(bytes: Bytes, memory: &Memory, give_up: &Arc<Notify>) -> Bytes {
    if bytes.len() < CHARGED_BYTES {
        return bytes;
    }
    let share = memory.replies.take(bytes.len()).await;
    let unsent = Arc::new(());
    let (is_unsent, give_up) = (Arc::downgrade(&unsent), Arc::clone(give_up));
    tokio::spawn(async move {
        sleep(SEND_MAX).await;
        if is_unsent.strong_count() > 0 {
            give_up.notify_one();
        }
    });
    hold_with(bytes, (share, unsent))
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    use tokio::task::yield_now;

    use super::*;

    const LIMIT_BYTES: usize = 64 << 20;

    struct Sent(UnboundedReceiver<Bytes>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(context).map(|data| data.map(|data| Ok(Frame::data(data))))
        }
    }

    fn receiving(size_max: usize) -> (UnboundedSender<Bytes>, Receiving<Sent>) {
        let (sender, sent) = unbounded_channel();
        (sender, Receiving { body: Sent(sent), received: BytesMut::new(), size_max })
    }

    fn send(sender: &UnboundedSender<Bytes>, count: usize) {
        sender.send(vec![0; count].into()).expect("is read");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_announced_takes_no_memory_until_it_comes() {
        let requests = RequestMemory::new(LIMIT_BYTES, &Arc::default());
        let beginning = requests.beginning_bytes();
        let (sender, receiving) = receiving(BODY_BYTES_MAX);
        let received = {
            let requests = requests.clone();
            tokio::spawn(async move { receiving.receive_charged(&requests).await })
        };
        let mut sent = 0;
        for (count, used) in [
            (SMALL_BYTES - 1, 0),
            (SMALL_BYTES, beginning),
            (beginning, BODY_BYTES_MAX * HELD_FACTOR),
            (BODY_BYTES_MAX, BODY_BYTES_MAX * HELD_FACTOR),
        ] {
            send(&sender, count - sent);
            sent = count;
            for _ in 0..10 {
                yield_now().await;
            }
            assert_eq!(requests.used_bytes(), used, "after {count} bytes");
        }
        drop(sender);
        let received = received.await.expect("no panic").expect("is whole");
        assert_eq!(received.bytes.len(), BODY_BYTES_MAX);
        drop(received);
        assert_eq!(requests.used_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_gives_way_when_others_wait_for_its_memory() {
        let requests = RequestMemory::new(LIMIT_BYTES, &Arc::default());
        let (sender, receiving) = receiving(BODY_BYTES_MAX);
        send(&sender, requests.beginning_bytes());
        let others = async {
            sleep(Duration::from_secs(10)).await;
            requests.take_large(LIMIT_BYTES).await
        };
        let (received, _others) = tokio::join!(receiving.receive_charged(&requests), others);
        assert_eq!(received.err(), Some(BodyError::Late));
    }
}
