//! Fetch: from the request to file ranges, waiting for records where there are too few.

use std::sync::Arc;
use std::time::Duration;

use logway_log::checkpoint::EpochEnd;
use logway_log::{AbortedTransaction, FileRange};
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, Uuid};
use logway_node::access::Operation;
use logway_node::read::{Found, Isolation, Patience, ReadBounds, ReadOutcome, ReadWish, Unread};
use logway_node::replica::{ReadFrom, Replica};
use logway_wire::messages::fetch_request::FetchPartition;
use logway_wire::messages::fetch_response::{
    AbortedTransaction as ResponseTransaction, EpochEndOffset, FetchableTopicResponse,
    LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use logway_wire::messages::{FetchRequest, FetchResponse};
use logway_wire::{ApiKey, Decoder, Records, WireString};
use tokio::time::Instant;

use super::cluster_view::BrokerView;
use super::current_leaders::{CurrentLeaders, is_elsewhere};
use super::isolation::isolation;
use crate::fetch_session::{FetchScope, FetchWish, TopicNaming};
use crate::request::{
    Reply, RequestContext, RequestError, ServedTopics, TopicGrant, Work, decode_request,
    encode_reply,
};

/// From this version on topics are named by their ids (KIP-516).
const BY_TOPIC_ID_FROM: i16 = 13;
/// From this version on a consumer is told who leads a partition that is not led here (KIP-951).
const LEADERS_FROM: i16 = 16;
/// Clients of older versions may not know of a log that is offline, and would give up.
const STORAGE_ERROR_FROM: i16 = 6;
/// From this version on consumers may read from followers, and may say in which rack they are (KIP-392).
const FROM_FOLLOWERS_FROM: i16 = 11;
/// A consumer, not a follower.
const NO_REPLICA: i32 = -1;

/// What one partition takes: the wish, what the session says of it, and its answer.
const PARTITION_BYTES: usize = 768;

/// Prepares a fetch; its reading and waiting happen in the reply queue.
pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let request: FetchRequest = decode_request(&context, body)?;
    let named: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
    let remembered = context.fetch_sessions().partitions_of(request.session_id);
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
    let name_of = |id: Uuid| context.served_topics().name_of(TopicId(id));
    let scope = context.fetch_sessions().scope(
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
    let wishes: Vec<Wish<'_>> = scope.wishes.iter().map(Wish::of).collect();
    let patience = Patience { deadline: limits.deadline, hurry: context.connection.hurry.asked() };
    let find = |wish: &Wish<'_>| find(context, &limits, wish.fetch);
    // Without a level no partition is found, and nothing is read.
    let isolation = limits.isolation.unwrap_or(Isolation::Committed);
    let outcomes = context.read(&wishes, find, isolation, limits.bounds, patience).await;
    let mut files = Vec::new();
    let answers = scope.wishes.iter().zip(outcomes).map(|(wish, outcome)| {
        let answer = answer(context.version, isolation, outcome, &mut files);
        PartitionData { partition_index: wish.key.partition, ..answer }
    });
    let mut answers: Vec<PartitionData> = answers.collect();
    let mut node_endpoints = match limits.grant {
        Ok(grant) if context.version >= LEADERS_FROM => {
            name_leaders(context, grant, &scope.wishes, &mut answers)
        }
        _ => Vec::new(),
    };
    if limits.is_follower {
        // As in Kafka: a node of the cluster knows where the others are.
        node_endpoints.clear();
    }
    (FetchResponse { node_endpoints, ..respond(context, scope, answers) }, files)
}

/// Names the leaders of partitions that are not led here, or in another epoch, and where they are reached.
fn name_leaders(
    context: &RequestContext,
    grant: TopicGrant,
    wishes: &[FetchWish],
    answers: &mut [PartitionData],
) -> Vec<NodeEndpoint> {
    let has_news = |code| is_elsewhere(code) || code == ErrorCode::FencedLeaderEpoch.code();
    let mut leaders: Option<CurrentLeaders> = None;
    let refused = wishes.iter().zip(answers).filter(|(_, answer)| has_news(answer.error_code));
    for (FetchWish { key, .. }, answer) in refused {
        let leaders = leaders.get_or_insert_with(|| CurrentLeaders::of(context));
        let id = PartitionId(key.partition);
        let leader = leaders.name(context, &key.topic, key.topic_id, id, grant);
        if let Some((BrokerId(leader_id), LeaderEpoch(leader_epoch))) = leader {
            answer.current_leader =
                LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() };
        }
    }
    let Some(leaders) = leaders else { return Vec::new() };
    leaders.brokers().map(node_endpoint).collect()
}

fn node_endpoint(broker: BrokerView<'_>) -> NodeEndpoint {
    NodeEndpoint {
        node_id: broker.id.0,
        host: WireString::copy_of(&broker.address.host),
        port: broker.address.port.into(),
        rack: broker.rack.map(WireString::copy_of),
        ..Default::default()
    }
}

