//! What other nodes ask of this one.

use std::sync::Weak;

use bytes::Bytes;
use logway_peers::{CallHandler, HandledCall, Identity, Kind};

use super::heartbeat::Heartbeat;
use super::levels::encode_newest;
use crate::Node;

/// Answers the calls of other nodes. It does not keep the node alive.
pub(super) struct Calls(pub(super) Weak<Node>);

impl CallHandler for Calls {
    fn handle(&self, from: Identity, kind: Kind, payload: Bytes) -> HandledCall {
        let Some(node) = self.0.upgrade() else { return nobody_here() };
        match kind {
            Kind::Quorum => Box::pin(async move { Some(node.quorum.handle(&payload).await) }),
            Kind::Fetch => {
                // Who has no number of the cluster has not been admitted yet.
                let taken = from.node.and_then(|from| node.take_fetch(from, &payload));
                let Some(taken) = taken else { return nobody_here() };
                Box::pin(async move { Some(node.answer_follower(taken).await) })
            }
            Kind::Partition => {
                Box::pin(async move { node.answer_for_leader(from.node?, &payload).await })
            }
            Kind::Transactions => {
                let taken = from.node.and_then(|from| node.take_about_transactions(from, &payload));
                let Some(taken) = taken else { return nobody_here() };
                Box::pin(async move { Some(node.answer_about_transactions(taken).await) })
            }
            Kind::Holdings => Box::pin(async move {
                from.node?;
                Some(node.holdings().await.encode())
            }),
            Kind::Levels => Box::pin(async move { from.node.map(|_| encode_newest()) }),
            Kind::Admission => Box::pin(async move { node.admit_node(&payload).await }),
            Kind::NodeKey => {
                let directory = node.directory_of_key(&payload);
                Box::pin(async { directory })
            }
            Kind::Heartbeat => {
                let heartbeat = Heartbeat::decode(&payload);
                let heartbeat = heartbeat.filter(|it| from.node == Some(it.broker));
                let controller = node.cluster.as_ref().map(|cluster| &cluster.controller);
                let heard = controller.zip(heartbeat).map(|(it, heartbeat)| it.hear(heartbeat));
                let reply = heard.map(|is_known| vec![u8::from(is_known)]);
                Box::pin(async { reply })
            }
        }
    }
}

fn nobody_here() -> HandledCall {
    Box::pin(async { None })
}
