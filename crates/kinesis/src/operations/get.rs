//! GetRecords.

use std::time::Duration;

use logway_metadata::record::Shard;
use logway_model::{ErrorCode, Offset, PartitionId, TopicId};
use logway_node::Failure;
use logway_node::access::Operation as Permission;
use logway_node::streams::anywhere::{PartitionRead, PartitionWish, Search};
use tokio::time::Instant;

use super::iterators::{no_shard, token};
use super::records::ShardRecords;
use super::shards::hash_range;
use super::throughput::{check_read, note_read};
use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::names::{message_time, shard_id};
use crate::stream_metrics::{Counted, CountedOfShard, whole_ms};
use crate::token::{LIFE_MS, Purpose};
use crate::value::{Structure, Value};

/// The most records of a response.
const RECORDS_MAX: usize = 10_000;

/// The most data and keys of a response.
const BYTES_MAX: usize = 10 << 20;

/// How much is read at a time, and paid for, at most. The first batch may be larger.
const READ_BYTES: u32 = 2 << 20;

/// How much is read at first, and then twice as much each time: what is wanted is often in one batch.
const FIRST_READ_BYTES: u32 = 256 << 10;

/// A read holds its batches, the records in them, and the response.
const HELD_FACTOR: usize = 3;

pub(super) async fn get_records(call: &Call) -> Result<Reply, ApiError> {
    let since = Instant::now();
    let mut stream = None;
    let outcome = read_records(call, &mut stream).await;
    if let Some(stream) = stream {
        let counts = [
            (Counted::GetRecordsRequests, 1),
            (Counted::GetRecordsSuccess, outcome.is_ok().into()),
            (Counted::GetRecordsLatency, whole_ms(since.elapsed())),
        ];
        call.service.stream_metrics.count(stream, &counts);
    }
    outcome
}