/// A wish of the session, as the node takes it.
struct Wish<'a> {
    fetch: &'a FetchWish,
    read: ReadWish,
}

impl AsRef<ReadWish> for Wish<'_> {
    fn as_ref(&self) -> &ReadWish {
        &self.read
    }
}

impl Wish<'_> {
    fn of(fetch: &FetchWish) -> Wish<'_> {
        let FetchPartition { fetch_offset, partition_max_bytes, .. } = fetch.request;
        // As in Kafka, any negative epoch is none.
        let epoch = |number| LeaderEpoch(number).max(LeaderEpoch::NONE);
        let read = ReadWish {
            offset: Offset(fetch_offset),
            max_bytes: u64::try_from(partition_max_bytes).unwrap_or(0),
            leader_epoch: epoch(fetch.request.current_leader_epoch),
            last_read_epoch: epoch(fetch.request.last_fetched_epoch),
        };
        Wish { fetch, read }
    }
}

/// What bounds a fetch as a whole.
struct Limits {
    deadline: Instant,
    bounds: ReadBounds,
    /// How far is read, or the code for each partition of one who asks for a level that there is not.
    isolation: Result<Isolation, ErrorCode>,
    /// What may be fetched, or the code for each partition of one who may fetch nothing.
    grant: Result<TopicGrant, ErrorCode>,
    is_follower: bool,
    /// Which replicas serve it.
    from: ReadFrom,
    /// Where the consumer is, if it has said so.
    rack: WireString,
}

impl Limits {
    fn of(context: &RequestContext, request: &FetchRequest) -> Limits {
        let wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
        let quota_max_bytes = context.charge.as_ref().and_then(|charge| charge.fetch_max_bytes());
        let max_bytes = u64::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(context.settings().fetch_max_bytes as u64)
            .min(quota_max_bytes.unwrap_or(u64::MAX));
        let replica = match request.replica_state.replica_id {
            NO_REPLICA => request.replica_id,
            replica => replica,
        };
        let is_follower = replica >= 0;
        Limits {
            grant: grant(context, is_follower),
            deadline: Instant::now() + Duration::from_millis(wait_ms),
            bounds: ReadBounds {
                min_bytes: u64::try_from(request.min_bytes).unwrap_or(0).min(max_bytes),
                max_bytes,
            },
            isolation: isolation(request.isolation_level),
            is_follower,
            from: match !is_follower && context.version >= FROM_FOLLOWERS_FROM {
                true => ReadFrom::AnyReplica,
                false => ReadFrom::Leader,
            },
            rack: request.rack_id.clone(),
        }
    }
}

/// A consumer needs permission for each topic. A follower is a node of the cluster, and gets all.
fn grant(context: &RequestContext, is_follower: bool) -> Result<TopicGrant, ErrorCode> {
    if !is_follower {
        return Ok(Operation::Read.into());
    }
    let cluster = context.cluster(Operation::ClusterAction);
    cluster.map(|cluster| cluster.all_topics()).map_err(|_| ErrorCode::TopicAuthorizationFailed)
}

/// Asked at each look at the partition, so that who loses a permission reads no more.
fn find(
    context: &RequestContext,
    limits: &Limits,
    wish: &FetchWish,
) -> Result<Arc<Replica>, Unread> {
    let grant = limits.grant.map_err(Unread::Absent)?;
    let (key, topics) = (&wish.key, context.served_topics());
    let id = PartitionId(key.partition);
    let topic = match context.version >= BY_TOPIC_ID_FROM {
        false => topics.by_name(context, &key.topic, grant),
        true => topics.by_id(context, TopicId(key.topic_id), grant),
    };
    let replica = topic.and_then(|topic| topic.readable(id, limits.from)).map_err(|code| {
        Unread::Absent(match context.absence_here(code, &key.topic, key.topic_id, id) {
            ErrorCode::UnknownTopicId => why_gone(context, &topics, grant, wish),
            code => code,
        })
    })?;
    limits.isolation.map_err(Unread::Refused)?;
    let ReadWish { offset, leader_epoch, .. } = Wish::of(wish).read;
    if limits.is_follower {
        return Err(Unread::Refused(why_no_follower(replica, leader_epoch)));
    }
    match context.nearer_replica(replica, offset, &limits.rack) {
        Some(broker) => {
            replica.check_leader_epoch(leader_epoch).map_err(Unread::Refused)?;
            Err(Unread::Nearer(Arc::clone(replica), broker))
        }
        None => Ok(Arc::clone(replica)),
    }
}

/// What is said to a client that calls itself a replica: the partition has no other. As in Kafka, a client of our epoch
/// is told that its epoch is unknown: it asks again, and by then we could know of the replica.
fn why_no_follower(replica: &Replica, client: LeaderEpoch) -> ErrorCode {
    match (replica.check_leader_epoch(client), client) {
        (Err(code), _) => code,
        (Ok(()), LeaderEpoch::NONE) => ErrorCode::NotLeaderOrFollower,
        (Ok(()), _) => ErrorCode::UnknownLeaderEpoch,
    }
}

