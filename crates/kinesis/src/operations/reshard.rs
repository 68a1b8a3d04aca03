//! SplitShard, MergeShards and UpdateShardCount.

use logway_metadata::controller::{Reshard, Resharding};
use logway_metadata::record::{HashKey, Shard, StreamMode};
use logway_model::{ErrorCode, PartitionId};
use logway_node::access::Operation as Permission;

use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::names::shard_id;
use crate::value::Structure;

pub(super) async fn split_shard(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Alter)?;
    check_provisioned(call, &found)?;
    call.check_active(&found)?;
    let id = call.input.text("ShardToSplit").unwrap_or_default();
    let (number, shard) = call.shard(&found, id)?;
    check_open(call, &found, number, shard)?;
    check_shard_limit(call, 1)?;
    let text = call.input.text("NewStartingHashKey").unwrap_or_default();
    let range = shard.range;
    let at = text.parse::<HashKey>().ok();
    let at = at.filter(|at| at.0 > range.start.0.saturating_add(1) && *at < range.end);
    let Some(at) = at else {
        return Err(ApiError::argument(format!(
            "NewStartingHashKey {text} used in SplitShard() on shard {} in stream {} under account {} is not both greater \
             than one plus the shard's StartingHashKey {} and less than the shard's EndingHashKey {}.",
            shard_id(number),
            found.name(),
            call.account().id,
            range.start,
            range.end
        )));
    };
    reshard(call, &found, Resharding::Split { shard: number, at }).await?;
    Ok(Reply::Empty)
}

pub(super) async fn merge_shards(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Alter)?;
    check_provisioned(call, &found)?;
    call.check_active(&found)?;
    let shard = |member: &str| call.shard(&found, call.input.text(member).unwrap_or_default());
    let (first, of_first) = shard("ShardToMerge")?;
    let (second, of_second) = shard("AdjacentShardToMerge")?;
    check_open(call, &found, first, of_first)?;
    check_open(call, &found, second, of_second)?;
    if of_first.range.end.0.checked_add(1) != Some(of_second.range.start.0) {
        return Err(ApiError::argument(format!(
            "Shards {} and {} in stream {} under account {} are not an adjacent pair of shards eligible for merging",
            shard_id(first),
            shard_id(second),
            found.name(),
            call.account().id
        )));
    }
    reshard(call, &found, Resharding::Merge { first, second }).await?;
    Ok(Reply::Empty)
}

pub(super) async fn update_shard_count(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Alter)?;
    let name = found.name();
    check_provisioned(call, &found)?;
    call.check_active(&found)?;
    let count = call.input.number("TargetShardCount").unwrap_or(0);
    let target = u32::try_from(count).unwrap_or(0);
    let current = found.stream().open_shards().count();
    let wanted = usize::try_from(target).unwrap_or(usize::MAX);
    if wanted > current * 2 {
        return Err(ApiError::limit(format!(
            "UpdateShardCount cannot scale up over double your current open shard count. Current open shard count: \
             {current} Target shard count: {count}"
        )));
    }
    if wanted < current.div_ceil(2) {
        return Err(ApiError::limit(format!(
            "UpdateShardCount cannot scale down below half your current open shard count. Current open shard count: \
             {current} Target shard count: {count}"
        )));
    }
    check_shard_limit(call, wanted.saturating_sub(current))?;
    reshard(call, &found, Resharding::Count(target)).await?;
    Ok(Structure::new()
        .with("StreamName", name)
        .with("CurrentShardCount", current)
        .with("TargetShardCount", count)
        .with("StreamARN", call.account().stream_arn(name))
        .into())
}

async fn reshard(call: &Call, found: &FoundStream, resharding: Resharding) -> Result<(), ApiError> {
    let shards_max = Some(call.service.node.settings.kinesis.shard_limit);
    let command = Reshard { topic_id: found.id(), resharding, shards_max, now_ms: call.now_ms() };
    match call.submit(command).await {
        Err(failure) if failure.code == ErrorCode::ReassignmentInProgress => {
            Err(ApiError::in_use(format!(
                "Stream {} under account {} not ACTIVE, instead in state UPDATING",
                found.name(),
                call.account().id
            )))
        }
        outcome => Ok(outcome?),
    }
}

/// Refuses what the service does by itself.
fn check_provisioned(call: &Call, found: &FoundStream) -> Result<(), ApiError> {
    match found.state().mode {
        StreamMode::Provisioned => Ok(()),
        StreamMode::OnDemand => Err(ApiError::validation(format!(
            "Request is invalid. Stream {} under account {} is in On-Demand mode.",
            found.name(),
            call.account().id
        ))),
    }
}

fn check_open(
    call: &Call,
    found: &FoundStream,
    number: PartitionId,
    shard: &Shard,
) -> Result<(), ApiError> {
    match shard.closed {
        None => Ok(()),
        Some(_) => Err(ApiError::argument(format!(
            "Shard {} in stream {} under account {} has already been merged or split, and thus is not eligible for \
             merging or splitting.",
            shard_id(number),
            found.name(),
            call.account().id
        ))),
    }
}

/// Refuses so many more shards than there are, where the account may not have them.
pub(super) fn check_shard_limit(call: &Call, more: usize) -> Result<(), ApiError> {
    let limit = call.service.node.settings.kinesis.shard_limit;
    let open = call.image().open_shard_count();
    if more == 0 || open.saturating_add(more) <= usize::try_from(limit).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let account = call.account();
    Err(ApiError::limit(format!(
        "This request would exceed the shard limit for the account {} in {}. Current shard count for the account: {open}. \
         Limit: {limit}. Number of additional shards that would have resulted from this request: {more}. Refer to the \
         AWS Service Limits page (http://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html) for current \
         limits and how to request higher limits.",
        account.id, account.region
    )))
}
