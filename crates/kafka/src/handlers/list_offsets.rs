//! ListOffsets: the offset at a time, or at one of the places that Kafka gave negative times to.

use std::sync::Arc;

use logway_log::TimestampedOffset;
use logway_model::{ErrorCode, LeaderEpoch, Offset, PartitionId, TimestampMs};
use logway_wire::messages::list_offsets_request::ListOffsetsPartition;
use logway_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use logway_wire::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::building::ENTRY_BYTES;
use super::isolation::isolation;
use super::repeats::repeated_partitions;
use crate::request::RequestContext;
use logway_node::access::{Operation, Resource};
use logway_node::read::Isolation;
use logway_node::replica::{ReadFrom, Replica};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// Of the record with the largest timestamp (KIP-734).
const MAX_TIMESTAMP: i64 = -3;
/// The earliest that is not in tiered storage alone (KIP-405).
const EARLIEST_LOCAL: i64 = -4;
/// The last that is in tiered storage (KIP-1005).
const LATEST_TIERED: i64 = -5;
/// The first that is not in tiered storage yet (KIP-1023).
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A consumer, not a follower and not a debugging tool.
const CONSUMER: i32 = -1;
/// A tool that asks any replica how far it is.
const DEBUGGER: i32 = -2;
/// From this version on answers have a leader epoch.
const LEADER_EPOCH_FROM: i16 = 4;

/// What offsets tell of a topic.
const OPERATION: Operation = Operation::Describe;

/// One answer for each partition asked for.
pub(crate) fn built_bytes(_context: &RequestContext, request: &ListOffsetsRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    partitions.sum::<usize>() * ENTRY_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let asked_twice = repeated_partitions(request.topics.iter().map(|topic| {
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        (topic.name.as_str(), indexes)
    }));
    let bound = Bound::of(&request);
    // Consumers ask the leader alone, also those that read from followers: as in Kafka.
    let from = match request.replica_id {
        DEBUGGER => ReadFrom::AnyReplica,
        _ => ReadFrom::Leader,
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let permission = context.check(OPERATION, Resource::Topic(&topic.name));
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let is_repeated = asked_twice.contains(&(&*topic.name, partition.partition_index));
            let found = match permission {
                Err(code) => Err(code),
                Ok(_) if is_repeated => Err(ErrorCode::InvalidRequest),
                Ok(_) => find(&context, &topic.name, partition, (bound, from)).await,
            };
            partitions.push(response(partition.partition_index, found, context.version));
        }
        let name = topic.name.clone();
        topics.push(ListOffsetsTopicResponse { name, partitions, ..Default::default() });
    }
    ListOffsetsResponse { topics, ..Default::default() }
}

/// From this version on clients know the code for an end that a new leader does not know yet (KIP-207).
const OFFSET_NOT_AVAILABLE_FROM: i16 = 5;

/// Where the log ends for the one who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    HighWatermark,
    LastStable,
    LogEnd,
}

impl Bound {
    fn of(request: &ListOffsetsRequest) -> Result<Bound, ErrorCode> {
        if request.replica_id != CONSUMER {
            return Ok(Bound::LogEnd);
        }
        isolation(request.isolation_level).map(|level| match level {
            Isolation::Committed => Bound::LastStable,
            Isolation::Uncommitted => Bound::HighWatermark,
        })
    }

    fn offset(self, partition: &Replica) -> Offset {
        match self {
            Bound::HighWatermark => partition.high_watermark().get(),
            Bound::LastStable => partition.last_stable_offset().get(),
            Bound::LogEnd => partition.log().log_end_offset(),
        }
    }
}

