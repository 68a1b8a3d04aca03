//! UnregisterBroker: removes a broker for good (KIP-631).
//!
//! As in Kafka it may live or not, and stays among the replicas of its partitions. Each node is also a member of the
//! quorum here, so it leaves that as well. It does not come back by itself: see `docs/design/quorum.md`.

use logway_model::{BrokerId, ErrorCode};
use logway_node::access::Operation;
use logway_node::failure::Failure;
use logway_quorum::MembersChange;
use logway_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use crate::request::{RequestContext, refusal};

/// The answer is one outcome.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &UnregisterBrokerRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse {
    let failure = unregister(&context, BrokerId(request.broker_id)).await.err();
    UnregisterBrokerResponse {
        error_code: failure.as_ref().map_or(ErrorCode::None, |failure| failure.code).code(),
        error_message: failure.map(|failure| failure.message.into()),
        ..Default::default()
    }
}

async fn unregister(context: &RequestContext, id: BrokerId) -> Result<(), Failure> {
    let cluster = context.cluster(Operation::Alter).map_err(refusal)?;
    cluster.change_members(context, MembersChange::remove(id), None).await
}
