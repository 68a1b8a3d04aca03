//! DeleteRecords: forgets the beginning of partitions (KIP-107).

use std::time::Duration;

use logway_log::Completion;
use logway_model::{ErrorCode, Offset, PartitionId};
use logway_wire::WireString;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use logway_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use tokio::time::{Instant, timeout_at};

use super::building::ENTRY_WITH_MESSAGE_BYTES;
use crate::request::RequestContext;
use logway_node::access::Operation;
use logway_node::failure::Failure;

/// Asks to delete all that consumers can read.
const TO_HIGH_WATERMARK: i64 = -1;
/// The low watermark of a partition that was not changed.
const NO_LOW_WATERMARK: i64 = -1;

/// One deletion under way, and its answer, for each partition.
pub(crate) fn built_bytes(_context: &RequestContext, request: &DeleteRecordsRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    partitions.sum::<usize>() * ENTRY_WITH_MESSAGE_BYTES
}

pub(crate) async fn handle(
    context: RequestContext,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let deadline = deadline(request.timeout_ms);
    // All deletions are handed over before the first is waited for.
    let topics: Vec<StartedTopic> =
        request.topics.into_iter().map(|topic| StartedTopic::start(&context, topic)).collect();
    let mut response = DeleteRecordsResponse::default();
    for topic in topics {
        response.topics.push(topic.finish(deadline).await);
    }
    response
}

/// Kafka waits so long for other replicas, and not at all for itself. So a client that gives no
/// time still expects its deletion to succeed.
fn deadline(timeout_ms: i32) -> Option<Instant> {
    let timeout_ms = u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0)?;
    Some(Instant::now() + Duration::from_millis(timeout_ms))
}

struct StartedTopic {
    name: WireString,
    partitions: Vec<(i32, Result<Completion<Offset>, ErrorCode>)>,
}

impl StartedTopic {
    fn start(context: &RequestContext, topic: DeleteRecordsTopic) -> StartedTopic {
        let partitions = topic
            .partitions
            .into_iter()
            .map(|asked| (asked.partition_index, start(context, &topic.name, &asked)));
        StartedTopic { partitions: partitions.collect(), name: topic.name }
    }

    async fn finish(self, deadline: Option<Instant>) -> DeleteRecordsTopicResult {
        let mut result = DeleteRecordsTopicResult { name: self.name, ..Default::default() };
        for (partition_index, started) in self.partitions {
            let outcome = match started {
                Ok(deletion) => finish(deletion, deadline).await,
                Err(code) => Err(code),
            };
            result.partitions.push(partition_result(partition_index, outcome));
        }
        result
    }
}

fn start(
    context: &RequestContext,
    name: &str,
    asked: &DeleteRecordsPartition,
) -> Result<Completion<Offset>, ErrorCode> {
    let topics = context.served_topics();
    let id = PartitionId(asked.partition_index);
    let (topic, _) = topics.led_by_name(context, name, id, Operation::Delete)?;
    topic.begin_truncation(id, deletion_end(asked.offset)?)
}

/// The offset before which to delete; `None` for all that consumers can read.
fn deletion_end(asked: i64) -> Result<Option<Offset>, ErrorCode> {
    match asked {
        TO_HIGH_WATERMARK => Ok(None),
        0.. => Ok(Some(Offset(asked))),
        _ => Err(ErrorCode::OffsetOutOfRange),
    }
}

/// Waits for the new log start offset, which is the low watermark of a partition of one replica.
async fn finish(
    deletion: Completion<Offset>,
    deadline: Option<Instant>,
) -> Result<Offset, ErrorCode> {
    let result = match deadline {
        None => deletion.await,
        Some(deadline) => {
            timeout_at(deadline, deletion).await.map_err(|_elapsed| ErrorCode::RequestTimedOut)?
        }
    };
    result.map_err(|error| Failure::from(error).code)
}

fn partition_result(
    partition_index: i32,
    outcome: Result<Offset, ErrorCode>,
) -> DeleteRecordsPartitionResult {
    let (low_watermark, code) = match outcome {
        Ok(log_start) => (log_start.0, ErrorCode::None),
        Err(code) => (NO_LOW_WATERMARK, code),
    };
    DeleteRecordsPartitionResult {
        partition_index,
        low_watermark,
        error_code: code.code(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_end_at_an_offset_or_the_high_watermark() {
        assert_eq!(deletion_end(-1), Ok(None));
        for offset in [0, 10, i64::MAX] {
            assert_eq!(deletion_end(offset), Ok(Some(Offset(offset))));
        }
        for outside in [-2, i64::MIN] {
            assert_eq!(deletion_end(outside), Err(ErrorCode::OffsetOutOfRange), "{outside}");
        }
    }

    #[test]
    fn no_time_is_no_deadline() {
        assert_eq!(deadline(0), None);
        assert_eq!(deadline(-1), None);
        assert!(deadline(i32::MAX).is_some());
    }
}
