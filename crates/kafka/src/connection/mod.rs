//! One client's connection: frames in, replies out, in order.
//!
//! A connection is one task. It reads the next request while earlier ones wait for the disk or
//! for records (requests are *pipelined*), and replies leave in the order of the requests. What a
//! connection can hold is bounded: see [`frame`], [`reply_queue`] and the budgets of the node.

mod asking;
mod frame;
mod listener;
mod page_cache;
mod reply_queue;
mod send;
mod tls_session;
mod transport;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use logway_node::Node;
use logway_node::access::{AccessMemory, Principal};
use logway_node::append::Appender;
use logway_node::memory::{Attendant, BudgetShare, Held, Memory};
use thiserror::Error;
use tokio::time::{Duration, sleep, timeout};

pub(crate) use listener::accept_connections;

use crate::request::{
    ConnectionInfo, EncodedReply, Hurry, Mute, PendingReply, Reply, ReplyFuture, RequestError,
    Started,
};
use crate::routes::prepare;
use crate::service::Service;
use frame::{Frame, FrameError, FrameReader};
use logway_node::listener::Listener;
use page_cache::PageCacheProbes;
use reply_queue::{OwedReply, ReadyReply, ReplyQueue};
use send::SendPatience;
use transport::Transport;

use crate::authentication::Authentication;
use asking::NotKnown;

/// Replies up to this size that are ready together leave with one system call.
const COALESCE_BYTES: usize = 64 * 1024;

/// Up to here the replies of a connection, and what making them takes, are not counted.
pub(crate) const UNCOUNTED_BYTES_MAX: usize = 64 * 1024;

/// A connection never holds more of the budgets than this for as long as it likes, while its
/// requests wait or its replies are not read.
const HELD_FREELY_BYTES_MAX: usize = 64 * 1024;

/// All connections together hold no more than this part of the requests' budget for as long as they
/// like, however many there are.
const HELD_FREELY_PART: usize = 2;

/// Up to here an answer is made on the way: above, it is heavy work.
const LIGHT_BYTES_MAX: usize = 1 << 20;

/// How long a request holds its memory while others wait for that and it for the memory for its answer.
const BUILD_WAIT_MAX: Duration = Duration::from_secs(5);

