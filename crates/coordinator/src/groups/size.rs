//! How large answers are, known before they are made.

use logway_model::PartitionId;
use logway_wire::messages::offset_fetch_request::OffsetFetchRequestGroup;

use crate::ids::CommittedTopic;
use crate::request::{COPIES, RequestBody};

use super::{Group, Groups};

/// One group, beside its texts.
const GROUP_BYTES: usize = 512;

/// One member, beside its texts and bytes.
const MEMBER_BYTES: usize = 384;

/// One topic, beside its name.
const TOPIC_BYTES: usize = 256;

/// One offset, beside its text.
const OFFSET_BYTES: usize = 256;

impl Groups {
    /// What the answer takes, encoded form included, if it can be much larger than its request; else 0.
    pub(crate) fn answer_bytes(&self, body: &RequestBody) -> usize {
        match body {
            RequestBody::OffsetFetch(request) | RequestBody::StableOffsetFetch(request) => {
                self.fetched_bytes(request)
            }
            RequestBody::DescribeGroups { groups } => {
                let described = groups.iter().map(|id| self.by_id.get(id.as_str()));
                described.map(|group| GROUP_BYTES + group.map_or(0, described_bytes)).sum()
            }
            RequestBody::ConsumerGroupDescribe { groups } => {
                let described = groups.iter().map(|id| self.by_id.get(id.as_str()));
                let consumers = described.map(|group| group.and_then(|it| it.consumer.as_ref()));
                consumers.map(|it| GROUP_BYTES + it.map_or(0, |it| it.described_bytes())).sum()
            }
            RequestBody::StreamsGroupDescribe { groups } => {
                let described = groups.iter().map(|id| self.by_id.get(id.as_str()));
                let streams = described.map(|group| group.and_then(|it| it.streams.as_ref()));
                streams.map(|it| GROUP_BYTES + it.map_or(0, |it| it.described_bytes())).sum()
            }
            RequestBody::ListGroups(_) => {
                let kinds = self.by_id.values().map(|group| group.membership.kind_bytes());
                self.len() * GROUP_BYTES + COPIES * (self.names_bytes + kinds.sum::<usize>())
            }
            _ => 0,
        }
    }

    fn fetched_bytes(&self, request: &OffsetFetchRequestGroup) -> usize {
        let group = self.by_id.get(request.group_id.as_str());
        let offsets_bytes = match &request.topics {
            None => group.map_or(0, |group| {
                let topics = group.offsets.topics(&self.topics);
                let topics = topics.map(|topic| TOPIC_BYTES + COPIES * topic.as_str().len());
                let metadata_bytes = COPIES * group.offsets.metadata_bytes();
                topics.sum::<usize>() + group.offsets.len() * OFFSET_BYTES + metadata_bytes
            }),
            Some(topics) => {
                let topics = topics.iter().map(|topic| {
                    let name = CommittedTopic::from(&topic.name);
                    let offsets = topic.partition_indexes.iter().map(|&index| {
                        let length = group.map_or(0, |group| {
                            group.offsets.metadata_len(&self.topics, &name, PartitionId(index))
                        });
                        OFFSET_BYTES + COPIES * length
                    });
                    TOPIC_BYTES + COPIES * topic.name.len() + offsets.sum::<usize>()
                });
                topics.sum()
            }
        };
        GROUP_BYTES + offsets_bytes
    }
}

fn described_bytes(group: &Group) -> usize {
    let membership = &group.membership;
    let texts_bytes = membership.held_bytes() + membership.kind_bytes();
    membership.members().len() * MEMBER_BYTES + COPIES * texts_bytes
}
