//! Offsets that members of a consumer group commit and read.

use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::messages::OffsetCommitRequest;

use super::GroupEpoch;
use super::group::ConsumerGroup;
use super::member::Member;

/// From this version on, clients can say a member epoch.
const MEMBER_EPOCH_FROM: i16 = 9;

/// Whether an OffsetCommit is taken: made from the group, asked for each request.
pub(crate) struct CommitCheck;

impl CommitCheck {
    /// Whether the group takes offsets from who sends them, or the error.
    ///
    /// A member that is an epoch behind may still commit for partitions that it has had since then: its heartbeats and
    /// commits overtake each other (KIP-1251).
    pub(crate) fn of(
        group: &ConsumerGroup,
        version: i16,
        request: &OffsetCommitRequest,
    ) -> Result<(), ErrorCode> {
        let said = GroupEpoch(request.generation_id_or_member_epoch);
        if said.0 < 0 && group.is_empty() {
            return Ok(());
        }
        let member = group.member(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let is_classic = member.subscription.classic.is_some();
        if !is_classic && version < MEMBER_EPOCH_FROM {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let known = member.current.epoch;
        if said == known {
            return Ok(());
        }
        let has_all = said < known && has_had_since(member, said, request);
        match (has_all, is_classic) {
            (true, _) => Ok(()),
            (false, true) => Err(ErrorCode::IllegalGeneration),
            (false, false) => Err(ErrorCode::StaleMemberEpoch),
        }
    }
}

/// Whether the member has had every partition of the request since that epoch or longer.
fn has_had_since(member: &Member, said: GroupEpoch, request: &OffsetCommitRequest) -> bool {
    request.topics.iter().all(|topic| {
        let id = TopicId(topic.topic_id);
        topic.partitions.iter().all(|partition| {
            let since = member.current.epoch_of(id, PartitionId(partition.partition_index));
            since.is_some_and(|since| said >= since)
        })
    })
}

impl ConsumerGroup {
    /// Whether who asks for offsets may have them, or the error.
    pub(crate) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let Some(member_id) = member_id else {
            return match epoch {
                ..0 => Ok(()),
                _ => Err(ErrorCode::UnknownMemberId),
            };
        };
        let member = self.member(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        match (member.current.epoch == GroupEpoch(epoch), &member.subscription.classic) {
            (true, _) => Ok(()),
            (false, None) => Err(ErrorCode::StaleMemberEpoch),
            (false, Some(_)) => Err(ErrorCode::IllegalGeneration),
        }
    }
}