/// Stands for no limit on idleness: a century, which timers can still count.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Why a connection ended before its client closed it.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    /// What came was no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame held no request that can be answered.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Too many large replies wait for their clients to read them.
    #[error("no memory is left for a reply of {reply_bytes} bytes; clients do not read theirs")]
    ReplyMemory {
        /// The size of the reply.
        reply_bytes: usize,
    },
    /// Making the answer could take more than there is for all answers together.
    #[error(
        "the answer to this {api} may take {built_bytes} bytes, and all answers together {max_bytes} \
         (half of queued.max.request.bytes); ask for less at a time"
    )]
    ResponseTooLarge {
        /// What was asked.
        api: &'static str,
        /// What making the answer may take.
        built_bytes: usize,
        /// What there is.
        max_bytes: usize,
    },
    /// The request waited for the memory for its answer, and others for the memory of the request.
    #[error(
        "no memory is free for an answer of {built_bytes} bytes while others wait for requests"
    )]
    BuildMemory {
        /// What making the answer may take.
        built_bytes: usize,
    },
    /// The client and we could not agree on a session of TLS.
    #[error("TLS: {0}")]
    Handshake(io::Error),
    /// No rule makes a user of the certificate that the client has shown.
    #[error("no rule of ssl.principal.mapping.rules fits the certificate of {subject}")]
    NoUser {
        /// What the certificate is of.
        subject: String,
    },
    /// The client did not say who it is.
    #[error(transparent)]
    NotKnown(#[from] NotKnown),
    /// The client is gone, or its socket cannot be used.
    #[error("the client is lost: {0}")]
    Lost(#[from] io::Error),
}

/// One client's connection; ends when the client closes it, breaks the protocol, is idle for too
/// long or stops reading.
pub(crate) struct Connection {
    transport: Transport,
    service: Arc<Service>,
    info: Arc<ConnectionInfo>,
    attention: Attendant,
    frames: FrameReader,
    replies: ReplyQueue,
    /// Small replies on their way out together.
    outgoing: BytesMut,
    page_cache: PageCacheProbes,
    idle_max: Duration,
    held_freely_bytes: usize,
    last_active: Instant,
    reads_on: bool,
    /// Waiting requests were asked to answer, because others wait for the memory they hold.
    is_hurried: bool,
}

impl Connection {
    fn new(
        transport: Transport,
        peer: SocketAddr,
        listener: Arc<Listener>,
        service: Arc<Service>,
    ) -> io::Result<Connection> {
        let local = transport.local_address()?;
        let authentication = listener.settings.sasl.as_ref().map(|_| Authentication::default());
        let info = Arc::new(ConnectionInfo {
            peer,
            local,
            listener,
            hurry: Hurry::default(),
            mute: Mute::default(),
            appender: Appender::default(),
            authentication,
            access_memory: AccessMemory::default(),
            authenticated: OnceLock::new(),
            software: OnceLock::new(),
        });
        let node = &service.node;
        let frames =
            FrameReader::new(node.settings.request_max_bytes, node.memory.requests.clone());
        let idle_max = node.settings.connections_max_idle.unwrap_or(FOR_EVER);
        let held_freely_bytes =
            held_freely_bytes(node.memory.requests.limit_bytes(), node.connections_max());
        let attention = node.memory.attention.listen();
        Ok(Connection {
            transport,
            service,
            info,
            attention,
            frames,
            replies: ReplyQueue::default(),
            outgoing: BytesMut::new(),
            page_cache: PageCacheProbes::new(),
            idle_max,
            held_freely_bytes,
            last_active: Instant::now(),
            reads_on: true,
            is_hurried: false,
        })
    }

    /// From now on the requests are those of a principal.
    fn authenticate(&self, principal: Principal) {
        let is_first = self.info.authenticated.set(principal).is_ok();
        debug_assert!(is_first, "a connection is that of one principal");
    }

    /// Serves the client. When the broker stops, what was read is answered and nothing more is
    /// read.
    pub(crate) async fn run(self) -> Result<(), ConnectionError> {
        let info = Arc::clone(&self.info);
        info.appender.drive(self.serve()).await
    }

    fn node(&self) -> &Arc<Node> {
        &self.service.node
    }

    async fn serve(mut self) -> Result<(), ConnectionError> {
        let served = self.serve_requests().await;
        self.transport.close();
        served
    }

    async fn serve_requests(&mut self) -> Result<(), ConnectionError> {
        let mut idle = Box::pin(sleep(self.idle_max));
        let bell = self.attention.bell();
        // One for many turns: each has to be put on a list and taken from it.
        let mut called = pin!(bell.called());
        loop {
            self.look_around();
            if !self.reads_on && self.replies.is_empty() {
                return Ok(());
            }
            let is_muted = self.info.mute.is_on();
            let may_read = self.may_read(is_muted);
            tokio::select! {
                biased;
                () = &mut called => called.set(bell.called()),
                reply = next_reply(&mut self.replies, &self.info.appender),
                    if !self.replies.is_empty() =>
                {
                    self.send_ready(reply).await?;
                    self.last_active = Instant::now();
                }
                () = self.info.mute.over(), if is_muted => self.last_active = Instant::now(),
                frame = next_frame(&mut self.frames, &mut self.transport, &self.info.appender, may_read),
                    if may_read || is_muted && self.reads_on =>
                {
                    self.last_active = Instant::now();
                    match frame? {
                        Some(frame) => self.start_burst(frame).await?,
                        None => self.read_no_more(),
                    }
                }
                () = &mut idle, if self.replies.is_empty() && !is_muted => {
                    let quiet = self.last_active.elapsed();
                    if quiet >= self.idle_max {
                        tracing::debug!(peer = %self.info.peer, "closing an idle connection");
                        return Ok(());
                    }
                    idle.set(sleep(self.idle_max - quiet));
                }
            }
        }
    }

    /// The client has gone or the broker stops: what waits is answered with what there is.
    fn read_no_more(&mut self) {
        self.reads_on = false;
        self.info.hurry.ask();
    }

    /// Whether the next request may be read. One that is half read, and holds memory, is read to its
    /// end in any case.
    fn may_read(&self, is_muted: bool) -> bool {
        self.reads_on && self.replies.has_room() && (!is_muted || self.frames.holds_memory())
    }

    /// Looks for what a call may have been about: the broker stops, or others wait for memory and
    /// could be helped by an end to this connection's waiting.
    fn look_around(&mut self) {
        if self.reads_on && (self.attention.is_stopping() || self.info.is_refused()) {
            self.read_no_more();
        }
        let holds_much = self.replies.held_bytes() > self.held_freely_bytes;
        let holds_replies = self.replies.has_parked_behind_front();
        self.attention.set_holder(holds_much || holds_replies);
        let is_waited_for = holds_much && self.node().memory.is_contended()
            || holds_replies && self.node().memory.replies.is_short();
        if is_waited_for && !self.is_hurried {
            self.hurry();
        }
    }

    fn hurry(&mut self) {
        self.info.hurry.ask();
        self.is_hurried = true;
    }

    /// Starts a request, and those that came with it as long as their appends join the round that is
    /// held: no reply leaves before that is done, so that there is nothing else to look for.
    async fn start_burst(&mut self, first: Frame) -> Result<(), ConnectionError> {
        self.start(first).await?;
        while self.info.appender.has_open_round() && self.may_read(self.info.mute.is_on()) {
            let Some(frame) = self.frames.next_at_hand()? else { break };
            self.start(frame).await?;
        }
        Ok(())
    }

    /// Starts a request. Those that wait for something leave their waiting in the reply queue.
    async fn start(&mut self, frame: Frame) -> Result<(), ConnectionError> {
        // A client that has sent a thousand requests at once takes turns with the others.
        tokio::task::coop::consume_budget().await;
        self.check_session(&frame)?;
        let received_at = self.last_active;
        let Frame { body, is_produce, is_dense, share: request_share } = frame;
        self.node().note_request(&self.info.appender);
        if !is_produce {
            // It may wait without giving the worker up.
            self.info.appender.flush();
        } else if self.transport.has_emptied() {
            self.info.appender.begin_burst();
        }
        let request_share = Arc::new(request_share);
        let prepare = || prepare(&self.service, &self.info, body);
        let work = if is_dense { self.node().heavy_work.run(prepare)? } else { prepare()? };
        let (api_key, built_bytes) = (work.api_key, work.built_bytes);
        let max_bytes = self.node().memory.building.limit_bytes();
        if built_bytes > max_bytes {
            let api = api_key.name();
            return Err(ConnectionError::ResponseTooLarge { api, built_bytes, max_bytes });
        }
        let building = self.share_to_build(built_bytes, request_share.bytes()).await?.map(Arc::new);
        let uncounted_bytes = if building.is_some() { 0 } else { built_bytes };
        let is_heavy = is_dense || built_bytes > LIGHT_BYTES_MAX;
        if is_heavy {
            // It waits for others' heavy work.
            self.info.appender.flush();
        }
        let reply = match work.run(Arc::clone(&request_share), building.clone(), is_heavy) {
            Started::Done(reply) => reply,
            Started::Working(work) => {
                let reply = make_reply(&self.service.node, work, is_heavy);
                match is_produce {
                    // With acks 0 a client has nothing to stay for.
                    true => reply.await?,
                    false => while_there(&self.transport, &mut self.frames, reply).await?,
                }
            }
        };
        let (request_share, share, uncounted_bytes) = match &reply {
            Reply::Later(_) => (Some(request_share), building, uncounted_bytes),
            Reply::Parked(_) => (None, building, uncounted_bytes),
            Reply::Ready(encoded) => {
                drop(request_share);
                (None, self.share_of_reply(encoded.bytes.len(), building)?, 0)
            }
        };
        self.replies.push(OwedReply {
            api_key,
            received_at,
            request_share,
            share,
            uncounted_bytes,
            reply,
        });
        Ok(())
    }

    /// The memory for an answer that takes much, or comes behind many that take little. Who has to
    /// wait for it holds nothing of the kind meanwhile: what this connection owes is sent first.
    async fn share_to_build(
        &mut self,
        built_bytes: usize,
        request_bytes: usize,
    ) -> Result<Option<BudgetShare>, ConnectionError> {
        if self.replies.uncounted_bytes() + built_bytes <= UNCOUNTED_BYTES_MAX {
            return Ok(None);
        }
        if let Some(share) = self.node().memory.building.try_take(built_bytes) {
            return Ok(Some(share));
        }
        if !self.replies.is_empty() {
            self.hurry();
        }
        while !self.replies.is_empty() {
            let reply = self.replies.next().await;
            self.send_ready(reply).await?;
        }
        let holds_much = request_bytes > self.held_freely_bytes;
        let share = wait_to_build(&self.service.node.memory, built_bytes, holds_much);
        while_there(&self.transport, &mut self.frames, share).await.map(Some)
    }

    /// A large reply counts until it has left. It cannot wait for memory: the requests behind it
    /// would hold theirs meanwhile, and so two connections could wait for each other. If there is no
    /// room for it, it keeps as much as it needs of what it was made with.
    fn share_of_reply(&self, reply_bytes: usize, made_with: Held) -> Result<Held, ConnectionError> {
        if reply_bytes <= UNCOUNTED_BYTES_MAX {
            return Ok(None);
        }
        let share = self.node().memory.replies.take_now(reply_bytes);
        let share = share.map(Arc::new).or_else(|| made_with.map(|made| cut_to(reply_bytes, made)));
        share.map(Some).ok_or(ConnectionError::ReplyMemory { reply_bytes })
    }

    /// What a reply took to be made goes back before it is sent, which takes as long as its client likes: now it
    /// counts as a reply. If there is no room for it among those, it keeps what it has.
    fn count_as_reply(&self, reply_bytes: usize, made_with: (Held, Held)) -> (Held, Held) {
        if reply_bytes <= UNCOUNTED_BYTES_MAX {
            return (None, None);
        }
        match self.node().memory.replies.take_now(reply_bytes) {
            Some(share) => (Some(Arc::new(share)), None),
            None => made_with,
        }
    }

    /// Sends a reply, and with it every one behind it that is ready too.
    async fn send_ready(&mut self, first: ReadyReply) -> Result<(), ConnectionError> {
        let mut next = Some(first);
        let mut now = Instant::now();
        while let Some(ready) = next {
            let ReadyReply { api_key, received_at, reply, share, is_just_made } = ready;
            if let Some(mut reply) = reply? {
                let held = (share, reply.held.take());
                let _held = match is_just_made {
                    true => self.count_as_reply(reply.bytes.len(), held),
                    false => held,
                };
                if !self.coalesce(&reply) {
                    self.send_alone(&reply).await?;
                    now = Instant::now();
                }
            }
            let latency = now.saturating_duration_since(received_at);
            self.service.metrics.observe(api_key, latency);
            next = self.replies.try_next();
        }
        if self.is_hurried && self.replies.is_empty() {
            self.is_hurried = false;
            if self.reads_on {
                self.info.hurry.withdraw();
            }
        }
        self.flush().await
    }

    /// Adds a small reply to those that leave together; whether it is one.
    fn coalesce(&mut self, reply: &EncodedReply) -> bool {
        let is_small =
            reply.files.is_empty() && self.outgoing.len() + reply.bytes.len() <= COALESCE_BYTES;
        if is_small {
            self.outgoing.extend_from_slice(&reply.bytes);
        }
        is_small
    }

    async fn send_alone(&mut self, reply: &EncodedReply) -> Result<(), ConnectionError> {
        self.flush().await?;
        let patience = SendPatience { stall_max: self.idle_max, memory: &self.service.node.memory };
        Ok(send::send(&mut self.transport, reply, &mut self.page_cache, &patience).await?)
    }

    async fn flush(&mut self) -> Result<(), ConnectionError> {
        if !self.outgoing.is_empty() {
            let outgoing: Bytes = self.outgoing.split().freeze();
            let memory = &self.service.node.memory;
            let patience = SendPatience { stall_max: self.idle_max, memory };
            send::send_bytes(&mut self.transport, &outgoing, &patience).await?;
        }
        Ok(())
    }
}

/// The next reply to be sent. While a round is held it is not there, and who waited for it would be woken for nothing.
/// Cancel safe.
async fn next_reply(replies: &mut ReplyQueue, appender: &Appender) -> ReadyReply {
    poll_fn(|context| match appender.has_open_round() {
        true => Poll::Pending,
        false => replies.poll_next(context),
    })
    .await
}

/// The next request, or `None` when the client has closed. A connection that may not be read has no next one. Cancel
/// safe.
async fn next_frame(
    frames: &mut FrameReader,
    transport: &mut Transport,
    appender: &Appender,
    may_read: bool,
) -> Result<Option<Frame>, FrameError> {
    if may_read {
        return frames.next(transport, appender).await;
    }
    transport.closed().await;
    Ok(None)
}

/// Waits for work on a request for as long as its client is there. A connection that waits keeps no more than what it
/// has read.
async fn while_there<T, E>(
    transport: &Transport,
    frames: &mut FrameReader,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, ConnectionError>
where
    ConnectionError: From<E>,
{
    // Not begun before the work has to wait.
    let lost = async {
        frames.keep_little();
        transport.lost().await
    };
    tokio::select! {
        biased;
        outcome = work => Ok(outcome?),
        error = lost => Err(ConnectionError::Lost(error)),
    }
}

/// As much of a share as is needed, unless work that goes on holds it too.
fn cut_to(bytes: usize, share: Arc<BudgetShare>) -> Arc<BudgetShare> {
    match Arc::try_unwrap(share) {
        Ok(share) => Arc::new(share.cut_to(bytes)),
        Err(shared) => shared,
    }
}

/// Has a request answered.
async fn make_reply(
    node: &Arc<Node>,
    work: ReplyFuture,
    is_heavy: bool,
) -> Result<Reply, RequestError> {
    match is_heavy {
        true => Ok(heavily(node, node.heavy_work.run_async(work).await?)),
        false => work.await,
    }
}

/// A reply whose making is heavy work, too.
fn heavily(node: &Arc<Node>, reply: Reply) -> Reply {
    let node = Arc::clone(node);
    let heavily = |pending: PendingReply| -> PendingReply {
        Box::pin(async move { node.heavy_work.run_async(pending).await })
    };
    match reply {
        Reply::Later(pending) => Reply::Later(heavily(pending)),
        Reply::Parked(pending) => Reply::Parked(heavily(pending)),
        Reply::Ready(encoded) => Reply::Ready(encoded),
    }
}

/// Waits for the memory for an answer. A request that holds much itself gives up when others wait for that meanwhile.
async fn wait_to_build(
    memory: &Memory,
    built_bytes: usize,
    holds_much: bool,
) -> Result<BudgetShare, ConnectionError> {
    let mut taking = pin!(memory.building.take(built_bytes));
    loop {
        if let Ok(share) = timeout(BUILD_WAIT_MAX, &mut taking).await {
            return Ok(share);
        }
        if holds_much && memory.requests.is_contended() {
            return Err(ConnectionError::BuildMemory { built_bytes });
        }
    }
}

/// What one of so many connections may hold for as long as it likes.
fn held_freely_bytes(limit_bytes: usize, connections_max: usize) -> usize {
    (limit_bytes / HELD_FREELY_PART / connections_max.max(1)).min(HELD_FREELY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_connections_hold_freely_leaves_room_for_others() {
        for (limit_bytes, connections_max) in [
            (128 << 20, 10_000),
            (128 << 20, 2_048),
            (1 << 20, 1),
            (1 << 20, 16),
            (1 << 20, 10_000),
        ] {
            let each_bytes = held_freely_bytes(limit_bytes, connections_max);
            assert!(each_bytes * connections_max <= limit_bytes / 2, "{connections_max}");
        }
    }
}
