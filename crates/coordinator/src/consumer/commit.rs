//! Offsets that members of a consumer group commit and read.

use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::messages::OffsetCommitRequest;

use crate::request::TxnOffsetCommit;

use super::GroupEpoch;
use super::group::ConsumerGroup;
use super::member::Member;

/// From this version on, clients can say a member epoch.
const MEMBER_EPOCH_FROM: i16 = 9;

impl ConsumerGroup {
    /// Whether the group takes the offsets of an OffsetCommit from who sends them, or the error.
    pub(crate) fn check_commit(
        &self,
        version: i16,
        request: &OffsetCommitRequest,
    ) -> Result<(), ErrorCode> {
        let said = GroupEpoch(request.generation_id_or_member_epoch);
        if said.0 < 0 && self.is_empty() {
            return Ok(());
        }
        let member = self.member(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let is_classic = member.subscription.classic.is_some();
        if !is_classic && version < MEMBER_EPOCH_FROM {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let partitions = request.topics.iter().flat_map(|topic| {
            let id = TopicId(topic.topic_id);
            topic
                .partitions
                .iter()
                .map(move |partition| (id, PartitionId(partition.partition_index)))
        });
        match (may_commit(member, said, partitions), is_classic) {
            (true, _) => Ok(()),
            (false, true) => Err(ErrorCode::IllegalGeneration),
            (false, false) => Err(ErrorCode::StaleMemberEpoch),
        }
    }

    /// The same for a TxnOffsetCommit. It can say a member epoch in every version that can say a generation, and
    /// producers know only the error about generations.
    pub(crate) fn check_txn_commit(&self, commit: &TxnOffsetCommit) -> Result<(), ErrorCode> {
        let request = &commit.request;
        let said = GroupEpoch(request.generation_id);
        if commit.is_of_no_member() || said.0 < 0 && self.is_empty() {
            return Ok(());
        }
        let member = self.member(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let partitions = commit.topics().flat_map(|(id, topic)| {
            topic
                .partitions
                .iter()
                .map(move |partition| (id, PartitionId(partition.partition_index)))
        });
        match may_commit(member, said, partitions) {
            true => Ok(()),
            false => Err(ErrorCode::IllegalGeneration),
        }
    }

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

/// Whether a member may commit offsets of partitions in the epoch that it says.
///
/// One that is an epoch behind may still do so for partitions that it has had since then: its heartbeats and commits
/// overtake each other (KIP-1251).
fn may_commit(
    member: &Member,
    said: GroupEpoch,
    mut partitions: impl Iterator<Item = (TopicId, PartitionId)>,
) -> bool {
    let current = &member.current;
    let has_had_since =
        |(topic, partition)| current.epoch_of(topic, partition).is_some_and(|since| said >= since);
    said == current.epoch || said < current.epoch && partitions.all(has_had_since)
}
