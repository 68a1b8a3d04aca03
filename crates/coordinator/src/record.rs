//! The records of [`OFFSETS_TOPIC`].
//!
//! Kafka's own format, which `kafka-dump-log --offsets-decoder` prints:
//!
//! | record | key | value |
//! |---|---|---|
//! | an offset | type 1 (0 long ago), `OffsetCommitKey` v0 | version 4, or 1 with an expiry, `OffsetCommitValue` |
//! | a classic group | type 2, `GroupMetadataKey` v0 | version 3, `GroupMetadataValue` |
//!
//! Those of consumer groups are in [`crate::consumer`], those of streams groups in [`crate::streams`].
//!
//! Type and version are two bytes each, in front. A record without a value takes the one before it back. Values of
//! later versions of Kafka differ only in tagged fields (KIP-915), which are skipped.

use std::sync::Arc;

use bytes::Bytes;
use logway_model::{ErrorCode, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId};
use logway_wire::messages::group_metadata_value::MemberMetadata as WireMember;
use logway_wire::messages::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use logway_wire::{Decoder, Encoder, Message, WireString};

use crate::consumer::ConsumerRecord;
use crate::error::RecordError;
use crate::ids::{CommittedTopic, GroupId, InstanceId, MemberId, ProtocolName};
use crate::streams::StreamsRecord;

/// The topic in which groups and their offsets are kept; the name is Kafka's.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// What one record says.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupRecord {
    /// A group has committed an offset, or, without one, has none any more.
    Offset {
        /// The group.
        group: GroupId,
        /// The topic.
        topic: CommittedTopic,
        /// The partition.
        partition: PartitionId,
        /// The offset with what belongs to it.
        offset: Option<CommittedOffset>,
    },
    /// A group has a new generation or new members, or, without metadata, is no more.
    Metadata {
        /// The group.
        group: GroupId,
        /// Generation, protocol and members.
        metadata: Option<Arc<GroupMetadata>>,
    },
    /// Something about a consumer group.
    Consumer {
        /// The group.
        group: GroupId,
        /// What.
        record: ConsumerRecord,
    },
    /// Something about a streams group.
    Streams {
        /// The group.
        group: GroupId,
        /// What.
        record: StreamsRecord,
    },
}

/// An offset that a group has committed for a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedOffset {
    /// Where the group shall read on.
    pub offset: Offset,
    /// The leader epoch of the last record it has read, or [`LeaderEpoch::NONE`] (KIP-320).
    pub leader_epoch: LeaderEpoch,
    /// Any text of the client's.
    pub metadata: Box<str>,
    /// When it was committed.
    pub commit_timestamp: TimestampMs,
    /// When it expires, if the client said so (until OffsetCommit version 4).
    pub expire_timestamp: Option<TimestampMs>,
    /// The topic's id when it was committed, or zero if that was not known.
    pub topic_id: TopicId,
}

/// What the log knows of a classic group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMetadata {
    /// The kind of group, such as `consumer`; `None` for groups that only keep offsets.
    pub protocol_type: Option<ProtocolName>,
    /// Counts the rebalances.
    pub generation: i32,
    /// The assignor that the generation uses; `None` without members.
    pub protocol: Option<ProtocolName>,
    /// The member that assigns.
    pub leader: Option<MemberId>,
    /// When the group last changed its state; `None` in records of old versions.
    pub state_timestamp: Option<TimestampMs>,
    /// The members, with what they were assigned.
    pub members: Vec<MemberMetadata>,
}

/// What the log knows of a member.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberMetadata {
    /// The member's id.
    pub member_id: MemberId,
    /// The id of a static member.
    pub instance_id: Option<InstanceId>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Where the client is.
    pub client_host: Arc<str>,
    /// How long a rebalance may wait for the member.
    pub rebalance_timeout_ms: i32,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// The member's metadata for the group's assignor.
    pub subscription: Bytes,
    /// What the leader assigned.
    pub assignment: Bytes,
}

/// The type of keys of offsets before Kafka 0.9; their layout is today's.
const LEGACY_OFFSET_RECORD_TYPE: i16 = 0;

/// The types of keys of streams groups.
const FIRST_STREAMS_RECORD_TYPE: i16 = 17;
const LAST_STREAMS_RECORD_TYPE: i16 = 23;

/// The versions in which Kafka 4.3 writes values.
const OFFSET_VERSION: i16 = 4;
const OFFSET_WITH_EXPIRY_VERSION: i16 = 1;
const METADATA_VERSION: i16 = 3;

/// What a record takes at most beside the texts and bytes in it: lengths and numbers.
pub(crate) const RECORD_BYTES_MAX: usize = 128;

/// What a member takes at most beside its texts and bytes.
const MEMBER_BYTES_MAX: usize = 32;

/// How many bytes the record of a committed offset takes in a log at most.
pub(crate) fn offset_bytes_max(group: &GroupId, topic: &CommittedTopic, metadata: &str) -> usize {
    RECORD_BYTES_MAX + group.as_str().len() + topic.as_str().len() + metadata.len()
}

