//! OffsetCommit: stores how far a group has read.

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_model::{ErrorCode, PartitionId, Uuid};
use logway_wire::Decoder;
use logway_wire::WireString;
use logway_wire::messages::offset_commit_request::OffsetCommitRequestTopic;
use logway_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use logway_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::topic_names::topic_of;
use super::{ask_group, expect_reply};
use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::repeats::merge_same;
use crate::request::{KnownTopics, RequestContext, RequestError, Work};
use logway_node::access::{Operation, Resource};
use logway_node::groups::Pending;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// An entry for each partition, and the records.
fn built_bytes(context: &RequestContext, request: &OffsetCommitRequest) -> usize {
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let texts = partitions.map(|partition| partition.committed_metadata.as_ref());
    let (mut count, mut text_bytes) = (0, 0);
    for text in texts {
        count += 1;
        text_bytes += text.map_or(0, |text| text.len());
    }
    count * ENTRY_BYTES + context.offset_record_bytes(&request.group_id, count, text_bytes)
}

fn start(
    context: &RequestContext,
    mut request: OffsetCommitRequest,
) -> impl Future<Output = OffsetCommitResponse> + use<> {
    let mut refused = Vec::new();
    let known = context.known_topics();
    let topics = std::mem::take(&mut request.topics).into_iter();
    match context.check(Operation::Read, Resource::Group(&request.group_id)) {
        Ok(()) => {
            let accept = |topic| accept(context, &known, topic, &mut refused);
            request.topics = topics.filter_map(accept).collect();
        }
        Err(code) => refused.extend(topics.map(|topic| (TopicOutcome::of(topic), code))),
    }
    let asked = (!request.topics.is_empty()).then(|| ask(context, request));
    async move {
        let mut response = match asked {
            Some((pending, asked)) => match pending.reply().await {
                Ok(reply) => expect_reply!(reply, OffsetCommit),
                Err(code) => refuse_all(asked, code),
            },
            None => OffsetCommitResponse::default(),
        };
        add_refused(&mut response, refused);
        response
    }
}

fn ask(context: &RequestContext, request: OffsetCommitRequest) -> (Pending, Vec<TopicOutcome>) {
    let asked = request.topics.iter().map(|topic| TopicOutcome {
        name: topic.name.clone(),
        id: topic.topic_id,
        partitions: topic.partitions.iter().map(|partition| partition.partition_index).collect(),
    });
    let asked = asked.collect();
    let group = request.group_id.clone();
    let body = RequestBody::OffsetCommit(request);
    (ask_group(context, &group, Operation::Read, body), asked)
}

/// Partitions of a topic that are answered alike.
struct TopicOutcome {
    name: WireString,
    id: Uuid,
    partitions: Vec<i32>,
}

impl TopicOutcome {
    /// Of all partitions of a topic of a request.
    fn of(topic: OffsetCommitRequestTopic) -> TopicOutcome {
        let partitions = topic.partitions.iter().map(|partition| partition.partition_index);
        let partitions = partitions.collect();
        TopicOutcome { name: topic.name, id: topic.topic_id, partitions }
    }
}

/// The topic under both its names, with the partitions that exist; the others are refused.
fn accept(
    context: &RequestContext,
    topics: &KnownTopics,
    mut topic: OffsetCommitRequestTopic,
    refused: &mut Vec<(TopicOutcome, ErrorCode)>,
) -> Option<OffsetCommitRequestTopic> {
    let known = topic_of(context, topics, &topic.name, topic.topic_id, Operation::Read);
    let known = match known {
        Ok(known) => known,
        Err(code) => {
            refused.push((TopicOutcome::of(topic), code));
            return None;
        }
    };
    topic.name = WireString::copy_of(known.name.as_str());
    topic.topic_id = known.id.0;
    let mut absent = Vec::new();
    topic.partitions.retain(|partition| {
        let exists = known.partition(PartitionId(partition.partition_index)).is_some();
        if !exists {
            absent.push(partition.partition_index);
        }
        exists
    });
    if !absent.is_empty() {
        let outcome =
            TopicOutcome { name: topic.name.clone(), id: topic.topic_id, partitions: absent };
        refused.push((outcome, ErrorCode::UnknownTopicOrPartition));
    }
    (!topic.partitions.is_empty()).then_some(topic)
}

fn refuse_all(asked: Vec<TopicOutcome>, code: ErrorCode) -> OffsetCommitResponse {
    let topics = asked.into_iter().map(|outcome| answer_of(outcome, code));
    OffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

fn answer_of(outcome: TopicOutcome, code: ErrorCode) -> OffsetCommitResponseTopic {
    let partitions = outcome.partitions.into_iter().map(|partition_index| {
        let error_code = code.code();
        OffsetCommitResponsePartition { partition_index, error_code, ..Default::default() }
    });
    OffsetCommitResponseTopic {
        name: outcome.name,
        topic_id: outcome.id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// Adds what was refused. With it each topic has one entry, as in Kafka, however often the request names it.
fn add_refused(response: &mut OffsetCommitResponse, refused: Vec<(TopicOutcome, ErrorCode)>) {
    if refused.is_empty() {
        return;
    }
    let refused = refused.into_iter().map(|(outcome, code)| answer_of(outcome, code));
    let topics = std::mem::take(&mut response.topics).into_iter().chain(refused);
    let names = |topic: &OffsetCommitResponseTopic| (topic.name.clone(), topic.topic_id);
    response.topics =
        merge_same(topics, names, |topic, other| topic.partitions.extend(other.partitions));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(partitions: &[i32]) -> TopicOutcome {
        TopicOutcome { name: "t".into(), id: Uuid::default(), partitions: partitions.to_vec() }
    }

    /// The partitions of each entry. The first two entries were accepted.
    fn told(refused: &[i32]) -> Vec<Vec<i32>> {
        let accepted = vec![outcome(&[0]), outcome(&[1])];
        let mut response = refuse_all(accepted, ErrorCode::None);
        let refused =
            refused.iter().map(|&index| (outcome(&[index]), ErrorCode::UnknownTopicOrPartition));
        add_refused(&mut response, refused.collect());
        let indexes = |topic: &OffsetCommitResponseTopic| {
            topic.partitions.iter().map(|partition| partition.partition_index).collect()
        };
        response.topics.iter().map(indexes).collect()
    }

    #[test]
    fn a_topic_is_told_of_once_where_a_part_of_it_is_refused() {
        assert_eq!(told(&[7, 8]), [vec![0, 1, 7, 8]]);
        assert_eq!(told(&[]), [vec![0], vec![1]]);
    }
}
