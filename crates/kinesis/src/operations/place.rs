//! From the records of a request to their shards.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use logway_metadata::Intake;
use logway_metadata::record::HashKey;
use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_node::Failure;
use logway_node::streams::anywhere::{Appended, Until};
use logway_node::tasks::wall_clock;
use logway_record::{BatchBuilder, Compression, Header};
use tokio::time::{Instant, timeout_at};

use super::throughput::{admit, exceeded};
use crate::call::{Call, FoundStream};
use crate::sequence::SequenceNumber;
use crate::stream_metrics::{Counted, CountedOfShard};

/// The header of a record whose hash key was not that of its partition key.
const EXPLICIT_HASH_KEY: &str = "kinesis.explicit.hash.key";

/// How long an append may take, with the wait for a resharding.
const APPEND_MAX: Duration = Duration::from_secs(10);

/// Between two looks for a shard, where the metadata does not change meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A record on its way to its shard.
pub(super) struct NewRecord {
    /// What it carries.
    pub(super) data: Bytes,
    /// Its key, as clients see it.
    pub(super) partition_key: String,
    /// What stands for the hash of the key, if the client has said so.
    pub(super) explicit_hash_key: Option<String>,
    /// What its shard is chosen by.
    pub(super) hash_key: HashKey,
}

impl NewRecord {
    /// What counts in limits: the model's bounds keep it small.
    pub(super) fn size_bytes(&self) -> u32 {
        u32::try_from(self.data.len() + self.partition_key.len()).unwrap_or(u32::MAX)
    }
}

/// Where a record is, or why it is nowhere.
pub(super) type Placed = Result<(PartitionId, SequenceNumber), Failure>;

pub(super) fn unplaced() -> Failure {
    Failure::new(ErrorCode::UnknownServerError, "the record was not placed")
}

/// Appends records to their shards, one batch for each shard. What a resharding has in its way waits and looks again; what
/// may be in a log is not sent again.
pub(super) async fn place(
    call: &Call,
    found: &mut FoundStream,
    records: &[NewRecord],
) -> Vec<Placed> {
    let node = &call.service.node;
    let deadline = Instant::now() + APPEND_MAX;
    let has_limits = node.settings.kinesis.shard_rates.limit_writes();
    let mut placed: Vec<Option<Placed>> = records.iter().map(|_| None).collect();
    // What a shard has let in stays so, also where it is tried again.
    let mut admitted = vec![!has_limits; records.len()];
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
        let mut has_moved = false;
        if has_limits {
            admit_records(call, found, records, &by_shard, &mut admitted, &mut placed).await;
            has_moved = retain_admitted(&mut by_shard, &admitted, &placed);
        }
        let batches: Vec<_> = by_shard
            .iter()
            .map(|(number, indexes)| {
                let records = indexes.iter().map(|index| &records[*index]);
                (found.partition(*number), batch(records))
            })
            .collect();
        let outcomes = node.append_anywhere(batches, Until::Committed, deadline).await;
        for ((number, indexes), outcome) in by_shard.into_iter().zip(outcomes) {
            match settled(outcome) {
                Some(outcome) => {
                    if outcome.is_ok() {
                        count_incoming(call, (found.id(), number), records, &indexes);
                    }
                    note(&mut placed, found, number, &indexes, outcome);
                }
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

/// Asks for room for those that have none yet. Those that get none are done with.
async fn admit_records(
    call: &Call,
    found: &FoundStream,
    records: &[NewRecord],
    by_shard: &BTreeMap<PartitionId, Vec<usize>>,
    admitted: &mut [bool],
    placed: &mut [Option<Placed>],
) {
    let asking = by_shard.iter().map(|(number, indexes)| {
        let asking = indexes.iter().copied().filter(|index| !admitted[*index]);
        (*number, asking.collect::<Vec<_>>())
    });
    let asking: BTreeMap<_, _> = asking.filter(|(_, indexes)| !indexes.is_empty()).collect();
    let sizes = asking.iter().map(|(number, indexes)| {
        (*number, indexes.iter().map(|index| records[*index].size_bytes()).collect())
    });
    let met = admit(call, found, sizes.collect()).await;
    for (number, met) in met {
        let mut throttled = 0;
        for (index, is_met) in asking[&number].iter().zip(met) {
            admitted[*index] = is_met;
            if !is_met {
                throttled += 1;
                placed[*index] = Some(Err(exceeded(call, found, number)));
            }
        }
        let metrics = &call.service.stream_metrics;
        metrics.count(found.id(), &[(Counted::WriteExceeded, throttled)]);
        let shard = (found.id(), number);
        metrics.count_shard(shard, &[(CountedOfShard::WriteExceeded, throttled)]);
    }
}

/// Leaves the records that may be appended. Whether there are others that wait for the leader of their shard.
fn retain_admitted(
    by_shard: &mut BTreeMap<PartitionId, Vec<usize>>,
    admitted: &[bool],
    placed: &[Option<Placed>],
) -> bool {
    let mut indexes = by_shard.values().flatten();
    let waits = indexes.any(|index| !admitted[*index] && placed[*index].is_none());
    by_shard.retain(|_, indexes| {
        indexes.retain(|index| admitted[*index]);
        !indexes.is_empty()
    });
    waits
}

fn count_incoming(
    call: &Call,
    shard: (TopicId, PartitionId),
    records: &[NewRecord],
    indexes: &[usize],
) {
    let bytes = indexes.iter().map(|index| u64::from(records[*index].size_bytes())).sum();
    let count = indexes.len() as u64;
    let metrics = &call.service.stream_metrics;
    metrics.count(shard.0, &[(Counted::IncomingBytes, bytes), (Counted::IncomingRecords, count)]);
    let counts = [(CountedOfShard::IncomingBytes, bytes), (CountedOfShard::IncomingRecords, count)];
    metrics.count_shard(shard, &counts);
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
    use crate::error::ApiError;

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
