//! What groups have committed.

use std::collections::{BTreeMap, BTreeSet};

use logway_model::{LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition};
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use logway_wire::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use logway_wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
};
use logway_wire::{Message, RawTaggedField, Request, UnreadAge, WireString};

use crate::admin::by_topic;
use crate::coordinator::{AfterBreak, CoordinatorKey, is_unsettled};
use crate::error::{check, error_code};
use crate::{Client, ClientError};

/// The first version that can wait for transactions (KIP-447).
const FETCH_FIRST_WITH_STABLE: i16 = 7;

/// The first version that asks about several groups at once (KIP-709).
const FETCH_FIRST_WITH_GROUPS: i16 = 8;

/// Version 10 of both requests replaced topic names by topic ids (KIP-848), which say nothing
/// about topics that were deleted.
const LAST_VERSION_WITH_NAMES: i16 = 9;

/// The generation of whoever commits without being a member.
const NO_GENERATION: i32 = -1;

/// A position that a group has committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset to be read next.
    pub offset: Offset,
    /// The epoch of the last record read, if it was committed.
    pub leader_epoch: LeaderEpoch,
    /// A note of whoever committed it.
    pub metadata: String,
    /// How old the oldest unread record is, from brokers that know the question.
    pub unread_age: Option<UnreadAge>,
}

/// Who commits.
#[derive(Debug, Clone)]
pub(super) struct Committer {
    /// The member's generation, or [`NO_GENERATION`].
    pub(super) generation: i32,
    /// Empty for whoever is no member.
    pub(super) member_id: WireString,
}

impl Committer {
    /// Whoever is no member.
    const STRANGER: Committer =
        Committer { generation: NO_GENERATION, member_id: WireString::from_static("") };
}

/// What to commit of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToCommit {
    /// The offset to be read next.
    pub(super) offset: Offset,
    /// What to write beside it.
    pub(super) metadata: String,
}

/// What became of the commit of each partition.
pub type CommitOutcomes = BTreeMap<TopicPartition, Result<(), ClientError>>;

impl Client {
    /// All offsets that a group has committed; none for a group that does not exist.
    pub async fn committed_offsets(
        &self,
        group: &str,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        self.fetch_offsets(group, None).await
    }

    /// What a group has committed of some partitions, so that a member can go on there. A commit
    /// that a transaction has not finished yet is waited for (KIP-447).
    pub(super) async fn committed_offsets_of(
        &self,
        group: &str,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        self.backoff().repeat(|| self.fetch_offsets(group, Some(partitions))).await
    }

    /// Asks a group's coordinator by a version that names topics. To ask twice does no harm.
    async fn call_with_names<R: Request>(
        &self,
        group: &str,
        request: impl Fn(i16) -> R,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, ClientError> {
        let (key, version_max) = (CoordinatorKey::Group(group), LAST_VERSION_WITH_NAMES);
        self.call_coordinator(key, version_max, AfterBreak::Repeat, request, code).await
    }

    /// What is committed of some partitions, or of all.
    async fn fetch_offsets(
        &self,
        group: &str,
        partitions: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        let request = |version| fetch_request(group, partitions, version);
        let response = self.call_with_names(group, request, fetch_code).await?;
        let what = || format!("read the offsets of group '{group}'");
        check(what, fetch_code(&response), None)?;
        committed(response, what)
    }

    /// Commits offsets for a group that has no members, and says of each whether it was done.
    ///
    /// # Errors
    ///
    /// [`logway_model::ErrorCode::UnknownMemberId`] for each partition of a group with members.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<CommitOutcomes, ClientError> {
        let to_commit = |(partition, offset): (&TopicPartition, &Offset)| {
            (partition.clone(), ToCommit { offset: *offset, metadata: String::new() })
        };
        let offsets = offsets.iter().map(to_commit).collect();
        self.commit_offsets_as(&Committer::STRANGER, group, &offsets).await
    }

    /// Commits offsets as a member, or as nobody in particular.
    pub(super) async fn commit_offsets_as(
        &self,
        committer: &Committer,
        group: &str,
        offsets: &BTreeMap<TopicPartition, ToCommit>,
    ) -> Result<CommitOutcomes, ClientError> {
        let request = |_| OffsetCommitRequest {
            group_id: WireString::copy_of(group),
            generation_id_or_member_epoch: committer.generation,
            member_id: committer.member_id.clone(),
            topics: commit_topics(offsets),
            ..OffsetCommitRequest::default()
        };
        let response = self.call_with_names(group, request, commit_code).await?;
        let mut outcomes = BTreeMap::new();
        for topic in &response.topics {
            let Ok(name) = TopicName::new(&topic.name) else { continue };
            for partition in &topic.partitions {
                let index = PartitionId(partition.partition_index);
                let key = TopicPartition::new(name.clone(), index);
                let what = || format!("commit an offset of {key} for group '{group}'");
                let outcome = check(what, partition.error_code, None);
                outcomes.insert(key, outcome);
            }
        }
        Ok(outcomes)
    }
}

