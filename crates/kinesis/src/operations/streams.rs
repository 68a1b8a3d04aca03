//! Making, deleting, listing and describing streams.

use std::sync::Arc;

use logway_log::random_uuid;
use logway_metadata::TopicImage;
use logway_metadata::controller::{
    CreateStream, DeleteTopics, StreamChange, TAGS_MAX, TopicReference,
};
use logway_metadata::record::{StreamMode, StreamPhase, StreamState};
use logway_model::{ErrorCode, Offset, PartitionId, TopicId};
use logway_node::access::{Operation as Permission, Resource};
use logway_node::{Failure, Node};

use super::reshard::check_shard_limit;
use super::shards::shard_description;
use super::tags::check_tags;
use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::names::shard_of_id;
use crate::token::{LIFE_MS, Purpose, Token};
use crate::value::{Structure, Value};

/// What a stream whose capacity the service manages begins with.
const ON_DEMAND_SHARDS: i64 = 4;

const DAY_MS: i64 = 86_400_000;

/// The largest record of a stream that says nothing of it, in KiB.
const RECORD_KIB: i64 = 1_024;

/// Streams of a page, where a client does not say.
const STREAMS_PAGE: usize = 100;

/// Shards of a description, where a client does not say, and at most.
const SHARDS_PAGE: usize = 100;
const SHARDS_PAGE_MAX: usize = 10_000;

pub(super) async fn create_stream(call: &Call) -> Result<Reply, ApiError> {
    let input = &call.input;
    let name = input.text("StreamName").unwrap_or_default();
    call.check(Permission::Create, name)?;
    let mode = mode_of(input);
    let count = match (mode, input.number("ShardCount")) {
        (StreamMode::OnDemand, None) => ON_DEMAND_SHARDS,
        (StreamMode::OnDemand, Some(_)) => {
            return Err(ApiError::validation(
                "ShardCount must not be specified when creating a stream in ON_DEMAND mode.",
            ));
        }
        (StreamMode::Provisioned, Some(count)) => count,
        (StreamMode::Provisioned, None) => {
            return Err(ApiError::validation(
                "ShardCount must be specified when creating a stream in PROVISIONED mode.",
            ));
        }
    };
    let is_spread = input.text("RecordDistributionStrategy");
    if is_spread.is_some_and(|strategy| strategy != "PARTITION_KEY") {
        return Err(ApiError::argument("Only the PARTITION_KEY strategy is served."));
    }
    let tags = input.text_map("Tags");
    check_tags(tags.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]))?;
    if tags.len() > TAGS_MAX {
        return Err(ApiError::argument(format!("A stream has at most {TAGS_MAX} tags.")));
    }
    let in_use = || {
        let id = &call.account().id;
        ApiError::in_use(format!("Stream {name} under account {id} already exists."))
    };
    // A topic is in the way as a stream is.
    if call.image().topic(name).is_some() {
        return Err(in_use());
    }
    check_shard_limit(call, usize::try_from(count).unwrap_or(usize::MAX))?;
    let number = |member: &str, default: i64| {
        u32::try_from(input.number(member).unwrap_or(default)).unwrap_or(u32::MAX)
    };
    let warm = input.number("WarmThroughputMiBps").map(|_| number("WarmThroughputMiBps", 0));
    let command = CreateStream {
        name: name.to_owned(),
        topic_id: TopicId(random_uuid()),
        shard_count: u32::try_from(count).unwrap_or(u32::MAX),
        mode,
        max_record_kib: number("MaxRecordSizeInKiB", RECORD_KIB),
        warm_mibps: warm,
        retention_ms: DAY_MS,
        tags: tags.into_iter().collect(),
        shards_max: Some(call.service.node.settings.kinesis.shard_limit),
        now_ms: call.now_ms(),
        token_key: [random_uuid(), random_uuid()],
    };
    match call.submit(command).await {
        Ok(()) => Ok(Reply::Empty),
        Err(failure) if failure.code == ErrorCode::TopicAlreadyExists => Err(in_use()),
        Err(failure) => Err(failure.into()),
    }
}

fn mode_of(input: &Structure) -> StreamMode {
    let details = input.structure("StreamModeDetails");
    match details.and_then(|details| details.text("StreamMode")) {
        Some("ON_DEMAND") => StreamMode::OnDemand,
        _ => StreamMode::Provisioned,
    }
}

pub(super) async fn delete_stream(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Delete)?;
    let state = found.state();
    if !state.consumers.is_empty() && !call.input.is_true("EnforceConsumerDeletion") {
        return Err(ApiError::in_use(format!(
            "Stream {} under account {} has consumers registered; set EnforceConsumerDeletion to delete it all the same.",
            found.name(),
            call.account().id
        )));
    }
    match call.service.stream_delay_ms {
        0 => delete(&call.service.node, found.id()).await?,
        _ if state.phase == StreamPhase::Deleting => {}
        _ => call.change(&found, StreamChange::BeginDeletion).await?,
    }
    Ok(Reply::Empty)
}

async fn delete(node: &Arc<Node>, id: TopicId) -> Result<(), ApiError> {
    let command = DeleteTopics { topics: vec![TopicReference::Id(id)] };
    for outcome in node.submit(command, None, None).await? {
        outcome.map_err(Failure::from)?;
    }
    Ok(())
}

