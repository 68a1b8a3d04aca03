//! OffsetForLeaderEpoch: where the records of a leader epoch end, by which a client that comes back
//! after a change of leaders finds out whether its position still exists (KIP-101, KIP-320).

use logway_log::checkpoint::EpochEnd;
use logway_model::{ErrorCode, LeaderEpoch, PartitionId};
use logway_wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use logway_wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use logway_wire::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::building::ENTRY_BYTES;
use crate::request::{RequestContext, TopicGrant};
use logway_node::access::Operation;
use logway_node::replica::Replica;

/// One answer for each partition asked for.
pub(crate) fn built_bytes(
    _context: &RequestContext,
    request: &OffsetForLeaderEpochRequest,
) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    partitions.sum::<usize>() * ENTRY_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let grant = context.topics_by_cluster(Operation::ClusterAction, Operation::Describe);
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let found = find(&context, grant, &topic.topic, asked);
            response(asked.partition, found)
        });
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult { topic: topic.topic, partitions, ..Default::default() }
    });
    OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
}

fn find(
    context: &RequestContext,
    grant: TopicGrant,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<EpochEnd>, ErrorCode> {
    let topics = context.served_topics();
    let id = PartitionId(asked.partition);
    let (_, partition) = topics.led_by_name(context, topic, id, grant)?;
    partition.check_leader_epoch(LeaderEpoch(asked.current_leader_epoch))?;
    Ok(epoch_end(partition, LeaderEpoch(asked.leader_epoch)))
}

/// Where an epoch ends, or the one before it if it has left no record.
///
/// Kafka's log notes the beginning of an epoch when its leader takes over, ours when it writes the
/// first record. An epoch between the last written one and ours has its end where the log ends.
fn epoch_end(partition: &Replica, epoch: LeaderEpoch) -> Option<EpochEnd> {
    let log = partition.log();
    let written = log.end_offset_for_epoch(epoch);
    let ours = partition.leader_epoch();
    if written.is_some() || epoch <= LeaderEpoch::NONE || epoch > ours {
        return written;
    }
    let end_offset = log.log_end_offset();
    match log.latest_epoch() {
        latest if epoch < ours && latest > LeaderEpoch::NONE => {
            Some(EpochEnd { epoch: latest, end_offset })
        }
        _ => Some(EpochEnd { epoch, end_offset }),
    }
}

fn response(partition: i32, found: Result<Option<EpochEnd>, ErrorCode>) -> EpochEndOffset {
    let unknown = EpochEndOffset { partition, ..Default::default() };
    match found {
        Ok(None) => unknown,
        Ok(Some(end)) => {
            EpochEndOffset { leader_epoch: end.epoch.0, end_offset: end.end_offset.0, ..unknown }
        }
        Err(code) => EpochEndOffset { error_code: code.code(), ..unknown },
    }
}