impl GroupMetadata {
    /// How many bytes it takes in a record at most.
    pub(crate) fn bytes_max(&self) -> usize {
        let name =
            |name: &Option<ProtocolName>| name.as_ref().map_or(0, |name| name.as_str().len());
        let leader = self.leader.as_ref().map_or(0, |leader| leader.as_str().len());
        let members = self.members.iter().map(MemberMetadata::bytes_max);
        name(&self.protocol_type) + name(&self.protocol) + leader + members.sum::<usize>()
    }
}

impl MemberMetadata {
    fn bytes_max(&self) -> usize {
        let instance_id = self.instance_id.as_ref().map_or(0, |id| id.as_str().len());
        let texts = self.member_id.as_str().len() + self.client_id.len() + self.client_host.len();
        MEMBER_BYTES_MAX + texts + instance_id + self.subscription.len() + self.assignment.len()
    }
}

impl GroupRecord {
    /// Reads a record's key and value; `None` if it is of a type that is not served.
    ///
    /// # Errors
    ///
    /// The bytes are not what their type says.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Option<GroupRecord>, RecordError> {
        let mut from = Decoder::new(key.clone());
        let record_type = from.i16("record type").map_err(|_| RecordError::NoKey)?;
        let key_error = |source| RecordError::Key { record_type, source };
        match record_type {
            LEGACY_OFFSET_RECORD_TYPE | OffsetCommitKey::RECORD_TYPE => {
                let key = OffsetCommitKey::decode(&mut from, 0).map_err(key_error)?;
                let value = value.map(|value| decode_value(&key.group, value)).transpose()?;
                Ok(Some(GroupRecord::Offset {
                    group: GroupId::from(&key.group),
                    topic: CommittedTopic::from(&key.topic),
                    partition: PartitionId(key.partition),
                    offset: value.map(committed_offset),
                }))
            }
            GroupMetadataKey::RECORD_TYPE => {
                let key = GroupMetadataKey::decode(&mut from, 0).map_err(key_error)?;
                let value = value.map(|value| decode_value(&key.group, value)).transpose()?;
                Ok(Some(GroupRecord::Metadata {
                    group: GroupId::from(&key.group),
                    metadata: value.map(group_metadata).map(Arc::new),
                }))
            }
            FIRST_STREAMS_RECORD_TYPE..=LAST_STREAMS_RECORD_TYPE => {
                StreamsRecord::decode(record_type, &mut from, value)
            }
            _ => ConsumerRecord::decode(record_type, &mut from, value),
        }
    }

    /// The record's key and value.
    pub fn encode(&self) -> (Bytes, Option<Bytes>) {
        match self {
            GroupRecord::Offset { group, topic, partition, offset } => {
                let key = OffsetCommitKey {
                    group: group.to_wire(),
                    topic: topic.to_wire(),
                    partition: partition.0,
                    ..OffsetCommitKey::default()
                };
                let value = offset.as_ref().map(encode_offset);
                (encode(OffsetCommitKey::RECORD_TYPE, &key, 0), value)
            }
            GroupRecord::Metadata { group, metadata } => {
                let key =
                    GroupMetadataKey { group: group.to_wire(), ..GroupMetadataKey::default() };
                let value = metadata.as_deref().map(encode_metadata);
                (encode(GroupMetadataKey::RECORD_TYPE, &key, 0), value)
            }
            GroupRecord::Consumer { group, record } => record.encode(group),
            GroupRecord::Streams { group, record } => record.encode(group),
        }
    }

    /// How many bytes the record takes in a log at most.
    pub fn bytes_max(&self) -> usize {
        match self {
            GroupRecord::Offset { group, topic, offset, .. } => {
                let metadata = offset.as_ref().map_or("", |offset| &offset.metadata);
                offset_bytes_max(group, topic, metadata)
            }
            GroupRecord::Metadata { group, metadata } => {
                let metadata = metadata.as_ref().map_or(0, |metadata| metadata.bytes_max());
                RECORD_BYTES_MAX + group.as_str().len() + metadata
            }
            GroupRecord::Consumer { group, record } => group.as_str().len() + record.bytes_max(),
            GroupRecord::Streams { group, record } => group.as_str().len() + record.bytes_max(),
        }
    }

    /// The group that the record is about.
    pub fn group(&self) -> &GroupId {
        match self {
            GroupRecord::Offset { group, .. }
            | GroupRecord::Metadata { group, .. }
            | GroupRecord::Consumer { group, .. }
            | GroupRecord::Streams { group, .. } => group,
        }
    }
}

/// Reads a value with its version in front; later versions end in tagged fields that are skipped.
pub(crate) fn decode_value<M: Message>(
    group: &WireString,
    value: &Bytes,
) -> Result<M, RecordError> {
    let error = |source| {
        let group = GroupId::from(group).to_string();
        RecordError::Value { group, source }
    };
    let mut from = Decoder::new(value.clone());
    let version = from.i16("value version").map_err(error)?;
    M::decode(&mut from, version).map_err(error)
}