pub(super) fn list_streams(call: &Call) -> Result<Reply, ApiError> {
    let input = &call.input;
    let image = call.image();
    let limit = input.number("Limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(STREAMS_PAGE);
    let after = match input.text("NextToken") {
        Some(text) => {
            let invalid = || ApiError::argument("Invalid NextToken.");
            let sealer = call.sealer(&image).map_err(|_| invalid())?;
            let opened = sealer.open_with_name(text, Purpose::Streams);
            let (token, last) = opened.ok_or_else(invalid)?;
            if call.now_ms() - token.made_ms > LIFE_MS {
                return Err(ApiError::new(
                    "ExpiredNextTokenException",
                    "The NextToken has expired.",
                ));
            }
            Some(last)
        }
        None => input.text("ExclusiveStartStreamName").map(str::to_owned),
    };
    let from = after.clone().unwrap_or_default();
    let streams = image.topics_from(&from).filter(|topic| {
        let name = topic.name.as_str();
        topic.stream.is_some()
            && after.as_deref() != Some(name)
            && call.may(Permission::Describe, Resource::Topic(name))
    });
    let mut page: Vec<&Arc<TopicImage>> = streams.take(limit + 1).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    let names: Vec<String> = page.iter().map(|topic| topic.name.as_str().to_owned()).collect();
    let found = names.iter().filter_map(|name| call.find(name));
    let summaries: Vec<Value> = found.map(|found| summary(call, &found).into()).collect();
    let token = match page.last().filter(|_| has_more) {
        Some(last) => {
            let token = Token {
                purpose: Purpose::Streams,
                stream: last.id,
                shard: PartitionId(0),
                offset: Offset::ZERO,
                made_ms: call.now_ms(),
                extra: 0,
            };
            Some(call.sealer(&image)?.seal_with_name(&token, last.name.as_str()))
        }
        None => None,
    };
    Ok(Structure::new()
        .with("StreamNames", names)
        .with("HasMoreStreams", has_more)
        .with("StreamSummaries", summaries)
        .with_some("NextToken", token)
        .into())
}

/// What all descriptions of a stream have.
fn summary(call: &Call, found: &FoundStream) -> Structure {
    Structure::new()
        .with("StreamName", found.name())
        .with("StreamARN", call.account().stream_arn(found.name()))
        .with("StreamStatus", call.status(found))
        .with("StreamModeDetails", mode_details(found.state()))
        .with("StreamCreationTimestamp", Value::Timestamp(found.state().created_ms))
}

fn mode_details(state: &StreamState) -> Structure {
    let mode = match state.mode {
        StreamMode::Provisioned => "PROVISIONED",
        StreamMode::OnDemand => "ON_DEMAND",
    };
    Structure::new().with("StreamMode", mode)
}

/// What both long descriptions have.
fn description(call: &Call, found: &FoundStream) -> Structure {
    let state = found.state();
    let metrics = Structure::new().with("ShardLevelMetrics", state.shard_metrics.clone());
    summary(call, found)
        .with("RetentionPeriodHours", found.retention_hours())
        .with("EnhancedMonitoring", vec![Value::from(metrics)])
        .with("EncryptionType", if state.encryption_key.is_some() { "KMS" } else { "NONE" })
        .with_some("KeyId", state.encryption_key.clone())
}

pub(super) fn describe_stream(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Describe)?;
    let limit = call.input.number("Limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(SHARDS_PAGE).min(SHARDS_PAGE_MAX);
    let after = match call.input.text("ExclusiveStartShardId") {
        Some(id) => Some(shard_of_id(id).ok_or_else(|| {
            ApiError::argument(format!("ExclusiveStartShardId {id} is no shard."))
        })?),
        None => None,
    };
    let now_ms = call.now_ms();
    // AWS has none to show before the stream is made.
    let is_made = call.status(&found) != "CREATING";
    let shown = found.stream().numbered_shards().filter(|(number, shard)| {
        is_made && after.is_none_or(|after| *number > after) && !found.has_expired(shard, now_ms)
    });
    let mut shown: Vec<_> = shown.take(limit + 1).collect();
    let has_more = shown.len() > limit;
    shown.truncate(limit);
    let shards: Vec<Value> =
        shown.into_iter().map(|(number, shard)| shard_description(number, shard).into()).collect();
    let description =
        description(call, &found).with("Shards", shards).with("HasMoreShards", has_more);
    Ok(Structure::new().with("StreamDescription", description).into())
}

pub(super) fn describe_stream_summary(call: &Call) -> Result<Reply, ApiError> {
    let found = call.stream(Permission::Describe)?;
    let state = found.state();
    let warm = state
        .warm_mibps
        .map(|mibps| Structure::new().with("TargetMiBps", mibps).with("CurrentMiBps", mibps));
    let summary = description(call, &found)
        .with("OpenShardCount", found.stream().open_shards().count())
        .with("ConsumerCount", state.consumers.len())
        .with("MaxRecordSizeInKiB", state.max_record_kib)
        .with_some("WarmThroughput", warm);
    Ok(Structure::new().with("StreamDescriptionSummary", summary).into())
}
