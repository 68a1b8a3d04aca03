//! Fetch: from the request to file ranges, waiting for records where there are too few.

use std::sync::Arc;
use std::time::Duration;

use logway_log::checkpoint::EpochEnd;
use logway_log::{FileRange, LogError, ReadRequest, ReadSlice};
use logway_model::{ErrorCode, LeaderEpoch, Offset, PartitionId};
use logway_wire::messages::fetch_request::FetchPartition;
use logway_wire::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, PartitionData,
};
use logway_wire::messages::{FetchRequest, FetchResponse};
use logway_wire::{Decoder, Records, WireString};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::connection::Reply;
use crate::dispatch::{Answer, RequestContext, decode_request, encode_reply};
use crate::failure::Failure;
use crate::fetch_session::{FetchKey, FetchScope, FetchWish};
use crate::partition::Partition;
use crate::topics::Topic;

/// From this version on topics are named by their ids (KIP-516).
const BY_TOPIC_ID_FROM: i16 = 13;
/// A consumer, not a follower.
const NO_REPLICA: i32 = -1;
const READ_COMMITTED: i8 = 1;

/// Starts a fetch; its reading and waiting happen in the reply queue.
pub(crate) fn answer(context: RequestContext, body: Decoder) -> Answer {
    let request = decode_request::<FetchRequest>(&context, body);
    Box::pin(async move {
        let request = request?;
        Ok(Reply::Later(Box::pin(async move {
            let (response, files) = fetch(&context, request).await;
            encode_reply(&context, &response, files).map(Some)
        })))
    })
}

async fn fetch(
    context: &RequestContext,
    request: FetchRequest,
) -> (FetchResponse, Vec<Vec<FileRange>>) {
    let limits = Limits::of(context, &request);
    let scope = context.fetch_sessions.scope(
        request.session_id,
        request.session_epoch,
        request.topics,
        &request.forgotten_topics_data,
        context.version >= BY_TOPIC_ID_FROM,
    );
    let scope = match scope {
        Ok(scope) => scope,
        Err(code) => return (FetchResponse { error_code: code.code(), ..Default::default() }, Vec::new()),
    };
    let outcome = read_or_wait(context, &limits, &scope).await;
    respond(context, scope, outcome)
}

/// What bounds a fetch as a whole.
struct Limits {
    deadline: Instant,
    min_bytes: u64,
    max_bytes: u64,
    read_committed: bool,
    is_follower: bool,
}

impl Limits {
    fn of(context: &RequestContext, request: &FetchRequest) -> Limits {
        let wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
        let max_bytes = u64::try_from(request.max_bytes).unwrap_or(0);
        let replica = match request.replica_state.replica_id {
            NO_REPLICA => request.replica_id,
            replica => replica,
        };
        Limits {
            deadline: Instant::now() + Duration::from_millis(wait_ms),
            min_bytes: u64::try_from(request.min_bytes).unwrap_or(0),
            max_bytes: max_bytes.min(context.settings.fetch_max_bytes as u64),
            read_committed: request.isolation_level == READ_COMMITTED,
            is_follower: replica >= 0,
        }
    }
}

/// What reading every wish gave.
struct Outcome {
    answers: Vec<PartitionData>,
    files: Vec<Vec<FileRange>>,
    read_bytes: u64,
    /// Something that the client should hear at once: an error, or that its log diverges.
    is_urgent: bool,
}

/// Reads until there is enough, something urgent, or no time left. It waits on the partitions
/// themselves: whatever raises a high watermark wakes it.
async fn read_or_wait(context: &RequestContext, limits: &Limits, scope: &FetchScope) -> Outcome {
    let mut outcome = read_all(context, limits, scope).await;
    let enough = |outcome: &Outcome| outcome.is_urgent || outcome.read_bytes >= limits.min_bytes;
    if enough(&outcome) || scope.wishes.is_empty() {
        return outcome;
    }
    let waiter = Arc::new(Notify::new());
    loop {
        let _subscription = Subscription::new(context, scope, &waiter);
        outcome = read_all(context, limits, scope).await;
        if enough(&outcome) {
            return outcome;
        }
        if timeout_at(limits.deadline, waiter.notified()).await.is_err() {
            return outcome;
        }
    }
}

/// Subscribed to every partition of a fetch, until dropped.
struct Subscription<'a> {
    partitions: Vec<Arc<Partition>>,
    waiter: &'a Arc<Notify>,
}

impl<'a> Subscription<'a> {
    fn new(context: &RequestContext, scope: &FetchScope, waiter: &'a Arc<Notify>) -> Self {
        let found = scope.wishes.iter().filter_map(|wish| find(context, &wish.key).ok());
        let partitions: Vec<_> = found.map(|(_, partition)| partition).collect();
        for partition in &partitions {
            partition.high_watermark().subscribe(waiter);
        }
        Subscription { partitions, waiter }
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.high_watermark().unsubscribe(self.waiter);
        }
    }
}

fn find(context: &RequestContext, key: &FetchKey) -> Result<(Arc<Topic>, Arc<Partition>), ErrorCode> {
    let table = context.topics();
    let topic = table.by_name_or_id(&key.topic, key.topic_id)?;
    let partition = topic.partition(PartitionId(key.partition))?;
    Ok((Arc::clone(topic), Arc::clone(partition)))
}

