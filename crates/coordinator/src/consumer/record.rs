//! The records of consumer groups.
//!
//! Kafka's own format, one key for each thing that changes by itself:
//!
//! | type | key | value |
//! |---|---|---|
//! | 3 | group | the group epoch, and the hash of the topics that it was made for |
//! | 4 | group | the topics, as Kafka before 4.1 kept them; only taken back here |
//! | 5 | group, member | the member's subscription |
//! | 6 | group | the assignment epoch, and when the assignment was made |
//! | 7 | group, member | the member's target |
//! | 8 | group, member | what the member has |
//! | 16 | group, regular expression | the topics that match it |

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use logway_model::{PartitionId, TimestampMs, TopicId};
use logway_wire::messages::consumer_group_current_member_assignment_value::TopicPartitions as WireOwned;
use logway_wire::messages::consumer_group_member_metadata_value::{
    ClassicMemberMetadata, ClassicProtocol,
};
use logway_wire::messages::consumer_group_target_assignment_member_value::TopicPartition as WireTarget;
use logway_wire::messages::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue,
};
use logway_wire::{Decoder, Message, WireString};

use crate::error::RecordError;
use crate::ids::{CommittedTopic, GroupId, InstanceId, MemberId, ProtocolName};
use crate::record::{GroupRecord, RECORD_BYTES_MAX, encode, encode_key_and_value, read_value};

use super::GroupEpoch;
use super::member::{
    ClassicMember, CurrentAssignment, MemberState, OwnedPartitions, Partitions, Subscription,
};

/// What one record says of a consumer group; `None` takes it back.
#[derive(Debug, Clone, PartialEq)]
pub enum ConsumerRecord {
    /// The group is at an epoch.
    Group(Option<GroupVersion>),
    /// Whether there are topics as Kafka before 4.1 kept them.
    FormerTopics(bool),
    /// A member wants something.
    Member(MemberId, Option<Arc<Subscription>>),
    /// The assignment is of an epoch.
    Assignment(Option<TargetVersion>),
    /// A member shall have something.
    Target(MemberId, Option<Arc<Partitions>>),
    /// A member has something.
    Current(MemberId, Option<Arc<CurrentAssignment>>),
    /// Topics match a regular expression.
    Pattern(Arc<str>, Option<Arc<ResolvedPattern>>),
}

/// The state of a group as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupVersion {
    /// The group epoch.
    pub epoch: GroupEpoch,
    /// The hash of the topics that the group reads; 0 for none.
    pub metadata_hash: i64,
}

/// The state of an assignment as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetVersion {
    /// The group epoch for which it was made.
    pub epoch: GroupEpoch,
    /// When it was made; `None` where that is not known.
    pub made_at: Option<TimestampMs>,
}

/// What a regular expression stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedPattern {
    /// The topics whose names match.
    pub topics: BTreeSet<CommittedTopic>,
    /// Grows with the metadata.
    pub version: i64,
    /// When that was looked up.
    pub resolved_at: TimestampMs,
}

const NOT_KNOWN: i64 = 0;

impl ConsumerRecord {
    /// Whether it takes something back.
    pub(crate) fn is_tombstone(&self) -> bool {
        match self {
            ConsumerRecord::Group(version) => version.is_none(),
            ConsumerRecord::FormerTopics(there_are) => !there_are,
            ConsumerRecord::Member(_, subscription) => subscription.is_none(),
            ConsumerRecord::Assignment(version) => version.is_none(),
            ConsumerRecord::Target(_, target) => target.is_none(),
            ConsumerRecord::Current(_, current) => current.is_none(),
            ConsumerRecord::Pattern(_, resolved) => resolved.is_none(),
        }
    }

