//! One node's way to the others, and theirs to it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use logway_model::{ClusterId, DirectoryId};
use logway_quorum::{Lane, Peer, PeerCall, PeerError, PeerNetwork};

use crate::client::{Greeting, Peers};
use crate::frame::Kind;
use crate::hello::Identity;
use crate::server::{CallHandler, PeerListener, PeerServer};
use crate::tls::PeerTls;

/// What comes of a call.
pub type Carried<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Carries calls between this node and others: over TCP, or within the process where a simulation has its own network.
pub trait Carrier: Send + Sync + 'static {
    /// Where others reach this node.
    fn address(&self) -> SocketAddr;

    /// As [`Peers::set_own`].
    fn set_own(&self, own: Identity);

    /// As [`Peers::request`].
    fn request(
        &self,
        address: &str,
        lane: Lane,
        kind: Kind,
        payload: Vec<u8>,
        time_max: Duration,
    ) -> Carried<Result<Bytes, PeerError>>;

    /// As [`Peers::greet`].
    fn greet(&self, address: &str, time_max: Duration) -> Carried<Result<Greeting, PeerError>>;

    /// As [`Peers::is_vacant`].
    fn is_vacant(&self, address: &str, time_max: Duration) -> Carried<bool>;

    /// As [`PeerServer::belongs_to`].
    fn belongs_to(&self, cluster: ClusterId);

    /// As [`PeerServer::serve`].
    fn serve(&self, handler: Arc<dyn CallHandler>);

    /// Ends the connections of other nodes.
    fn stop(&self) -> Carried<()>;
}

/// Carries calls over TCP.
pub struct TcpCarrier {
    address: SocketAddr,
    peers: Peers,
    /// `None` once it has stopped.
    server: Mutex<Option<PeerServer>>,
}

impl TcpCarrier {
    /// Serves the nodes that connect to `listener`, and calls others in nobody's name yet; with TLS if there is some.
    pub fn new(listener: PeerListener, tls: Option<PeerTls>) -> TcpCarrier {
        let nobody = Identity { cluster: None, node: None, directory: DirectoryId::UNASSIGNED };
        TcpCarrier {
            address: listener.address(),
            peers: Peers::new(nobody, tls.clone()),
            server: Mutex::new(Some(PeerServer::start(listener, tls))),
        }
    }

    fn server(&self) -> MutexGuard<'_, Option<PeerServer>> {
        // What it guards is right after each step.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carrier for TcpCarrier {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn set_own(&self, own: Identity) {
        self.peers.set_own(own);
    }

    fn request(
        &self,
        address: &str,
        lane: Lane,
        kind: Kind,
        payload: Vec<u8>,
        time_max: Duration,
    ) -> Carried<Result<Bytes, PeerError>> {
        let (peers, address) = (self.peers.clone(), address.to_owned());
        Box::pin(async move { peers.request(&address, lane, kind, payload, time_max).await })
    }

    fn greet(&self, address: &str, time_max: Duration) -> Carried<Result<Greeting, PeerError>> {
        let (peers, address) = (self.peers.clone(), address.to_owned());
        Box::pin(async move { peers.greet(&address, time_max).await })
    }

    fn is_vacant(&self, address: &str, time_max: Duration) -> Carried<bool> {
        let (peers, address) = (self.peers.clone(), address.to_owned());
        Box::pin(async move { peers.is_vacant(&address, time_max).await })
    }

    fn belongs_to(&self, cluster: ClusterId) {
        if let Some(server) = &*self.server() {
            server.belongs_to(cluster);
        }
    }

    fn serve(&self, handler: Arc<dyn CallHandler>) {
        if let Some(server) = &*self.server() {
            server.serve(handler);
        }
    }

    fn stop(&self) -> Carried<()> {
        let server = self.server().take();
        Box::pin(async move {
            if let Some(server) = server {
                server.stop().await;
            }
        })
    }
}

/// Carries what the metadata quorum says.
pub struct QuorumCalls(pub Arc<dyn Carrier>);

impl PeerNetwork for QuorumCalls {
    fn call(&self, to: &Peer, lane: Lane, request: Vec<u8>, timeout: Duration) -> PeerCall {
        let reply = self.0.request(&to.address, lane, Kind::Quorum, request, timeout);
        Box::pin(async move { Ok(reply.await?.into()) })
    }
}
