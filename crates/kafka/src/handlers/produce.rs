//! Produce: from the request to one append per partition.
//!
//! Everything up to the hand-over to the log's writer happens before the connection's next
//! request is started, so the order of requests is the order of records. The waiting for the disk
//! happens in the reply queue.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logway_log::AppendOutcome;
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId};
use logway_node::Failure;
use logway_node::access::{Operation, Resource};
use logway_node::append::{Acks, Appending, is_plain};
use logway_node::replica::Replica;
use logway_node::topics::Topic;
use logway_record::{Batch, Batches, Compression, RecordFault, RefusedRecord, RefusedRecords};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    TopicProduceResponse,
};
use logway_wire::messages::{ProduceRequest, ProduceResponse};
use logway_wire::{Decoder, Records, WireString};
use tokio::time::Instant;

use super::cluster_view::BrokerView;
use super::current_leaders::{CurrentLeaders, is_elsewhere};
use super::transactions::membership::Membership;
use crate::request::{
    Reply, ReplyFuture, RequestContext, RequestError, ServedTopics, Work, decode_request,
    encode_reply, refusal,
};

const ACKS_NONE: i16 = 0;

/// From this version on topics have ids in place of names (KIP-516).
const TOPIC_IDS_FROM: i16 = 13;

/// From this version on a batch may be compressed with Zstandard (KIP-110).
const ZSTD_FROM: i16 = 7;

/// From this version on a producer is told who leads a partition that is not led here (KIP-951).
const LEADERS_FROM: i16 = 10;

/// How many records an answer names at most for which batches are refused, and how long it says what
/// is wrong with each. All of them together take no more than replies may without being counted.
const NAMED_RECORDS_MAX: usize = RefusedRecords::LISTED_MAX;

/// What one partition takes while its append is under way and as an answer. A batch is larger, but a
/// request may have many partitions and no batch in any.
const PARTITION_BYTES: usize = 1_024;

/// Prepares the appends of a request.
///
/// Without acks, too, the request's memory is held until the records are written: a client that
/// waits for nothing is slowed down by its connection, not by the memory of the broker.
pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    let request: ProduceRequest = decode_request(&context, body)?;
    let partitions = request.topic_data.iter().map(|topic| topic.partition_data.len());
    let built_bytes = partitions.sum::<usize>() * PARTITION_BYTES;
    Ok(Work::produce(context, built_bytes, request))
}

/// Starts the appends, which may wait for a place to unpack records.
pub(crate) fn start_appends(context: RequestContext, request: ProduceRequest) -> ReplyFuture {
    Box::pin(async move {
        let topics = context.served_topics().kept();
        let started = start(&context, &topics, request).await;
        Ok(finished_later(context, started))
    })
}

/// Starts the appends at once, if that waits for nothing; else the request comes back.
pub(crate) fn try_start_now(
    context: RequestContext,
    request: ProduceRequest,
) -> Result<Reply, Box<(RequestContext, ProduceRequest)>> {
    // One table for both: between a look and the next a topic may get another `compression.type`.
    let topics = context.served_topics();
    let may_ask = request.transactional_id.is_some();
    if may_ask || !is_quick(&topics, &request) {
        drop(topics);
        return Err(Box::new((context, request)));
    }
    let started = {
        let mut starting = pin!(start(&context, &topics, request));
        match starting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(started) => started,
            Poll::Pending => unreachable!("what is not compressed waits for no place"),
        }
    };
    drop(topics);
    Ok(finished_later(context, started))
}

/// Whether starting the appends waits for nothing: no batch is compressed, or is to be.
fn is_quick(topics: &ServedTopics, request: &ProduceRequest) -> bool {
    let mut partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let is_plain = partitions.all(|partition| match &partition.records {
        Some(Records::InMemory(bytes)) => is_plain(bytes),
        _ => true,
    });
    is_plain && (!topics.compresses_anew() || stays_plain(topics, request))
}

/// Whether no topic of the request has batches compressed that are not.
fn stays_plain(topics: &ServedTopics, request: &ProduceRequest) -> bool {
    request.topic_data.iter().all(|data| topics.keeps_plain(&data.name, data.topic_id))
}

