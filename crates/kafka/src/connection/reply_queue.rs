//! The replies that a connection owes, in the order of its requests.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use logway_node::memory::Held;
use logway_wire::ApiKey;

use crate::request::{EncodedReply, Reply, RequestError};

/// Requests that may be in work on one connection. A client that pipelines deeper is read again
/// when replies have left.
const IN_FLIGHT_MAX: usize = 1_024;

/// Reply bytes in memory, encoded and not yet sent, above which no further request is read.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// One request's reply, and what must outlive the request until the reply has left.
pub(super) struct OwedReply {
    /// For the metrics.
    pub api_key: ApiKey,
    /// When the request was read.
    pub received_at: Instant,
    /// The memory of the request, while it is in work.
    pub request_share: Held,
    /// The memory of the reply if it is large; that for making it, while it is in the making.
    pub share: Held,
    /// What making the reply takes, if that is too little for a share of the budget.
    pub uncounted_bytes: usize,
    /// The reply.
    pub reply: Reply,
}

impl OwedReply {
    fn held_bytes(&self) -> usize {
        let request_bytes = self.request_share.as_ref().map_or(0, |share| share.bytes());
        request_bytes + self.share.as_ref().map_or(0, |share| share.bytes())
    }
}

/// A reply that can be sent now.
pub(super) struct ReadyReply {
    /// For the metrics.
    pub api_key: ApiKey,
    /// When the request was read.
    pub received_at: Instant,
    /// What to send, if anything.
    pub reply: Result<Option<EncodedReply>, RequestError>,
    /// The memory of the reply, if it is large; that for making it, if it was made just now.
    pub share: Held,
    /// Whether it was made just now, and so is not counted as a reply yet.
    pub is_just_made: bool,
}

/// First in, first out: Kafka's clients match replies to requests by their order.
#[derive(Default)]
pub(super) struct ReplyQueue {
    owed: VecDeque<OwedReply>,
    unsent_bytes: usize,
    held_bytes: usize,
    uncounted_bytes: usize,
    parked: usize,
}

impl ReplyQueue {
    /// Whether every request has its answer.
    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// Whether another request may be read.
    pub(super) fn has_room(&self) -> bool {
        self.owed.len() < IN_FLIGHT_MAX && self.unsent_bytes < UNSENT_BYTES_MAX
    }

    /// The memory that the requests and replies hold.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// What making the replies takes for which there is no share.
    pub(super) fn uncounted_bytes(&self) -> usize {
        self.uncounted_bytes
    }

    /// Whether answers that wait for other clients may have come, and wait for the one before them: they hold memory
    /// of replies that is not counted here.
    pub(super) fn has_parked_behind_front(&self) -> bool {
        let is_parked = |owed: &OwedReply| matches!(owed.reply, Reply::Parked(_));
        self.parked > usize::from(self.owed.front().is_some_and(is_parked))
    }

    /// Adds the reply of the latest request.
    pub(super) fn push(&mut self, owed: OwedReply) {
        if let Reply::Ready(encoded) = &owed.reply {
            self.unsent_bytes += encoded.bytes.len();
        }
        self.parked += usize::from(matches!(owed.reply, Reply::Parked(_)));
        self.held_bytes += owed.held_bytes();
        self.uncounted_bytes += owed.uncounted_bytes;
        self.owed.push_back(owed);
    }

    /// The reply of the earliest request; waits for it. Never ends while the queue is empty.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> ReadyReply {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The reply of the earliest request if it is ready; [`ReplyQueue::next`] must be awaited
    /// before the next wait, since this arranges no wake-up.
    pub(super) fn try_next(&mut self) -> Option<ReadyReply> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ready) => Some(ready),
            Poll::Pending => None,
        }
    }

    /// [`ReplyQueue::next`] as a future would have it.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<ReadyReply> {
        let Some(front) = self.owed.front_mut() else { return Poll::Pending };
        let held_bytes = front.held_bytes();
        let reply = match &mut front.reply {
            Reply::Later(pending) | Reply::Parked(pending) => match pending.as_mut().poll(cx) {
                Poll::Ready(reply) => reply,
                Poll::Pending => return Poll::Pending,
            },
            Reply::Ready(encoded) => {
                self.unsent_bytes -= encoded.bytes.len();
                Ok(Some(std::mem::take(encoded)))
            }
        };
        let owed = self.owed.pop_front().expect("its front was just looked at");
        self.held_bytes -= held_bytes;
        self.uncounted_bytes -= owed.uncounted_bytes;
        self.parked -= usize::from(matches!(owed.reply, Reply::Parked(_)));
        let is_just_made = !matches!(owed.reply, Reply::Ready(_));
        // What waited is done with its request, whose memory goes before the reply is sent.
        let OwedReply { api_key, received_at, share, .. } = owed;
        Poll::Ready(ReadyReply { api_key, received_at, reply, share, is_just_made })
    }
}