    /// Reads the rest of a key of a type, and the value; `None` if the type is no consumer group's.
    pub(crate) fn decode(
        record_type: i16,
        from: &mut Decoder,
        value: Option<&Bytes>,
    ) -> Result<Option<GroupRecord>, RecordError> {
        let key_error = |source| RecordError::Key { record_type, source };
        let (group, record) = match record_type {
            ConsumerGroupMetadataKey::RECORD_TYPE => {
                let key = ConsumerGroupMetadataKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?;
                (key.group_id, ConsumerRecord::Group(value.map(group_version)))
            }
            ConsumerGroupPartitionMetadataKey::RECORD_TYPE => {
                let key = ConsumerGroupPartitionMetadataKey::decode(from, 0).map_err(key_error)?;
                (key.group_id, ConsumerRecord::FormerTopics(value.is_some()))
            }
            ConsumerGroupMemberMetadataKey::RECORD_TYPE => {
                let key = ConsumerGroupMemberMetadataKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(subscription).map(Arc::new);
                (key.group_id, ConsumerRecord::Member(MemberId::from(&key.member_id), value))
            }
            ConsumerGroupTargetAssignmentMetadataKey::RECORD_TYPE => {
                let key =
                    ConsumerGroupTargetAssignmentMetadataKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?;
                (key.group_id, ConsumerRecord::Assignment(value.map(target_version)))
            }
            ConsumerGroupTargetAssignmentMemberKey::RECORD_TYPE => {
                let key =
                    ConsumerGroupTargetAssignmentMemberKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(target).map(Arc::new);
                (key.group_id, ConsumerRecord::Target(MemberId::from(&key.member_id), value))
            }
            ConsumerGroupCurrentMemberAssignmentKey::RECORD_TYPE => {
                let key =
                    ConsumerGroupCurrentMemberAssignmentKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(current).map(Arc::new);
                (key.group_id, ConsumerRecord::Current(MemberId::from(&key.member_id), value))
            }
            ConsumerGroupRegularExpressionKey::RECORD_TYPE => {
                let key = ConsumerGroupRegularExpressionKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(resolved).map(Arc::new);
                let pattern = key.regular_expression.as_str().into();
                (key.group_id, ConsumerRecord::Pattern(pattern, value))
            }
            _ => return Ok(None),
        };
        Ok(Some(GroupRecord::Consumer { group: GroupId::from(&group), record }))
    }

    /// Key and value.
    pub(crate) fn encode(&self, group: &GroupId) -> (Bytes, Option<Bytes>) {
        let group_id = group.to_wire();
        match self {
            ConsumerRecord::Group(version) => {
                let key = ConsumerGroupMetadataKey { group_id, ..Default::default() };
                let value = version.map(|version| ConsumerGroupMetadataValue {
                    epoch: version.epoch.0,
                    metadata_hash: version.metadata_hash,
                    ..Default::default()
                });
                encode_key_and_value(ConsumerGroupMetadataKey::RECORD_TYPE, &key, value)
            }
            ConsumerRecord::FormerTopics(_) => {
                let key = ConsumerGroupPartitionMetadataKey { group_id, ..Default::default() };
                (encode(ConsumerGroupPartitionMetadataKey::RECORD_TYPE, &key, 0), None)
            }
            ConsumerRecord::Member(member, subscription) => {
                let member_id = member.to_wire();
                let key =
                    ConsumerGroupMemberMetadataKey { group_id, member_id, ..Default::default() };
                let value = subscription.as_deref().map(wire_subscription);
                encode_key_and_value(ConsumerGroupMemberMetadataKey::RECORD_TYPE, &key, value)
            }
            ConsumerRecord::Assignment(version) => {
                let key =
                    ConsumerGroupTargetAssignmentMetadataKey { group_id, ..Default::default() };
                let value = version.map(|version| ConsumerGroupTargetAssignmentMetadataValue {
                    assignment_epoch: version.epoch.0,
                    assignment_timestamp: version.made_at.map_or(NOT_KNOWN, |made| made.0),
                    ..Default::default()
                });
                encode_key_and_value(
                    ConsumerGroupTargetAssignmentMetadataKey::RECORD_TYPE,
                    &key,
                    value,
                )
            }
            ConsumerRecord::Target(member, target) => {
                let member_id = member.to_wire();
                let key = ConsumerGroupTargetAssignmentMemberKey {
                    group_id,
                    member_id,
                    ..Default::default()
                };
                let value = target.as_deref().map(wire_target);
                encode_key_and_value(
                    ConsumerGroupTargetAssignmentMemberKey::RECORD_TYPE,
                    &key,
                    value,
                )
            }
            ConsumerRecord::Current(member, current) => {
                let member_id = member.to_wire();
                let key = ConsumerGroupCurrentMemberAssignmentKey {
                    group_id,
                    member_id,
                    ..Default::default()
                };
                let value = current.as_deref().map(wire_current);
                encode_key_and_value(
                    ConsumerGroupCurrentMemberAssignmentKey::RECORD_TYPE,
                    &key,
                    value,
                )
            }
            ConsumerRecord::Pattern(pattern, resolved) => {
                let regular_expression = WireString::copy_of(pattern);
                let key = ConsumerGroupRegularExpressionKey {
                    group_id,
                    regular_expression,
                    ..Default::default()
                };
                let value = resolved.as_deref().map(wire_resolved);
                encode_key_and_value(ConsumerGroupRegularExpressionKey::RECORD_TYPE, &key, value)
            }
        }
    }