/// The answer, which waits for the appends.
fn finished_later(context: RequestContext, started: StartedProduce) -> Reply {
    Reply::Later(Box::pin(async move {
        let acks = started.acks;
        let mut response = started.finish().await;
        if acks == ACKS_NONE {
            return check_unacknowledged(response).map(|()| None);
        }
        if context.version >= LEADERS_FROM {
            name_leaders(&context, &mut response);
        }
        encode_reply(&context, response, Vec::new()).map(Some)
    }))
}

/// The appends of one request, on their way to the disk.
struct StartedProduce {
    acks: i16,
    /// Until then the client waits for other replicas.
    deadline: Instant,
    topics: Vec<StartedTopic>,
}

struct StartedTopic {
    response: TopicProduceResponse,
    partitions: Vec<StartedPartition>,
}

struct StartedPartition {
    index: i32,
    outcome: Result<Append, Refused>,
}

/// A batch that is not appended.
struct Refused {
    failure: Failure,
    /// Where the log begins, if it was asked for the append.
    log_start: Option<Offset>,
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused { failure, log_start: None }
    }
}

impl Refused {
    /// A batch that the partition has refused. As in Kafka, the client learns where its log begins,
    /// but for errors that say nothing of the log.
    fn by(replica: &Replica, failure: Failure) -> Refused {
        let says_nothing = matches!(
            failure.code,
            ErrorCode::NotLeaderOrFollower
                | ErrorCode::InvalidTopicException
                | ErrorCode::TransactionalIdAuthorizationFailed
                | ErrorCode::MessageTooLarge
                | ErrorCode::CorruptMessage
                | ErrorCode::KafkaStorageError
        );
        let log_start = (!says_nothing).then(|| replica.log().log_start_offset());
        Refused { failure, log_start }
    }
}

struct Append {
    appending: Appending,
    replica: Arc<Replica>,
}

async fn start(
    context: &RequestContext,
    topics: &ServedTopics,
    request: ProduceRequest,
) -> StartedProduce {
    let acks = request.acks;
    let time_max = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = Instant::now() + time_max;
    let permission = check_transactional_id(context, request.transactional_id.as_deref());
    let mut started = Vec::with_capacity(request.topic_data.len());
    let mut names_left = NAMED_RECORDS_MAX;
    let mut membership = Membership::default();
    if let (Some(id), Ok(())) = (request.transactional_id.as_deref(), permission) {
        membership = Membership::of(context, topics, id, &request.topic_data).await;
    }
    for data in request.topic_data {
        let topic = permission.and_then(|()| find(context, topics, &data)).cloned();
        let mut start = StartTopic { context, acks, membership: &mut membership };
        started.push(start.start(topic, data, &mut names_left).await);
    }
    StartedProduce { acks, deadline, topics: started }
}

/// A transactional producer is refused as a whole.
fn check_transactional_id(context: &RequestContext, id: Option<&str>) -> Result<(), ErrorCode> {
    match id {
        Some(id) => context.check(Operation::Write, Resource::TransactionalId(id)),
        None => Ok(()),
    }
}

fn find<'a>(
    context: &RequestContext,
    topics: &'a ServedTopics,
    data: &TopicProduceData,
) -> Result<&'a Arc<Topic>, ErrorCode> {
    match context.version >= TOPIC_IDS_FROM && data.topic_id.is_zero() {
        true => Err(ErrorCode::UnknownTopicId),
        false => topics.by_name_or_id(context, &data.name, data.topic_id, Operation::Write),
    }
}

/// Why a partition takes no batch whose topic was not found, without its name where the request has only the id.
fn topic_failure(
    context: &RequestContext,
    code: ErrorCode,
    data: &TopicProduceData,
    id: PartitionId,
) -> Failure {
    match context.absence_here(code, &data.name, data.topic_id, id) {
        code @ (ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition) => {
            Failure::of_topic(code, &data.name, data.topic_id)
        }
        code @ ErrorCode::NotLeaderOrFollower => not_served(code, id),
        code => refusal(code),
    }
}

