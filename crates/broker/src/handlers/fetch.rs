//! Fetch: from the request to file ranges, waiting for records where there are too few.

use std::sync::Arc;
use std::time::Duration;

use logway_log::{FileRange, LogError, ReadRequest, ReadSlice};
use logway_model::{ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, Uuid};
use logway_wire::messages::fetch_request::FetchPartition;
use logway_wire::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, PartitionData,
};
use logway_wire::messages::{FetchRequest, FetchResponse};
use logway_wire::{ApiKey, Decoder, Records, WireString};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::connection::Reply;
use crate::dispatch::{RequestContext, RequestError, Work, decode_request, encode_reply};
use crate::failure::Failure;
use crate::fetch_session::{FetchScope, FetchWish, TopicNaming};
use crate::high_watermark::WaitKey;
use crate::partition::Partition;
use crate::topics::{Topic, TopicTable};

/// From this version on topics are named by their ids (KIP-516).
const BY_TOPIC_ID_FROM: i16 = 13;
/// Clients of older versions may not know of a log that is offline, and would give up.
const STORAGE_ERROR_FROM: i16 = 6;
/// A consumer, not a follower.
const NO_REPLICA: i32 = -1;
const READ_COMMITTED: i8 = 1;

/// What one partition takes: the wish, what the session says of it, and its answer.
const PARTITION_BYTES: usize = 768;

/// Prepares a fetch; its reading and waiting happen in the reply queue.
pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let request: FetchRequest = decode_request(&context, body)?;
    let named: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
    let remembered = context.fetch_sessions.partitions_of(request.session_id);
    let built_bytes = (named + remembered) * PARTITION_BYTES;
    Ok(Work::new(context, built_bytes, ApiKey::Fetch, |context| {
        Box::pin(async move {
            Ok(Reply::Later(Box::pin(async move {
                let (response, files) = fetch(&context, request).await;
                encode_reply(&context, response, files).map(Some)
            })))
        })
    }))
}

async fn fetch(
    context: &RequestContext,
    request: FetchRequest,
) -> (FetchResponse, Vec<Vec<FileRange>>) {
    let limits = Limits::of(context, &request);
    let name_of = |id: Uuid| Some(context.topics().by_id(TopicId(id)).ok()?.name().clone());
    let scope = context.fetch_sessions.scope(
        request.session_id,
        request.session_epoch,
        request.topics,
        &request.forgotten_topics_data,
        match context.version >= BY_TOPIC_ID_FROM {
            true => TopicNaming::ById(&name_of),
            false => TopicNaming::ByName,
        },
    );
    let scope = match scope {
        Ok(scope) => scope,
        Err(code) => {
            return (FetchResponse { error_code: code.code(), ..Default::default() }, Vec::new());
        }
    };
    let outcome = read_or_wait(context, &limits, &scope).await;
    respond(context, scope, outcome)
}

/// Reports records that cannot be read. Those that are damaged are reported once for each batch, however
/// often consumers try again.
fn report_damage(
    context: &RequestContext,
    partition: &Partition,
    offset: Offset,
    error: &LogError,
) {
    let is_new = |position: u64| partition.note_damage(position);
    let partition = partition.topic_partition();
    match error {
        LogError::Corrupt { position, .. } if !is_new(*position) => {}
        LogError::Corrupt { .. } => {
            context.metrics.damaged_batches.inc();
            let advice = "'logway log verify --while-running' checks all its files";
            tracing::error!(%partition, %offset, %error, advice, "stored records are damaged");
        }
        _ => tracing::error!(%partition, %offset, %error, "a read failed"),
    }
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
        let quota_max_bytes = context.charge.as_ref().and_then(|charge| charge.fetch_max_bytes());
        let max_bytes = u64::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(context.settings.fetch_max_bytes as u64)
            .min(quota_max_bytes.unwrap_or(u64::MAX));
        let replica = match request.replica_state.replica_id {
            NO_REPLICA => request.replica_id,
            replica => replica,
        };
        Limits {
            deadline: Instant::now() + Duration::from_millis(wait_ms),
            min_bytes: u64::try_from(request.min_bytes).unwrap_or(0).min(max_bytes),
            max_bytes,
            read_committed: request.isolation_level == READ_COMMITTED,
            is_follower: replica >= 0,
        }
    }
}

/// What reading every wish gave.
#[derive(Default)]
struct Outcome {
    answers: Vec<PartitionData>,
    files: Vec<Vec<FileRange>>,
    /// To be counted once it is certain that this is sent.
    sent: Vec<Sent>,
    read_bytes: u64,
    /// How many partitions there are to wait for.
    found_partitions: usize,
    /// Something that the client should hear at once: an error of reading, or that its log diverges.
    is_urgent: bool,
}

