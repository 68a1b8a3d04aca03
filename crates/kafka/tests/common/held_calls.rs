//! A node that hears nothing new of the metadata for a while, or whose followers get nothing from it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_model::{BrokerId, ClusterId};
use logway_peers::{
    CallHandler, Carried, Carrier, Greeting, HandledCall, Identity, Kind, Lane, PeerError,
    TcpCarrier,
};
use tokio::sync::watch;

/// Calls that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    /// What the quorum has for this node.
    Quorum,
    /// What a follower asks this node.
    FetchesOf(BrokerId),
}

impl Held {
    fn is_about(self, from: Identity, kind: Kind) -> bool {
        match self {
            Held::Nothing => false,
            Held::Quorum => kind == Kind::Quorum,
            Held::FetchesOf(follower) => kind == Kind::Fetch && from.node == Some(follower),
        }
    }
}

/// Carries calls over TCP. What others ask of this node waits while it is held; what this node asks does not.
pub struct HeldCalls {
    carrier: TcpCarrier,
    held: watch::Sender<Held>,
}

impl HeldCalls {
    pub fn new(carrier: TcpCarrier) -> HeldCalls {
        HeldCalls { carrier, held: watch::Sender::new(Held::Nothing) }
    }

    pub fn hold(&self) {
        self.held.send_replace(Held::Quorum);
    }

    pub fn hold_fetches_of(&self, follower: BrokerId) {
        self.held.send_replace(Held::FetchesOf(follower));
    }

    pub fn release(&self) {
        self.held.send_replace(Held::Nothing);
    }
}

/// Has calls wait.
struct Holding {
    handler: Arc<dyn CallHandler>,
    held: watch::Sender<Held>,
}

impl CallHandler for Holding {
    fn handle(&self, from: Identity, kind: Kind, payload: Bytes) -> HandledCall {
        if !self.held.borrow().is_about(from, kind) {
            return self.handler.handle(from, kind, payload);
        }
        let (handler, mut held) = (Arc::clone(&self.handler), self.held.subscribe());
        Box::pin(async move {
            held.wait_for(|held| !held.is_about(from, kind)).await.ok()?;
            handler.handle(from, kind, payload).await
        })
    }
}

impl Carrier for HeldCalls {
    fn address(&self) -> SocketAddr {
        self.carrier.address()
    }

    fn set_own(&self, own: Identity) {
        self.carrier.set_own(own);
    }

    fn request(
        &self,
        address: &str,
        lane: Lane,
        kind: Kind,
        payload: Vec<u8>,
        time_max: Duration,
    ) -> Carried<Result<Bytes, PeerError>> {
        self.carrier.request(address, lane, kind, payload, time_max)
    }

    fn greet(&self, address: &str, time_max: Duration) -> Carried<Result<Greeting, PeerError>> {
        self.carrier.greet(address, time_max)
    }

    fn is_vacant(&self, address: &str, time_max: Duration) -> Carried<bool> {
        self.carrier.is_vacant(address, time_max)
    }

    fn belongs_to(&self, cluster: ClusterId) {
        self.carrier.belongs_to(cluster);
    }

    fn serve(&self, handler: Arc<dyn CallHandler>) {
        let held = self.held.clone();
        self.carrier.serve(Arc::new(Holding { handler, held }));
    }

    fn stop(&self) -> Carried<()> {
        self.carrier.stop()
    }
}