fn not_served(code: ErrorCode, id: PartitionId) -> Failure {
    Failure::new(code, format!("this broker does not lead partition {id} of the topic"))
}

/// Why a partition takes no batch whose topic was found.
fn partition_failure(
    context: &RequestContext,
    code: ErrorCode,
    topic: &Topic,
    id: PartitionId,
) -> Failure {
    match context.absence_here(code, topic.name().as_str(), topic.image.id.0, id) {
        // It was added to the topic just now.
        now if now != code => not_served(now, id),
        code => Failure::of_partition(code, topic, id),
    }
}

/// What the appends of a request have in common.
struct StartTopic<'a> {
    context: &'a RequestContext,
    acks: i16,
    membership: &'a mut Membership,
}

impl StartTopic<'_> {
    /// A partition that is there twice gets both batches and gives two answers. Kafka appends the last
    /// and says nothing of the others.
    async fn start(
        &mut self,
        topic: Result<Arc<Topic>, ErrorCode>,
        mut data: TopicProduceData,
        names_left: &mut usize,
    ) -> StartedTopic {
        let context = self.context;
        let mut partitions = Vec::with_capacity(data.partition_data.len());
        for partition in std::mem::take(&mut data.partition_data) {
            let index = partition.index;
            let outcome = match &topic {
                Ok(topic) => self.append(topic, partition).await,
                Err(code) => Err(topic_failure(context, *code, &data, PartitionId(index)).into()),
            };
            let outcome = outcome.map_err(|mut refused: Refused| {
                refused.failure.records.shorten_list(*names_left);
                *names_left -= refused.failure.records.listed().len();
                refused
            });
            partitions.push(StartedPartition { index, outcome });
        }
        let (name, topic_id) = (data.name, data.topic_id);
        let response = TopicProduceResponse { name, topic_id, ..Default::default() };
        StartedTopic { response, partitions }
    }

    async fn append(
        &mut self,
        topic: &Topic,
        data: PartitionProduceData,
    ) -> Result<Append, Refused> {
        let context = self.context;
        let id = PartitionId(data.index);
        let replica =
            topic.partition(id).map_err(|code| partition_failure(context, code, topic, id))?;
        let acks = acks_of(self.acks)?;
        let bytes = data.records.and_then(Records::into_bytes).unwrap_or_default();
        let batch = only_batch(Batches::new(bytes))?;
        check_codec(&batch, context.version)?;
        let guard = self.membership.take(replica, &batch)?;
        let appending = context.append(replica, batch, acks, guard).await;
        let appending = appending.map_err(|failure| Refused::by(replica, failure))?;
        Ok(Append { appending, replica: Arc::clone(replica) })
    }
}

fn acks_of(acks: i16) -> Result<Acks, Failure> {
    match acks {
        ACKS_NONE => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::All),
        _ => {
            let message = format!("acks must be -1 (all), 0 or 1, not {acks}");
            Err(Failure::new(ErrorCode::InvalidRequiredAcks, message))
        }
    }
}

/// Since version 3 a request carries exactly one batch per partition, as Kafka demands. Kafka lets
/// part of another one pass behind it and drops that; here nothing is dropped in silence.
fn only_batch(mut batches: Batches) -> Result<Batch, Failure> {
    let wrong_count = || {
        let message = "a produce request must hold exactly one record batch per partition";
        Failure::new(ErrorCode::InvalidRecord, message)
    };
    let batch = batches.next().ok_or_else(wrong_count)??;
    match batches.next() {
        None => Ok(batch),
        Some(Ok(_)) => Err(wrong_count()),
        Some(Err(error)) => Err(error.into()),
    }
}

/// A client that sends an older version may have partners that cannot unpack Zstandard.
fn check_codec(batch: &Batch, version: i16) -> Result<(), Failure> {
    if version >= ZSTD_FROM || batch.header().attributes.compression() != Ok(Compression::Zstd) {
        return Ok(());
    }
    let message = format!(
        "batches that are compressed with zstd need version {ZSTD_FROM} of Produce, and the \
         request has version {version}"
    );
    Err(Failure::new(ErrorCode::UnsupportedCompressionType, message))
}

