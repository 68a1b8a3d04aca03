//! OffsetDelete: forgets how far a group has read in some partitions (KIP-496).

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_model::{ErrorCode, PartitionId};
use logway_wire::Decoder;
use logway_wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use logway_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use logway_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::{expect_reply, question};
use crate::handlers::building::ENTRY_BYTES;
use crate::request::{KnownTopics, RequestContext, RequestError, Work};
use logway_node::access::Operation;
use logway_node::groups::Pending;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// An entry for each partition, and the records.
fn built_bytes(context: &RequestContext, request: &OffsetDeleteRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    let count = partitions.sum::<usize>();
    count * ENTRY_BYTES + context.offset_record_bytes(&request.group_id, count, 0)
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
            let split = |topic| split(context, &topics, topic);
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
            response.topics.extend(unknown.into_iter().flatten());
        }
        response
    }
}

/// What of a topic exists and may be read, and the answer for what does not.
fn split(
    context: &RequestContext,
    topics: &KnownTopics,
    mut topic: OffsetDeleteRequestTopic,
) -> (Option<OffsetDeleteRequestTopic>, Option<OffsetDeleteResponseTopic>) {
    let known = topics.by_name(context, &topic.name, Operation::Read);
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
    let refused = (!absent.is_empty()).then(|| OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions: absent,
        ..Default::default()
    });
    ((!topic.partitions.is_empty()).then_some(topic), refused)
}