/// Asks for offsets of some partitions, as a member does who goes on there; or of all, and then
/// for the ages of what is unread as well, where that can be asked.
fn fetch_request(
    group: &str,
    partitions: Option<&BTreeSet<TopicPartition>>,
    version: i16,
) -> OffsetFetchRequest {
    let mut request = OffsetFetchRequest::default();
    let topics = || Some(by_topic(partitions?.iter().cloned()));
    if partitions.is_some() {
        request.require_stable = version >= FETCH_FIRST_WITH_STABLE;
    } else if OffsetFetchRequest::FLEXIBLE_VERSIONS.contains(version) {
        request.unknown_tagged_fields.push(UnreadAge::question());
    }
    let group_id = WireString::copy_of(group);
    if version >= FETCH_FIRST_WITH_GROUPS {
        let topic = |(name, partition_indexes): (TopicName, _)| OffsetFetchRequestTopics {
            name: WireString::copy_of(name.as_str()),
            partition_indexes,
            ..OffsetFetchRequestTopics::default()
        };
        let topics = topics().map(|topics| topics.into_iter().map(topic).collect());
        request.groups.push(OffsetFetchRequestGroup { group_id, topics, ..Default::default() });
    } else {
        let topic = |(name, partition_indexes): (TopicName, _)| OffsetFetchRequestTopic {
            name: WireString::copy_of(name.as_str()),
            partition_indexes,
            ..OffsetFetchRequestTopic::default()
        };
        request.group_id = group_id;
        request.topics = topics().map(|topics| topics.into_iter().map(topic).collect());
    }
    request
}

/// What the answer says about the only group that was asked for.
fn fetch_code(response: &OffsetFetchResponse) -> i16 {
    response.groups.first().map_or(response.error_code, |group| group.error_code)
}

/// The partitions in the answer, whose place depends on the version.
fn committed(
    response: OffsetFetchResponse,
    what: impl Fn() -> String,
) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
    let mut offsets = BTreeMap::new();
    let mut add = |topic: &WireString, partition: OffsetFetchResponsePartitions| {
        check(&what, partition.error_code, None)?;
        let Ok(name) = TopicName::new(topic) else { return Ok(()) };
        let key = TopicPartition::new(name, PartitionId(partition.partition_index));
        if partition.committed_offset >= 0 {
            offsets.insert(key, committed_offset(partition));
        }
        Ok(())
    };
    for topic in response.groups.into_iter().flat_map(|group| group.topics) {
        topic.partitions.into_iter().try_for_each(|partition| add(&topic.name, partition))?;
    }
    for topic in response.topics {
        for partition in topic.partitions {
            let partition = OffsetFetchResponsePartitions {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata,
                error_code: partition.error_code,
                unknown_tagged_fields: partition.unknown_tagged_fields,
            };
            add(&topic.name, partition)?;
        }
    }
    Ok(offsets)
}

fn committed_offset(partition: OffsetFetchResponsePartitions) -> CommittedOffset {
    let fields: &[RawTaggedField] = &partition.unknown_tagged_fields;
    CommittedOffset {
        offset: Offset(partition.committed_offset),
        leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
        unread_age: UnreadAge::find_in(fields),
        metadata: partition.metadata.map(String::from).unwrap_or_default(),
    }
}

fn commit_topics(offsets: &BTreeMap<TopicPartition, ToCommit>) -> Vec<OffsetCommitRequestTopic> {
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for (partition, ToCommit { offset, metadata }) in offsets {
        let entry = OffsetCommitRequestPartition {
            partition_index: partition.partition.0,
            committed_offset: offset.0,
            committed_metadata: Some(WireString::copy_of(metadata)),
            ..OffsetCommitRequestPartition::default()
        };
        match topics.last_mut().filter(|topic| topic.name == partition.topic.as_str()) {
            Some(topic) => topic.partitions.push(entry),
            None => topics.push(OffsetCommitRequestTopic {
                name: WireString::copy_of(partition.topic.as_str()),
                partitions: vec![entry],
                ..OffsetCommitRequestTopic::default()
            }),
        }
    }
    topics
}

/// What the answer says about the coordinator: all partitions agree on that.
fn commit_code(response: &OffsetCommitResponse) -> i16 {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let mut codes = partitions.map(|partition| partition.error_code);
    codes.find(|&code| is_unsettled(error_code(code))).unwrap_or(0)
}
