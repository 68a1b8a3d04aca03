//! Calling any node.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use logway_model::ClusterId;
use logway_quorum::{Lane, PeerError};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::connection::Connection;
use crate::frame::Kind;
use crate::hello::Identity;
use crate::tls::{PeerTls, Way};

/// The log says so often that another node refuses this one.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Connections to other nodes, made when they are needed.
///
/// A node is known by its address and its lane. One that cannot be reached is tried again by the next call.
#[derive(Clone)]
pub struct Peers {
    inner: Arc<Inner>,
}

struct Inner {
    own: RwLock<Identity>,
    way: Way,
    connections: Mutex<HashMap<(String, Lane), Arc<Slot>>>,
    /// When the log said last that another node refuses this one.
    refused_at: Mutex<Option<Instant>>,
}

/// What a node tells who greets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// The cluster that it belongs to, if it does.
    pub cluster: Option<ClusterId>,
    /// The address by which it sees the caller.
    pub own_address: IpAddr,
}

/// The place of a connection: held while one is being made, so that calls that come meanwhile share it.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<Arc<Connection>>>);

impl Peers {
    /// Calls in the name of `own`, with TLS if there is some.
    pub fn new(own: Identity, tls: Option<PeerTls>) -> Peers {
        let (own, connections) = (RwLock::new(own), Mutex::default());
        let way = tls.map_or(Way::Plain, Way::Tls);
        let refused_at = Mutex::default();
        Peers { inner: Arc::new(Inner { own, way, connections, refused_at }) }
    }

    /// Who calls.
    pub fn own(&self) -> Identity {
        *self.inner.own.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls in another name from now on: the node has joined a cluster, or got its number. Connections that
    /// were made in the old name are closed.
    pub fn set_own(&self, own: Identity) {
        *self.inner.own.write().unwrap_or_else(PoisonError::into_inner) = own;
        self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a request and waits for its reply, both for at most `time_max`.
    pub async fn request(
        &self,
        address: &str,
        lane: Lane,
        kind: Kind,
        payload: Vec<u8>,
        time_max: Duration,
    ) -> Result<Bytes, PeerError> {
        let deadline = Instant::now() + time_max;
        let connecting = timeout(time_max, self.connection(address, lane)).await;
        let connection = connecting.map_err(|_elapsed| PeerError::TimedOut)??;
        connection.call(kind, payload, deadline.saturating_duration_since(Instant::now())).await
    }

    /// Greets the node at an address. An error says why it cannot be reached, or may not be called.
    pub async fn greet(&self, address: &str, time_max: Duration) -> Result<Greeting, PeerError> {
        let connecting = timeout(time_max, self.connection(address, Lane::Control)).await;
        let connection = connecting.map_err(|_elapsed| PeerError::TimedOut)??;
        Ok(Greeting { cluster: connection.cluster(), own_address: connection.own_address() })
    }

    /// Whether nobody listens at an address, which its machine says at once: then no process of a node is there.
    /// That nothing is heard says nothing.
    pub async fn is_vacant(&self, address: &str, time_max: Duration) -> bool {
        match timeout(time_max, TcpStream::connect(address)).await {
            Ok(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
            Ok(Ok(_)) | Err(_) => false,
        }
    }

    /// Who is refused is tried again and again, and by itself does not find out why.
    fn warn_of_refusal(&self, address: &str, error: &io::Error) {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return;
        }
        let mut said_at = self.inner.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        if said_at.is_none_or(|at| at.elapsed() >= REFUSAL_LOG_INTERVAL) {
            *said_at = Some(Instant::now());
            tracing::warn!(address, %error, "another node cannot be called");
        }
    }

    async fn connection(&self, address: &str, lane: Lane) -> Result<Arc<Connection>, PeerError> {
        let slot = {
            let mut all = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry((address.to_owned(), lane)).or_default())
        };
        let mut place = slot.0.lock().await;
        if let Some(connection) = place.as_ref().filter(|connection| connection.is_usable()) {
            return Ok(Arc::clone(connection));
        }
        *place = None;
        let opened = Connection::open(address, lane, self.own(), &self.inner.way).await;
        let opened = opened.map_err(|error| {
            self.warn_of_refusal(address, &error);
            PeerError::Unreachable(error.to_string())
        })?;
        Ok(Arc::clone(place.insert(Arc::new(opened))))
    }
}

/// Asks the node at an address to admit this one, which has no certificate yet. `config` says which authority is believed.
pub async fn ask_for_admission(
    address: &str,
    config: Arc<ClientConfig>,
    own: Identity,
    request: Vec<u8>,
    time_max: Duration,
) -> Result<Bytes, PeerError> {
    let way = Way::Joining(config);
    let asking = async {
        let opened = Connection::open(address, Lane::Control, own, &way).await;
        let connection = opened.map_err(|error| PeerError::Unreachable(error.to_string()))?;
        connection.call(Kind::Admission, request, time_max).await
    };
    timeout(time_max, asking).await.map_err(|_elapsed| PeerError::TimedOut)?
}
