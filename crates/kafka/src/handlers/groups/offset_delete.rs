//! OffsetDelete: forgets how far a group has read in some partitions (KIP-496).

use std::future::Future;

use logway_coordinator::RequestBody;
use logway_metadata::MetadataImage;
use logway_model::{ErrorCode, PartitionId};
use logway_wire::Decoder;
use logway_wire::messages::offset_delete_request::OffsetDeleteRequestTopic;
use logway_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use logway_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::{expect_reply, question};
use crate::handlers::building::ENTRY_BYTES;
use crate::request::{RequestContext, RequestError, Work};

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// An entry for each partition, and the records.
fn built_bytes(context: &RequestContext, request: &OffsetDeleteRequest) -> usize {
    let partitions = request.topics.iter().map(|topic| topic.partitions.len());
    let count = partitions.sum::<usize>();
    count * ENTRY_BYTES + context.node().groups.record_bytes(&request.group_id, count, 0)
}

fn start(
    context: &RequestContext,
    mut request: OffsetDeleteRequest,
) -> impl Future<Output = OffsetDeleteResponse> + use<> {
    let image = context.node().image();
    let topics = std::mem::take(&mut request.topics).into_iter();
    let (known, unknown): (Vec<_>, Vec<_>) = topics.map(|topic| split(&image, topic)).unzip();
    request.topics = known.into_iter().flatten().collect();
    let group = request.group_id.clone();
    let pending =
        context.node().groups.ask(&group, question(context, RequestBody::OffsetDelete(request)));
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

/// What of a topic exists, and the answer for what does not.
fn split(
    image: &MetadataImage,
    mut topic: OffsetDeleteRequestTopic,
) -> (Option<OffsetDeleteRequestTopic>, Option<OffsetDeleteResponseTopic>) {
    let known = image.topic(&topic.name);
    let exists = |index| known.is_some_and(|known| known.partition(PartitionId(index)).is_some());
    let mut absent = Vec::new();
    topic.partitions.retain(|partition| {
        let exists = exists(partition.partition_index);
        if !exists {
            absent.push(OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: ErrorCode::UnknownTopicOrPartition.code(),
                ..Default::default()
            });
        }
        exists
    });
    let refused = (!absent.is_empty()).then(|| OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions: absent,
        ..Default::default()
    });
    ((!topic.partitions.is_empty()).then_some(topic), refused)
}
