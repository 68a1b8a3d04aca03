//! Offsets that members of a streams group commit and read.

use logway_model::{ErrorCode, PartitionId};
use logway_wire::messages::OffsetCommitRequest;

use crate::consumer::GroupEpoch;
use crate::request::TxnOffsetCommit;

use super::group::StreamsGroup;
use super::member::Member;

/// From this version on, clients can say a member epoch.
const MEMBER_EPOCH_FROM: i16 = 9;

impl StreamsGroup {
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
        if version < MEMBER_EPOCH_FROM {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let partitions = request.topics.iter().flat_map(|topic| {
            let numbers = topic.partitions.iter();
            numbers.map(move |partition| (topic.name.as_str(), partition.partition_index))
        });
        match self.may_commit(member, said, partitions) {
            true => Ok(()),
            false => Err(ErrorCode::StaleMemberEpoch),
        }
    }

    /// The same for a TxnOffsetCommit, whose producers know only the error about generations.
    pub(crate) fn check_txn_commit(&self, commit: &TxnOffsetCommit) -> Result<(), ErrorCode> {
        let request = &commit.request;
        let said = GroupEpoch(request.generation_id);
        if commit.is_of_no_member() || said.0 < 0 && self.is_empty() {
            return Ok(());
        }
        let member = self.member(&request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let partitions = request.topics.iter().flat_map(|topic| {
            let numbers = topic.partitions.iter();
            numbers.map(move |partition| (topic.name.as_str(), partition.partition_index))
        });
        match self.may_commit(member, said, partitions) {
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
        match member.current.epoch == GroupEpoch(epoch) {
            true => Ok(()),
            false => Err(ErrorCode::StaleMemberEpoch),
        }
    }

    /// Whether a member may commit offsets of partitions in the epoch that it says.
    ///
    /// One that is an epoch behind may still do so for tasks that it has had since then: its heartbeats and commits
    /// overtake each other (KIP-1251).
    fn may_commit<'a>(
        &self,
        member: &Member,
        said: GroupEpoch,
        mut partitions: impl Iterator<Item = (&'a str, i32)>,
    ) -> bool {
        let current = &member.current;
        let has_had_since = |(topic, number): (&str, i32)| {
            let reader = self.topology().and_then(|topology| topology.reader_of(topic));
            let since = reader.and_then(|reader| {
                let id = reader.subtopology_id.as_str();
                let find = |of: &super::TasksSince| of.get(id)?.get(&PartitionId(number)).copied();
                find(&current.assigned.active).or_else(|| find(&current.revoking.active))
            });
            since.is_some_and(|since| said >= since)
        };
        said == current.epoch || said < current.epoch && partitions.all(has_had_since)
    }
}
