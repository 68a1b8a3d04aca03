//! FindCoordinator: which broker looks after a group.

use logway_coordinator::GroupId;
use logway_metadata::record::Endpoint;
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::find_coordinator_response::Coordinator;
use logway_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use crate::handlers::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::request::RequestContext;
use logway_node::failure::Failure;
use logway_node::groups::{OFFSETS_TOPIC, ensure_offsets_topic};

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
            coordinators.push(coordinator(&context, key, found));
        }
        return FindCoordinatorResponse { coordinators, ..Default::default() };
    }
    let found = find(&context, key_type, &request.key).await;
    let Coordinator { error_code, error_message, node_id, host, port, .. } =
        coordinator(&context, request.key, found);
    FindCoordinatorResponse { error_code, error_message, node_id, host, port, ..Default::default() }
}

/// The address of the coordinator, which is this broker: it leads every partition there is.
async fn find(context: &RequestContext, key_type: i8, key: &str) -> Result<Endpoint, Failure> {
    match key_type {
        GROUP => {}
        TRANSACTION => {
            let message = "transactions are not supported";
            return Err(Failure::new(ErrorCode::InvalidRequest, message));
        }
        other => {
            let message = format!("there are no coordinators of type {other}");
            return Err(Failure::new(ErrorCode::InvalidRequest, message));
        }
    }
    ensure_offsets_topic(context.node()).await.map_err(|failure| {
        // The client asks again.
        Failure::new(ErrorCode::CoordinatorNotAvailable, failure.message)
    })?;
    let table = context.node().topics();
    let place = context.node().groups.place_of(key);
    let partition =
        place.and_then(|place| table.by_name(OFFSETS_TOPIC).ok()?.partition(place).ok());
    match partition {
        Some(_) => Ok(context.node().advertised(context.connection.local)),
        None => {
            let group = GroupId::from(key);
            let message = format!("the partition of {OFFSETS_TOPIC} for '{group}' is offline");
            Err(Failure::new(ErrorCode::CoordinatorNotAvailable, message))
        }
    }
}

fn coordinator(
    context: &RequestContext,
    key: WireString,
    found: Result<Endpoint, Failure>,
) -> Coordinator {
    match found {
        Ok(address) => Coordinator {
            key,
            node_id: context.node().settings.node_id.0,
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
