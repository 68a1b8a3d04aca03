//! Being called.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use logway_model::ClusterId;
use logway_quorum::Lane;
use tokio::io::AsyncWrite;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::frame::{Frame, FrameReader, Kind, Status};
use crate::hello::{Hello, Identity, Received, Verdict};

/// How long a caller may take to say who it is.
const HELLO_MAX: Duration = Duration::from_secs(5);

/// How long to leave the listener alone when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Connections that nodes may have open. A cluster of some hundred nodes has three each.
const CONNECTIONS_MAX: usize = 1_024;

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
    handler: OnceLock<Arc<dyn CallHandler>>,
    cluster: OnceLock<ClusterId>,
}

impl PeerServer {
    /// Serves the nodes that connect to `listener`.
    pub fn start(listener: PeerListener) -> PeerServer {
        let shared = Arc::new(Shared::default());
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
    let mut connections = JoinSet::new();
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
        let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
            tracing::warn!(%peer, max = CONNECTIONS_MAX, "too many connections of other nodes");
            continue;
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let _seat = seat;
            if let Err(error) = serve(socket, shared).await {
                tracing::debug!(%peer, %error, "a connection of another node has ended");
            }
        });
    }
}

async fn serve(mut socket: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let hello = timeout(HELLO_MAX, Hello::receive(&mut socket)).await;
    let cluster = shared.cluster.get().copied();
    let Hello { from, lane } =
        match hello.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))?? {
            Received::Hello(hello) => hello,
            Received::OtherVersion(version) => {
                tracing::warn!(version, "a node of another version was refused");
                return Verdict::OtherVersion.send(cluster, &mut socket).await;
            }
        };
    let is_other = matches!((from.cluster, cluster), (Some(theirs), Some(ours)) if theirs != ours);
    if is_other {
        tracing::warn!(?from, "a node of another cluster was refused");
        return Verdict::OtherCluster.send(cluster, &mut socket).await;
    }
    Verdict::Welcome.send(cluster, &mut socket).await?;
    let (read, write) = socket.into_split();
    let (replies, to_send) = mpsc::channel(CALLS_MAX);
    let mut writer = JoinSet::new();
    writer.spawn(write_replies(write, to_send));
    tokio::select! {
        ended = answer_calls(read, from, calls_max(lane), shared, replies) => ended,
        // One reply could not be sent. The caller would wait for it, and for all that come behind it.
        _ = writer.join_next() => Ok(()),
    }
}

async fn answer_calls(
    mut read: OwnedReadHalf,
    from: Identity,
    calls_max: usize,
    shared: Arc<Shared>,
    replies: mpsc::Sender<Frame>,
) -> io::Result<()> {
    let mut calls = JoinSet::new();
    let under_way = Arc::new(Semaphore::new(calls_max));
    let mut frames = FrameReader::default();
    loop {
        let turn = Arc::clone(&under_way).acquire_owned().await.expect("it is never closed");
        let Some(frame) = frames.next(&mut read).await? else { return Ok(()) };
        let replies = replies.clone();
        // Those that have ended are forgotten here, or their results would pile up.
        while calls.try_join_next().is_some() {}
        let handled = match (Kind::of(frame.kind), shared.handler.get()) {
            (Some(kind), Some(handler)) => Some(handler.handle(from, kind, frame.payload)),
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

async fn write_replies(mut write: impl AsyncWrite + Unpin, mut to_send: mpsc::Receiver<Frame>) {
    while let Some(reply) = to_send.recv().await {
        if reply.send(&mut write).await.is_err() {
            return;
        }
    }
}
