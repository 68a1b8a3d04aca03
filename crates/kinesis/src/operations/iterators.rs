//! GetShardIterator, and where readers begin.

use logway_metadata::record::Shard;
use logway_model::{Offset, PartitionId, TimestampMs};
use logway_node::access::Operation as Permission;
use logway_node::streams::anywhere::Search;

use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::names::{shard_id, shard_of_id};
use crate::sequence::SequenceNumber;
use crate::token::{Purpose, Token};
use crate::value::Structure;

pub(super) async fn get_shard_iterator(call: &Call) -> Result<Reply, ApiError> {
    let input = &call.input;
    let name = call.stream_name()?;
    call.check(Permission::Read, &name)?;
    let id = input.text("ShardId").unwrap_or_default();
    let Some(number) = shard_of_id(id) else {
        return Err(ApiError::not_found(format!(
            "Could not find shard {id} in stream {name} under account {}.",
            call.account().id
        )));
    };
    let Some(found) = call.find(&name) else { return Err(no_shard(call, &name, number)) };
    let Some(shard) = found.stream().shard(number) else {
        return Err(no_shard(call, &name, number));
    };
    if input.is_true("DryRun") {
        let message = "Request would have succeeded, but DryRun flag is set.";
        return Err(ApiError::new("DryRunOperationException", message));
    }
    let position = Position {
        kind: input.text("ShardIteratorType").unwrap_or_default(),
        sequence_number: input.text("StartingSequenceNumber"),
        time_ms: input.timestamp("Timestamp"),
    };
    let offset = begin(call, &found, (number, shard), position).await?;
    let token = token(call, &found, number, offset)?;
    Ok(Structure::new().with("ShardIterator", token).into())
}

/// An iterator as text.
pub(super) fn token(
    call: &Call,
    found: &FoundStream,
    shard: PartitionId,
    offset: Offset,
) -> Result<String, ApiError> {
    let token = Token {
        purpose: Purpose::Iterator,
        stream: found.id(),
        shard,
        offset,
        made_ms: call.now_ms(),
        extra: 0,
    };
    Ok(call.sealer(&found.image)?.seal(&token))
}

/// What is said of a shard that does not exist, or not in a stream that exists.
pub(super) fn no_shard(call: &Call, stream: &str, shard: PartitionId) -> ApiError {
    ApiError::not_found(format!(
        "Shard {} in stream {stream} under account {} does not exist",
        shard_id(shard),
        call.account().id
    ))
}

/// Where somebody wants to begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position<'a> {
    /// One of the five types.
    pub(super) kind: &'a str,
    /// For the two that need it.
    pub(super) sequence_number: Option<&'a str>,
    /// For `AT_TIMESTAMP`, in ms since 1970.
    pub(super) time_ms: Option<i64>,
}

/// The offset where a reader of a shard begins.
pub(super) async fn begin(
    call: &Call,
    found: &FoundStream,
    (number, shard): (PartitionId, &Shard),
    position: Position<'_>,
) -> Result<Offset, ApiError> {
    let node = &call.service.node;
    let partition = found.partition(number);
    let kind = position.kind;
    match (kind, position.sequence_number) {
        ("TRIM_HORIZON" | "LATEST", Some(_)) => Err(ApiError::argument(format!(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or (2) \
             TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified {kind} and also a \
             StartingSequenceNumber."
        ))),
        ("TRIM_HORIZON", None) => Ok(node.search_anywhere(partition, Search::Start).await?),
        ("LATEST", None) => Ok(node.search_anywhere(partition, Search::End).await?),
        ("AT_TIMESTAMP", _) => {
            let Some(time_ms) = position.time_ms else {
                return Err(ApiError::argument(
                    "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. Current request has no \
                     timestamp parameter.",
                ));
            };
            let now_ms = call.now_ms();
            if time_ms > now_ms {
                return Err(ApiError::argument(format!(
                    "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. \
                     timestampInMillis: {time_ms}, currentTimestampInMillis: {now_ms}"
                )));
            }
            Ok(node.search_anywhere(partition, Search::Time(TimestampMs(time_ms))).await?)
        }
        (_, Some(text)) => {
            let sequence = sequence_of_shard(call, found, (number, shard), text)?;
            match kind {
                // No record has the number that its shard starts with.
                "AFTER_SEQUENCE_NUMBER" if sequence != SequenceNumber::start_of(number, shard) => {
                    Ok(Offset(sequence.offset.0.saturating_add(1)))
                }
                _ => Ok(sequence.offset),
            }
        }
        (_, None) => Err(ApiError::argument(format!(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or (2) \
             TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified {kind} and no \
             StartingSequenceNumber."
        ))),
    }
}

fn sequence_of_shard(
    call: &Call,
    found: &FoundStream,
    (number, shard): (PartitionId, &Shard),
    text: &str,
) -> Result<SequenceNumber, ApiError> {
    let refused = |reason: &str| {
        ApiError::argument(format!(
            "StartingSequenceNumber {text} used in GetShardIterator on shard {} in stream {} under account {} is \
             invalid{reason}.",
            shard_id(number),
            found.name(),
            call.account().id
        ))
    };
    let sequence = SequenceNumber::parse(text).ok_or_else(|| refused(""))?;
    if sequence.shard != number {
        return Err(ApiError::argument(format!(
            "Invalid StartingSequenceNumber. It encodes {}, while it was used in a call to a shard with {}",
            shard_id(sequence.shard),
            shard_id(number)
        )));
    }
    match sequence.is_of(number, shard) {
        true => Ok(sequence),
        false => Err(refused(" because it did not come from this stream")),
    }
}
