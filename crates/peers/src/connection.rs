//! The caller's end of a connection.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use logway_model::ClusterId;
use logway_quorum::{Lane, PeerError};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::frame::{Frame, FrameReader, Kind, Status};
use crate::hello::{Hello, Identity, Verdict};
use crate::tls::{self, ReadHalf, Way, WriteHalf};

/// Requests that may wait to be written.
const UNSENT_MAX: usize = 64;

/// One connection to one node, for one lane. Any number of calls share it.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    unsent: mpsc::Sender<Frame>,
    tasks: [AbortHandle; 2],
    cluster: Option<ClusterId>,
    own_address: IpAddr,
}

#[derive(Default)]
struct Shared {
    next_call: AtomicU64,
    /// Frames that have come: who waited in vain knows by it whether the other side is silent.
    received: AtomicU64,
    is_broken: AtomicBool,
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Frame>>>>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Frame>>>> {
        // What it guards is right after each step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all calls: their senders are dropped.
    fn break_off(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
        self.waiting().take();
    }
}

/// A call that waits; dropped, nobody waits any more.
struct Waiting<'a> {
    shared: &'a Shared,
    call: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = &mut *self.shared.waiting() {
            waiting.remove(&self.call);
        }
    }
}

impl Connection {
    /// Connects to a node and introduces `own` to it.
    pub(crate) async fn open(
        address: &str,
        lane: Lane,
        own: Identity,
        way: &Way,
    ) -> io::Result<Connection> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        // What was not sent when a connection is given up shall not be: the kernel would go on trying for minutes.
        socket.set_zero_linger()?;
        let own_address = socket.local_addr()?.ip();
        let (mut read, mut write) = tls::connect(way, socket).await?;
        Hello { lane, from: own }.send(&mut write).await?;
        let cluster = Verdict::receive(own.cluster, &mut read).await?;
        let shared =
            Arc::new(Shared { waiting: Mutex::new(Some(HashMap::new())), ..Shared::default() });
        let (unsent, to_send) = mpsc::channel(UNSENT_MAX);
        let reading = tokio::spawn(read_replies(read, Arc::clone(&shared)));
        let writing = tokio::spawn(write_requests(write, to_send, Arc::clone(&shared)));
        let tasks = [reading.abort_handle(), writing.abort_handle()];
        Ok(Connection { shared, unsent, tasks, cluster, own_address })
    }

    /// The cluster that the node belongs to, if it does.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The address by which the node sees this one.
    pub(crate) fn own_address(&self) -> IpAddr {
        self.own_address
    }

    /// Whether calls can succeed by it.
    pub(crate) fn is_usable(&self) -> bool {
        !self.shared.is_broken.load(Ordering::SeqCst)
    }

    /// Calls, and waits for the reply.
    ///
    /// A connection on which nothing has come for as long as a call waits is given up: if packets are lost,
    /// TCP may take minutes to notice, or to go on when the network is back.
    pub(crate) async fn call(
        &self,
        kind: Kind,
        payload: Vec<u8>,
        time_max: Duration,
    ) -> Result<Bytes, PeerError> {
        let received_before = self.shared.received.load(Ordering::SeqCst);
        match timeout(time_max, self.call_in_time(kind, payload)).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                if self.shared.received.load(Ordering::SeqCst) == received_before {
                    self.shared.break_off();
                }
                Err(PeerError::TimedOut)
            }
        }
    }

    async fn call_in_time(&self, kind: Kind, payload: Vec<u8>) -> Result<Bytes, PeerError> {
        let broken = || PeerError::Unreachable("the connection broke".to_owned());
        let call = self.shared.next_call.fetch_add(1, Ordering::Relaxed);
        let (send, reply) = oneshot::channel();
        match &mut *self.shared.waiting() {
            Some(waiting) => waiting.insert(call, send),
            None => return Err(broken()),
        };
        let _waiting = Waiting { shared: &self.shared, call };
        let frame = Frame::request(call, kind, payload);
        self.unsent.send(frame).await.map_err(|_closed| broken())?;
        let reply = reply.await.map_err(|_broken| broken())?;
        match reply.kind == Status::Done as u8 {
            true => Ok(reply.payload),
            false => Err(PeerError::Unreachable("the node does not answer that yet".to_owned())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.shared.break_off();
    }
}

async fn read_replies(mut read: ReadHalf, shared: Arc<Shared>) {
    let mut frames = FrameReader::default();
    while let Ok(Some(frame)) = frames.next(&mut read).await {
        shared.received.fetch_add(1, Ordering::SeqCst);
        let waiting = shared.waiting().as_mut().and_then(|waiting| waiting.remove(&frame.call));
        // Who called may have given up.
        if let Some(waiting) = waiting {
            let _ = waiting.send(frame);
        }
    }
    shared.break_off();
}

async fn write_requests(
    mut write: WriteHalf,
    mut to_send: mpsc::Receiver<Frame>,
    shared: Arc<Shared>,
) {
    while let Some(frame) = to_send.recv().await {
        if frame.send(&mut write).await.is_err() {
            break;
        }
    }
    shared.break_off();
}
