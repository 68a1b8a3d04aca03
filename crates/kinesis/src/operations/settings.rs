//! What can be set of a stream: mode, retention, sizes, encryption, monitoring.

use logway_metadata::controller::StreamChange;
use logway_metadata::record::StreamMode;
use logway_node::access::Operation as Permission;

use crate::call::{Call, RETENTION_HOURS_MAX, Reply};
use crate::error::ApiError;
use crate::value::Structure;

const HOUR_MS: i64 = 3_600_000;

/// Every enhanced metric.
const SHARD_METRICS: [&str; 7] = [
    "IncomingBytes",
    "IncomingRecords",
    "OutgoingBytes",
    "OutgoingRecords",
    "WriteProvisionedThroughputExceeded",
    "ReadProvisionedThroughputExceeded",
    "IteratorAgeMilliseconds",
];

pub(super) async fn change_retention(call: &Call, is_increase: bool) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    let hours = call.input.number("RetentionPeriodHours").unwrap_or(0);
    let present = found.retention_hours();
    if hours < 24 {
        return Err(ApiError::argument(format!(
            "Minimum allowed retention period is 24 hours. Requested retention period ({hours} hours) is too short."
        )));
    }
    if hours > RETENTION_HOURS_MAX {
        return Err(ApiError::argument(format!(
            "Maximum allowed retention period is {RETENTION_HOURS_MAX} hours. Requested retention period ({hours} hours) is \
             too long."
        )));
    }
    let (is_wrong, word, other) = match is_increase {
        true => (present > hours, "shorter", "Decrease"),
        false => (present < hours, "longer", "Increase"),
    };
    if is_wrong {
        return Err(ApiError::argument(format!(
            "Requested retention period ({hours} hours) for stream {} can not be {word} than existing retention period \
             ({present} hours). Use {other}RetentionPeriod API.",
            found.name()
        )));
    }
    call.change(&found, StreamChange::Retention(hours * HOUR_MS)).await?;
    Ok(Reply::Empty)
}

pub(super) async fn update_stream_mode(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    call.check_active(&found)?;
    let details = call.input.structure("StreamModeDetails");
    let mode = match details.and_then(|details| details.text("StreamMode")) {
        Some("ON_DEMAND") => StreamMode::OnDemand,
        _ => StreamMode::Provisioned,
    };
    call.change(&found, StreamChange::Mode(mode)).await?;
    Ok(Reply::Empty)
}

pub(super) async fn update_max_record_size(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    call.check_active(&found)?;
    call.change(&found, StreamChange::MaxRecord(number(call, "MaxRecordSizeInKiB"))).await?;
    Ok(Reply::Empty)
}

pub(super) async fn update_warm_throughput(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    call.check_active(&found)?;
    let wanted = number(call, "WarmThroughputMiBps");
    if found.state().mode == StreamMode::Provisioned {
        return Err(ApiError::validation(format!(
            "Request is invalid. Stream {} under account {} is in Provisioned mode.",
            found.name(),
            call.account().id
        )));
    }
    let current = found.state().warm_mibps.unwrap_or(0);
    call.change(&found, StreamChange::Warm(wanted)).await?;
    let throughput = Structure::new().with("TargetMiBps", wanted).with("CurrentMiBps", current);
    Ok(Structure::new()
        .with("StreamName", found.name())
        .with("StreamARN", call.account().stream_arn(found.name()))
        .with("WarmThroughput", throughput)
        .into())
}

pub(super) async fn start_stream_encryption(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    call.check_active(&found)?;
    if call.input.text("EncryptionType") != Some("KMS") {
        return Err(ApiError::argument("EncryptionType must be KMS."));
    }
    let key = call.input.text("KeyId").map(str::to_owned);
    call.change(&found, StreamChange::Encryption(key)).await?;
    Ok(Reply::Empty)
}

pub(super) async fn stop_stream_encryption(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    call.check_active(&found)?;
    call.change(&found, StreamChange::Encryption(None)).await?;
    Ok(Reply::Empty)
}

pub(super) async fn change_monitoring(call: &Call, is_on: bool) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::AlterConfigs)?;
    let asked = call.input.texts("ShardLevelMetrics");
    let is_asked = |name: &&str| asked.iter().any(|asked| asked == "ALL" || asked == name);
    let before = found.state().shard_metrics.clone();
    let is_before = |name: &&str| before.iter().any(|before| before == name);
    let wanted = SHARD_METRICS.into_iter().filter(|name| match is_on {
        true => is_before(name) || is_asked(name),
        false => is_before(name) && !is_asked(name),
    });
    let wanted: Vec<String> = wanted.map(str::to_owned).collect();
    call.change(&found, StreamChange::ShardMetrics(wanted.clone())).await?;
    Ok(Structure::new()
        .with("StreamName", found.name())
        .with("CurrentShardLevelMetrics", before)
        .with("DesiredShardLevelMetrics", wanted)
        .with("StreamARN", call.account().stream_arn(found.name()))
        .into())
}

/// A number that its shape has bounds for.
fn number(call: &Call, member: &str) -> u32 {
    call.input.number(member).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
