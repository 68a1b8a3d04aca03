//! What clients of transactions ask nodes.

use std::sync::Arc;
use std::time::Duration;

use logway_coordinator::transactions::{
    Producer, TRANSACTIONS_TOPIC, TransactionOutcome, TransactionReply, TransactionRequest,
    TransactionState,
};
use logway_coordinator::{
    Client, Reply, RequestBody, TxnOffsetCommit, partition_of_group, partition_of_transactional_id,
};
use logway_log::AppendOutcome;
use logway_log::fs::sim::Rng;
use logway_model::{
    ErrorCode, PartitionId, ProducerId, TopicName, TopicPartition, TransactionVersion,
};
use logway_node::append::{Acks, Appender};
use logway_node::groups::{OFFSETS_TOPIC, Question};
use logway_node::transactions::{TransactionClaim, TransactionPart};
use logway_node::{Failure, Node};
use logway_record::Batch;
use logway_wire::WireString;
use logway_wire::messages::TxnOffsetCommitRequest;
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use logway_wire::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use tokio::time::timeout;

use super::topics::{PARTITIONS, TOPIC};
use crate::cluster::life::Life;
use crate::cluster::machine::Served;
use crate::cluster::oracle::Place;
use crate::cluster::producer::Clients;

/// A client waits so long for one answer. One that does not wait long asks again by another connection, while what it has
/// asked for is still being done.
const ANSWER_MAX: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(2), Duration::from_secs(2)];

/// Versions in which topics have names.
const COMMIT_VERSION: i16 = 5;
const FETCH_VERSION: i16 = 9;

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It may be done, or may be done at the next try.
    Again,
    /// The producer has lost its transaction, or is fenced.
    Over(ErrorCode),
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        match code {
            ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::TransactionAbortable
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId => Refusal::Over(code),
            _ => Refusal::Again,
        }
    }
}

pub(super) fn transactional_id(owner: usize) -> String {
    format!("id-{owner}")
}

fn group_id(owner: usize) -> String {
    format!("group-{owner}")
}

/// The partition of a name, by the hash that its coordinators go by.
fn place_of(topic: &'static str, name: &str, hash: fn(&str, u32) -> u32) -> Place {
    let partition = hash(name, PARTITIONS.unsigned_abs());
    Place { topic, partition: i32::try_from(partition).unwrap_or(0) }
}

/// Has the node that leads a partition, as some node believes, do something.
async fn ask<T: Send + 'static, F: Future<Output = Result<T, ErrorCode>> + Send + 'static>(
    clients: &Clients,
    random: &mut Rng,
    place: Place,
    work: impl FnOnce(Arc<Node>) -> F,
) -> Result<(Life, T), Refusal> {
    let Some(Served { node, runtime, life }) = clients.leader(place, random) else {
        return Err(Refusal::Again);
    };
    let answer_max = ANSWER_MAX[random.below(ANSWER_MAX.len())];
    match timeout(answer_max, runtime.spawn(work(node))).await {
        Ok(Ok(outcome)) if life.is_alive() => Ok((life, outcome?)),
        // A node that has ended says nothing.
        Ok(_) | Err(_) => Err(Refusal::Again),
    }
}

/// Where the transactions of an id are coordinated.
pub(in crate::cluster) fn coordinator_place(owner: usize) -> Place {
    place_of(TRANSACTIONS_TOPIC, &transactional_id(owner), partition_of_transactional_id)
}

async fn ask_coordinator(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
    request: impl Fn(Option<ProducerId>) -> TransactionRequest + Send + Sync + 'static,
) -> Result<TransactionReply, Refusal> {
    let (id, place) = (transactional_id(owner), coordinator_place(owner));
    let work = |node: Arc<Node>| async move { node.ask_transactions(&id, request).await };
    ask(clients, random, place, work).await.map(|(_, reply)| reply)
}

