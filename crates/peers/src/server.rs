//! Being called.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use logway_model::ClusterId;
use logway_quorum::Lane;
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use crate::frame::{Frame, FrameReader, Kind, Status};
use crate::hello::{Hello, Identity, Received, Verdict};
use crate::newest::{NewestConnections, Place};
use crate::tls::{self, PeerTls, Proven, ReadHalf};

/// How long a caller may take to say who it is.
const HELLO_MAX: Duration = Duration::from_secs(5);

/// How long to leave the listener alone when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Connections that nodes may have open. A cluster of some hundred nodes has three each.
const CONNECTIONS_MAX: usize = 1_024;

/// Connections that have yet to prove that they are of nodes.
const UNPROVEN_MAX: usize = 128;

/// What somebody without a certificate can send at once: it asks to be admitted.
const OF_STRANGER_MAX_BYTES: usize = 4 << 10;

/// How long such a connection lives.
const STRANGER_MAX: Duration = Duration::from_secs(30);

/// Calls of one connection that may be under way; further ones stay in its socket.
const CALLS_MAX: usize = 256;

/// The same of the lane for calls that wait for something to happen. They cost little, and would hold up those behind them.
const WAITING_CALLS_MAX: usize = 4_096;

/// How many calls of a lane may be under way.
fn calls_max(lane: Lane) -> usize {
    match lane {
        Lane::Waiting => WAITING_CALLS_MAX,
        _ => CALLS_MAX,
    }
}

/// The reply to a call: `None` if nobody is here for it.
pub type HandledCall = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// Answers the calls of other nodes, whatever their bytes are.
pub trait CallHandler: Send + Sync + 'static {
    /// Answers one call. It is asked where calls arrive, in their order and without a queue before it; what it returns is
    /// waited for beside the next calls.
    fn handle(&self, from: Identity, kind: Kind, payload: Bytes) -> HandledCall;
}

/// An address that is bound. Nodes that connect wait until they are served.
#[derive(Debug)]
pub struct PeerListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl PeerListener {
    /// Binds an address, `host:port`.
    pub async fn bind(address: &str) -> io::Result<PeerListener> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(PeerListener { listener, address })
    }

    /// What was bound: port 0 becomes a free one.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves other nodes until it is dropped.
///
/// It can be started before there is anybody to answer: a node that starts needs the others to become ready,
/// and they may need it.
pub struct PeerServer {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    tls: Option<PeerTls>,
    handler: OnceLock<Arc<dyn CallHandler>>,
    cluster: OnceLock<ClusterId>,
    newest: Arc<NewestConnections>,
}

impl PeerServer {
    /// Serves the nodes that connect to `listener`, with TLS if there is some.
    pub fn start(listener: PeerListener, tls: Option<PeerTls>) -> PeerServer {
        let shared = Arc::new(Shared { tls, ..Shared::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener.listener, Arc::clone(&shared)));
        PeerServer { shared, tasks }
    }

    /// Says which cluster this node belongs to: nodes of another one are refused from now on.
    ///
    /// # Panics
    ///
    /// If it was said before.
    pub fn belongs_to(&self, cluster: ClusterId) {
        self.shared.cluster.set(cluster).expect("a node belongs to one cluster");
    }

    /// Says who answers calls from now on.
    ///
    /// # Panics
    ///
    /// If it was said before.
    pub fn serve(&self, handler: Arc<dyn CallHandler>) {
        assert!(self.shared.handler.set(handler).is_ok(), "one handler answers all calls");
    }

    /// Ends all connections.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (mut connections, mut unproven) = (JoinSet::new(), UnprovenConnections::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_ended) = connections.join_next() => continue,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::error!(%error, "cannot accept connections of other nodes");
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let proof = Arc::<AtomicBool>::default();
        let connection = Unproven { peer, proof: Arc::clone(&proof), seats: Arc::clone(&seats) };
        let (shared, proof_of_task) = (Arc::clone(&shared), proof);
        let task = connections.spawn(async move {
            if let Err(error) = serve(socket, shared, connection).await {
                tracing::debug!(%peer, %error, "a connection of another node has ended");
            }
        });
        unproven.push(task, proof_of_task);
    }
}

/// A connection that has yet to prove that it is of a node.
struct Unproven {
    peer: SocketAddr,
    proof: Arc<AtomicBool>,
    seats: Arc<Semaphore>,
}

impl Unproven {
    /// It is of a node, and gets one of their places; `None` if there is none left.
    fn into_seat(self) -> Option<OwnedSemaphorePermit> {
        self.proof.store(true, Ordering::Relaxed);
        let seat = self.seats.try_acquire_owned().ok();
        if seat.is_none() {
            let peer = self.peer;
            tracing::warn!(%peer, max = CONNECTIONS_MAX, "too many connections of other nodes");
        }
        seat
    }
}

/// Connections in the order in which they came.
///
/// Strangers can be many. The oldest goes when there are too many: a node takes milliseconds to prove itself, and so
/// gets through whatever others keep open.
#[derive(Default)]
struct UnprovenConnections(VecDeque<(AbortHandle, Arc<AtomicBool>)>);