    /// How many bytes it takes in a log at most, beside the group's name.
    pub(crate) fn bytes_max(&self) -> usize {
        /// A number, or the length of a text.
        const NUMBER_BYTES: usize = 8;
        /// A topic's id and the lengths of its lists.
        const TOPIC_BYTES: usize = 32;
        let of_owned = |owned: &OwnedPartitions| {
            let topics = owned.values().map(|of| TOPIC_BYTES + of.len() * 2 * NUMBER_BYTES);
            topics.sum::<usize>()
        };
        RECORD_BYTES_MAX
            + match self {
                ConsumerRecord::Group(_)
                | ConsumerRecord::FormerTopics(_)
                | ConsumerRecord::Assignment(_) => 0,
                ConsumerRecord::Member(member, subscription) => {
                    let subscription = subscription.as_ref().map_or(0, |it| it.held_bytes());
                    member.as_str().len() + subscription
                }
                ConsumerRecord::Target(member, target) => {
                    let topics = target.iter().flat_map(|target| target.values());
                    let topics = topics.map(|of| TOPIC_BYTES + of.len() * NUMBER_BYTES);
                    member.as_str().len() + topics.sum::<usize>()
                }
                ConsumerRecord::Current(member, current) => {
                    let owned = current.as_ref();
                    let owned =
                        owned.map_or(0, |it| of_owned(&it.assigned) + of_owned(&it.revoking));
                    member.as_str().len() + owned
                }
                ConsumerRecord::Pattern(pattern, resolved) => {
                    let topics = resolved.iter().flat_map(|resolved| &resolved.topics);
                    let topics = topics.map(|topic| NUMBER_BYTES + topic.as_str().len());
                    pattern.len() + topics.sum::<usize>()
                }
            }
    }
}

fn group_version(value: ConsumerGroupMetadataValue) -> GroupVersion {
    GroupVersion { epoch: GroupEpoch(value.epoch), metadata_hash: value.metadata_hash }
}

fn target_version(value: ConsumerGroupTargetAssignmentMetadataValue) -> TargetVersion {
    let made_at = Some(value.assignment_timestamp).filter(|at| *at != NOT_KNOWN);
    TargetVersion { epoch: GroupEpoch(value.assignment_epoch), made_at: made_at.map(TimestampMs) }
}

fn subscription(value: ConsumerGroupMemberMetadataValue) -> Subscription {
    let shared = |text: &WireString| Arc::from(text.as_str());
    let classic = value.classic_member_metadata.map(|classic| ClassicMember {
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic
            .supported_protocols
            .iter()
            .map(|it| (ProtocolName::from(&it.name), Bytes::copy_from_slice(&it.metadata)))
            .collect(),
    });
    Subscription {
        instance_id: value.instance_id.as_ref().map(InstanceId::from),
        rack_id: value.rack_id.as_ref().map(shared),
        client_id: shared(&value.client_id),
        client_host: shared(&value.client_host),
        topics: value.subscribed_topic_names.iter().map(CommittedTopic::from).collect(),
        pattern: value.subscribed_topic_regex.as_ref().map(shared),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        assignor: value.server_assignor.as_ref().map(ProtocolName::from),
        classic,
    }
}

