//! The messages of a response, and its end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use prost::Message;
use tokio::sync::mpsc;

use super::PREFIX_BYTES;
use super::status::Status;
use crate::connection_info::CallInWork;

/// What a stream sends.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The pieces of one message, prefix and all.
    Message(Vec<Bytes>),
    /// Nothing comes behind it.
    End(Status),
}

/// The body of a response: messages as they come, and the status as trailers.
#[derive(Debug)]
pub(crate) struct Outbound {
    pieces: VecDeque<Bytes>,
    replies: Option<mpsc::Receiver<Reply>>,
    end: Option<Status>,
    /// The call is in work until its response is sent.
    _call: CallInWork,
}

impl Outbound {
    /// Of a call with at most one message.
    pub(crate) fn whole(outcome: Result<Bytes, Status>, call: CallInWork) -> Outbound {
        let (pieces, end) = match outcome {
            Ok(message) => (VecDeque::from([message]), Status::OK),
            Err(status) => (VecDeque::new(), status),
        };
        Outbound { pieces, replies: None, end: Some(end), _call: call }
    }

    /// Of a stream.
    pub(crate) fn stream(replies: mpsc::Receiver<Reply>, call: CallInWork) -> Outbound {
        Outbound { pieces: VecDeque::new(), replies: Some(replies), end: None, _call: call }
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        loop {
            if let Some(piece) = body.pieces.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if let Some(status) = body.end.take() {
                body.replies = None;
                return Poll::Ready(Some(Ok(Frame::trailers(status.trailers()))));
            }
            let Some(replies) = &mut body.replies else { return Poll::Ready(None) };
            match replies.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Reply::Message(pieces))) => body.pieces.extend(pieces),
                Poll::Ready(Some(Reply::End(status))) => body.end = Some(status),
                // Its task has ended without a word, as in a stop.
                Poll::Ready(None) => body.end = Some(Status::stopping()),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.end.is_none() && self.replies.is_none()
    }
}

/// A message with its prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut frame = begin_frame(message.encoded_len());
    message.encode_raw(&mut frame);
    end_frame(frame)
}

/// An empty frame, with room for a message of about this size.
pub(crate) fn begin_frame(size_bytes: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + size_bytes);
    frame.put_bytes(0, PREFIX_BYTES);
    frame
}

/// Notes the length of what was put behind the prefix.
pub(crate) fn end_frame(mut frame: BytesMut) -> Bytes {
    // A reply is bounded far below it.
    let length = u32::try_from(frame.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    frame[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// A message that ends with bytes which are not copied: `rest` encoded, and then the field `tag` with `bytes`.
pub(crate) fn framed_around(rest: &impl Message, tag: u32, bytes: Bytes) -> Vec<Bytes> {
    let mut frame = begin_frame(rest.encoded_len() + 16);
    rest.encode_raw(&mut frame);
    prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut frame);
    prost::encoding::encode_varint(bytes.len() as u64, &mut frame);
    let length = frame.len() - PREFIX_BYTES + bytes.len();
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    frame[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    vec![frame.freeze(), bytes]
}
