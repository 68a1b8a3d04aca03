//! FindCoordinator: which broker looks after a group, or after a transactional id.

use logway_coordinator::GroupId;
use logway_metadata::record::Endpoint;
use logway_model::{BrokerId, ErrorCode};
use logway_wire::WireString;
use logway_wire::messages::find_coordinator_response::Coordinator;
use logway_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use crate::handlers::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::handlers::cluster_view::ClusterView;
use crate::request::{RequestContext, refusal};
use logway_node::access::Operation;
use logway_node::failure::Failure;
use logway_node::groups::OFFSETS_TOPIC;
use logway_node::transactions::TRANSACTIONS_TOPIC;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// From this version on a request has any number of keys (KIP-699).
const MANY_KEYS_FROM: i16 = 4;

const NO_BROKER: i32 = -1;
const NO_PORT: i32 = -1;

/// An address for each key.
pub(crate) fn built_bytes(_context: &RequestContext, request: &FindCoordinatorRequest) -> usize {
    request.coordinator_keys.len() * ENTRY_WITH_MESSAGE_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let key_type = request.key_type;
    if context.version >= MANY_KEYS_FROM {
        let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
        for key in request.coordinator_keys {
            let found = find(&context, key_type, &key).await;
            coordinators.push(coordinator(key, found));
        }
        return FindCoordinatorResponse { coordinators, ..Default::default() };
    }
    let found = find(&context, key_type, &request.key).await;
    let Coordinator { error_code, error_message, node_id, host, port, .. } =
        coordinator(request.key, found);
    FindCoordinatorResponse { error_code, error_message, node_id, host, port, ..Default::default() }
}

/// Where the coordinator is.
struct Found {
    node_id: BrokerId,
    address: Endpoint,
}

async fn find(context: &RequestContext, key_type: i8, key: &str) -> Result<Found, Failure> {
    let leader = match key_type {
        GROUP => context.group(key, Operation::Describe).map_err(refusal)?.coordinator().await,
        TRANSACTION => {
            let id = context.transactional_id(key, Operation::Describe).map_err(refusal)?;
            id.coordinator().await
        }
        other => {
            let message = format!("there are no coordinators of type {other}");
            return Err(Failure::new(ErrorCode::InvalidRequest, message));
        }
    };
    let leader = leader.map_err(|failure| {
        // The client asks again.
        Failure::new(ErrorCode::CoordinatorNotAvailable, failure.message)
    })?;
    let view = ClusterView::of(context);
    match leader.and_then(|leader| view.broker(leader)) {
        Some(broker) => Ok(Found { node_id: broker.id, address: broker.address.clone() }),
        None => {
            let topic = if key_type == GROUP { OFFSETS_TOPIC } else { TRANSACTIONS_TOPIC };
            // Shortened: it is a client's word.
            let key = GroupId::from(key);
            let message = format!("the partition of {topic} for '{key}' is offline");
            Err(Failure::new(ErrorCode::CoordinatorNotAvailable, message))
        }
    }
}

fn coordinator(key: WireString, found: Result<Found, Failure>) -> Coordinator {
    match found {
        Ok(Found { node_id, address }) => Coordinator {
            key,
            node_id: node_id.0,
            host: address.host.into(),
            port: address.port.into(),
            ..Default::default()
        },
        Err(failure) => Coordinator {
            key,
            node_id: NO_BROKER,
            port: NO_PORT,
            error_code: failure.code.code(),
            error_message: Some(failure.message.into()),
            ..Default::default()
        },
    }
}
