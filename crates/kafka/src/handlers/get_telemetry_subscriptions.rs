//! GetTelemetrySubscriptions: which of its metrics a client is asked for (KIP-714).

use logway_log::random_uuid;
use logway_model::ErrorCode;
use logway_record::Compression;
use logway_wire::WireString;
use logway_wire::messages::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse};

use crate::request::RequestContext;

/// How pushes may be compressed, what is best first.
const ACCEPTED: [Compression; 4] =
    [Compression::Zstd, Compression::Lz4, Compression::Gzip, Compression::Snappy];

/// What the subscriptions of one client name takes no more than they do.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    _request: &GetTelemetrySubscriptionsRequest,
) -> usize {
    0
}

pub(crate) async fn handle(
    context: RequestContext,
    request: GetTelemetrySubscriptionsRequest,
) -> GetTelemetrySubscriptionsResponse {
    let instance_id = match request.client_instance_id.is_zero() {
        true => random_uuid(),
        false => request.client_instance_id,
    };
    let subscribed = match context.subscribe(instance_id) {
        Ok(subscribed) => subscribed,
        Err(code) => return refused(code),
    };
    let max_bytes = context.settings().telemetry_max_bytes;
    let id = |codec: Compression| i8::try_from(codec.id()).expect("codecs have small numbers");
    GetTelemetrySubscriptionsResponse {
        client_instance_id: subscribed.instance_id,
        subscription_id: subscribed.subscription_id,
        accepted_compression_types: ACCEPTED.into_iter().map(id).collect(),
        push_interval_ms: subscribed.interval_ms,
        telemetry_max_bytes: i32::try_from(max_bytes).unwrap_or(i32::MAX),
        delta_temporality: true,
        requested_metrics: subscribed
            .metrics
            .iter()
            .map(|name| WireString::copy_of(name))
            .collect(),
        ..Default::default()
    }
}

fn refused(code: ErrorCode) -> GetTelemetrySubscriptionsResponse {
    GetTelemetrySubscriptionsResponse { error_code: code.code(), ..Default::default() }
}
