//! Limits and settings of the account.

use logway_log::random_uuid;
use logway_metadata::controller::ChangeStreamsAccount;
use logway_metadata::record::StreamMode;
use logway_node::access::Operation as Permission;

use crate::call::{Call, Reply};
use crate::error::ApiError;
use crate::value::{Structure, Value};

/// How many streams of the service's own capacity AWS gives an account; here nothing depends on it.
const ON_DEMAND_STREAMS_MAX: i64 = 50;

/// How long a commitment lasts at least: 24 hours.
const COMMITMENT_MS: i64 = 86_400_000;

pub(super) fn describe_limits(call: &Call) -> Result<Reply, ApiError> {
    call.check_cluster(Permission::Describe)?;
    let image = call.image();
    let streams = image.topics().filter_map(|topic| topic.stream.as_ref());
    let on_demand = streams.filter(|stream| stream.state.mode == StreamMode::OnDemand).count();
    Ok(Structure::new()
        .with("ShardLimit", call.service.node.settings.kinesis.shard_limit)
        .with("OpenShardCount", image.open_shard_count())
        .with("OnDemandStreamCount", on_demand)
        .with("OnDemandStreamCountLimit", ON_DEMAND_STREAMS_MAX)
        .into())
}

pub(super) fn describe_settings(call: &Call) -> Result<Reply, ApiError> {
    call.check_cluster(Permission::Describe)?;
    let image = call.image();
    let since_ms = image.streams().and_then(|streams| streams.commitment_since_ms);
    Ok(settings(since_ms).into())
}

pub(super) async fn update_settings(call: &Call) -> Result<Reply, ApiError> {
    call.check_cluster(Permission::AlterConfigs)?;
    let wanted = call.input.structure("MinimumThroughputBillingCommitment");
    let is_on = wanted.and_then(|wanted| wanted.text("Status")) == Some("ENABLED");
    let commitment_since_ms = is_on.then(|| call.now_ms());
    let token_key = [random_uuid(), random_uuid()];
    call.submit(ChangeStreamsAccount { commitment_since_ms, token_key }).await?;
    Ok(settings(commitment_since_ms).into())
}

fn settings(since_ms: Option<i64>) -> Structure {
    let commitment = match since_ms {
        Some(ms) => Structure::new()
            .with("Status", "ENABLED")
            .with("StartedAt", Value::Timestamp(ms))
            .with("EarliestAllowedEndAt", Value::Timestamp(ms + COMMITMENT_MS)),
        None => Structure::new().with("Status", "DISABLED"),
    };
    Structure::new().with("MinimumThroughputBillingCommitment", commitment)
}