/// What is said of a topic id that is not known, or not any more: a client that was served under it
/// learns whether the topic is gone, or another one has its name.
fn why_gone(
    context: &RequestContext,
    topics: &ServedTopics,
    grant: TopicGrant,
    wish: &FetchWish,
) -> ErrorCode {
    let Some(name) = &wish.known_name else { return ErrorCode::UnknownTopicId };
    let partition = PartitionId(wish.key.partition);
    let topic = topics.by_name(context, name.as_str(), grant);
    match topic.and_then(|topic| topic.partition(partition)) {
        Ok(_) | Err(ErrorCode::KafkaStorageError) => ErrorCode::InconsistentTopicId,
        Err(code) => code,
    }
}

/// An error as a client of this version knows it.
fn code_for(version: i16, code: i16) -> i16 {
    match version < STORAGE_ERROR_FROM && code == ErrorCode::KafkaStorageError.code() {
        true => ErrorCode::NotLeaderOrFollower.code(),
        false => code,
    }
}

/// What is said of a partition. `files` gets what its records stand for.
fn answer(
    version: i16,
    isolation: Isolation,
    outcome: ReadOutcome,
    files: &mut Vec<Vec<FileRange>>,
) -> PartitionData {
    let refused = match outcome {
        Ok(found) => return records(isolation, found, files),
        Err(Unread::Diverging(replica, end)) => return diverging(&replica, end),
        Err(Unread::Nearer(replica, broker)) => return nearer(&replica, broker),
        Err(Unread::Absent(code)) => refusal(code),
        Err(Unread::Refused(code)) => unread(code),
        Err(Unread::OutOfRange(replica)) => out_of_range(&replica),
    };
    PartitionData { error_code: code_for(version, refused.error_code), ..refused }
}

fn records(isolation: Isolation, found: Found, files: &mut Vec<Vec<FileRange>>) -> PartitionData {
    let Found { replica, slice, aborted } = found;
    let mut answer = PartitionData {
        high_watermark: replica.high_watermark().get().0,
        last_stable_offset: replica.last_stable_offset().get().0,
        log_start_offset: slice.log_start_offset.0,
        // Who reads what is not committed is told of no transactions.
        aborted_transactions: (isolation == Isolation::Committed)
            .then(|| aborted.iter().map(aborted_transaction).collect()),
        records: Some(Records::default()),
        ..Default::default()
    };
    if !slice.is_empty() {
        let bytes = usize::try_from(slice.size_bytes()).expect("bounded by max_bytes and a batch");
        answer.records = Some(Records::External { len_bytes: bytes, token: files.len() });
        files.push(slice.ranges);
    }
    answer
}

fn aborted_transaction(aborted: &AbortedTransaction) -> ResponseTransaction {
    ResponseTransaction {
        producer_id: aborted.producer_id.0,
        first_offset: aborted.first.0,
        ..Default::default()
    }
}

/// Tells a client whose last record is of an epoch that ended earlier in our log where that was
/// (KIP-595).
fn diverging(replica: &Replica, end: EpochEnd) -> PartitionData {
    PartitionData {
        diverging_epoch: EpochEndOffset {
            epoch: end.epoch.0,
            end_offset: end.end_offset.0,
            ..Default::default()
        },
        high_watermark: replica.high_watermark().get().0,
        last_stable_offset: replica.last_stable_offset().get().0,
        log_start_offset: replica.log().log_start_offset().0,
        aborted_transactions: None,
        records: Some(Records::default()),
        ..Default::default()
    }
}

/// Sends a consumer to a replica that is nearer to it, without records.
fn nearer(replica: &Replica, broker: BrokerId) -> PartitionData {
    PartitionData {
        preferred_read_replica: broker.0,
        high_watermark: replica.high_watermark().get().0,
        last_stable_offset: replica.last_stable_offset().get().0,
        log_start_offset: replica.log().log_start_offset().0,
        aborted_transactions: None,
        records: Some(Records::default()),
        ..Default::default()
    }
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

fn out_of_range(replica: &Replica) -> PartitionData {
    PartitionData {
        high_watermark: replica.high_watermark().get().0,
        log_start_offset: replica.log().log_start_offset().0,
        ..unread(ErrorCode::OffsetOutOfRange)
    }
}

/// Groups the answers by topic again, leaving out what the session need not hear.
fn respond(
    context: &RequestContext,
    scope: FetchScope,
    answers: Vec<PartitionData>,
) -> FetchResponse {
    let mentioned = context.fetch_sessions().filter_answers(&scope, &answers);
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    for ((wish, answer), mentioned) in scope.wishes.iter().zip(answers).zip(mentioned) {
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
    FetchResponse { session_id: scope.session_id, responses, ..Default::default() }
}