fn wire_subscription(subscription: &Subscription) -> ConsumerGroupMemberMetadataValue {
    let text = |text: &Arc<str>| WireString::copy_of(text);
    let protocol = |(name, metadata): &(ProtocolName, Bytes)| ClassicProtocol {
        name: name.to_wire(),
        metadata: metadata.clone(),
        ..Default::default()
    };
    let classic = subscription.classic.as_ref().map(|classic| ClassicMemberMetadata {
        session_timeout_ms: classic.session_timeout_ms,
        supported_protocols: classic.protocols.iter().map(protocol).collect(),
        ..Default::default()
    });
    ConsumerGroupMemberMetadataValue {
        instance_id: subscription.instance_id.as_ref().map(InstanceId::to_wire),
        rack_id: subscription.rack_id.as_ref().map(text),
        client_id: text(&subscription.client_id),
        client_host: text(&subscription.client_host),
        subscribed_topic_names: subscription.topics.iter().map(CommittedTopic::to_wire).collect(),
        subscribed_topic_regex: subscription.pattern.as_ref().map(text),
        rebalance_timeout_ms: subscription.rebalance_timeout_ms,
        server_assignor: subscription.assignor.as_ref().map(ProtocolName::to_wire),
        classic_member_metadata: classic,
        ..Default::default()
    }
}

fn target(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions {
    let of = |topic: &WireTarget| {
        (TopicId(topic.topic_id), topic.partitions.iter().copied().map(PartitionId).collect())
    };
    value.topic_partitions.iter().map(of).collect()
}

fn wire_target(target: &Partitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let of = |(topic, partitions): (&TopicId, &BTreeSet<PartitionId>)| WireTarget {
        topic_id: topic.0,
        partitions: partitions.iter().map(|partition| partition.0).collect(),
        ..Default::default()
    };
    let topic_partitions = target.iter().map(of).collect();
    ConsumerGroupTargetAssignmentMemberValue { topic_partitions, ..Default::default() }
}

fn current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment {
    // Before 4.3 nothing was said of when a partition was got. Not later than that, then.
    let epoch_max = GroupEpoch(value.member_epoch.max(0));
    CurrentAssignment {
        epoch: GroupEpoch(value.member_epoch),
        previous_epoch: GroupEpoch(value.previous_member_epoch),
        state: MemberState::from_number(value.state),
        assigned: owned(&value.assigned_partitions, epoch_max),
        revoking: owned(&value.partitions_pending_revocation, epoch_max),
    }
}

fn owned(topics: &[WireOwned], epoch_max: GroupEpoch) -> OwnedPartitions {
    let of = |topic: &WireOwned| {
        let epochs = topic.assignment_epochs.as_ref();
        let epochs = epochs.filter(|epochs| epochs.len() == topic.partitions.len());
        let numbered = topic.partitions.iter().enumerate().map(|(place, &partition)| {
            let epoch = epochs.map_or(epoch_max, |epochs| GroupEpoch(epochs[place]));
            (PartitionId(partition), epoch)
        });
        (TopicId(topic.topic_id), numbered.collect())
    };
    topics.iter().map(of).collect()
}

fn wire_current(current: &CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue {
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: current.epoch.0,
        previous_member_epoch: current.previous_epoch.0,
        state: current.state.number(),
        assigned_partitions: wire_owned(&current.assigned),
        partitions_pending_revocation: wire_owned(&current.revoking),
        ..Default::default()
    }
}

fn wire_owned(owned: &OwnedPartitions) -> Vec<WireOwned> {
    let topics = owned.iter().map(|(topic, partitions)| WireOwned {
        topic_id: topic.0,
        partitions: partitions.keys().map(|partition| partition.0).collect(),
        assignment_epochs: Some(partitions.values().map(|epoch| epoch.0).collect()),
        ..Default::default()
    });
    topics.collect()
}

fn resolved(value: ConsumerGroupRegularExpressionValue) -> ResolvedPattern {
    ResolvedPattern {
        topics: value.topics.iter().map(CommittedTopic::from).collect(),
        version: value.version,
        resolved_at: TimestampMs(value.timestamp),
    }
}

fn wire_resolved(resolved: &ResolvedPattern) -> ConsumerGroupRegularExpressionValue {
    ConsumerGroupRegularExpressionValue {
        topics: resolved.topics.iter().map(CommittedTopic::to_wire).collect(),
        version: resolved.version,
        timestamp: resolved.resolved_at.0,
        ..Default::default()
    }
}
