//! PutRecord and PutRecords.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use logway_metadata::record::HashKey;
use logway_metadata::{Intake, StreamImage};
use logway_model::{ErrorCode, PartitionId};
use logway_node::Failure;
use logway_node::access::Operation as Permission;
use logway_node::streams::anywhere::{Appended, Until};
use logway_node::tasks::wall_clock;
use logway_record::{BatchBuilder, Compression, Header};
use md5::{Digest, Md5};
use tokio::time::{Instant, timeout_at};

use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::names::shard_id;
use crate::sequence::SequenceNumber;
use crate::validate::missing;
use crate::value::{Structure, Value};

/// The header of a record whose hash key was not that of its partition key.
const EXPLICIT_HASH_KEY: &str = "kinesis.explicit.hash.key";

/// The most that the records of one request may have, data and keys together.
const REQUEST_BYTES_MAX: usize = 10 << 20;

/// How long an append may take, with the wait for a resharding.
const APPEND_MAX: Duration = Duration::from_secs(10);

/// Between two looks for a shard, where the metadata does not change meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A record on its way to its shard.
struct NewRecord {
    data: Bytes,
    partition_key: String,
    explicit_hash_key: Option<String>,
    hash_key: HashKey,
}

/// Where a record is, or why it is nowhere.
type Placed = Result<(PartitionId, SequenceNumber), Failure>;

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
    let placed = place(call, &mut found, &[record]).await.pop();
    let placed = placed.unwrap_or_else(|| Err(unplaced()));
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
    let placed = place(call, &mut found, &records).await;
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

fn unplaced() -> Failure {
    Failure::new(ErrorCode::UnknownServerError, "the record was not placed")
}

/// Appends records to their shards, one batch for each shard. What a resharding has in its way waits and looks again; what
/// may be in a log is not sent again.
async fn place(call: &Call, found: &mut FoundStream, records: &[NewRecord]) -> Vec<Placed> {
    let node = &call.service.node;
    let deadline = Instant::now() + APPEND_MAX;
    let mut placed: Vec<Option<Placed>> = records.iter().map(|_| None).collect();
    loop {
        let mut images = node.quorum.watch();
        images.mark_unchanged();
        match call.find(found.name()).filter(|now| now.id() == found.id()) {
            Some(now) => *found = now,
            None => {
                let gone = || Failure::new(ErrorCode::UnknownTopicId, "the stream was deleted");
                placed.iter_mut().for_each(|placed| _ = placed.get_or_insert_with(|| Err(gone())));
            }
        }
        let mut by_shard: BTreeMap<PartitionId, Vec<usize>> = BTreeMap::new();
        let waiting = (0..records.len()).filter(|index| placed[*index].is_none());
        for index in waiting {
            let shard = found.stream().shard_of(records[index].hash_key);
            if let Some((number, _)) = shard
                && found.stream().intake(number) == Intake::Open
            {
                by_shard.entry(number).or_default().push(index);
            }
        }
        let batches: Vec<_> = by_shard
            .iter()
            .map(|(number, indexes)| {
                let records = indexes.iter().map(|index| &records[*index]);
                (found.partition(*number), batch(records))
            })
            .collect();
        let outcomes = node.append_anywhere(batches, Until::Committed, deadline).await;
        let mut has_moved = false;
        for ((number, indexes), outcome) in by_shard.into_iter().zip(outcomes) {
            match settled(outcome) {
                Some(outcome) => note(&mut placed, found, number, &indexes, outcome),
                None => has_moved = true,
            }
        }
        if placed.iter().all(Option::is_some) || Instant::now() >= deadline {
            break;
        }
        let next = if has_moved { Instant::now() + LOOK_AGAIN } else { deadline };
        _ = timeout_at(next.min(deadline), images.changed()).await;
    }
    placed.into_iter().map(|placed| placed.unwrap_or_else(|| Err(late()))).collect()
}

/// What is said at the deadline of a record that no shard has taken, whatever was in its way: clients try again.
fn late() -> Failure {
    Failure::new(ErrorCode::LeaderNotAvailable, "the shard of the record takes none yet")
}

/// What came of a batch. `None` where nothing of it was appended and another try may help: its shard has just been closed, or is
/// not open yet, or nobody leads it.
fn settled(outcome: Result<Appended, Failure>) -> Option<Result<Appended, Failure>> {
    let is_in_the_way = |failure: &Failure| {
        matches!(failure.code, ErrorCode::PolicyViolation | ErrorCode::LeaderNotAvailable)
    };
    match outcome {
        Err(failure) if is_in_the_way(&failure) => None,
        outcome => Some(outcome),
    }
}

fn note(
    placed: &mut [Option<Placed>],
    found: &FoundStream,
    number: PartitionId,
    indexes: &[usize],
    outcome: Result<Appended, Failure>,
) {
    let shard = found.stream().shard(number);
    for (delta, index) in (0..).zip(indexes) {
        placed[*index] = Some(match (&outcome, shard) {
            (Ok(appended), Some(shard)) => {
                let offset = appended.base_offset + delta;
                Ok((number, SequenceNumber::of_record(number, shard, offset, appended.time)))
            }
            (Err(failure), _) => Err(failure.clone()),
            (Ok(_), None) => Err(unplaced()),
        });
    }
}

fn batch<'a>(records: impl Iterator<Item = &'a NewRecord>) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let now = wall_clock();
    for record in records {
        let header = record.explicit_hash_key.as_ref().map(|key| {
            Header::new(EXPLICIT_HASH_KEY, Some(Bytes::copy_from_slice(key.as_bytes())))
        });
        let headers = header.as_slice();
        let key = Some(record.partition_key.as_bytes());
        // A request is far smaller than a batch may be, and has one time.
        builder.append(now, key, Some(&record.data), headers).expect("it fits");
    }
    builder.finish().expect("it has a record")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_no_shard_took_is_to_be_sent_again() {
        for code in [ErrorCode::PolicyViolation, ErrorCode::LeaderNotAvailable] {
            assert_eq!(settled(Err(Failure::new(code, ""))), None);
        }
        let unknown = Err(Failure::new(ErrorCode::RequestTimedOut, ""));
        assert_eq!(settled(unknown.clone()), Some(unknown), "it may be there");
        let error = ApiError::from(late());
        assert_eq!((error.name, error.status), ("ServiceUnavailable", 503));
    }
}
