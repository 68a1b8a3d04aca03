//! What the audit log is told by every front door.

use std::net::SocketAddr;

use crate::access::{Operation, Requester, Resource};
use crate::node::Node;
use crate::{AUDIT, CLIENTS};

/// Tells the audit log what is about to be done, or was refused.
pub fn authorization(
    requester: &Requester<'_>,
    client_id: &str,
    operation: Operation,
    resource: Resource<'_>,
    is_allowed: bool,
) {
    tracing::info!(
        target: AUDIT,
        principal = %requester.principal,
        host = %requester.host.to_canonical(),
        client_id,
        operation = operation.name(),
        resource_type = resource.kind().name(),
        resource = resource.name().unwrap_or_default(),
        is_allowed,
        "authorization"
    );
}

impl Node {
    /// Tells both logs of a client that is not who it says, and counts it.
    pub fn note_not_believed(&self, peer: SocketAddr, user: &str, mechanism: &str, reason: &str) {
        let user = shortened(user);
        tracing::info!(target: CLIENTS, %peer, user, mechanism, reason, "a client is not who it says");
        let host = peer.ip().to_canonical();
        tracing::info!(target: AUDIT, %host, user, mechanism, reason, "authentication failed");
        self.metrics.connections.not_believed.inc();
    }
}

/// A name that a stranger chose must not fill the log.
fn shortened(name: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    name.chars().take(SHOWN_CHARS).collect()
}
