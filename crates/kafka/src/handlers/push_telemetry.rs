//! PushTelemetry: a client's metrics (KIP-714).

use logway_model::{ErrorCode, Uuid};
use logway_wire::messages::{PushTelemetryRequest, PushTelemetryResponse};

use super::building::with_all;
use crate::request::RequestContext;
use crate::telemetry::Push;

/// A push is unpacked to be read.
pub(crate) fn built_bytes(context: &RequestContext, request: &PushTelemetryRequest) -> usize {
    match request.compression_type {
        0 => 0,
        _ => with_all(context, 0, context.unpacked_push_max_bytes()),
    }
}

pub(crate) async fn handle(
    context: RequestContext,
    request: PushTelemetryRequest,
) -> PushTelemetryResponse {
    let push = Push {
        instance_id: request.client_instance_id,
        subscription_id: request.subscription_id,
        is_last: request.terminating,
        compression: request.compression_type,
        metrics: request.metrics,
    };
    let outcome = match is_reserved(push.instance_id) {
        true => Err(ErrorCode::InvalidRequest),
        false => context.push(&push),
    };
    let error_code = outcome.err().unwrap_or(ErrorCode::None).code();
    PushTelemetryResponse { error_code, ..Default::default() }
}

/// Whether an id is one of the two that Kafka gives to nobody: zero and one.
fn is_reserved(id: Uuid) -> bool {
    let [first @ .., last] = id.0;
    first == [0; 15] && last <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_one_are_nobodys_ids() {
        let mut id = [0; 16];
        assert!(is_reserved(Uuid(id)));
        id[15] = 1;
        assert!(is_reserved(Uuid(id)));
        id[15] = 2;
        assert!(!is_reserved(Uuid(id)));
        assert!(!is_reserved(Uuid([1; 16])));
    }
}
