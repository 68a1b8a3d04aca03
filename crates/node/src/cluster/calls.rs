//! What other nodes ask of this one.

use std::sync::Weak;

use bytes::Bytes;
use logway_peers::{CallHandler, HandledCall, Identity, Kind};

use super::heartbeat::Heartbeat;
use crate::Node;

/// Answers the calls of other nodes. It does not keep the node alive.
pub(super) struct Calls(pub(super) Weak<Node>);

impl CallHandler for Calls {
    fn handle(&self, from: Identity, kind: Kind, payload: Bytes) -> HandledCall {
        let node = self.0.clone();
        Box::pin(async move {
            let node = node.upgrade()?;
            match kind {
                Kind::Quorum => Some(node.quorum.handle(&payload).await),
                // Who has no number of the cluster has not been admitted yet.
                Kind::Fetch => node.answer_follower(from.node?, &payload).await,
                Kind::Heartbeat => {
                    let heartbeat = Heartbeat::decode(&payload)?;
                    if from.node != Some(heartbeat.broker) {
                        return None;
                    }
                    Some(vec![u8::from(node.cluster.as_ref()?.controller.hear(heartbeat))])
                }
            }
        })
    }
}
