//! OffsetDelete, DeleteGroups, and topics that are deleted.

use std::collections::BTreeSet;

use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::delete_groups_response::DeletableGroupResult;
use logway_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use logway_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::ids::{CommittedTopic, GroupId};
use crate::membership::GroupState;
use crate::outbox::Outbox;
use crate::record::GroupRecord;
use crate::request::{Reply, RequestToken};
use crate::turn::Turn;

use super::{Group, Groups};

/// A topic that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name, which another topic may have by now.
    pub name: CommittedTopic,
    /// Its id.
    pub id: TopicId,
}

/// The answer to an OffsetDelete that is refused.
pub(crate) fn refusal(code: ErrorCode) -> Reply {
    Reply::OffsetDelete(OffsetDeleteResponse {
        error_code: code.code(),
        ..OffsetDeleteResponse::default()
    })
}

impl Groups {
    /// OffsetDelete (KIP-496): of topics that no member subscribes to.
    pub(crate) fn delete_offsets(
        &self,
        turn: &mut Turn,
        token: RequestToken,
        request: &OffsetDeleteRequest,
    ) {
        let group_id = GroupId::from(&request.group_id);
        let group = match self.check_offset_delete(&group_id) {
            Ok(group) => group,
            Err(code) => {
                turn.reply(token, refusal(code));
                return;
            }
        };
        let mut records = Vec::new();
        let mut topics = Vec::new();
        for topic in &request.topics {
            let name = CommittedTopic::from(&topic.name);
            let is_subscribed = group.membership.is_subscribed_to(&name);
            let code = match is_subscribed {
                true => ErrorCode::GroupSubscribedToTopic,
                false => ErrorCode::None,
            };
            let asked = topic.partitions.iter().map(|partition| partition.partition_index);
            if !is_subscribed {
                let with_offset = asked.clone().map(PartitionId).filter(|partition| {
                    self.will_have_offset(turn.outbox, &group_id, group, &name, *partition)
                });
                records.extend(with_offset.map(|number| tombstone(&group_id, &name, number)));
            }
            let partitions = asked.map(|partition_index| OffsetDeleteResponsePartition {
                partition_index,
                error_code: code.code(),
                ..OffsetDeleteResponsePartition::default()
            });
            topics.push(OffsetDeleteResponseTopic {
                name: topic.name.clone(),
                partitions: partitions.collect(),
                ..OffsetDeleteResponseTopic::default()
            });
        }
        let response = OffsetDeleteResponse { topics, ..OffsetDeleteResponse::default() };
        turn.append_in_parts(records, Some((token, Reply::OffsetDelete(response))));
    }

    fn check_offset_delete(&self, group_id: &GroupId) -> Result<&Group, ErrorCode> {
        if group_id.as_str().is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self.by_id.get(group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        let is_empty = group.membership.state() == GroupState::Empty;
        // What members of other kinds of group read is not known.
        match is_empty || group.membership.is_consumer_group() {
            true => Ok(group),
            false => Err(ErrorCode::NonEmptyGroup),
        }
    }

    /// Whether the partition has an offset, or one is on its way.
    fn will_have_offset(
        &self,
        outbox: &Outbox,
        group_id: &GroupId,
        group: &Group,
        topic: &CommittedTopic,
        partition: PartitionId,
    ) -> bool {
        let is_of = |record: &GroupRecord| match record {
            GroupRecord::Offset { topic: other, partition: number, offset: Some(_), .. } => {
                other == topic && *number == partition
            }
            _ => false,
        };
        group.offsets.contains(&self.topics, topic, partition)
            || outbox.records_in_flight(group_id).any(is_of)
    }

    /// DeleteGroups: of groups without members, with their offsets.
    pub(crate) fn delete_groups(
        &self,
        turn: &mut Turn,
        token: RequestToken,
        group_ids: &[WireString],
    ) {
        let mut records = Vec::new();
        let mut results = Vec::new();
        let mut seen = BTreeSet::new();
        for group_id in group_ids.iter().filter(|group_id| seen.insert(group_id.as_str())) {
            let code = match self.by_id.get(group_id.as_str()) {
                None => ErrorCode::GroupIdNotFound,
                Some(group) if group.membership.state() != GroupState::Empty => {
                    ErrorCode::NonEmptyGroup
                }
                Some(group) => {
                    self.push_tombstones(
                        turn.outbox,
                        &GroupId::from(group_id),
                        group,
                        &mut records,
                    );
                    ErrorCode::None
                }
            };
            results.push(DeletableGroupResult {
                group_id: group_id.clone(),
                error_code: code.code(),
                ..DeletableGroupResult::default()
            });
        }
        turn.append_in_parts(records, Some((token, Reply::DeleteGroups(results))));
    }

    /// What takes back everything the log says of the group, or will when all that is on its way has arrived.
    fn push_tombstones(
        &self,
        outbox: &Outbox,
        group_id: &GroupId,
        group: &Group,
        records: &mut Vec<GroupRecord>,
    ) {
        let present = group.offsets.iter(&self.topics).map(|(topic, number, _)| (topic, number));
        let coming = outbox.records_in_flight(group_id).filter_map(|record| match record {
            GroupRecord::Offset { topic, partition, offset: Some(_), .. } => {
                Some((topic, *partition))
            }
            _ => None,
        });
        let all: BTreeSet<(&CommittedTopic, PartitionId)> = present.chain(coming).collect();
        records.extend(all.into_iter().map(|(topic, number)| tombstone(group_id, topic, number)));
        records.push(GroupRecord::Metadata { group: group_id.clone(), metadata: None });
    }

    /// Forgets the offsets of topics that are no more.
    pub(crate) fn delete_topics(&self, turn: &mut Turn, topics: &[DeletedTopic]) {
        let mut records = Vec::new();
        for (group_id, group) in &self.by_id {
            for topic in topics {
                let is_of = |committed: &TopicId| committed.0.is_zero() || *committed == topic.id;
                let present = group.offsets.partitions_of(&self.topics, &topic.name);
                let coming =
                    turn.outbox.records_in_flight(group_id).filter_map(|record| match record {
                        GroupRecord::Offset {
                            topic: name,
                            partition,
                            offset: Some(offset),
                            ..
                        } if *name == topic.name => Some((*partition, offset.topic_id)),
                        _ => None,
                    });
                let stale: BTreeSet<PartitionId> = present
                    .into_iter()
                    .chain(coming)
                    .filter(|(_, id)| is_of(id))
                    .map(|(partition, _)| partition)
                    .collect();
                let stale = stale.into_iter();
                records.extend(stale.map(|number| tombstone(group_id, &topic.name, number)));
            }
        }
        turn.append_in_parts(records, None);
    }
}

pub(super) fn tombstone(
    group: &GroupId,
    topic: &CommittedTopic,
    partition: PartitionId,
) -> GroupRecord {
    GroupRecord::Offset { group: group.clone(), topic: topic.clone(), partition, offset: None }
}
