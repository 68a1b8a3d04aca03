//! OffsetCommit.

use std::collections::BTreeSet;

use logway_model::{ErrorCode, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId};
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use logway_wire::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::ids::{CommittedTopic, GroupId};
use crate::membership::GroupState;
use crate::outbox::Then;
use crate::record::{CommittedOffset, GroupRecord};
use crate::request::{Reply, RequestToken};
use crate::turn::Turn;

use super::Groups;

/// From this version on, clients understand that there is no such group (KIP-848).
const GROUP_ID_NOT_FOUND_VERSION: i16 = 9;

/// The answer with one error for all partitions.
pub(crate) fn refusal(request: &OffsetCommitRequest, code: ErrorCode) -> Reply {
    answer(request, |_, _| code)
}

fn answer(
    request: &OffsetCommitRequest,
    mut judge: impl FnMut(&OffsetCommitRequestTopic, &OffsetCommitRequestPartition) -> ErrorCode,
) -> Reply {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: judge(topic, partition).code(),
            ..OffsetCommitResponsePartition::default()
        });
        OffsetCommitResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
            ..OffsetCommitResponseTopic::default()
        }
    });
    Reply::OffsetCommit(OffsetCommitResponse {
        topics: topics.collect(),
        ..OffsetCommitResponse::default()
    })
}

impl Groups {
    /// OffsetCommit: answered when the offsets are durable.
    pub(crate) fn commit(
        &mut self,
        turn: &mut Turn,
        token: RequestToken,
        version: i16,
        request: &OffsetCommitRequest,
    ) {
        let group_id = GroupId::from(&request.group_id);
        if let Err(code) = self.check_commit(turn, version, request) {
            turn.reply(token, refusal(request, code));
            return;
        }
        if let Some(membership) = self.membership_mut(&group_id) {
            membership.note_commit(turn, &request.member_id);
        }
        let mut room = self.offset_room(turn, &group_id);
        let expire_timestamp = (request.retention_time_ms != -1)
            .then(|| TimestampMs(turn.now.wall.0.saturating_add(request.retention_time_ms)));
        let metadata_bytes_max = turn.settings.offset_metadata_max_bytes;
        let mut records = Vec::new();
        let reply = answer(request, |topic, partition| {
            let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
            if metadata.len() > metadata_bytes_max {
                return ErrorCode::OffsetMetadataTooLarge;
            }
            let name = CommittedTopic::from(&topic.name);
            let number = PartitionId(partition.partition_index);
            if !room.take(self, &name, number) {
                return ErrorCode::InvalidCommitOffsetSize;
            }
            let offset = CommittedOffset {
                offset: Offset(partition.committed_offset),
                leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                metadata: metadata.into(),
                commit_timestamp: turn.now.wall,
                expire_timestamp,
                topic_id: TopicId(topic.topic_id),
            };
            let group = group_id.clone();
            let offset = Some(offset);
            records.push(GroupRecord::Offset { group, topic: name, partition: number, offset });
            ErrorCode::None
        });
        match records.is_empty() {
            true => turn.reply(token, reply),
            false => turn.append(records, Some(Then::Reply(token, reply))),
        }
    }

    /// Whether the group takes offsets from who sends them, or the error.
    fn check_commit(
        &self,
        turn: &Turn,
        version: i16,
        request: &OffsetCommitRequest,
    ) -> Result<(), ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        let Some(group) = self.by_id.get(request.group_id.as_str()) else {
            // A client without membership: the group comes into being with its offsets.
            return match generation {
                ..0 if self.by_id.len() >= turn.settings.groups_max => {
                    Err(ErrorCode::PolicyViolation)
                }
                ..0 => Ok(()),
                _ if version >= GROUP_ID_NOT_FOUND_VERSION => Err(ErrorCode::GroupIdNotFound),
                _ => Err(ErrorCode::IllegalGeneration),
            };
        };
        let membership = &group.membership;
        let instance_id = request.group_instance_id.as_deref();
        if generation < 0 && membership.state() == GroupState::Empty {
            return Ok(());
        }
        if generation < 0 && request.member_id.is_empty() && instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        membership.check_generation(&request.member_id, instance_id, generation)?;
        match membership.state() {
            // The member has yet to learn what it may commit for.
            GroupState::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// How many more partitions the group can have offsets for.
    fn offset_room(&self, turn: &Turn, group_id: &GroupId) -> OffsetRoom {
        let present = self.by_id.get(group_id).map_or(0, |group| group.offsets.len());
        OffsetRoom {
            group: group_id.clone(),
            left: turn.settings.group_offsets_max.saturating_sub(present),
            coming: turn.outbox.count_of(group_id),
            taken: BTreeSet::new(),
        }
    }
}

/// Counts the partitions that a commit adds to its group.
struct OffsetRoom {
    group: GroupId,
    left: usize,
    /// Records on their way, all of which may be commits for new partitions.
    coming: usize,
    taken: BTreeSet<(CommittedTopic, PartitionId)>,
}

impl OffsetRoom {
    /// Whether there is room for the partition's offset.
    fn take(&mut self, groups: &Groups, topic: &CommittedTopic, partition: PartitionId) -> bool {
        let group = groups.by_id.get(&self.group);
        if group.is_some_and(|group| group.offsets.contains(&groups.topics, topic, partition)) {
            return true;
        }
        let key = (topic.clone(), partition);
        if self.taken.contains(&key) {
            return true;
        }
        let has_room = self.taken.len() + self.coming < self.left;
        if has_room {
            self.taken.insert(key);
        }
        has_room
    }
}