async fn find(
    context: &RequestContext,
    topic: &str,
    asked: &ListOffsetsPartition,
    (bound, from): (Result<Bound, ErrorCode>, ReadFrom),
) -> Result<Option<TimestampedOffset>, ErrorCode> {
    if !is_known(asked.timestamp, context.version) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let partition = {
        let topics = context.served_topics();
        let id = PartitionId(asked.partition_index);
        let (_, partition) = topics.readable_by_name(context, topic, id, from, OPERATION)?;
        Arc::clone(partition)
    };
    let bound = bound?;
    partition.check_leader_epoch(LeaderEpoch(asked.current_leader_epoch))?;
    let is_for_consumers = bound != Bound::LogEnd;
    let is_about_the_end = !matches!(asked.timestamp, EARLIEST | EARLIEST_LOCAL);
    if is_for_consumers && is_about_the_end && !partition.knows_what_is_committed() {
        return Err(match context.version >= OFFSET_NOT_AVAILABLE_FROM {
            true => ErrorCode::OffsetNotAvailable,
            false => ErrorCode::LeaderNotAvailable,
        });
    }
    let upper_bound = bound.offset(&partition);
    let at = |offset, leader_epoch| {
        Ok(Some(TimestampedOffset { timestamp: TimestampMs::NONE, offset, leader_epoch }))
    };
    let log = partition.log();
    match asked.timestamp {
        LATEST => at(upper_bound, partition.leader_epoch()),
        EARLIEST | EARLIEST_LOCAL => {
            let start = log.log_start_offset();
            at(start, epoch_at_start(&partition, start))
        }
        // There is no tiered storage.
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(None),
        MAX_TIMESTAMP => {
            let look_up = |limit| log.max_timestamp_offset(upper_bound, limit);
            context.search(&partition, look_up).await
        }
        timestamp => {
            let target = TimestampMs(timestamp);
            let look_up = |limit| log.offset_for_timestamp(target, upper_bound, limit);
            context.search(&partition, look_up).await
        }
    }
}

/// The epoch of the first record, or of the one that will be the first.
fn epoch_at_start(partition: &Replica, start: Offset) -> LeaderEpoch {
    match partition.log().epoch_at(start) {
        LeaderEpoch::NONE if start == partition.log().log_end_offset() => partition.leader_epoch(),
        epoch => epoch,
    }
}

/// Whether a timestamp means something in a version.
fn is_known(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        0.. | LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => return false,
    };
    version >= since
}

fn response(
    partition_index: i32,
    found: Result<Option<TimestampedOffset>, ErrorCode>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let nothing = ListOffsetsPartitionResponse { partition_index, ..Default::default() };
    match found {
        Ok(None) => nothing,
        Ok(Some(found)) => ListOffsetsPartitionResponse {
            timestamp: found.timestamp.0,
            offset: found.offset.0,
            leader_epoch: match version >= LEADER_EPOCH_FROM {
                true => found.leader_epoch.0,
                false => LeaderEpoch::NONE.0,
            },
            ..nothing
        },
        Err(code) => ListOffsetsPartitionResponse { error_code: code.code(), ..nothing },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_special_timestamp_begins_with_its_version() {
        for (timestamp, since) in [
            (LATEST, 1),
            (EARLIEST, 1),
            (MAX_TIMESTAMP, 7),
            (EARLIEST_LOCAL, 8),
            (LATEST_TIERED, 9),
            (EARLIEST_PENDING_UPLOAD, 11),
        ] {
            assert!(is_known(timestamp, since), "{timestamp}");
            assert!(!is_known(timestamp, since - 1), "{timestamp}");
        }
        assert!(is_known(0, 1));
        assert!(is_known(i64::MAX, 1));
        assert!(!is_known(-7, 11));
        assert!(!is_known(i64::MIN, 11));
    }

    #[test]
    fn only_consumers_are_kept_below_the_high_watermark() {
        let bound = |replica_id, isolation_level| {
            Bound::of(&ListOffsetsRequest { replica_id, isolation_level, ..Default::default() })
        };
        assert_eq!(bound(CONSUMER, 0), Ok(Bound::HighWatermark));
        assert_eq!(bound(CONSUMER, 1), Ok(Bound::LastStable));
        assert_eq!(bound(CONSUMER, 2), Err(ErrorCode::InvalidRequest));
        assert_eq!(bound(2, 0), Ok(Bound::LogEnd));
        assert_eq!(bound(-2, 1), Ok(Bound::LogEnd));
    }

    #[test]
    fn old_versions_get_no_leader_epoch() {
        let found = TimestampedOffset {
            timestamp: TimestampMs(5),
            offset: Offset(7),
            leader_epoch: LeaderEpoch(3),
        };
        assert_eq!(response(0, Ok(Some(found)), 3).leader_epoch, -1);
        assert_eq!(response(0, Ok(Some(found)), 4).leader_epoch, 3);
    }
}
