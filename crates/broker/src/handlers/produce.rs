//! Produce: from the request to one append per partition.
//!
//! Everything up to the hand-over to the log's writer happens before the connection's next
//! request is started, so the order of requests is the order of records. The waiting for the disk
//! happens in the reply queue.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use logway_log::{AppendFuture, AppendOutcome};
use logway_model::{ErrorCode, PartitionId};
use logway_record::{
    AppendRules, Batch, BatchHeader, BatchSummary, Batches, Compression, TimestampType,
};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use logway_wire::messages::{ProduceRequest, ProduceResponse};
use logway_wire::{Decoder, Records};

use super::cluster_view::is_internal;
use crate::connection::Reply;
use crate::dispatch::{Answer, RequestContext, RequestError, Work, decode_request, encode_reply};
use crate::failure::Failure;
use crate::topics::{Topic, TopicTable};

const ACKS_NONE: i16 = 0;
const ACKS_LEADER: i16 = 1;
const ACKS_ALL: i16 = -1;

/// From this version on topics have ids in place of names (KIP-516).
const TOPIC_IDS_FROM: i16 = 13;

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
pub(crate) fn answer(context: RequestContext, request: ProduceRequest) -> Answer {
    Box::pin(async move {
        let topics = context.broker.topics.load_full();
        let started = start(&context, &topics, request).await;
        Ok(finished_later(context, started))
    })
}

