//! ListShards, and how shards are described.

use logway_metadata::StreamImage;
use logway_metadata::record::{HashRange, Shard};
use logway_model::{Offset, PartitionId};
use logway_node::access::Operation as Permission;

use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::names::{shard_id, shard_of_id};
use crate::sequence::SequenceNumber;
use crate::token::{LIFE_MS, Purpose, Token};
use crate::validate::missing;
use crate::value::{Structure, Value};

/// The most shards of a page.
const PAGE_MAX: usize = 1_000;

/// Which shards are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    /// All that have records or can get some, of those that were not closed at this time, in ms since 1970.
    From(i64),
    /// Those that were open at this time.
    At(i64),
    /// Those that are open.
    Latest,
}

pub(super) fn list_shards(call: &Call) -> Result<Reply, ApiError> {
    let input = &call.input;
    let names_stream = input.get("StreamName").is_some() || input.get("StreamARN").is_some();
    let (found, filter, first) = match (input.text("NextToken"), names_stream) {
        (None, false) => {
            return Err(ApiError::argument("Either NextToken or StreamName should be provided."));
        }
        (Some(_), true) => {
            return Err(ApiError::argument(
                "NextToken and StreamName cannot be provided together.",
            ));
        }
        (Some(text), false) => go_on(call, text)?,
        (None, true) => {
            let found = call.stream(Permission::Describe)?;
            check_creation(call, &found)?;
            let (filter, first) = filter_of(call, &found)?;
            (found, filter, first)
        }
    };
    let limit = input.number("MaxResults").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(PAGE_MAX).min(PAGE_MAX);
    let now_ms = call.now_ms();
    let is_made = call.status(&found) != "CREATING";
    let stream = found.stream();
    let wanted = stream.numbered_shards().filter(|(number, shard)| {
        is_made
            && *number >= first
            && !found.has_expired(shard, now_ms)
            && is_wanted(stream, shard, filter)
    });
    let page: Vec<_> = wanted.take(limit + 1).collect();
    let next = match page.get(limit) {
        Some((number, _)) => Some(call.sealer(&found.image)?.seal(&Token {
            purpose: Purpose::Shards,
            stream: found.id(),
            shard: *number,
            offset: Offset(match filter {
                Filter::From(ms) | Filter::At(ms) => ms,
                Filter::Latest => 0,
            }),
            made_ms: now_ms,
            extra: match filter {
                Filter::From(_) => 0,
                Filter::At(_) => 1,
                Filter::Latest => 2,
            },
        })),
        None => None,
    };
    let shards = page.into_iter().take(limit);
    let shards: Vec<Value> =
        shards.map(|(number, shard)| shard_description(number, shard).into()).collect();
    Ok(Structure::new().with("Shards", shards).with_some("NextToken", next).into())
}

/// The page behind another one.
fn go_on(call: &Call, text: &str) -> Result<(FoundStream, Filter, PartitionId), ApiError> {
    let invalid = || ApiError::argument("Invalid NextToken.");
    let sealer = call.sealer(&call.image()).map_err(|_| invalid())?;
    let token = sealer.open(text, Purpose::Shards).ok_or_else(invalid)?;
    if call.now_ms() - token.made_ms > LIFE_MS {
        return Err(ApiError::new("ExpiredNextTokenException", "The NextToken has expired."));
    }
    let found = call.stream_of_id(token.stream, Permission::Describe)?;
    let found = found.ok_or_else(|| ApiError::not_found("The stream of the NextToken is gone."))?;
    let filter = match token.extra {
        0 => Filter::From(token.offset.0),
        1 => Filter::At(token.offset.0),
        _ => Filter::Latest,
    };
    Ok((found, filter, token.shard))
}

/// Whether the stream is the one that the client means, if it says when that was made.
fn check_creation(call: &Call, found: &FoundStream) -> Result<(), ApiError> {
    let meant_s = call.input.timestamp("StreamCreationTimestamp").map(|ms| ms.div_euclid(1_000));
    match meant_s.is_none_or(|meant| meant == found.state().created_ms.div_euclid(1_000)) {
        true => Ok(()),
        false => Err(call.no_stream(found.name())),
    }
}

