//! OffsetCommit.

use std::collections::HashMap;

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
use crate::memory::{Growth, HeldMemory};
use crate::offsets::{OFFSET_BYTES, RARE_BYTES};
use crate::outbox::{Outbox, Then};
use crate::record::{CommittedOffset, GroupRecord, offset_bytes_max};
use crate::request::{Reply, RequestToken};
use crate::turn::Turn;

use super::{Groups, new_group_bytes};

/// From this version on, clients understand that there is no such group (KIP-848).
const GROUP_ID_NOT_FOUND_VERSION: i16 = 9;

/// The answer with one error for all partitions.
pub(crate) fn refusal(request: &OffsetCommitRequest, code: ErrorCode) -> Reply {
    answer(request.topics.iter().map(|topic| answer_topic(topic, |_| code)))
}

fn answer(topics: impl Iterator<Item = OffsetCommitResponseTopic>) -> Reply {
    Reply::OffsetCommit(OffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

fn answer_topic(
    topic: &OffsetCommitRequestTopic,
    mut judge: impl FnMut(&OffsetCommitRequestPartition) -> ErrorCode,
) -> OffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| OffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: judge(partition).code(),
        ..OffsetCommitResponsePartition::default()
    });
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
        ..OffsetCommitResponseTopic::default()
    }
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
        let mut staged = StagedCommit::new(self, turn, &group_id, request);
        let topics = request.topics.iter().map(|topic| {
            let name = CommittedTopic::from(&topic.name);
            let id = TopicId(topic.topic_id);
            answer_topic(topic, |partition| match staged.add(&name, id, partition) {
                Ok(()) => ErrorCode::None,
                Err(code) => code,
            })
        });
        let reply = answer(topics);
        let StagedCommit { records, held, .. } = staged;
        match records.is_empty() {
            true => turn.reply(token, reply),
            false => turn.append_held(records, Then::Reply(token, reply), held),
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
        if let Some(consumer) = &group.consumer {
            return consumer.check_commit(version, request);
        }
        if let Some(streams) = &group.streams {
            return streams.check_commit(version, request);
        }
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
}

/// Whether a text has more UTF-16 code units than that. So Kafka measures it, whatever the name of the
/// setting says; in bytes, a text may be three times as long.
fn is_longer(text: &str, units_max: usize) -> bool {
    text.len() > units_max && text.encode_utf16().count() > units_max
}

/// The records of a commit in the making: one for each partition, however often the request names it. Of several
/// offsets for one partition the last counts, as if all of them had been written.
pub(super) struct StagedCommit<'a> {
    groups: &'a Groups,
    outbox: &'a Outbox,
    pub(super) group_id: &'a GroupId,
    commit_timestamp: TimestampMs,
    expire_timestamp: Option<TimestampMs>,
    metadata_units_max: usize,
    /// How many more partitions the group can have offsets for,
    partitions_left: usize,
    /// but for those that records on their way may be about.
    partitions_coming: usize,
    /// How many more bytes the records may take.
    bytes_left: usize,
    /// What the offsets will make the group take.
    pub(super) held: HeldMemory,
    pub(super) records: Vec<GroupRecord>,
    /// Where the record of each partition is. Never iterated, so its order is of no effect.
    places: HashMap<(CommittedTopic, PartitionId), usize>,
}

impl<'a> StagedCommit<'a> {
    pub(super) fn new(
        groups: &'a Groups,
        turn: &'a Turn,
        group_id: &'a GroupId,
        request: &OffsetCommitRequest,
    ) -> StagedCommit<'a> {
        let settings = turn.settings;
        let present = groups.by_id.get(group_id).map_or(0, |group| group.offsets.len());
        // All records on their way may be commits for new partitions.
        let coming = turn.outbox.count_of(group_id);
        let commit_timestamp = turn.now.wall;
        let expire_timestamp = (request.retention_time_ms != -1)
            .then(|| TimestampMs(commit_timestamp.0.saturating_add(request.retention_time_ms)));
        StagedCommit {
            groups,
            outbox: turn.outbox,
            group_id,
            commit_timestamp,
            expire_timestamp,
            metadata_units_max: settings.offset_metadata_max_units,
            partitions_left: settings.group_offsets_max.saturating_sub(present),
            partitions_coming: coming,
            bytes_left: settings.commit_bytes_max,
            held: turn.memory.hold(0),
            records: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Adds the offset of a partition, unless the limits forbid it.
    pub(super) fn add(
        &mut self,
        topic: &CommittedTopic,
        topic_id: TopicId,
        asked: &OffsetCommitRequestPartition,
    ) -> Result<(), ErrorCode> {
        let metadata = asked.committed_metadata.as_deref().unwrap_or_default();
        if is_longer(metadata, self.metadata_units_max) {
            return Err(ErrorCode::OffsetMetadataTooLarge);
        }
        let partition = PartitionId(asked.partition_index);
        let key = (topic.clone(), partition);
        let place = self.places.get(&key).copied();
        let is_new = place.is_none() && !self.is_known(topic, partition);
        let replaced_bytes = place.map_or(0, |place| self.records[place].bytes_max());
        let bytes = offset_bytes_max(self.group_id, topic, metadata);
        if is_new && self.partitions_left == 0 || bytes > self.bytes_left + replaced_bytes {
            return Err(ErrorCode::InvalidCommitOffsetSize);
        }
        if is_new && self.partitions_left <= self.partitions_coming {
            // Only what arrives will tell; and at the other error clients give up.
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        let growth_bytes = self.growth_bytes(topic, partition, metadata, is_new);
        let growth = if is_new { Growth::New } else { Growth::OfGroup };
        if !self.held.try_grow(growth_bytes, growth) {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        self.partitions_left -= usize::from(is_new);
        self.bytes_left = self.bytes_left + replaced_bytes - bytes;
        let offset = CommittedOffset {
            offset: Offset(asked.committed_offset),
            leader_epoch: LeaderEpoch(asked.committed_leader_epoch),
            metadata: metadata.into(),
            commit_timestamp: self.commit_timestamp,
            expire_timestamp: self.expire_timestamp,
            topic_id,
        };
        let (group, topic) = (self.group_id.clone(), topic.clone());
        let record = GroupRecord::Offset { group, topic, partition, offset: Some(offset) };
        match place {
            Some(place) => self.records[place] = record,
            None => {
                self.places.insert(key, self.records.len());
                self.records.push(record);
            }
        }
        Ok(())
    }

    /// How much more the group takes with the offset. What is replaced on its way counts as if it stayed.
    fn growth_bytes(
        &self,
        topic: &CommittedTopic,
        partition: PartitionId,
        metadata: &str,
        is_new: bool,
    ) -> usize {
        let group = self.groups.by_id.get(self.group_id);
        let is_first = group.is_none() && self.records.is_empty();
        let group_bytes = if is_first { new_group_bytes(self.group_id.as_str()) } else { 0 };
        let offset_bytes = if is_new { OFFSET_BYTES } else { 0 };
        let present = group
            .map_or(0, |group| group.offsets.metadata_len(&self.groups.topics, topic, partition));
        let text_bytes = match metadata.len() > present {
            true => metadata.len() - present + RARE_BYTES,
            false => 0,
        };
        group_bytes + offset_bytes + text_bytes
    }

    /// Whether the partition counts already among those of the group.
    fn is_known(&self, topic: &CommittedTopic, partition: PartitionId) -> bool {
        let group = self.groups.by_id.get(self.group_id);
        group.is_some_and(|group| group.offsets.contains(&self.groups.topics, topic, partition))
            || self.outbox.has_offset_in_flight(self.group_id, topic, partition)
    }
}