/// Starts the appends at once, if that waits for nothing; else the request comes back.
pub(crate) fn try_answer_now(
    context: RequestContext,
    request: ProduceRequest,
) -> Result<Reply, Box<(RequestContext, ProduceRequest)>> {
    // One table for both: between a look and the next a topic may get another `compression.type`.
    let topics = context.broker.topics();
    if !is_quick(&topics, &request) {
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
fn is_quick(topics: &TopicTable, request: &ProduceRequest) -> bool {
    let mut partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let is_plain = partitions.all(|partition| match &partition.records {
        Some(Records::InMemory(bytes)) => is_plain(bytes),
        _ => true,
    });
    is_plain && (!topics.compresses_anew() || stays_plain(topics, request))
}

/// Whether no topic of the request has batches compressed that are not.
fn stays_plain(topics: &TopicTable, request: &ProduceRequest) -> bool {
    request.topic_data.iter().all(|data| {
        let topic = topics.by_name_or_id(&data.name, data.topic_id);
        let target = topic.ok().and_then(|topic| topic.log_config.compression);
        target.is_none_or(|target| target.codec() == Compression::None)
    })
}

/// Whether there is nothing to unpack, or no batch at all.
fn is_plain(batch: &[u8]) -> bool {
    let is_plain = |header: BatchHeader| header.attributes.compression() == Ok(Compression::None);
    BatchHeader::parse(batch).map_or(true, is_plain)
}

/// The answer, which waits for the appends.
fn finished_later(context: RequestContext, started: StartedProduce) -> Reply {
    Reply::Later(Box::pin(async move {
        let acks = started.acks;
        let response = started.finish().await;
        if acks == ACKS_NONE {
            return check_unacknowledged(response).map(|()| None);
        }
        encode_reply(&context, response, Vec::new()).map(Some)
    }))
}

/// The appends of one request, on their way to the disk.
struct StartedProduce {
    acks: i16,
    topics: Vec<StartedTopic>,
}

struct StartedTopic {
    response: TopicProduceResponse,
    partitions: Vec<StartedPartition>,
}

struct StartedPartition {
    index: i32,
    outcome: Result<Append, Failure>,
}

struct Append {
    future: AppendFuture,
    topic: Arc<Topic>,
    size_bytes: usize,
    records: u64,
}

async fn start(
    context: &RequestContext,
    topics: &TopicTable,
    request: ProduceRequest,
) -> StartedProduce {
    let acks = request.acks;
    let mut started = Vec::with_capacity(request.topic_data.len());
    for data in request.topic_data {
        started.push(start_topic(context, topics, acks, data).await);
    }
    StartedProduce { acks, topics: started }
}

/// A partition that is there twice gets both batches and gives two answers. Kafka appends the last
/// and says nothing of the others.
async fn start_topic(
    context: &RequestContext,
    topics: &TopicTable,
    acks: i16,
    data: TopicProduceData,
) -> StartedTopic {
    let topic = match context.version >= TOPIC_IDS_FROM && data.topic_id.is_zero() {
        true => Err(ErrorCode::UnknownTopicId),
        false => topics.by_name_or_id(&data.name, data.topic_id).cloned(),
    };
    let mut partitions = Vec::with_capacity(data.partition_data.len());
    for partition in data.partition_data {
        let index = partition.index;
        let outcome = match &topic {
            Ok(topic) => append(context, acks, topic, partition).await,
            Err(code) => Err(Failure::of_topic(*code, &data.name, data.topic_id)),
        };
        partitions.push(StartedPartition { index, outcome });
    }
    let (name, topic_id) = (data.name, data.topic_id);
    let response = TopicProduceResponse { name, topic_id, ..Default::default() };
    StartedTopic { response, partitions }
}

async fn append(
    context: &RequestContext,
    acks: i16,
    topic: &Arc<Topic>,
    data: PartitionProduceData,
) -> Result<Append, Failure> {
    let id = PartitionId(data.index);
    let partition = topic.partition(id).map_err(|code| Failure::of_partition(code, topic, id))?;
    check_not_internal(topic)?;
    check_acks(acks, topic)?;
    let bytes = data.records.and_then(Records::into_bytes).unwrap_or_default();
    let batch = only_batch(Batches::new(bytes))?;
    refuse_transactional(&batch)?;
    let size_bytes = batch.size_bytes();
    let rules = topic.append_rules(context.now());
    if takes_long(&batch, &rules) {
        // The writer must not wait for it.
        context.connection.held_round.run();
    }
    let (batch, summary) = context.admit(batch, &rules).await?;
    let batch = with_true_max_timestamp(batch, topic, &summary);
    let records = u64::try_from(summary.record_count).unwrap_or(0);
    let held = &context.connection.held_round;
    let future = context.broker.inline_appends.append(held, partition, vec![batch]);
    Ok(Append { future, topic: Arc::clone(topic), size_bytes, records })
}

/// Whether a batch is unpacked or compressed before it is appended.
fn takes_long(batch: &Batch, rules: &AppendRules) -> bool {
    let header = batch.header();
    header.attributes.codec() != Compression::None.id() || rules.recompression(header).is_some()
}

/// The state of the coordinators is written by them alone.
fn check_not_internal(topic: &Topic) -> Result<(), Failure> {
    if !is_internal(topic.name().as_str()) {
        return Ok(());
    }
    let message = format!("topic '{}' is internal and cannot be written to", topic.name());
    Err(Failure::new(ErrorCode::InvalidTopicException, message))
}

fn check_acks(acks: i16, topic: &Topic) -> Result<(), Failure> {
    // This broker is the only replica there can be.
    const IN_SYNC_REPLICAS: i32 = 1;
    match acks {
        ACKS_NONE | ACKS_LEADER => Ok(()),
        ACKS_ALL if topic.settings.min_insync_replicas <= IN_SYNC_REPLICAS => Ok(()),
        ACKS_ALL => Err(Failure::new(
            ErrorCode::NotEnoughReplicas,
            format!(
                "topic '{}' wants {} in-sync replicas (min.insync.replicas), there is 1",
                topic.name(),
                topic.settings.min_insync_replicas
            ),
        )),
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

/// As Kafka refuses what is not part of a transaction that it knows of, before it looks further;
/// here there are none.
fn refuse_transactional(batch: &Batch) -> Result<(), Failure> {
    if !batch.header().attributes.is_transactional() {
        return Ok(());
    }
    let message =
        "transactions are not supported; use an idempotent producer without transactional.id";
    Err(Failure::new(ErrorCode::TransactionalIdAuthorizationFailed, message))
}

/// A producer may be wrong about the largest timestamp. With log append time it is overwritten.
fn with_true_max_timestamp(batch: Batch, topic: &Topic, summary: &BatchSummary) -> Batch {
    let is_overwritten = topic.log_config.timestamp_type == TimestampType::LogAppendTime;
    match is_overwritten || batch.header().max_timestamp == summary.max_timestamp {
        true => batch,
        false => batch.with_max_timestamp(summary.max_timestamp),
    }
}

impl StartedProduce {
    async fn finish(self) -> ProduceResponse {
        let responses = Vec::with_capacity(self.topics.len());
        let mut response = ProduceResponse { responses, ..ProduceResponse::default() };
        for StartedTopic { response: mut topic, partitions } in self.topics {
            topic.partition_responses.reserve_exact(partitions.len());
            for partition in partitions {
                topic.partition_responses.push(partition.finish().await);
            }
            response.responses.push(topic);
        }
        response
    }
}

impl StartedPartition {
    async fn finish(self) -> PartitionProduceResponse {
        let outcome = match self.outcome {
            Ok(append) => append.finish().await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(outcome) => appended(self.index, outcome),
            Err(failure) => failed(self.index, failure),
        }
    }
}

impl Append {
    async fn finish(self) -> Result<AppendOutcome, Failure> {
        let outcome = self.future.await?;
        if !outcome.is_duplicate {
            self.topic.traffic.produced(self.records, self.size_bytes);
        }
        Ok(outcome)
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

fn failed(index: i32, failure: Failure) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: failure.code.code(),
        error_message: Some(failure.message.into()),
        base_offset: -1,
        ..Default::default()
    }
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
