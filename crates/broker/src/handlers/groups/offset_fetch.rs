//! OffsetFetch: how far groups have read.

use std::future::Future;
use std::sync::Arc;

use logway_coordinator::{RequestBody, offset_fetch_groups, offset_fetch_response};
use logway_metadata::MetadataImage;
use logway_model::{ErrorCode, Offset, PartitionId};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use logway_wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
use logway_wire::{Decoder, UnreadAge, WireString};

use super::topic_names::{BY_TOPIC_ID_FROM, topic_of};
use super::{expect_reply, question};
use crate::broker::off_thread;
use crate::dispatch::{RequestContext, RequestError, Work};
use crate::groups::{Pending, unread_age};
use crate::handlers::building::ENTRY_BYTES;

const NO_OFFSET: i64 = -1;

/// Room for some thousands of partitions, where a group's are asked for without being named.
const ALL_OFFSETS_BYTES: usize = 1 << 20;

pub(crate) fn prepare(context: RequestContext, body: Decoder) -> Result<Work, RequestError> {
    super::prepare(context, body, built_bytes, start)
}

/// An entry for each partition, asked for by name or not. Where the version has a list of groups,
/// the list of topics beside it is empty.
fn built_bytes(request: &OffsetFetchRequest) -> usize {
    let named = |partitions: usize| partitions * ENTRY_BYTES;
    let of_one = match &request.topics {
        Some(topics) => named(topics.iter().map(|topic| topic.partition_indexes.len()).sum()),
        None => ALL_OFFSETS_BYTES,
    };
    let of_many = request.groups.iter().map(|group| match &group.topics {
        Some(topics) => named(topics.iter().map(|topic| topic.partition_indexes.len()).sum()),
        None => ALL_OFFSETS_BYTES,
    });
    of_one + of_many.sum::<usize>()
}

fn start(
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> impl Future<Output = OffsetFetchResponse> + use<> {
    let version = context.version;
    let image = context.image();
    let started: Vec<StartedGroup> = offset_fetch_groups(&request, version)
        .into_iter()
        .map(|group| StartedGroup::start(context, &image, group))
        .collect();
    let context = context.clone();
    async move {
        let mut groups = Vec::with_capacity(started.len());
        for started in started {
            groups.push(started.finish(&image, version).await);
        }
        if UnreadAge::is_asked_in(&request.unknown_tagged_fields) {
            groups = off_thread(move || with_ages(&context, groups)).await;
        }
        offset_fetch_response(&request, version, groups)
    }
}

/// Adds to each committed offset how long what comes after it has been waiting.
fn with_ages(
    context: &RequestContext,
    mut groups: Vec<OffsetFetchResponseGroup>,
) -> Vec<OffsetFetchResponseGroup> {
    let (table, now) = (context.topics(), context.now());
    for topic in groups.iter_mut().flat_map(|group| &mut group.topics) {
        let served = table.by_name_or_id(&topic.name, topic.topic_id);
        for partition in &mut topic.partitions {
            let id = PartitionId(partition.partition_index);
            let age = match served.and_then(|served| served.partition(id)) {
                Ok(served) if partition.committed_offset >= 0 => {
                    unread_age(served, Offset(partition.committed_offset), now)
                }
                _ => UnreadAge::Unknown,
            };
            partition.unknown_tagged_fields.push(age.answer());
        }
    }
    groups
}

/// A group that was asked for.
struct StartedGroup {
    request: OffsetFetchRequestGroup,
    /// The topics that do not exist.
    unknown: Vec<(OffsetFetchRequestTopics, ErrorCode)>,
    pending: Pending,
}

impl StartedGroup {
    fn start(
        context: &RequestContext,
        image: &MetadataImage,
        mut group: OffsetFetchRequestGroup,
    ) -> StartedGroup {
        let mut unknown = Vec::new();
        if let Some(topics) = group.topics.take() {
            let name = |topic| with_both_names(image, context.version, topic, &mut unknown);
            group.topics = Some(topics.into_iter().filter_map(name).collect());
        }
        let body = RequestBody::OffsetFetch(group.clone());
        let pending = context.groups.ask(&group.group_id, question(context, body));
        StartedGroup { request: group, unknown, pending }
    }

    async fn finish(self, image: &Arc<MetadataImage>, version: i16) -> OffsetFetchResponseGroup {
        let mut group = match self.pending.reply().await {
            Ok(reply) => expect_reply!(reply, OffsetFetch),
            Err(code) => OffsetFetchResponseGroup {
                group_id: self.request.group_id.clone(),
                error_code: code.code(),
                ..Default::default()
            },
        };
        if group.error_code != ErrorCode::None.code() {
            group.topics = self
                .request
                .topics
                .unwrap_or_default()
                .into_iter()
                .map(|topic| failed_topic(topic, group.error_code))
                .collect();
        } else if self.request.topics.is_none() && version >= BY_TOPIC_ID_FROM {
            // Offsets of a topic that is no more have no name in this version.
            group.topics.retain_mut(|topic| match image.topic(&topic.name) {
                Some(known) => {
                    topic.topic_id = known.id.0;
                    true
                }
                None => false,
            });
        }
        let unknown = self.unknown.into_iter();
        group.topics.extend(unknown.map(|(topic, code)| failed_topic(topic, code.code())));
        group
    }
}

/// The topic under its name and its id; one that does not exist has offsets by name, if they have
/// not been looked through yet, but not by id.
fn with_both_names(
    image: &MetadataImage,
    version: i16,
    mut topic: OffsetFetchRequestTopics,
    unknown: &mut Vec<(OffsetFetchRequestTopics, ErrorCode)>,
) -> Option<OffsetFetchRequestTopics> {
    match topic_of(image, version, &topic.name, topic.topic_id) {
        Ok(known) => {
            topic.name = WireString::copy_of(known.name.as_str());
            topic.topic_id = known.id.0;
            Some(topic)
        }
        Err(_) if version < BY_TOPIC_ID_FROM => Some(topic),
        Err(code) => {
            unknown.push((topic, code));
            None
        }
    }
}

fn failed_topic(topic: OffsetFetchRequestTopics, error_code: i16) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.into_iter();
    OffsetFetchResponseTopics {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: partitions
            .map(|partition_index| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset: NO_OFFSET,
                metadata: Some(WireString::new()),
                error_code,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}
