//! PutRecord and PutRecords.

use logway_metadata::StreamImage;
use logway_metadata::record::HashKey;
use logway_model::ErrorCode;
use logway_node::Failure;
use logway_node::access::Operation as Permission;
use md5::{Digest, Md5};
use tokio::time::Instant;

use super::place::{NewRecord, Placed, place, unplaced};
use crate::call::{Call, FoundStream, Reply};
use crate::error::{ApiError, THROUGHPUT_EXCEEDED};
use crate::names::shard_id;
use crate::sequence::SequenceNumber;
use crate::stream_metrics::{Counted, whole_ms};
use crate::validate::missing;
use crate::value::{Structure, Value};

/// The most that the records of one request may have, data and keys together.
const REQUEST_BYTES_MAX: usize = 10 << 20;

pub(super) async fn put_record(call: &Call) -> Result<Reply, ApiError> {
    let mut found = call.stream(Permission::Write)?;
    check_writable(call, &found)?;
    let record = record_of(&call.input, &found, "")?;
    if let Some(text) = call.input.text("SequenceNumberForOrdering") {
        let is_known = SequenceNumber::parse(text)
            .is_some_and(|sequence| may_be_known(sequence, found.stream(), call.now_ms()));
        if !is_known {
            return Err(ApiError::argument(format!(
                "ExclusiveMinimumSequenceNumber {text} used in PutRecord on stream {} under account {} is invalid.",
                found.name(),
                call.account().id
            )));
        }
    }
    dry_run(call)?;
    let since = Instant::now();
    let placed = place(call, &mut found, std::slice::from_ref(&record)).await.pop();
    let placed = placed.unwrap_or_else(|| Err(unplaced()));
    let counts = [
        (Counted::PutRecordRequests, 1),
        (Counted::PutRecordSuccess, placed.is_ok().into()),
        (Counted::PutRecordBytes, record.size_bytes().into()),
        (Counted::PutRecordLatency, whole_ms(since.elapsed())),
    ];
    call.service.stream_metrics.count(found.id(), &counts);
    let (shard, sequence) = placed?;
    let response = Structure::new()
        .with("ShardId", shard_id(shard))
        .with("SequenceNumber", sequence.to_string());
    Ok(with_encryption(response, &found).into())
}

pub(super) async fn put_records(call: &Call) -> Result<Reply, ApiError> {
    let mut found = call.stream(Permission::Write)?;
    check_writable(call, &found)?;
    let mut records = Vec::new();
    let mut size_bytes = 0;
    for (number, entry) in (1..).zip(call.input.list("Records")) {
        let Value::Structure(entry) = entry else { continue };
        let record = record_of(entry, &found, &format!("records.{number}.member."))?;
        size_bytes += record.data.len() + record.partition_key.len();
        records.push(record);
    }
    if size_bytes > REQUEST_BYTES_MAX {
        return Err(ApiError::argument("Records size exceeds 10 MB limit"));
    }
    dry_run(call)?;
    let since = Instant::now();
    let placed = place(call, &mut found, &records).await;
    count_records(call, &found, &placed, size_bytes, since);
    let failed = placed.iter().filter(|placed| placed.is_err()).count();
    if let (Some(Err(failure)), true) = (placed.first(), failed == placed.len())
        && failure.code == ErrorCode::UnknownTopicId
    {
        return Err(call.no_stream(found.name()));
    }
    let entries: Vec<Value> = placed.into_iter().map(|placed| entry(placed).into()).collect();
    let response = Structure::new().with("FailedRecordCount", failed).with("Records", entries);
    Ok(with_encryption(response, &found).into())
}