/// Reads, and notes of which stream.
async fn read_records(call: &Call, stream: &mut Option<TopicId>) -> Result<Reply, ApiError> {
    let now_ms = call.now_ms();
    let text = call.input.text("ShardIterator").unwrap_or_default();
    let invalid = || ApiError::argument("Invalid ShardIterator.");
    let sealer = call.sealer(&call.image()).map_err(|_| invalid())?;
    let iterator = sealer.open(text, Purpose::Iterator).ok_or_else(invalid)?;
    if now_ms - iterator.made_ms > LIFE_MS {
        return Err(ApiError::new(
            "ExpiredIteratorException",
            format!(
                "Iterator expired. The iterator was created at time {} while right now it is {} which is further in the \
                 future than the tolerated delay of {LIFE_MS} milliseconds.",
                message_time(iterator.made_ms),
                message_time(now_ms)
            ),
        ));
    }
    let number = iterator.shard;
    let found = call.stream_of_id(iterator.stream, Permission::Read)?;
    let found = found.ok_or_else(|| no_shard(call, "of the iterator", number))?;
    *stream = Some(found.id());
    let Some(shard) = found.stream().shard(number) else {
        return Err(no_shard(call, found.name(), number));
    };
    let limit = call.input.number("Limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(RECORDS_MAX);
    // Who waits for a leader takes no memory for what it may read.
    call.service.node.await_leader(found.partition(number)).await?;
    check_read(call, &found, number).await?;
    let memory = &call.service.node.memory.building;
    let share = memory.take(READ_BYTES as usize * HELD_FACTOR).await;
    let mut shares = vec![share];
    let (mut read_bytes, mut paid_bytes) = (FIRST_READ_BYTES, READ_BYTES);
    let mut records = ShardRecords::from(iterator.offset);
    let end = loop {
        let wish = PartitionWish {
            offset: records.next,
            max_bytes: read_bytes,
            first_max_bytes: u32::MAX,
            wait: Duration::ZERO,
        };
        let read = read_from(call, &found, number, wish).await?;
        records.next = records.next.max(read.start);
        let has_room = records.add(call, (number, shard), read.batches, (limit, BYTES_MAX)).await?;
        if !has_room || records.next >= read.end {
            break read.end;
        }
        paid_bytes -= read_bytes;
        read_bytes = READ_BYTES.min(read_bytes * 2);
        if read_bytes <= paid_bytes {
            continue;
        }
        // More as long as there is memory that nobody else waits for.
        match memory.take_now(READ_BYTES as usize * HELD_FACTOR) {
            Some(share) => {
                shares.push(share);
                paid_bytes = READ_BYTES;
            }
            None => break read.end,
        }
    };
    note_read(call, &found, number, records.size_bytes).await;
    let behind_ms = millis_behind(shard, &records, end, now_ms);
    count(call, (found.id(), number), &records, now_ms);
    let response =
        Structure::new().with("Records", records.records).with("MillisBehindLatest", behind_ms);
    let response = match ends_before(shard, records.next) {
        true => response.with("ChildShards", child_shards(&found, number)),
        false => response.with("NextShardIterator", token(call, &found, number, records.next)?),
    };
    Ok(Reply::Large(response, shares))
}

fn count(call: &Call, shard: (TopicId, PartitionId), records: &ShardRecords, now_ms: i64) {
    let metrics = &call.service.stream_metrics;
    let (bytes, count) = (records.size_bytes as u64, records.records.len() as u64);
    let counts = [(Counted::GetRecordsBytes, bytes), (Counted::GetRecordsRecords, count)];
    metrics.count(shard.0, &counts);
    let counts = [(CountedOfShard::OutgoingBytes, bytes), (CountedOfShard::OutgoingRecords, count)];
    metrics.count_shard(shard, &counts);
    // Of its own word, not as MillisBehindLatest: the last record of a shard has an age too.
    let age_ms = records.last_time.map_or(0, |time| (now_ms - time.0).max(0));
    metrics.note_age(shard, age_ms);
}

/// Reads a shard. What was removed by retention is passed over; beyond the end there is nothing.
pub(super) async fn read_from(
    call: &Call,
    found: &FoundStream,
    number: PartitionId,
    wish: PartitionWish,
) -> Result<PartitionRead, ApiError> {
    let (node, partition) = (&call.service.node, found.partition(number));
    match node.read_anywhere(partition, wish).await {
        Err(Failure { code: ErrorCode::OffsetOutOfRange, .. }) => {}
        read => return Ok(read?),
    }
    let start = node.search_anywhere(partition, Search::Start).await?;
    if start > wish.offset {
        let wish = PartitionWish { offset: start, ..wish };
        return Ok(node.read_anywhere(partition, wish).await?);
    }
    let batches = bytes::Bytes::new();
    Ok(PartitionRead { start, end: wish.offset, next: wish.offset, batches })
}

/// Whether a shard has no record at or after an offset, and never will.
pub(super) fn ends_before(shard: &Shard, next: Offset) -> bool {
    let end = shard.closed.and_then(|end| end.offset);
    end.is_some_and(|end| next.0 >= end)
}

/// How far the last record that was read is behind the newest one; of a shard that is read to its end, since when it is
/// closed.
pub(super) fn millis_behind(
    shard: &Shard,
    records: &ShardRecords,
    end: Offset,
    now_ms: i64,
) -> i64 {
    let since_ms = match (records.last_time, shard.closed) {
        (None, Some(closed)) if ends_before(shard, records.next) => Some(closed.at_ms),
        (Some(time), _) if records.next < end => Some(time.0),
        _ => None,
    };
    since_ms.map_or(0, |since_ms| (now_ms - since_ms).max(0))
}

/// The shards to go on with behind the end of one.
pub(super) fn child_shards(found: &FoundStream, parent: PartitionId) -> Vec<Value> {
    let children = found.stream().children(parent).map(|(number, shard)| {
        let parents = shard.parents.iter().map(|parent| shard_id(*parent)).collect::<Vec<_>>();
        Value::from(
            Structure::new()
                .with("ShardId", shard_id(number))
                .with("ParentShards", parents)
                .with("HashKeyRange", hash_range(shard)),
        )
    });
    children.collect()
}
