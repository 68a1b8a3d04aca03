//! The messages of a request, with the memory that each takes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::body::Body;
use logway_node::Node;
use logway_node::memory::{ArrivalRules, Arriving, BudgetShare};
use prost::Message;
use tokio::time::timeout;

use super::PREFIX_BYTES;
use super::status::{Code, Status};

/// The largest message of a client: 8 MiB of proposals, as Akutan's client sends them, and room for what surrounds them.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// How long the only message of a request may take.
pub(crate) const FIRST_MESSAGE_MAX: Duration = Duration::from_secs(30);

/// A message is there as bytes and as a batch.
const HELD_FACTOR: usize = 2;

/// A message up to this size is not counted until it is whole. A connection may have 128 of them on their way.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// The largest message of a call that is no append.
const REQUEST_BYTES_MAX: usize = 256 << 10;

/// A message that has come.
#[derive(Debug)]
pub(crate) struct Received {
    /// Encoded. Decoded at once it could take far more memory than is counted.
    pub(crate) bytes: Bytes,
    /// What it takes; given back when it is dropped.
    pub(crate) share: BudgetShare,
}

/// Decodes a message, which must be a small one.
pub(crate) fn decoded<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    if bytes.len() > REQUEST_BYTES_MAX {
        let message =
            format!("a request of {} bytes; {REQUEST_BYTES_MAX} are the most", bytes.len());
        return Err(Status::new(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", message)
            .remedy("ask for less at once"));
    }
    M::decode(bytes).map_err(|error| Status::invalid(format!("a message cannot be read: {error}")))
}

/// The messages of one request, one after the other.
pub(crate) struct Inbound<B> {
    body: B,
    /// What has come and was not looked at.
    received: BytesMut,
    has_ended: bool,
    /// Of the message that comes now, with its prefix.
    frame_bytes: usize,
    node: Arc<Node>,
}

impl<B: Body<Data = Bytes> + Unpin + Send> Inbound<B> {
    pub(crate) fn new(body: B, node: Arc<Node>) -> Inbound<B> {
        Inbound { body, received: BytesMut::new(), has_ended: false, frame_bytes: 0, node }
    }

    /// The only message of a request.
    pub(crate) async fn only<M: Message + Default>(&mut self) -> Result<M, Status> {
        let first = timeout(FIRST_MESSAGE_MAX, self.next()).await;
        let first = first.unwrap_or_else(|_| Err(Self::late()))?;
        let first = first.ok_or_else(|| Status::invalid("the request has no message"))?;
        decoded(first.bytes)
    }

    /// The next message; `None` when the client has sent its last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Received>, Status> {
        self.frame_bytes = PREFIX_BYTES;
        self.come_to(PREFIX_BYTES).await?;
        if self.received.is_empty() {
            return Ok(None);
        }
        let Some((&[flag], length)) = self.received[..].split_first_chunk() else {
            return Err(cut_off());
        };
        let Some(length) = length.first_chunk().map(|it| u32::from_be_bytes(*it)) else {
            return Err(cut_off());
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if flag != 0 {
            let message = "compressed messages are not taken: none were offered";
            return Err(Status::new(Code::Unimplemented, "COMPRESSED", message)
                .remedy("turn the compression of gRPC off at the client"));
        }
        if length > MESSAGE_BYTES_MAX {
            let message = format!("a message of {length} bytes; {MESSAGE_BYTES_MAX} are the most");
            return Err(Status::new(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", message)
                .remedy("send fewer records at once"));
        }
        self.frame_bytes = PREFIX_BYTES + length;
        let rules = ArrivalRules {
            uncounted_bytes: UNCOUNTED_BYTES,
            size_max: self.frame_bytes,
            held_factor: HELD_FACTOR,
        };
        let node = Arc::clone(&self.node);
        let share = node.memory.requests.take_arriving(self, rules).await?;
        if self.received.len() < self.frame_bytes {
            return Err(cut_off());
        }
        let mut bytes = self.received.split_to(self.frame_bytes).freeze();
        bytes.advance(PREFIX_BYTES);
        Ok(Some(Received { bytes, share }))
    }
}

fn cut_off() -> Status {
    Status::invalid("the request ends within a message")
}

/// The message that comes now. Behind it there may be more.
impl<B: Body<Data = Bytes> + Unpin + Send> Arriving for Inbound<B> {
    type Error = Status;

    fn come_bytes(&self) -> usize {
        self.received.len().min(self.frame_bytes)
    }

    async fn come_to(&mut self, enough: usize) -> Result<bool, Status> {
        let enough = enough.min(self.frame_bytes);
        while self.received.len() < enough && !self.has_ended {
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            match frame {
                None => self.has_ended = true,
                // Trailers say nothing to us.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.received.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) => {
                    return Err(Status::new(Code::Aborted, "BROKEN", "the request was broken off")
                        .remedy("connect again, and go on with the session"));
                }
            }
        }
        Ok(self.has_ended || self.received.len() >= self.frame_bytes)
    }

    fn late() -> Status {
        let message = "the message came too slowly while others waited for its memory";
        Status::new(Code::ResourceExhausted, "TOO_SLOW", message).remedy("try again")
    }
}