/// The same for a record that may take something back.
pub(crate) fn read_value<M: Message>(
    group: &WireString,
    value: Option<&Bytes>,
) -> Result<Option<M>, RecordError> {
    value.map(|value| decode_value(group, value)).transpose()
}

/// Key and value of a record whose only versions are 0.
pub(crate) fn encode_key_and_value(
    record_type: i16,
    key: &impl Message,
    value: Option<impl Message>,
) -> (Bytes, Option<Bytes>) {
    let value = value.map(|value| encode(0, &value, 0));
    (encode(record_type, key, 0), value)
}

fn committed_offset(value: OffsetCommitValue) -> CommittedOffset {
    CommittedOffset {
        offset: Offset(value.offset),
        leader_epoch: LeaderEpoch(value.leader_epoch),
        metadata: value.metadata.as_str().into(),
        commit_timestamp: TimestampMs(value.commit_timestamp),
        expire_timestamp: Some(TimestampMs(value.expire_timestamp))
            .filter(|expire| *expire != TimestampMs::NONE),
        topic_id: TopicId(value.topic_id),
    }
}

fn encode_offset(offset: &CommittedOffset) -> Bytes {
    let version = match offset.expire_timestamp {
        Some(_) => OFFSET_WITH_EXPIRY_VERSION,
        None => OFFSET_VERSION,
    };
    let value = OffsetCommitValue {
        offset: offset.offset.0,
        leader_epoch: offset.leader_epoch.0,
        metadata: WireString::copy_of(&offset.metadata),
        commit_timestamp: offset.commit_timestamp.0,
        expire_timestamp: offset.expire_timestamp.unwrap_or(TimestampMs::NONE).0,
        topic_id: offset.topic_id.0,
        ..OffsetCommitValue::default()
    };
    encode(version, &value, version)
}

fn group_metadata(value: GroupMetadataValue) -> GroupMetadata {
    let protocol_type = Some(&value.protocol_type).filter(|text| !text.is_empty());
    GroupMetadata {
        protocol_type: protocol_type.map(ProtocolName::from),
        generation: value.generation,
        protocol: value.protocol.as_ref().map(ProtocolName::from),
        leader: value.leader.as_ref().map(MemberId::from),
        state_timestamp: Some(TimestampMs(value.current_state_timestamp))
            .filter(|timestamp| *timestamp != TimestampMs::NONE),
        members: value.members.iter().map(member_metadata).collect(),
    }
}

fn member_metadata(member: &WireMember) -> MemberMetadata {
    // Before version 1 there was one timeout for both.
    let rebalance_timeout_ms = match member.rebalance_timeout {
        -1 => member.session_timeout,
        timeout_ms => timeout_ms,
    };
    MemberMetadata {
        member_id: MemberId::from(&member.member_id),
        instance_id: member.group_instance_id.as_ref().map(InstanceId::from),
        client_id: member.client_id.as_str().into(),
        client_host: member.client_host.as_str().into(),
        rebalance_timeout_ms,
        session_timeout_ms: member.session_timeout,
        subscription: Bytes::copy_from_slice(&member.subscription),
        assignment: Bytes::copy_from_slice(&member.assignment),
    }
}

fn encode_metadata(metadata: &GroupMetadata) -> Bytes {
    let text = |name: &ProtocolName| name.to_wire();
    let value = GroupMetadataValue {
        protocol_type: metadata.protocol_type.as_ref().map(text).unwrap_or_default(),
        generation: metadata.generation,
        protocol: metadata.protocol.as_ref().map(text),
        leader: metadata.leader.as_ref().map(MemberId::to_wire),
        current_state_timestamp: metadata.state_timestamp.unwrap_or(TimestampMs::NONE).0,
        members: metadata.members.iter().map(wire_member).collect(),
        ..GroupMetadataValue::default()
    };
    encode(METADATA_VERSION, &value, METADATA_VERSION)
}

fn wire_member(member: &MemberMetadata) -> WireMember {
    WireMember {
        member_id: member.member_id.to_wire(),
        group_instance_id: member.instance_id.as_ref().map(InstanceId::to_wire),
        client_id: WireString::copy_of(&member.client_id),
        client_host: WireString::copy_of(&member.client_host),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.clone(),
        assignment: member.assignment.clone(),
        ..WireMember::default()
    }
}

/// A number of two bytes and the message.
pub(crate) fn encode(number: i16, message: &impl Message, version: i16) -> Bytes {
    let mut to = Encoder::new();
    to.i16(number);
    message
        .encode(&mut to, version)
        .expect("texts came over the wire, so they are short enough, and versions are ours");
    to.into_bytes().expect("these messages hold no records")
}

/// The error that clients see when records could not be appended.
///
/// As Kafka translates them: clients of groups know what to do about these.
pub(crate) fn failed_append(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge
        | ErrorCode::RecordListTooLarge
        | ErrorCode::InvalidFetchSize => ErrorCode::UnknownServerError,
        other => other,
    }
}
