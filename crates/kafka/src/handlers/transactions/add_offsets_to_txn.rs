//! AddOffsetsToTxn: the offsets of a group become part of a transaction (KIP-98). Only clients of the older protocol ask.

use logway_coordinator::transactions::{TransactionReply, TransactionRequest};
use logway_model::{ErrorCode, TransactionVersion};
use logway_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::{check_id, known_code, producer};
use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};

const KNOWS_FENCED_FROM: i16 = 2;
const KNOWS_ABORTABLE_FROM: i16 = 4;

/// The answer is one code.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &AddOffsetsToTxnRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let version = context.version;
    let code = add(&context, &request).await.err().unwrap_or(ErrorCode::None);
    let code =
        known_code(code, version >= KNOWS_FENCED_FROM, version >= KNOWS_ABORTABLE_FROM).code();
    AddOffsetsToTxnResponse { error_code: code, ..AddOffsetsToTxnResponse::default() }
}

async fn add(context: &RequestContext, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    let id = request.transactional_id.as_str();
    let permitted = context.transactional_id(id, Operation::Write)?;
    context.check(Operation::Read, Resource::Group(&request.group_id))?;
    check_id(id)?;
    let partition = context.offsets_partition(&request.group_id).await;
    let partition = partition.map_err(|_failure| ErrorCode::CoordinatorNotAvailable)?;
    let reply = permitted.ask(|_| TransactionRequest::AddPartitions {
        transactional_id: id.into(),
        producer: producer(request.producer_id, request.producer_epoch),
        partitions: vec![partition.clone()],
        version: TransactionVersion::CLASSIC,
    });
    match reply.await? {
        TransactionReply::AddPartitions(outcome) => outcome,
        other => unreachable!("the shard answered {other:?}"),
    }
}
