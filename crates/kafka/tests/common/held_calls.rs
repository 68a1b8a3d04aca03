//! A node that hears nothing new of the metadata for a while.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_model::ClusterId;
use logway_peers::{
    CallHandler, Carried, Carrier, Greeting, HandledCall, Identity, Kind, Lane, PeerError,
    TcpCarrier,
};
use tokio::sync::watch;

/// Carries calls over TCP. What the quorum has for this node waits while it is held; what this node asks does not.
pub struct HeldCalls {
    carrier: TcpCarrier,
    is_held: watch::Sender<bool>,
}

impl HeldCalls {
    pub fn new(carrier: TcpCarrier) -> HeldCalls {
        HeldCalls { carrier, is_held: watch::Sender::new(false) }
    }

    pub fn hold(&self) {
        self.is_held.send_replace(true);
    }

    pub fn release(&self) {
        self.is_held.send_replace(false);
    }
}

/// Has calls wait.
struct Holding {
    handler: Arc<dyn CallHandler>,
    is_held: watch::Sender<bool>,
}

impl CallHandler for Holding {
    fn handle(&self, from: Identity, kind: Kind, payload: Bytes) -> HandledCall {
        if kind != Kind::Quorum || !*self.is_held.borrow() {
            return self.handler.handle(from, kind, payload);
        }
        let (handler, mut is_held) = (Arc::clone(&self.handler), self.is_held.subscribe());
        Box::pin(async move {
            is_held.wait_for(|is_held| !is_held).await.ok()?;
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
        let is_held = self.is_held.clone();
        self.carrier.serve(Arc::new(Holding { handler, is_held }));
    }

    fn stop(&self) -> Carried<()> {
        self.carrier.stop()
    }
}
