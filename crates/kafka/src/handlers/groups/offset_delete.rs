//! OffsetDelete: forgets how far a group has read in some partitions (KIP-496).

use std::future::Future;
use std::sync::Arc;

use logway_coordinator::RequestBody;
use logway_metadata::TopicImage;
use logway_model::{ErrorCode, PartitionId};
use logway_wire::Decoder;
use logway_wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use logway_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use logway_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::{expect_reply, question};
use crate::handlers::building::ENTRY_BYTES;
use crate::handlers::repeats::merge_same;
use crate::request::{RequestContext, RequestError, Work};
use logway_node::access::Operation;
use logway_node::groups::Pending;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// An entry for each topic and each partition, and the records.
fn built_bytes(context: &RequestContext, request: &OffsetDeleteRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    let count = partitions.sum::<usize>();
    (request.topics.len() + count) * ENTRY_BYTES
        + context.offset_record_bytes(&request.group_id, count, 0)
}

fn start(
    context: &RequestContext,
    mut request: OffsetDeleteRequest,
) -> impl Future<Output = OffsetDeleteResponse> + use<> {
    let group = request.group_id.clone();
    let (pending, unknown) = match context.group(&group, Operation::Delete) {
        Err(code) => (Pending::refused(code), Vec::new()),
        Ok(permitted) => {
            let topics = context.known_topics();
            let asked = std::mem::take(&mut request.topics).into_iter();
            let split = |topic: OffsetDeleteRequestTopic| {
                split(topics.by_name(context, &topic.name, Operation::Read), topic)
            };
            let (known, unknown): (Vec<_>, Vec<_>) = asked.map(split).unzip();
            request.topics = known.into_iter().flatten().collect();
            (permitted.ask(question(context, RequestBody::OffsetDelete(request))), unknown)
        }
    };
    async move {
        let mut response = match pending.reply().await {
            Ok(reply) => expect_reply!(reply, OffsetDelete),
            Err(code) => OffsetDeleteResponse { error_code: code.code(), ..Default::default() },
        };
        if response.error_code == ErrorCode::None.code() {
            let unknown = unknown.into_iter().flatten().collect();
            response.topics = add_unknown(response.topics, unknown);
        }
        response
    }
}

/// What of a topic exists and may be read, and the answer for what does not.
fn split(
    known: Result<&Arc<TopicImage>, ErrorCode>,
    mut topic: OffsetDeleteRequestTopic,
) -> (Option<OffsetDeleteRequestTopic>, Option<OffsetDeleteResponseTopic>) {
    let find = |index| match known?.partition(PartitionId(index)) {
        Some(_) => Ok(()),
        None => Err(ErrorCode::UnknownTopicOrPartition),
    };
    let mut absent = Vec::new();
    topic.partitions.retain(|partition| {
        let found = find(partition.partition_index);
        if let Err(code) = found {
            absent.push(OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
                ..Default::default()
            });
        }
        found.is_ok()
    });
    // A topic that does not exist is told of without partitions, too.
    let refused = (!absent.is_empty() || known.is_err()).then(|| OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions: absent,
        ..Default::default()
    });
    ((!topic.partitions.is_empty()).then_some(topic), refused)
}

/// Adds what does not exist. With it each topic has one entry, as in Kafka, however often the request names it.
fn add_unknown(
    topics: Vec<OffsetDeleteResponseTopic>,
    unknown: Vec<OffsetDeleteResponseTopic>,
) -> Vec<OffsetDeleteResponseTopic> {
    if unknown.is_empty() {
        return topics;
    }
    let name = |topic: &OffsetDeleteResponseTopic| topic.name.clone();
    let take_over = |topic: &mut OffsetDeleteResponseTopic, other: OffsetDeleteResponseTopic| {
        topic.partitions.extend(other.partitions);
    };
    merge_same(topics.into_iter().chain(unknown), name, take_over)
}

#[cfg(test)]
mod tests {
    use logway_wire::messages::offset_delete_request::OffsetDeleteRequestPartition;

    use super::*;

    fn asked(name: &'static str, indexes: &[i32]) -> OffsetDeleteRequestTopic {
        let partition = |&partition_index| OffsetDeleteRequestPartition {
            partition_index,
            ..Default::default()
        };
        let partitions = indexes.iter().map(partition).collect();
        OffsetDeleteRequestTopic { name: name.into(), partitions, ..Default::default() }
    }

    /// What is told of topics that do not exist.
    fn told(topics: Vec<OffsetDeleteRequestTopic>) -> Vec<(String, Vec<i32>)> {
        let absent = || Err(ErrorCode::UnknownTopicOrPartition);
        let refused = topics.into_iter().filter_map(|topic| split(absent(), topic).1);
        let told = add_unknown(Vec::new(), refused.collect()).into_iter().map(|topic| {
            let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
            (topic.name.to_string(), indexes.collect())
        });
        told.collect()
    }

    #[test]
    fn a_topic_is_told_of_once_with_all_its_partitions() {
        let topics = vec![asked("a", &[0, 1]), asked("b", &[0]), asked("a", &[2])];
        assert_eq!(told(topics), [("a".to_owned(), vec![0, 1, 2]), ("b".to_owned(), vec![0])]);
    }

    #[test]
    fn a_topic_that_does_not_exist_is_told_of_without_partitions() {
        assert_eq!(told(vec![asked("a", &[])]), [("a".to_owned(), vec![])]);
    }
}
