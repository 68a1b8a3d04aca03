//! TxnOffsetCommit: stores how far a group has read, to count when a transaction is committed (KIP-98, KIP-447).
//!
//! The partition of the group has to be part of the transaction. Clients until version 4 have added it by AddOffsetsToTxn;
//! for those from version 5 on it is added here (KIP-890).

use logway_coordinator::{RequestBody, TxnOffsetCommit};
use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::messages::txn_offset_commit_request::TxnOffsetCommitRequestTopic;
use logway_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use logway_wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::{check_id, known_code, producer};
use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::groups::{expect_reply, question};
use crate::handlers::repeats::merge_same;
use crate::request::{KnownTopics, RequestContext};
use logway_node::access::Operation;

const KNOWS_LOADING_FROM: i16 = 2;
const KNOWS_ABORTABLE_FROM: i16 = 4;
const EPOCH_BUMP_FROM: i16 = 5;

/// An entry for each partition, and the records.
pub(crate) fn built_bytes(context: &RequestContext, request: &TxnOffsetCommitRequest) -> usize {
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let texts = partitions.map(|it| it.committed_metadata.as_ref().map_or(0, |text| text.len()));
    let (count, text_bytes) = texts.fold((0, 0), |(count, bytes), text| (count + 1, bytes + text));
    count * ENTRY_BYTES + context.offset_record_bytes(&request.group_id, count, text_bytes)
}

pub(crate) async fn handle(
    context: RequestContext,
    mut request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let topics = std::mem::take(&mut request.topics);
    if let Err(code) = check_permissions(&context, &request) {
        return tell(topics.iter().map(|topic| told(topic, |_| code)));
    }
    let known = context.known_topics();
    let (mut refused, mut topic_ids) = (Vec::new(), Vec::new());
    for topic in topics {
        if let Some((topic, id)) = accept(&context, &known, topic, &mut refused) {
            request.topics.push(topic);
            topic_ids.push(id);
        }
    }
    let mut response = match request.topics.is_empty() {
        true => TxnOffsetCommitResponse::default(),
        false => commit(&context, TxnOffsetCommit { request, topic_ids, guard: None }).await,
    };
    // With what was refused each topic has one entry, as in Kafka, however often the request names it.
    let topics = std::mem::take(&mut response.topics).into_iter().chain(refused);
    let name = |topic: &TxnOffsetCommitResponseTopic| topic.name.clone();
    response.topics =
        merge_same(topics, name, |topic, other| topic.partitions.extend(other.partitions));
    response
}

fn check_permissions(
    context: &RequestContext,
    request: &TxnOffsetCommitRequest,
) -> Result<(), ErrorCode> {
    context.transactional_id(&request.transactional_id, Operation::Write)?;
    context.group(&request.group_id, Operation::Read).map(drop)
}

/// A topic with the partitions that exist, and its id; the others are refused.
fn accept(
    context: &RequestContext,
    topics: &KnownTopics,
    mut topic: TxnOffsetCommitRequestTopic,
    refused: &mut Vec<TxnOffsetCommitResponseTopic>,
) -> Option<(TxnOffsetCommitRequestTopic, TopicId)> {
    let known = match topics.by_name(context, &topic.name, Operation::Read) {
        Ok(known) => known,
        Err(code) => {
            refused.push(told(&topic, |_| code));
            return None;
        }
    };
    let exists = |index: i32| known.partition(PartitionId(index)).is_some();
    let (present, absent): (Vec<_>, Vec<_>) = std::mem::take(&mut topic.partitions)
        .into_iter()
        .partition(|partition| exists(partition.partition_index));
    if !absent.is_empty() {
        let absent = TxnOffsetCommitRequestTopic { partitions: absent, ..topic.clone() };
        refused.push(told(&absent, |_| ErrorCode::UnknownTopicOrPartition));
    }
    topic.partitions = present;
    (!topic.partitions.is_empty()).then_some((topic, known.id))
}

async fn commit(context: &RequestContext, mut commit: TxnOffsetCommit) -> TxnOffsetCommitResponse {
    let asked = commit.request.topics.clone();
    let refuse = |code| {
        let code = code_for_client(code, context.version);
        tell(asked.iter().map(|topic| told(topic, |_| code)))
    };
    let joined = join(context, &mut commit).await;
    if let Err(code) = joined {
        return refuse(code);
    }
    let group = commit.request.group_id.clone();
    let pending = match context.group(&group, Operation::Read) {
        Ok(group) => group.ask(question(context, RequestBody::TxnOffsetCommit(commit))),
        Err(code) => return refuse(code),
    };
    let mut response = match pending.reply().await {
        Ok(reply) => expect_reply!(reply, TxnOffsetCommit),
        Err(code) => return refuse(code),
    };
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        let code = ErrorCode::from_code(partition.error_code).unwrap_or(ErrorCode::None);
        partition.error_code = code_for_client(code, context.version).code();
    }
    response
}

/// Has the group's partition take part in the transaction.
async fn join(context: &RequestContext, commit: &mut TxnOffsetCommit) -> Result<(), ErrorCode> {
    let id = commit.request.transactional_id.clone();
    check_id(&id)?;
    if commit.request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let producer = producer(commit.request.producer_id, commit.request.producer_epoch);
    let permitted = context.transactional_id(&id, Operation::Write)?;
    permitted.join_group(commit, producer, context.version >= EPOCH_BUMP_FROM).await
}

/// What the client is told, of codes that are about the coordinator of its transaction and not of its group.
fn code_for_client(code: ErrorCode, version: i16) -> ErrorCode {
    // Old clients give up at the other one (KAFKA-9656). Newer ones would look for another coordinator of the group.
    let come_again = match version {
        KNOWS_LOADING_FROM.. => ErrorCode::CoordinatorLoadInProgress,
        _ => ErrorCode::CoordinatorNotAvailable,
    };
    match code {
        ErrorCode::CoordinatorNotAvailable | ErrorCode::CoordinatorLoadInProgress => come_again,
        ErrorCode::ConcurrentTransactions if version < EPOCH_BUMP_FROM => come_again,
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        code => known_code(code, true, version >= KNOWS_ABORTABLE_FROM),
    }
}

fn tell(topics: impl Iterator<Item = TxnOffsetCommitResponseTopic>) -> TxnOffsetCommitResponse {
    TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

fn told(
    topic: &TxnOffsetCommitRequestTopic,
    code: impl Fn(i32) -> ErrorCode,
) -> TxnOffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| TxnOffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: code(partition.partition_index).code(),
        ..Default::default()
    });
    TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}
