//! EndTxn: commits or aborts a transaction (KIP-98, KIP-890).

use logway_coordinator::transactions::{
    Producer, TransactionOutcome, TransactionReply, TransactionRequest,
};
use logway_model::{ErrorCode, TransactionVersion};
use logway_wire::messages::{EndTxnRequest, EndTxnResponse};

use super::{check_id, known_code, producer};
use crate::request::RequestContext;
use logway_node::access::Operation;

const KNOWS_FENCED_FROM: i16 = 2;
const KNOWS_ABORTABLE_FROM: i16 = 4;

/// From this version on the end raises the producer's epoch, and the client is told the next one.
const EPOCH_BUMP_FROM: i16 = 5;

/// The answer is one identity.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &EndTxnRequest) -> usize {
    0
}

pub(crate) async fn handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse {
    let version = context.version;
    match end(&context, &request).await {
        Ok(producer) if version >= EPOCH_BUMP_FROM => EndTxnResponse {
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0,
            ..EndTxnResponse::default()
        },
        Ok(_) => EndTxnResponse::default(),
        Err(code) => EndTxnResponse {
            error_code: known_code(
                code,
                version >= KNOWS_FENCED_FROM,
                version >= KNOWS_ABORTABLE_FROM,
            )
            .code(),
            ..EndTxnResponse::default()
        },
    }
}

async fn end(context: &RequestContext, request: &EndTxnRequest) -> Result<Producer, ErrorCode> {
    let id = request.transactional_id.as_str();
    let permitted = context.transactional_id(id, Operation::Write)?;
    check_id(id)?;
    let outcome = match request.committed {
        true => TransactionOutcome::Commit,
        false => TransactionOutcome::Abort,
    };
    let version = match context.version {
        EPOCH_BUMP_FROM.. => TransactionVersion::EPOCH_BUMP,
        _ => TransactionVersion::CLASSIC,
    };
    let reply = permitted.ask(|fresh_id| TransactionRequest::EndTxn {
        transactional_id: id.into(),
        producer: producer(request.producer_id, request.producer_epoch),
        outcome,
        version,
        fresh_id,
    });
    match reply.await? {
        TransactionReply::EndTxn(outcome) => outcome,
        other => unreachable!("the shard answered {other:?}"),
    }
}