impl UnprovenConnections {
    fn push(&mut self, task: AbortHandle, proof: Arc<AtomicBool>) {
        self.0.push_back((task, proof));
        if self.0.len() > UNPROVEN_MAX {
            self.0.retain(|(task, proof)| !task.is_finished() && !proof.load(Ordering::Relaxed));
        }
        if self.0.len() > UNPROVEN_MAX
            && let Some((oldest, _)) = self.0.pop_front()
        {
            oldest.abort();
        }
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>, connection: Unproven) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let deadline = Instant::now() + HELLO_MAX;
    let late = |_elapsed| io::Error::from(io::ErrorKind::TimedOut);
    let (mut read, mut write, proven) = match &shared.tls {
        None => {
            let (read, write) = tls::plain(socket);
            (read, write, Proven::Unasked)
        }
        Some(tls) => timeout_at(deadline, tls::accept(tls, socket)).await.map_err(late)??,
    };
    let hello = timeout_at(deadline, Hello::receive(&mut read)).await.map_err(late)??;
    let cluster = shared.cluster.get().copied();
    let (from, lane) = match judge(hello, proven, &shared).await {
        Ok(Hello { from, lane }) => (from, lane),
        Err(verdict) => return verdict.send(cluster, &mut write).await,
    };
    let seat = match proven {
        Proven::Stranger => None,
        Proven::Unasked | Proven::Node(_) => match connection.into_seat() {
            Some(seat) => Some(seat),
            None => return Ok(()),
        },
    };
    let place = match proven {
        // It may claim to be anybody.
        Proven::Stranger => Place::alone(),
        Proven::Unasked | Proven::Node(_) => shared.newest.enter(from.directory, lane),
    };
    Verdict::Welcome.send(cluster, &mut write).await?;
    let caller = Caller { from, lane, proven, shared, place, _seat: seat };
    let (replies, to_send) = mpsc::channel(CALLS_MAX);
    let mut writer = JoinSet::new();
    writer.spawn(write_replies(write, to_send));
    tokio::select! {
        ended = caller.answer_calls(read, replies) => ended,
        // One reply could not be sent. The caller would wait for it, and for all that come behind it.
        _ = writer.join_next() => Ok(()),
        () = caller.place.replaced() => Ok(()),
        () = sleep(STRANGER_MAX), if proven == Proven::Stranger => Ok(()),
    }
}

/// Whether a caller may call. An error is what it is told instead.
async fn judge(received: Received, proven: Proven, shared: &Shared) -> Result<Hello, Verdict> {
    let hello = match received {
        Received::Hello(hello) => hello,
        Received::OtherVersion(version) => {
            tracing::warn!(version, "a node of another version was refused");
            return Err(Verdict::OtherVersion);
        }
    };
    let from = hello.from;
    if let (Some(theirs), Some(ours)) = (from.cluster, shared.cluster.get())
        && theirs != *ours
    {
        tracing::warn!(?from, "a node of another cluster was refused");
        return Err(Verdict::OtherCluster);
    }
    if let (Proven::Node(key), Some(tls)) = (proven, &shared.tls)
        && !Arc::clone(&tls.admission).admits(key, Some(from.directory)).await
    {
        tracing::warn!(?from, %key, "a node was refused whose key the cluster does not know");
        return Err(Verdict::UnknownKey);
    }
    Ok(hello)
}

/// Somebody who may call.
struct Caller {
    from: Identity,
    lane: Lane,
    proven: Proven,
    shared: Arc<Shared>,
    place: Place,
    /// Strangers have none.
    _seat: Option<OwnedSemaphorePermit>,
}

impl Caller {
    async fn answer_calls(
        &self,
        mut read: ReadHalf,
        replies: mpsc::Sender<Frame>,
    ) -> io::Result<()> {
        let mut calls = JoinSet::new();
        let (calls_max, mut frames) = match self.proven {
            Proven::Stranger => (1, FrameReader::up_to(OF_STRANGER_MAX_BYTES)),
            Proven::Unasked | Proven::Node(_) => (calls_max(self.lane), FrameReader::default()),
        };
        let under_way = Arc::new(Semaphore::new(calls_max));
        loop {
            let turn = Arc::clone(&under_way).acquire_owned().await.expect("it is never closed");
            let Some(frame) = frames.next(&mut read).await? else { return Ok(()) };
            let replies = replies.clone();
            // Those that have ended are forgotten here, or their results would pile up.
            while calls.try_join_next().is_some() {}
            let handled = match (Kind::of(frame.kind), self.shared.handler.get()) {
                (Some(kind), Some(handler)) if self.may_call(kind)? => {
                    let begin = || handler.handle(self.from, kind, frame.payload);
                    Some(self.place.begin(begin).ok_or(io::ErrorKind::ConnectionAborted)?)
                }
                _ => None,
            };
            calls.spawn(async move {
                let _turn = turn;
                let handled = match handled {
                    Some(handled) => handled.await,
                    None => None,
                };
                let reply = match handled {
                    Some(payload) => Frame::reply(frame.call, Status::Done, payload),
                    None => Frame::reply(frame.call, Status::NobodyHere, Vec::new()),
                };
                // The connection may have ended.
                let _ = replies.send(reply).await;
            });
        }
    }

    /// Whether it may make calls of a kind. An error ends the connection: the node was removed meanwhile.
    fn may_call(&self, kind: Kind) -> io::Result<bool> {
        match (self.proven, &self.shared.tls) {
            (Proven::Stranger, _) => Ok(kind == Kind::Admission),
            (Proven::Node(key), Some(tls))
                if !tls.admission.still_admits(key, self.from.directory) =>
            {
                tracing::warn!(from = ?self.from, "a node calls that the cluster does not know any more");
                Err(io::ErrorKind::PermissionDenied.into())
            }
            _ => Ok(true),
        }
    }
}

async fn write_replies(mut write: impl AsyncWrite + Unpin, mut to_send: mpsc::Receiver<Frame>) {
    while let Some(reply) = to_send.recv().await {
        if reply.send(&mut write).await.is_err() {
            return;
        }
    }
}