/// Becomes the producer of an id. The coordinator aborts transactions that take longer than so many milliseconds.
pub(super) async fn begin_producer(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
    timeout_ms: i32,
) -> Result<Producer, Refusal> {
    let id = transactional_id(owner);
    let request = move |fresh_id| TransactionRequest::InitProducerId {
        transactional_id: id.as_str().into(),
        timeout_ms,
        expected: None,
        fresh_id,
    };
    match ask_coordinator(clients, random, owner, request).await? {
        TransactionReply::InitProducerId(outcome) => Ok(outcome?),
        _ => Err(Refusal::Again),
    }
}

/// Whether nothing of an id's last transaction is left to be done.
pub(super) async fn is_at_rest(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
) -> Result<bool, Refusal> {
    let id = transactional_id(owner);
    let request = move |_| TransactionRequest::Describe(vec![id.as_str().into()]);
    let TransactionReply::Describe(mut told) =
        ask_coordinator(clients, random, owner, request).await?
    else {
        return Err(Refusal::Again);
    };
    match told.pop() {
        Some(Ok(transaction)) => Ok(transaction.state != TransactionState::Ongoing
            && transaction.state.prepared().is_none()),
        // Nobody has become its producer.
        Some(Err(ErrorCode::TransactionalIdNotFound)) => Ok(true),
        Some(Err(code)) => Err(code.into()),
        None => Err(Refusal::Again),
    }
}

/// Adds a partition to the transaction, as clients of the older protocol do before they write to it.
pub(super) async fn add_partition(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
    producer: Producer,
    place: Place,
) -> Result<(), Refusal> {
    let id = transactional_id(owner);
    let added = TopicPartition::new(
        TopicName::new(place.topic).expect("it is a topic's"),
        PartitionId(place.partition),
    );
    let request = move |_| TransactionRequest::AddPartitions {
        transactional_id: id.as_str().into(),
        producer,
        partitions: vec![added.clone()],
        version: TransactionVersion::CLASSIC,
    };
    match ask_coordinator(clients, random, owner, request).await? {
        TransactionReply::AddPartitions(outcome) => Ok(outcome?),
        _ => Err(Refusal::Again),
    }
}

/// Commits or aborts. Gives who the producer is from then on.
pub(super) async fn end_transaction(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
    producer: Producer,
    outcome: TransactionOutcome,
    version: TransactionVersion,
) -> Result<Producer, Refusal> {
    let id = transactional_id(owner);
    let request = move |fresh_id| TransactionRequest::EndTxn {
        transactional_id: id.as_str().into(),
        producer,
        outcome,
        version,
        fresh_id,
    };
    match ask_coordinator(clients, random, owner, request).await? {
        TransactionReply::EndTxn(outcome) => Ok(outcome?),
        _ => Err(Refusal::Again),
    }
}

/// Writes a batch. By the newer protocol its partition becomes part of the transaction.
pub(super) async fn write(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
    place: Place,
    batch: Batch,
    version: TransactionVersion,
) -> Result<AppendOutcome, Refusal> {
    let id = transactional_id(owner);
    let work = move |node| async move {
        let claim =
            TransactionClaim { transactional_id: &id, adds_partitions: version.bumps_epoch() };
        append(node, place, batch, claim).await
    };
    ask(clients, random, place, work).await.map(|(_, outcome)| outcome)
}

async fn append(
    node: Arc<Node>,
    place: Place,
    batch: Batch,
    claim: TransactionClaim<'_>,
) -> Result<AppendOutcome, ErrorCode> {
    let replica = {
        let topics = node.topics();
        Arc::clone(topics.by_name(place.topic)?.partition(PartitionId(place.partition))?)
    };
    let header = batch.header();
    let producer = Producer { id: header.producer_id, epoch: header.producer_epoch };
    let sequence = header.base_sequence;
    let part = TransactionPart { replica: Arc::clone(&replica), producer, sequence };
    let joined = node.join_transaction(claim, &[part]).await.pop();
    let guard = joined.unwrap_or(Err(ErrorCode::UnknownServerError))?;
    let appender = Appender::default();
    let work = async {
        let begun = node.append_verified(&replica, batch, Acks::All, &appender, guard).await;
        let finished = begun.map_err(|failure| failure.code)?.finish().await;
        finished.map_err(|error| Failure::from(error).code)
    };
    appender.drive(work).await
}

