//! Calling any node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use logway_quorum::{Lane, Peer, PeerCall, PeerError, PeerNetwork};
use tokio::time::{Instant, timeout};

use crate::connection::Connection;
use crate::frame::Kind;
use crate::hello::Identity;

/// Connections to other nodes, made when they are needed.
///
/// A node is known by its address and its lane. One that cannot be reached is tried again by the next call.
#[derive(Clone)]
pub struct Peers {
    inner: Arc<Inner>,
}

struct Inner {
    own: RwLock<Identity>,
    connections: Mutex<HashMap<(String, Lane), Arc<Slot>>>,
}

/// The place of a connection: held while one is being made, so that calls that come meanwhile share it.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Option<Arc<Connection>>>);

impl Peers {
    /// Calls in the name of `own`.
    pub fn new(own: Identity) -> Peers {
        let (own, connections) = (RwLock::new(own), Mutex::default());
        Peers { inner: Arc::new(Inner { own, connections }) }
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
    ) -> Result<Vec<u8>, PeerError> {
        let deadline = Instant::now() + time_max;
        let connecting = timeout(time_max, self.connection(address, lane)).await;
        let connection = connecting.map_err(|_elapsed| PeerError::TimedOut)??;
        connection.call(kind, payload, deadline.saturating_duration_since(Instant::now())).await
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
        let opened = Connection::open(address, lane, self.own()).await;
        let opened = opened.map_err(|error| PeerError::Unreachable(error.to_string()))?;
        Ok(Arc::clone(place.insert(Arc::new(opened))))
    }
}

impl PeerNetwork for Peers {
    fn call(&self, to: &Peer, lane: Lane, request: Vec<u8>, timeout: Duration) -> PeerCall {
        let (peers, address) = (self.clone(), to.address.clone());
        Box::pin(async move { peers.request(&address, lane, Kind::Quorum, request, timeout).await })
    }
}
