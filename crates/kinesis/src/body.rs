//! Bodies: of requests, bounded before they are read; of responses, charged until they are sent.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use logway_node::memory::{BudgetShare, Memory};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

/// The largest request: 10 MiB of records in base64, with 500 keys and what surrounds them.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// How long a request may take to come, with the wait for memory.
const RECEIVE_MAX: Duration = Duration::from_secs(30);

/// How long a large response may take to be sent.
const SEND_MAX: Duration = Duration::from_secs(60);

/// Requests up to this size are charged as small ones.
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
    let receiving = receive_charged(body, announced.unwrap_or(BODY_BYTES_MAX), memory);
    timeout(RECEIVE_MAX, receiving).await.unwrap_or(Err(BodyError::Late))
}

/// What is only announced takes no memory but a beginning's.
async fn receive_charged(
    mut body: Incoming,
    size_max: usize,
    memory: &Memory,
) -> Result<Received, BodyError> {
    let requests = &memory.requests;
    let mut received = BytesMut::new();
    if size_max <= SMALL_BYTES {
        let share = requests.take_small(size_max * HELD_FACTOR).await;
        read_to(&mut body, &mut received, size_max, size_max).await?;
        return Ok(Received { bytes: received.freeze(), _share: share });
    }
    let beginning = requests.take_beginning().await;
    let is_whole = read_to(&mut body, &mut received, requests.beginning_bytes(), size_max).await?;
    let held = if is_whole { received.len() } else { size_max };
    let share = requests.take_large(held * HELD_FACTOR).await;
    drop(beginning);
    if !is_whole {
        read_to(&mut body, &mut received, size_max, size_max).await?;
    }
    Ok(Received { bytes: received.freeze(), _share: share })
}

/// Reads until there is so much, or all. Says whether it is all.
async fn read_to(
    body: &mut Incoming,
    received: &mut BytesMut,
    enough: usize,
    max: usize,
) -> Result<bool, BodyError> {
    loop {
        let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await else {
            return Ok(true);
        };
        let frame = frame.map_err(|_| BodyError::Broken)?;
        // Trailers say nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        if received.len() + data.len() > max {
            return Err(BodyError::TooLarge);
        }
        received.extend_from_slice(&data);
        if received.len() >= enough && enough < max {
            return Ok(false);
        }
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

/// Bytes with the memory that they take.
struct Charged {
    bytes: Bytes,
    _share: BudgetShare,
    /// Tells whether they are sent.
    _unsent: Arc<()>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
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
    Bytes::from_owner(Charged { bytes, _share: share, _unsent: unsent })
}