/// Records of one partition on their way out.
struct Sent {
    place: Place,
    records: u64,
    bytes: usize,
}

/// Reads until there is enough, something urgent, nothing to wait for, or no time left. It waits on
/// the partitions themselves: whatever raises a high watermark wakes it.
///
/// A topic that does not exist ends no wait, or clients that go on asking for it would do so as fast
/// as the network allows. One that goes during the wait is told of at once, which happens once.
async fn read_or_wait(context: &RequestContext, limits: &Limits, scope: &FetchScope) -> Outcome {
    let mut outcome = read_all(context, limits, scope).await;
    let found_at_first = outcome.found_partitions;
    let is_due = |outcome: &Outcome| {
        outcome.is_urgent
            || outcome.read_bytes >= limits.min_bytes
            || outcome.found_partitions < found_at_first
    };
    if is_due(&outcome) || found_at_first == 0 {
        return outcome;
    }
    let waiter = Arc::new(Notify::new());
    loop {
        let _subscription = Subscription::new(context, scope, &waiter);
        outcome = read_all(context, limits, scope).await;
        if is_due(&outcome) {
            return outcome;
        }
        tokio::select! {
            () = waiter.notified() => {}
            () = sleep_until(limits.deadline) => return outcome,
            () = context.connection.hurry.asked() => return outcome,
        }
    }
}

/// Subscribed to every partition of a fetch, until dropped.
struct Subscription(Vec<(Arc<Partition>, WaitKey)>);

impl Subscription {
    fn new(context: &RequestContext, scope: &FetchScope, waiter: &Arc<Notify>) -> Subscription {
        let subscribed = scope.wishes.iter().filter_map(|wish| {
            let partition = find(context, wish).ok()?.partition;
            let watermark = partition.high_watermark();
            // Below the watermark there may be something that was not enough: any rise is news then.
            let beyond = watermark.get().max(Offset(wish.request.fetch_offset));
            let key = watermark.subscribe(beyond, waiter);
            Some((partition, key))
        });
        Subscription(subscribed.collect())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        for (partition, key) in &self.0 {
            partition.high_watermark().unsubscribe(*key);
        }
    }
}

/// Where a wish leads.
struct Place {
    topic: Arc<Topic>,
    partition: Arc<Partition>,
}

fn find(context: &RequestContext, wish: &FetchWish) -> Result<Place, ErrorCode> {
    let (key, table) = (&wish.key, context.topics());
    let id = PartitionId(key.partition);
    let topic = match context.version >= BY_TOPIC_ID_FROM {
        false => table.by_name(&key.topic),
        true => table.by_id(TopicId(key.topic_id)).map_err(|_| why_gone(&table, wish)),
    };
    let topic = Arc::clone(topic?);
    let partition = Arc::clone(topic.partition(id)?);
    Ok(Place { topic, partition })
}

/// What is said of a topic id that is not known, or not any more: a client that was served under it
/// learns whether the topic is gone, or another one has its name.
fn why_gone(table: &TopicTable, wish: &FetchWish) -> ErrorCode {
    let Some(name) = &wish.known_name else { return ErrorCode::UnknownTopicId };
    let partition = PartitionId(wish.key.partition);
    match table.by_name(name.as_str()).and_then(|topic| topic.partition(partition)) {
        Ok(_) | Err(ErrorCode::KafkaStorageError) => ErrorCode::InconsistentTopicId,
        Err(code) => code,
    }
}

/// Whether an error can be told with the answer that is due anyway.
fn can_wait(code: i16) -> bool {
    code == ErrorCode::UnknownTopicOrPartition.code() || code == ErrorCode::UnknownTopicId.code()
}

async fn read_all(context: &RequestContext, limits: &Limits, scope: &FetchScope) -> Outcome {
    let mut outcome = Outcome::default();
    for wish in &scope.wishes {
        // A request for very many partitions takes turns with others.
        tokio::task::coop::consume_budget().await;
        let answer = match read_one(context, limits, wish, outcome.read_bytes).await {
            Ok((place, slice)) => found(&mut outcome, limits, place, wish, slice),
            Err(refused) => {
                outcome.is_urgent |= !can_wait(refused.error_code);
                let error_code = code_for(context.version, refused.error_code);
                PartitionData { error_code, ..refused }
            }
        };
        outcome.answers.push(PartitionData { partition_index: wish.key.partition, ..answer });
    }
    outcome
}

/// An error as a client of this version knows it.
fn code_for(version: i16, code: i16) -> i16 {
    match version < STORAGE_ERROR_FROM && code == ErrorCode::KafkaStorageError.code() {
        true => ErrorCode::NotLeaderOrFollower.code(),
        false => code,
    }
}