/// Which shards the request wants, and from which one on.
fn filter_of(call: &Call, found: &FoundStream) -> Result<(Filter, PartitionId), ApiError> {
    let after = |id: &str| match shard_of_id(id) {
        Some(PartitionId(number)) => Ok(PartitionId(number.saturating_add(1))),
        None => Err(ApiError::argument(format!("{id} is no shard."))),
    };
    let exclusive_start = call.input.text("ExclusiveStartShardId");
    let mut first = exclusive_start.map_or(Ok(PartitionId(0)), after)?;
    let Some(wanted) = call.input.structure("ShardFilter") else {
        return Ok((Filter::From(i64::MIN), first));
    };
    let time_ms = || {
        let time = wanted.timestamp("Timestamp");
        time.ok_or_else(|| ApiError::validation(missing("shardFilter.timestamp")))
    };
    let filter = match wanted.text("Type").unwrap_or_default() {
        "AFTER_SHARD_ID" => {
            let id = wanted.text("ShardId");
            let id = id.ok_or_else(|| ApiError::validation(missing("shardFilter.shardId")))?;
            first = first.max(after(id)?);
            Filter::From(i64::MIN)
        }
        "AT_TRIM_HORIZON" => Filter::At(trim_horizon_ms(call, found)),
        "AT_LATEST" => Filter::Latest,
        "AT_TIMESTAMP" => Filter::At(time_ms()?.max(trim_horizon_ms(call, found))),
        "FROM_TIMESTAMP" => Filter::From(time_ms()?),
        _ => Filter::From(i64::MIN),
    };
    Ok((filter, first))
}

/// The time before which nothing is kept.
fn trim_horizon_ms(call: &Call, found: &FoundStream) -> i64 {
    let kept_since_ms = found.retention_ms().map(|ms| call.now_ms().saturating_sub(ms));
    kept_since_ms.unwrap_or(i64::MIN).max(found.state().created_ms)
}

fn is_wanted(stream: &StreamImage, shard: &Shard, filter: Filter) -> bool {
    let closed_ms = shard.closed.map(|end| end.at_ms);
    match filter {
        Filter::Latest => closed_ms.is_none(),
        Filter::From(ms) => closed_ms.is_none_or(|closed| closed >= ms),
        // A shard is open from the moment at which its parents were closed, so that at each time the open ones cover
        // all keys once.
        Filter::At(ms) => {
            let opened_ms = shard.parents.iter().filter_map(|parent| stream.shard(*parent)?.closed);
            let opened_ms = opened_ms.map(|end| end.at_ms).max().unwrap_or(i64::MIN);
            opened_ms <= ms && closed_ms.is_none_or(|closed| closed > ms)
        }
    }
}

/// A shard as responses have it.
pub(super) fn shard_description(number: PartitionId, shard: &Shard) -> Structure {
    let parent = |index: usize| shard.parents.get(index).map(|parent| shard_id(*parent));
    let end = shard.closed.map(|end| SequenceNumber::end_of(number, shard, end).to_string());
    let range = Structure::new()
        .with("StartingSequenceNumber", SequenceNumber::start_of(number, shard).to_string())
        .with_some("EndingSequenceNumber", end);
    Structure::new()
        .with("ShardId", shard_id(number))
        .with_some("ParentShardId", parent(0))
        .with_some("AdjacentParentShardId", parent(1))
        .with("HashKeyRange", hash_range(shard))
        .with("SequenceNumberRange", range)
}

/// The keys of a shard as responses have them.
pub(super) fn hash_range(shard: &Shard) -> Structure {
    let HashRange { start, end } = shard.range;
    Structure::new()
        .with("StartingHashKey", start.to_string())
        .with("EndingHashKey", end.to_string())
}