fn count_records(
    call: &Call,
    found: &FoundStream,
    placed: &[Placed],
    size_bytes: usize,
    since: Instant,
) {
    let count =
        |is_it: &dyn Fn(&Placed) -> bool| placed.iter().filter(|it| is_it(it)).count() as u64;
    let successful = count(&Result::is_ok);
    let throttled = count(&|placed| placed.as_ref().is_err_and(is_throttled));
    let total = placed.len() as u64;
    let counts = [
        (Counted::PutRecordsRequests, 1),
        (Counted::PutRecordsSuccess, (successful > 0).into()),
        (Counted::PutRecordsBytes, size_bytes as u64),
        (Counted::PutRecordsLatency, whole_ms(since.elapsed())),
        (Counted::PutRecordsTotalRecords, total),
        (Counted::PutRecordsSuccessfulRecords, successful),
        (Counted::PutRecordsThrottledRecords, throttled),
        (Counted::PutRecordsFailedRecords, total - successful - throttled),
    ];
    call.service.stream_metrics.count(found.id(), &counts);
}

/// Whether a record is beyond the limits of its shard.
fn is_throttled(failure: &Failure) -> bool {
    failure.code == ErrorCode::ThrottlingQuotaExceeded
}

/// Whether a record can have this sequence number by now. The first ones of a shard have times after its making, which is
/// ahead of the clock behind a resharding.
fn may_be_known(sequence: SequenceNumber, stream: &StreamImage, now_ms: i64) -> bool {
    let earliest_s = stream.shard(sequence.shard).map_or(i64::MIN, |shard| shard.created_s + 1);
    sequence.time_s <= earliest_s.max(now_ms.div_euclid(1_000))
}

fn entry(placed: Placed) -> Structure {
    match placed {
        Ok((shard, sequence)) => Structure::new()
            .with("SequenceNumber", sequence.to_string())
            .with("ShardId", shard_id(shard)),
        Err(failure) if is_throttled(&failure) => Structure::new()
            .with("ErrorCode", THROUGHPUT_EXCEEDED)
            .with("ErrorMessage", failure.message),
        Err(failure) => {
            tracing::debug!(reason = %failure.message, "a record of a request was not appended");
            Structure::new()
                .with("ErrorCode", "InternalFailure")
                .with("ErrorMessage", "Internal service failure.")
        }
    }
}

fn with_encryption(response: Structure, found: &FoundStream) -> Structure {
    let is_encrypted = found.state().encryption_key.is_some();
    response.with("EncryptionType", if is_encrypted { "KMS" } else { "NONE" })
}

fn check_writable(call: &Call, found: &FoundStream) -> Result<(), ApiError> {
    match call.status(found) {
        "ACTIVE" | "UPDATING" => Ok(()),
        _ => Err(call.no_stream(found.name())),
    }
}

/// Ends a request that only wanted to know whether it would succeed.
fn dry_run(call: &Call) -> Result<(), ApiError> {
    match call.input.is_true("DryRun") {
        true => Err(ApiError::new(
            "DryRunOperationException",
            "Request would have succeeded, but DryRun flag is set.",
        )),
        false => Ok(()),
    }
}

fn record_of(input: &Structure, found: &FoundStream, path: &str) -> Result<NewRecord, ApiError> {
    let data = input.blob("Data").cloned().unwrap_or_default();
    // The model lets it be left out for streams that spread records themselves, which are not served.
    let Some(partition_key) = input.text("PartitionKey") else {
        return Err(ApiError::validation(missing(&format!("{path}partitionKey"))));
    };
    let max_bytes = usize::try_from(found.state().max_record_kib).unwrap_or(usize::MAX) << 10;
    if data.len() + partition_key.len() > max_bytes {
        let length = data.len();
        return Err(ApiError::validation(format!(
            "1 validation error detected: Value 'java.nio.HeapByteBuffer[pos=0 lim={length} cap={length}]' at \
             '{path}data' failed to satisfy constraint: Member must have length less than or equal to {max_bytes}"
        )));
    }
    let explicit_hash_key = input.text("ExplicitHashKey").map(str::to_owned);
    let hash_key = match &explicit_hash_key {
        Some(text) => text.parse().map_err(|_| {
            ApiError::argument(format!(
                "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was {text}"
            ))
        })?,
        None => HashKey(u128::from_be_bytes(Md5::digest(partition_key).into())),
    };
    let partition_key = partition_key.to_owned();
    Ok(NewRecord { data, partition_key, explicit_hash_key, hash_key })
}
