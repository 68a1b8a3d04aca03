//! InitProducerId: gives an idempotent producer its identity (KIP-98, KIP-360).

use logway_model::{ErrorCode, ProducerEpoch, ProducerId};
use logway_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};

/// The answer is one identity.
pub(crate) fn built_bytes(_context: &RequestContext, _request: &InitProducerIdRequest) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let permission = check_permission(&context, request.transactional_id.as_deref());
    if let Err(code) = permission.and_then(|()| check(&request)) {
        return refused(code);
    }
    match context.next_producer_id().await {
        Ok((producer_id, epoch)) => InitProducerIdResponse {
            producer_id: producer_id.0,
            producer_epoch: epoch.0,
            ..Default::default()
        },
        // As in Kafka: each client asks again after this one.
        Err(failure) if failure.code == ErrorCode::NotController => {
            refused(ErrorCode::CoordinatorLoadInProgress)
        }
        Err(failure) => refused(failure.code),
    }
}

/// Who may write to any topic may be an idempotent producer (KIP-679).
fn check_permission(
    context: &RequestContext,
    transactional_id: Option<&str>,
) -> Result<(), ErrorCode> {
    if let Some(id) = transactional_id {
        return context.check(Operation::Write, Resource::TransactionalId(id));
    }
    match context.may(Operation::Write, Resource::SomeTopic) {
        true => Ok(()),
        false => context.check(Operation::IdempotentWrite, Resource::Cluster),
    }
}

/// A producer that has an id and an epoch, and wants them raised after an error, gets a new id like
/// any other: Kafka, too, raises epochs for transactional producers only.
fn check(request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    let has_id = ProducerId(request.producer_id) != ProducerId::NONE;
    let has_epoch = ProducerEpoch(request.producer_epoch) != ProducerEpoch::NONE;
    match request.transactional_id.as_deref() {
        _ if has_id != has_epoch => Err(ErrorCode::InvalidRequest),
        None => Ok(()),
        Some("") => Err(ErrorCode::InvalidRequest),
        // There are no transactions. Of the codes that could say so this is the one at which both
        // the Java client and librdkafka give up and tell the application; librdkafka tries again
        // for ever after UNSUPPORTED_VERSION or INVALID_REQUEST. Neither comes this far while
        // FindCoordinator is not served.
        Some(_) => Err(ErrorCode::TransactionalIdAuthorizationFailed),
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

    fn request(
        transactional_id: Option<&'static str>,
        producer_id: i64,
        producer_epoch: i16,
    ) -> InitProducerIdRequest {
        InitProducerIdRequest {
            transactional_id: transactional_id.map(Into::into),
            producer_id,
            producer_epoch,
            ..Default::default()
        }
    }

    #[test]
    fn producers_without_transactions_are_accepted() {
        assert_eq!(check(&request(None, -1, -1)), Ok(()));
        assert_eq!(check(&request(None, 7, 3)), Ok(()));
    }

    #[test]
    fn an_id_comes_with_an_epoch() {
        assert_eq!(check(&request(None, 7, -1)), Err(ErrorCode::InvalidRequest));
        assert_eq!(check(&request(None, -1, 3)), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn transactional_producers_are_refused_for_good() {
        let code = check(&request(Some("t"), -1, -1)).expect_err("no transactions");
        assert!(!code.is_retriable());
        assert_eq!(check(&request(Some(""), -1, -1)), Err(ErrorCode::InvalidRequest));
    }
}