impl Outcome {
    /// Counts what was found in a partition.
    fn count(&mut self, slice: &ReadSlice) {
        self.read_bytes += slice.size_bytes();
        self.found_partitions += 1;
    }
}

fn found(
    outcome: &mut Outcome,
    limits: &Limits,
    place: Place,
    wish: &FetchWish,
    slice: ReadSlice,
) -> PartitionData {
    let bytes = usize::try_from(slice.size_bytes()).expect("bounded by max_bytes and a batch");
    outcome.count(&slice);
    let mut answer = PartitionData {
        high_watermark: place.partition.high_watermark().get().0,
        last_stable_offset: place.partition.last_stable_offset().0,
        log_start_offset: slice.log_start_offset.0,
        // Who reads what is not committed is told of no transactions.
        aborted_transactions: limits.read_committed.then(Vec::new),
        records: Some(Records::default()),
        ..Default::default()
    };
    if !slice.is_empty() {
        let offset = Offset(wish.request.fetch_offset);
        let records = u64::try_from(slice.next_offset - offset).unwrap_or(0);
        let token = outcome.files.len();
        answer.records = Some(Records::External { len_bytes: bytes, token });
        outcome.sent.push(Sent { place, records, bytes });
        outcome.files.push(slice.ranges);
    }
    answer
}

async fn read_one(
    context: &RequestContext,
    limits: &Limits,
    wish: &FetchWish,
    read_bytes: u64,
) -> Result<(Place, ReadSlice), PartitionData> {
    let place = find(context, wish).map_err(refusal)?;
    let partition = &place.partition;
    if limits.is_follower {
        return Err(unread(ErrorCode::NotLeaderOrFollower));
    }
    // As in Kafka, any negative epoch is none.
    let client_epoch = LeaderEpoch(wish.request.current_leader_epoch).max(LeaderEpoch::NONE);
    partition.check_leader_epoch(client_epoch).map_err(unread)?;
    if let Some(diverging) = divergence(partition, &wish.request) {
        return Err(diverging);
    }
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
    match context.read(partition, request).await {
        Ok(slice) => Ok((place, slice)),
        Err(LogError::OffsetOutOfRange { .. }) => Err(out_of_range(partition)),
        Err(error) => {
            report_damage(context, partition, request.offset, &error);
            Err(unread(match error {
                // What clients do not take for something that passes: they would try again for ever,
                // without a word.
                LogError::Corrupt { .. } => ErrorCode::CorruptMessage,
                error => Failure::from(error).code,
            }))
        }
    }
}

/// Tells a client whose last record is of an epoch that ended earlier in our log where that was
/// (KIP-595).
fn divergence(partition: &Partition, request: &FetchPartition) -> Option<PartitionData> {
    if request.last_fetched_epoch < 0 {
        return None;
    }
    let last_fetched = LeaderEpoch(request.last_fetched_epoch);
    let Some(end) = partition.log().end_offset_for_epoch(last_fetched) else {
        return Some(unread(ErrorCode::OffsetOutOfRange));
    };
    if end.epoch == last_fetched && end.end_offset.0 >= request.fetch_offset {
        return None;
    }
    Some(PartitionData {
        diverging_epoch: EpochEndOffset {
            epoch: end.epoch.0,
            end_offset: end.end_offset.0,
            ..Default::default()
        },
        high_watermark: partition.high_watermark().get().0,
        last_stable_offset: partition.last_stable_offset().0,
        log_start_offset: partition.log().log_start_offset().0,
        aborted_transactions: None,
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

/// An answer for a partition that is here and cannot be read: as in Kafka it has no list of transactions, and not an
/// empty one.
fn unread(code: ErrorCode) -> PartitionData {
    PartitionData { aborted_transactions: None, ..refusal(code) }
}

fn out_of_range(partition: &Partition) -> PartitionData {
    PartitionData {
        high_watermark: partition.high_watermark().get().0,
        log_start_offset: partition.log().log_start_offset().0,
        ..unread(ErrorCode::OffsetOutOfRange)
    }
}

/// Groups the answers by topic again, leaving out what the session need not hear.
fn respond(
    context: &RequestContext,
    scope: FetchScope,
    outcome: Outcome,
) -> (FetchResponse, Vec<Vec<FileRange>>) {
    let mentioned = context.fetch_sessions.filter_answers(&scope, &outcome.answers);
    for Sent { place, records, bytes, .. } in outcome.sent {
        place.topic.traffic.fetched(records, bytes);
    }
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    for ((wish, answer), mentioned) in scope.wishes.iter().zip(outcome.answers).zip(mentioned) {
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
