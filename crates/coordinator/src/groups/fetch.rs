//! OffsetFetch.

use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};

use crate::ids::{CommittedTopic, GroupId};
use crate::record::CommittedOffset;
use crate::request::{Reply, RequestBody, RequestToken};
use crate::turn::Turn;

use super::Groups;

impl Groups {
    /// OffsetFetch of offsets as the log has them; of `stable` ones, where no transaction may yet change them (KIP-447).
    pub(crate) fn fetch(
        &self,
        turn: &mut Turn,
        token: RequestToken,
        request: &OffsetFetchRequestGroup,
        stable: bool,
    ) {
        let group_id = GroupId::from(&request.group_id);
        let (member_id, epoch) = (request.member_id.as_deref(), request.member_epoch);
        let checked = match (self.consumer(&group_id), self.streams(&group_id)) {
            (Some(consumer), _) => consumer.check_fetch(member_id, epoch),
            (None, Some(streams)) => streams.check_fetch(member_id, epoch),
            (None, None) => Ok(()),
        };
        if let Err(code) = checked {
            let refused = RequestBody::OffsetFetch(request.clone()).refused(code);
            turn.reply(token, refused);
            return;
        }
        let mut topics: Vec<_> = match &request.topics {
            Some(topics) => {
                topics.iter().map(|topic| self.fetch_topic(&request.group_id, topic)).collect()
            }
            None => self.fetch_all(&request.group_id),
        };
        if stable {
            topics.iter_mut().for_each(|topic| self.hold_back_unstable(&request.group_id, topic));
        }
        let response = OffsetFetchResponseGroup {
            group_id: request.group_id.clone(),
            topics,
            error_code: ErrorCode::None.code(),
            ..OffsetFetchResponseGroup::default()
        };
        turn.reply(token, Reply::OffsetFetch(response));
    }

    fn fetch_topic(
        &self,
        group_id: &str,
        topic: &OffsetFetchRequestTopics,
    ) -> OffsetFetchResponseTopics {
        let group = self.by_id.get(group_id);
        let name = CommittedTopic::from(&topic.name);
        let partitions = topic.partition_indexes.iter().map(|&index| {
            let found =
                group.and_then(|group| group.offsets.get(&self.topics, &name, PartitionId(index)));
            // What was committed for a topic that had this name before is of no use.
            let found =
                found.filter(|offset| is_same_topic(offset.topic_id, TopicId(topic.topic_id)));
            partition(index, found)
        });
        OffsetFetchResponseTopics {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
            ..OffsetFetchResponseTopics::default()
        }
    }

    /// Has the client ask again for what a transaction may yet change.
    fn hold_back_unstable(&self, group_id: &str, topic: &mut OffsetFetchResponseTopics) {
        let name = CommittedTopic::from(&topic.name);
        for told in &mut topic.partitions {
            if self.pending.is_unstable(group_id, &name, PartitionId(told.partition_index)) {
                *told = OffsetFetchResponsePartitions {
                    error_code: ErrorCode::UnstableOffsetCommit.code(),
                    metadata: Some(WireString::new()),
                    ..partition(told.partition_index, None)
                };
            }
        }
    }

    fn fetch_all(&self, group_id: &str) -> Vec<OffsetFetchResponseTopics> {
        let Some(group) = self.by_id.get(group_id) else { return Vec::new() };
        let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
        for (topic, PartitionId(index), offset) in group.offsets.iter(&self.topics) {
            let topic_id = offset.topic_id.0;
            // Offsets of several topics that had the name, one after the other, are told apart.
            let is_next = topics
                .last()
                .is_none_or(|last| last.name != topic.as_str() || last.topic_id != topic_id);
            if is_next {
                let name = topic.to_wire();
                topics.push(OffsetFetchResponseTopics { name, topic_id, ..Default::default() });
            }
            let last = topics.last_mut().expect("one was added unless there was one");
            last.partitions.push(partition(index, Some(offset)));
        }
        topics
    }
}

/// Whether both ids name one topic; where one is not known, they may.
fn is_same_topic(committed: TopicId, asked: TopicId) -> bool {
    committed == asked || committed.0.is_zero() || asked.0.is_zero()
}

fn partition(index: i32, offset: Option<CommittedOffset>) -> OffsetFetchResponsePartitions {
    let none = OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: -1,
        ..OffsetFetchResponsePartitions::default()
    };
    match offset {
        None => none,
        Some(offset) => OffsetFetchResponsePartitions {
            committed_offset: offset.offset.0,
            committed_leader_epoch: offset.leader_epoch.0,
            metadata: Some(WireString::copy_of(&offset.metadata)),
            ..none
        },
    }
}
