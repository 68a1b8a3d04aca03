//! A member of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use logway_wire::messages::JoinGroupRequest;
use logway_wire::messages::join_group_request::JoinGroupRequestProtocol;

use crate::ids::{InstanceId, MemberId, ProtocolName};
use crate::record::MemberMetadata;
use crate::request::{Client, RequestToken};

/// A member, as the group's rebalances see it.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: MemberId,
    pub(crate) instance_id: Option<InstanceId>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) session_timeout_ms: i32,
    pub(crate) protocols: Protocols,
    /// What the leader assigned in the current generation, once that is stable.
    pub(crate) assignment: Bytes,
    /// The JoinGroup that waits.
    pub(crate) awaiting_join: Option<RequestToken>,
    /// The SyncGroup that waits.
    pub(crate) awaiting_sync: Option<RequestToken>,
    /// Whether its first JoinGroup still waits, so that it cannot send heartbeats.
    pub(crate) is_new: bool,
}

/// The assignors that a member supports, best first, with its metadata for each. Never read here.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Protocols(Vec<(ProtocolName, Bytes)>);

/// What every member takes beside its texts, in its own place.
const OVERHEAD_BYTES: usize = 64;

/// What every protocol of a member takes beside its bytes, with its place among those of the group.
const PROTOCOL_OVERHEAD_BYTES: usize = 128;

impl Member {
    /// A member that joins.
    pub(crate) fn new(
        id: MemberId,
        client: &Client,
        request: &JoinGroupRequest,
        protocols: Protocols,
    ) -> Member {
        Member {
            id,
            instance_id: request.group_instance_id.as_ref().map(InstanceId::from),
            client_id: client.id.as_str().into(),
            client_host: client.host.as_str().into(),
            rebalance_timeout_ms: rebalance_timeout_ms(request),
            session_timeout_ms: request.session_timeout_ms,
            protocols,
            assignment: Bytes::new(),
            awaiting_join: None,
            awaiting_sync: None,
            is_new: true,
        }
    }

    /// A member as the log knows it: with its metadata for the group's protocol only.
    pub(crate) fn restore(metadata: &MemberMetadata, protocol: Option<&ProtocolName>) -> Member {
        let protocols =
            protocol.map(|name| (name.clone(), metadata.subscription.clone())).into_iter();
        Member {
            id: metadata.member_id.clone(),
            instance_id: metadata.instance_id.clone(),
            client_id: metadata.client_id.clone(),
            client_host: metadata.client_host.clone(),
            rebalance_timeout_ms: metadata.rebalance_timeout_ms,
            session_timeout_ms: metadata.session_timeout_ms,
            protocols: Protocols(protocols.collect()),
            assignment: metadata.assignment.clone(),
            awaiting_join: None,
            awaiting_sync: None,
            is_new: false,
        }
    }

    /// The member as the log shall know it.
    pub(crate) fn metadata(
        &self,
        protocol: Option<&ProtocolName>,
        assignment: Bytes,
    ) -> MemberMetadata {
        MemberMetadata {
            member_id: self.id.clone(),
            instance_id: self.instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.protocols.metadata(protocol),
            assignment,
        }
    }

    /// Whether the member need not be heard of: it waits for others.
    pub(crate) fn is_excused(&self) -> bool {
        // A new member's client may have given up without a trace.
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }

    /// The bytes that are kept for it, its assignment left out.
    pub(crate) fn held_bytes(&self) -> usize {
        let instance = self.instance_id.as_ref().map_or(0, |id| id.as_str().len());
        let names = self.id.as_str().len() + instance + self.client_id.len();
        OVERHEAD_BYTES + names + self.client_host.len() + self.protocols.held_bytes()
    }
}

/// Version 0 has one timeout for both.
pub(crate) fn rebalance_timeout_ms(request: &JoinGroupRequest) -> i32 {
    match request.rebalance_timeout_ms {
        -1 => request.session_timeout_ms,
        timeout_ms => timeout_ms,
    }
}

impl Protocols {
    /// Copies them out of a frame. Of two with one name the first counts.
    pub(crate) fn from_request(protocols: &[JoinGroupRequestProtocol]) -> Protocols {
        let mut seen = BTreeMap::new();
        let is_first = |protocol: &&JoinGroupRequestProtocol| {
            seen.insert(protocol.name.as_bytes().clone(), ()).is_none()
        };
        let copied = protocols.iter().filter(is_first).map(|protocol| {
            (ProtocolName::from(&protocol.name), Bytes::copy_from_slice(&protocol.metadata))
        });
        Protocols(copied.collect())
    }

    /// The same of pairs that were taken out before.
    pub(crate) fn of_pairs(pairs: Vec<(ProtocolName, Bytes)>) -> Protocols {
        Protocols(pairs)
    }

    /// Each name with its metadata, best first.
    pub(crate) fn into_pairs(self) -> Vec<(ProtocolName, Bytes)> {
        self.0
    }

    /// The names, best first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ProtocolName> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The metadata for a protocol; empty for one that is not supported.
    pub(crate) fn metadata(&self, protocol: Option<&ProtocolName>) -> Bytes {
        let found = self.0.iter().find(|(name, _)| Some(name) == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn held_bytes(&self) -> usize {
        let each = |(name, metadata): &(ProtocolName, Bytes)| {
            PROTOCOL_OVERHEAD_BYTES + name.as_str().len() + metadata.len()
        };
        self.0.iter().map(each).sum()
    }
}