async fn read_all(context: &RequestContext, limits: &Limits, scope: &FetchScope) -> Outcome {
    let mut outcome =
        Outcome { answers: Vec::new(), files: Vec::new(), read_bytes: 0, is_urgent: false };
    for wish in &scope.wishes {
        let answer = match read_one(context, limits, wish, outcome.read_bytes).await {
            Ok((partition, slice)) => found(&mut outcome, &partition, slice),
            Err(refusal) => {
                outcome.is_urgent = true;
                refusal
            }
        };
        outcome.answers.push(PartitionData { partition_index: wish.key.partition, ..answer });
    }
    outcome
}

fn found(outcome: &mut Outcome, partition: &Partition, slice: ReadSlice) -> PartitionData {
    let len_bytes = slice.size_bytes();
    let records = if slice.is_empty() {
        Records::default()
    } else {
        outcome.files.push(slice.ranges);
        let len_bytes = usize::try_from(len_bytes).expect("bounded by max_bytes and a batch");
        Records::External { len_bytes, token: outcome.files.len() - 1 }
    };
    outcome.read_bytes += len_bytes;
    PartitionData {
        high_watermark: partition.high_watermark().get().0,
        last_stable_offset: partition.last_stable_offset().0,
        log_start_offset: slice.log_start_offset.0,
        records: Some(records),
        ..Default::default()
    }
}

async fn read_one(
    context: &RequestContext,
    limits: &Limits,
    wish: &FetchWish,
    read_bytes: u64,
) -> Result<(Arc<Partition>, ReadSlice), PartitionData> {
    let refuse = |code| refusal(code);
    let (_, partition) = find(context, &wish.key).map_err(refuse)?;
    if limits.is_follower {
        return Err(refuse(ErrorCode::NotLeaderOrFollower));
    }
    let client_epoch = LeaderEpoch(wish.request.current_leader_epoch);
    partition.check_leader_epoch(client_epoch).map_err(refuse)?;
    check_divergence(&partition, &wish.request)?;
    let upper_bound = match limits.read_committed {
        true => partition.last_stable_offset(),
        false => partition.high_watermark().get(),
    };
    let left_bytes = limits.max_bytes.saturating_sub(read_bytes);
    let partition_max_bytes = u64::try_from(wish.request.partition_max_bytes).unwrap_or(0);
    let request = ReadRequest {
        offset: Offset(wish.request.fetch_offset),
        max_bytes: partition_max_bytes.min(left_bytes),
        upper_bound,
        at_least_one_batch: read_bytes == 0,
    };
    match context.read(&partition, request).await {
        Ok(slice) => Ok((partition, slice)),
        Err(LogError::OffsetOutOfRange { .. }) => Err(out_of_range(&partition)),
        Err(error) => Err(refuse(Failure::from(error).code)),
    }
}

/// Tells a client whose last record is of an epoch that ended earlier in our log where that was
/// (KIP-595).
fn check_divergence(partition: &Partition, request: &FetchPartition) -> Result<(), PartitionData> {
    if request.last_fetched_epoch < 0 {
        return Ok(());
    }
    let last_fetched = LeaderEpoch(request.last_fetched_epoch);
    let end = partition.log().end_offset_for_epoch(last_fetched);
    let EpochEnd { epoch, end_offset } = end.ok_or_else(|| refusal(ErrorCode::OffsetOutOfRange))?;
    if epoch == last_fetched && end_offset.0 >= request.fetch_offset {
        return Ok(());
    }
    Err(PartitionData {
        diverging_epoch: EpochEndOffset {
            epoch: epoch.0,
            end_offset: end_offset.0,
            ..Default::default()
        },
        high_watermark: partition.high_watermark().get().0,
        last_stable_offset: partition.last_stable_offset().0,
        log_start_offset: partition.log().log_start_offset().0,
        records: Some(Records::default()),
        ..Default::default()
    })
}

fn refusal(code: ErrorCode) -> PartitionData {
    PartitionData {
        error_code: code.code(),
        high_watermark: -1,
        records: Some(Records::default()),
        ..Default::default()
    }
}

fn out_of_range(partition: &Partition) -> PartitionData {
    PartitionData {
        high_watermark: partition.high_watermark().get().0,
        log_start_offset: partition.log().log_start_offset().0,
        ..refusal(ErrorCode::OffsetOutOfRange)
    }
}

/// Groups the answers by topic again, leaving out what the session need not hear.
fn respond(
    context: &RequestContext,
    scope: FetchScope,
    outcome: Outcome,
) -> (FetchResponse, Vec<Vec<FileRange>>) {
    let mentioned = context.fetch_sessions.filter_answers(&scope, &outcome.answers);
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    for ((wish, answer), mentioned) in scope.wishes.iter().zip(outcome.answers).zip(mentioned) {
        count_traffic(context, &wish.key, &answer);
        if !mentioned {
            continue;
        }
        let key = &wish.key;
        let is_same = |last: &FetchableTopicResponse| {
            *last.topic == *key.topic && last.topic_id == key.topic_id
        };
        match responses.last_mut() {
            Some(last) if is_same(last) => last.partitions.push(answer),
            _ => responses.push(FetchableTopicResponse {
                topic: WireString::copy_of(&key.topic),
                topic_id: key.topic_id,
                partitions: vec![answer],
                ..Default::default()
            }),
        }
    }
    let session_id = scope.session_id;
    (FetchResponse { session_id, responses, ..Default::default() }, outcome.files)
}

fn count_traffic(context: &RequestContext, key: &FetchKey, answer: &PartitionData) {
    let bytes = answer.records.as_ref().map_or(0, Records::len_bytes);
    if bytes > 0
        && let Ok((topic, _)) = find(context, key)
    {
        topic.traffic.fetched(0, bytes);
    }
}
