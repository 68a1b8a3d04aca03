//! What a handler knows beside the request itself.

use std::sync::Arc;

use logway_node::Node;
use logway_node::memory::Held;
use logway_wire::WireString;

use super::charge::RequestCharge;
use super::connection_info::ConnectionInfo;
use crate::service::Service;
use crate::telemetry::Pusher;

/// What a handler knows beside the request itself.
#[derive(Clone)]
pub(crate) struct RequestContext {
    /// What serves it.
    pub(crate) service: Arc<Service>,
    /// The connection it came by.
    pub(crate) connection: Arc<ConnectionInfo>,
    /// The version of the request, and so of its answer.
    pub(crate) version: i16,
    /// Pairs the answer with the request.
    pub(crate) correlation_id: i32,
    /// What the client calls itself.
    pub(crate) client_id: Option<WireString>,
    /// The memory of the request itself. Who keeps something of the request keeps it, whatever becomes of the client.
    pub(crate) request_share: Held,
    /// The memory that answering takes, if it takes much. Work that goes on when the request is
    /// answered keeps it.
    pub(crate) building: Held,
    /// What the request uses up, if any client has a quota.
    pub(crate) charge: Option<Arc<RequestCharge>>,
}

impl RequestContext {
    /// The client, as telemetry knows it.
    pub(crate) fn pusher(&self) -> Pusher<'_> {
        let client_id = self.client_id.as_deref().unwrap_or_default();
        Pusher { connection: &self.connection, client_id }
    }

    /// The node that is asked.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.service.node
    }
}
