//! InitProducerId: gives a producer its identity (KIP-98, KIP-360).

use logway_coordinator::transactions::{Producer, TransactionReply, TransactionRequest};
use logway_model::{ErrorCode, ProducerEpoch, ProducerId};
use logway_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::{check_id, known_code, producer};
use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};

const KNOWS_FENCED_FROM: i16 = 4;
const KNOWS_ABORTABLE_FROM: i16 = 5;

/// The answer is one identity.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &InitProducerIdRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let version = context.version;
    match init(&context, &request).await {
        Ok(Producer { id, epoch }) => InitProducerIdResponse {
            producer_id: id.0,
            producer_epoch: epoch.0,
            ..Default::default()
        },
        // As in Kafka: each client asks again after this one.
        Err(ErrorCode::NotController) => refused(ErrorCode::CoordinatorLoadInProgress),
        Err(code) => {
            let knows_fenced = version >= KNOWS_FENCED_FROM;
            refused(known_code(code, knows_fenced, version >= KNOWS_ABORTABLE_FROM))
        }
    }
}

/// Who may write to any topic may be an idempotent producer (KIP-679).
async fn init(
    context: &RequestContext,
    request: &InitProducerIdRequest,
) -> Result<Producer, ErrorCode> {
    let Some(id) = request.transactional_id.as_deref() else {
        if !context.may(Operation::Write, Resource::SomeTopic) {
            context.check(Operation::IdempotentWrite, Resource::Cluster)?;
        }
        check_identity(request)?;
        // One that has an id and wants its epoch raised after an error gets a new id like any other: Kafka, too, raises
        // epochs for transactional producers only.
        let (id, epoch) = context.next_producer_id().await.map_err(|failure| failure.code)?;
        return Ok(Producer { id, epoch });
    };
    let permitted = context.transactional_id(id, Operation::Write)?;
    check_identity(request)?;
    check_id(id)?;
    permitted.check_timeout(request.transaction_timeout_ms)?;
    let expected = producer(request.producer_id, request.producer_epoch);
    let reply = permitted.ask(|fresh_id| TransactionRequest::InitProducerId {
        transactional_id: id.into(),
        timeout_ms: request.transaction_timeout_ms,
        expected: (expected != Producer::NONE).then_some(expected),
        fresh_id,
    });
    match reply.await? {
        TransactionReply::InitProducerId(outcome) => outcome,
        other => unreachable!("the shard answered {other:?}"),
    }
}

/// An id comes with an epoch.
fn check_identity(request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    let has_id = ProducerId(request.producer_id) != ProducerId::NONE;
    let has_epoch = ProducerEpoch(request.producer_epoch) != ProducerEpoch::NONE;
    match has_id == has_epoch {
        true => Ok(()),
        false => Err(ErrorCode::InvalidRequest),
    }
}

fn refused(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code: code.code(),
        producer_id: ProducerId::NONE.0,
        producer_epoch: ProducerEpoch::NONE.0,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_with_an_epoch() {
        let check = |producer_id, producer_epoch| {
            check_identity(&InitProducerIdRequest {
                producer_id,
                producer_epoch,
                ..Default::default()
            })
        };
        assert_eq!((check(-1, -1), check(7, 3)), (Ok(()), Ok(())));
        assert_eq!(check(7, -1), Err(ErrorCode::InvalidRequest));
        assert_eq!(check(-1, 3), Err(ErrorCode::InvalidRequest));
    }
}