impl StartedProduce {
    async fn finish(self) -> ProduceResponse {
        let responses = Vec::with_capacity(self.topics.len());
        let mut response = ProduceResponse { responses, ..ProduceResponse::default() };
        for StartedTopic { response: mut topic, partitions } in self.topics {
            topic.partition_responses.reserve_exact(partitions.len());
            for partition in partitions {
                topic.partition_responses.push(partition.finish(self.deadline).await);
            }
            response.responses.push(topic);
        }
        response
    }
}

impl StartedPartition {
    async fn finish(self, deadline: Instant) -> PartitionProduceResponse {
        let outcome = match self.outcome {
            Ok(append) => append.finish(deadline).await,
            Err(refused) => Err(refused),
        };
        match outcome {
            Ok(outcome) => appended(self.index, outcome),
            Err(refused) => failed(self.index, refused),
        }
    }
}

impl Append {
    async fn finish(self, deadline: Instant) -> Result<AppendOutcome, Refused> {
        let Append { appending, replica } = self;
        appending
            .finish_by(Some(deadline))
            .await
            .map_err(|error| Refused::by(&replica, error.into()))
    }
}

/// Names the leaders of partitions that are not led here.
fn name_leaders(context: &RequestContext, response: &mut ProduceResponse) {
    let mut leaders: Option<CurrentLeaders> = None;
    for topic in &mut response.responses {
        let refused = topic.partition_responses.iter_mut();
        for partition in refused.filter(|partition| is_elsewhere(partition.error_code)) {
            let leaders = leaders.get_or_insert_with(|| CurrentLeaders::of(context));
            let (name, topic_id, id) = (&topic.name, topic.topic_id, PartitionId(partition.index));
            let leader = leaders.name(context, name, topic_id, id, Operation::Write);
            if let Some((BrokerId(leader_id), LeaderEpoch(leader_epoch))) = leader {
                partition.current_leader =
                    LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() };
            }
        }
    }
    let Some(leaders) = leaders else { return };
    response.node_endpoints = leaders.brokers().map(node_endpoint).collect();
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

fn appended(index: i32, outcome: AppendOutcome) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        base_offset: outcome.base_offset.0,
        log_append_time_ms: outcome.log_append_time.0,
        log_start_offset: outcome.log_start_offset.0,
        ..Default::default()
    }
}

fn failed(index: i32, refused: Refused) -> PartitionProduceResponse {
    let Refused { failure, log_start } = refused;
    PartitionProduceResponse {
        index,
        error_code: failure.code.code(),
        error_message: Some(failure.message.into()),
        base_offset: -1,
        log_start_offset: log_start.map_or(-1, |offset| offset.0),
        record_errors: record_errors(&failure.records),
        ..Default::default()
    }
}

/// What is wrong with single records: a producer fails those, and can send the others again.
fn record_errors(records: &RefusedRecords) -> Vec<BatchIndexAndErrorMessage> {
    // Mostly the same for all, and then in memory once.
    let keyless = WireString::from(RecordFault::MissingKey.to_string());
    let named =
        records.listed().iter().map(|&RefusedRecord { index, fault }| BatchIndexAndErrorMessage {
            batch_index: i32::try_from(index).expect("a batch counts its records in 32 bits"),
            batch_index_error_message: Some(match fault {
                RecordFault::MissingKey => keyless.clone(),
                RecordFault::TimestampOutOfRange { .. } => fault.to_string().into(),
            }),
            ..Default::default()
        });
    named.collect()
}

/// Without acks there is nobody to tell of a failure but by closing the connection, as Kafka
/// does: the client then fetches new metadata.
fn check_unacknowledged(response: ProduceResponse) -> Result<(), RequestError> {
    let partitions = response.responses.into_iter().flat_map(|topic| topic.partition_responses);
    for partition in partitions {
        if partition.error_code != ErrorCode::None.code() {
            let message = partition.error_message.unwrap_or_default();
            return Err(RequestError::UnacknowledgedProduce(message));
        }
    }
    Ok(())
}