/// Where the offsets of an id's group are.
pub(super) fn offsets_place(owner: usize) -> Place {
    place_of(OFFSETS_TOPIC, &group_id(owner), partition_of_group)
}

/// Has the group of an id commit an offset with the transaction, the same of each partition.
pub(super) async fn commit_offsets(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
    producer: Producer,
    offset: u64,
    version: TransactionVersion,
) -> Result<(), Refusal> {
    let (id, group) = (transactional_id(owner), group_id(owner));
    let place = offsets_place(owner);
    let work = |node: Arc<Node>| async move {
        let topic = node.image().topic(TOPIC).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
        let request = commit_request(&id, &group, producer, offset);
        let mut commit = TxnOffsetCommit { request, topic_ids: vec![topic], guard: None };
        let claim =
            TransactionClaim { transactional_id: &id, adds_partitions: version.bumps_epoch() };
        node.join_group(claim, producer, &mut commit).await?;
        let body = RequestBody::TxnOffsetCommit(commit);
        let reply = node.groups.ask(&group, question(COMMIT_VERSION, body)).reply().await?;
        let Reply::TxnOffsetCommit(response) = reply else {
            return Err(ErrorCode::UnknownServerError);
        };
        let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.try_for_each(|partition| judge(partition.error_code))
    };
    ask(clients, random, place, work).await.map(|(_, ())| ())
}

fn commit_request(
    id: &str,
    group: &str,
    producer: Producer,
    offset: u64,
) -> TxnOffsetCommitRequest {
    let partitions = (0..PARTITIONS).map(|partition_index| TxnOffsetCommitRequestPartition {
        partition_index,
        committed_offset: i64::try_from(offset).unwrap_or(i64::MAX),
        ..Default::default()
    });
    let topic = TxnOffsetCommitRequestTopic {
        name: TOPIC.into(),
        partitions: partitions.collect(),
        ..Default::default()
    };
    TxnOffsetCommitRequest {
        transactional_id: WireString::copy_of(id),
        group_id: WireString::copy_of(group),
        producer_id: producer.id.0,
        producer_epoch: producer.epoch.0,
        generation_id: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

/// What the group of an id has committed of each partition, if no transaction may yet replace it; and who says so.
pub(super) async fn fetch_offsets(
    clients: &Clients,
    random: &mut Rng,
    owner: usize,
) -> Result<(Life, Vec<Option<u64>>), Refusal> {
    let group = group_id(owner);
    let place = offsets_place(owner);
    let work = |node: Arc<Node>| async move {
        let topic = OffsetFetchRequestTopics {
            name: TOPIC.into(),
            partition_indexes: (0..PARTITIONS).collect(),
            ..Default::default()
        };
        let request = OffsetFetchRequestGroup {
            group_id: WireString::copy_of(&group),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let body = RequestBody::StableOffsetFetch(request);
        let reply = node.groups.ask(&group, question(FETCH_VERSION, body)).reply().await?;
        let Reply::OffsetFetch(response) = reply else { return Err(ErrorCode::UnknownServerError) };
        judge(response.error_code)?;
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        let offset = |partition: &OffsetFetchResponsePartitions| {
            judge(partition.error_code)?;
            Ok(u64::try_from(partition.committed_offset).ok())
        };
        partitions.map(offset).collect()
    };
    ask(clients, random, place, work).await
}

fn question(version: i16, body: RequestBody) -> Question {
    Question { version, client: Client::default(), body, held: Vec::new() }
}

fn judge(code: i16) -> Result<(), ErrorCode> {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => Ok(()),
        Some(code) => Err(code),
        None => Err(ErrorCode::UnknownServerError),
    }
}
